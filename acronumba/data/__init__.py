"""Python's data to words, and back."""
