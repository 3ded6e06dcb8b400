"""Sharing: shared operands, per-batch constants, tables of products, copies of functions and kernels."""
