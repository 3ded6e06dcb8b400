"""Measurements of the limits of a GPU."""
