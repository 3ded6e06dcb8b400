"""Backward kernels: from the specification of a kernel to that of its derivative, and the values saved for it."""
