"""Functions and classes of Python, NumPy and SciPy in the compiled language: a file for each topic."""
