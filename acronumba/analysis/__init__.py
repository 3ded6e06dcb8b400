"""Static analyses: passes from program to program, each in a file of its own; `acronumba.plan` runs them in order."""
