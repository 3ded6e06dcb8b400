"""Code of kernels: for CPUs (`cpu`) and GPUs (`cuda`), from their specifications (`ir.spec`)."""
