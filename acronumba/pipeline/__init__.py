"""The compiler in order: from a function to all that one specialisation runs."""
