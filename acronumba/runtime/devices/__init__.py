"""Where kernels run that is not the processor: GPUs, and the simulator of one."""
