"""Code generation: from the stages of a kernel to trees of `emit`."""
