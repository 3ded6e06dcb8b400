"""Backward kernels: what a kernel gives back, what it must keep, and which kernels take part."""
