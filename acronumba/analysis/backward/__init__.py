"""Backward kernels: from the specification of a kernel to that of its derivative, and what must be kept for it."""
