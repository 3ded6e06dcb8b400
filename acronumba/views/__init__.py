"""What people look at; the only package that imports rich and networkx."""
