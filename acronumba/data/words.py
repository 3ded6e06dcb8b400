"""Memory layouts of tensors and lists, in words of 8 bytes."""

from __future__ import annotations

from acronumba.emit.words import RecordLayout

RECORD = RecordLayout("""
data        address of the data
head        node << 32 | depth; -1: it was given, no node computes it
shape       address of the extents
""")
LIST = RecordLayout("""
items       address of the elements
length      how many there are
capacity    ... may be
""")
MADE = 1 << 32  # added to the tag of rows that the call has created
