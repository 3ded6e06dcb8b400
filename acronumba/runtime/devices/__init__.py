"""Devices other than the CPU: GPUs, and the simulator of a GPU."""
