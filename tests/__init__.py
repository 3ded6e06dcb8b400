"""Tests of the package. Test files lie in folders named as its rooms; what they share is in `support`."""
