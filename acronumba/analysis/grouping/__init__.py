"""Grouping: partitions operations into kernels."""
