"""The command `acronumba`."""
