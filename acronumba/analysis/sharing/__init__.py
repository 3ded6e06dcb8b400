"""What is computed once: equal operations, tables of products, places that are one."""
