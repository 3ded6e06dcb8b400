"""What a GPU can do at best, and what was measured there."""
