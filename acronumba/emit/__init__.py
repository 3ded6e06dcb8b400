"""The small typed language of generated code: its tree, its text, its interpreter, its translation to LLVM."""
