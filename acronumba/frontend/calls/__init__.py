"""Calls of NumPy, of Python's functions and of objects: what each becomes."""
