"""The compiled library: run-time code that is the same for every model, as machine code."""
