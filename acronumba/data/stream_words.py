"""Record layouts shared by `data.stream` and its compiled half `data.stream_reader`.

`STATE_TOP` is the index of the word `top` in `STATE`, `NODE_KIND` that of `kind` in a row of `NODE`, and so on; a row
of a table has `..._BYTES` bytes.
"""

from __future__ import annotations

from acronumba.emit.words import RecordLayout

STATE = RecordLayout("""
pos         address of the next byte,
end         ... and of the one behind the last
high        no value that begins before this address is new: it is read again
top         first free byte of the words,
bottom      ... and the end of the room for them, where the heads of lists begin: the last one first
entries     first free byte of the room for entries of dicts that are not whole yet,
entries_end ... and the end of it
refs        rows of REF: what may come again,
refs_count  ... how many there are,
refs_room   ... and may be
alone       whether a list or dict that comes again is rejected
columns     the columns: of each its node, and the bytes before its first word in a row of roots
columns_count how many there are
roots       address of the first row of roots, one for each instance,
step        ... and bytes of a row
count       instances
branch      the row of BRANCH where all dicts begin; 0: their shapes are found, or need not be
dicts       address of the nodes of dicts, in the order in which they begin,
dict        ... and the number of the next one
""")
NODE = RecordLayout("""
kind        one of the kinds below
item        LIST, OPTIONAL: the node of what is in it; MAP: that of an item; DICT, TUPLE, UNION, ROW, SHAPES, CONSTANTS:
            ... rows of PART; CONSTANT: the word of the string
count       LIST: words of an element; MAP: those of an entry; the others: how many parts; -1: any
key         MAP: the node of a key
tupled      LIST: 1 if it is of tuples
width       MAP: words of a key
texts       MAP: a bit for each word of a key that is a string
number      of the node
class       ROW: whether it is of a dict; SHAPES: whether it may be None
size        ROW: bytes of a row
tag         ROW: word 0 of a row
""")
PART = RecordLayout("""
node        of its type; 0: there is no such case
offset      bytes from the first word of the value
case        UNION, CONSTANTS: its number; SHAPES: the length of tuples, or one of the constants below
key         DICT: the word of its key; CONSTANTS: that of the string; SHAPES: that of the first item of tuples; 0: any
""")
BRANCH = RecordLayout("""
key         the word of a key of dicts
below       the BRANCH of a key that may come next; 0: none
beside      that of another key in place of this one; 0: none
row         the ROW of dicts that end here; 0: there are none
""")
REF = RecordLayout("""
at          address of its first byte
node        of a list, dict or row
word        of a list, dict, row or string that has been read; else 0
""")
HEAD = RecordLayout("""
items       address of the elements
length      how many there are
capacity    ... may be: none of a dict
table       of a dict: address of its slots
node        number of its node
""")

# Kinds of nodes. ROW: a list, tuple or dict of a closed shape; SHAPES: of one of several; SKIPPED: what nothing
# reads; CONSTANTS: the tag of a union, for one of several strings.
INT, FLOAT, BOOL, NOTHING, TEXT, CONSTANT, LIST, TUPLE, DICT, MAP, OPTIONAL, UNION, NEVER = range(13)
ROW, SHAPES, SKIPPED, CONSTANTS = range(13, 17)
CASES = 8  # parts of a union: of int, float, bool, None, string, list, tuple, dict
ANY_TUPLE, ANY_LIST, ANY_DICT, BY_KEYS = range(-1, -5, -1)  # shapes of any number of elements; a dict of known keys

OK, WRONG, MORE = range(3)  # statuses of the reader: done; another or unsupported type; more room is needed

_PLACES: dict[str, int] = {}
for _name, _table in {
    "STATE": STATE, "NODE": NODE, "PART": PART, "BRANCH": BRANCH, "REF": REF, "HEAD": HEAD,
}.items():  # fmt: skip
    _PLACES |= _table.constants(f"{_name}_") | {f"{_name}_BYTES": _table.size}


def __getattr__(name: str) -> int:
    try:
        return _PLACES[name]
    except KeyError:
        raise AttributeError(f"no word of a table: {name}") from None
