"""Packing of Python values into int64 words, and unpacking of results."""
