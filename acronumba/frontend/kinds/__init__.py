"""Kinds of values: one file for each of Python's types, with everything that the front end knows of it."""
