"""Measurements for developers: `acronumba bench` in a checkout finds them here, and the programs beside this folder."""
