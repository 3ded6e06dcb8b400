"""Fibers: parts of an instance that go on while another part waits."""
