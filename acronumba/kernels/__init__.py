"""What a block computes (`spec`), and the code that computes it on the CPU (`cpu`)."""
