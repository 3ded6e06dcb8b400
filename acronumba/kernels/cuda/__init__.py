"""Kernels for `numba.cuda`: generated from the same `KernelSpec` and the same stages as kernels for CPUs."""
