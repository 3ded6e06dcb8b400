"""What tests share: models, random programs, runs of kernels, comparisons. No test file imports another."""
