"""Benchmarks against baselines, and the settings that make comparisons fair."""
