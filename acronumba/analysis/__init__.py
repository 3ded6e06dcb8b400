"""Static analyses: passes from program to program, each in a file of its own; `analysis.plan` runs them in order."""
