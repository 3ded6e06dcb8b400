"""The front end: compiles the user's functions to a typed program; `lower` is the entry."""
