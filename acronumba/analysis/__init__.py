"""Static analyses: passes from program to program, one per file; `analysis.passes` runs them in order."""
