"""What a kernel stores, and in which loops."""
