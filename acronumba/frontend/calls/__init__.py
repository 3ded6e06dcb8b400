"""Handlers of calls of NumPy and of Python's builtins, standard library, classes and built-in methods."""
