"""The compiled library: what runs as machine code at each mini-batch, whatever the model."""
