"""The typed program: its types and nodes, the table of operations, verifier, printer and interpreter."""
