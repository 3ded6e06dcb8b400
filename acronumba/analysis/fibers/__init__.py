"""Fibers: parts of an instance that run while other parts wait."""
