"""Fast packing of columns of plain Python data through `marshal`.

In: lists of instances that consist of numbers, strings, None, lists, tuples and dicts alone, and their types. Out: the
same words as a `data.packer` makes. Python's `marshal` serialises the instances in a tenth of the time of a packer, and
compiled code (`data.stream_reader`) decodes the bytes, driven by a table of expected types (nodes). An unexpected value
ends the decoding, and packers take over: they know the conversions, and report errors.

`marshal` distinguishes classes exactly, and writes a back reference for an object that it meets again. So lists and
dicts that are aliased are aliased in words too. Where results may be such objects, the reader gives up at a back
reference, and `_Given` maps the lists and dicts to the user's own.
"""

from __future__ import annotations

import functools
import marshal
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from acronumba.config import interpreted
from acronumba.data import stream_words as w
from acronumba.data.heap import Heap, Region, aligned, free_bytes
from acronumba.data.texts import immediate, record_of
from acronumba.emit import tree
from acronumba.emit.compile import Deferred, load
from acronumba.emit.words import RecordLayout
from acronumba.generics import Value
from acronumba.ir.nodes import StructLayout
from acronumba.ir.shapes import Shape, ShapeClass, is_shape, shape_class
from acronumba.ir.types import (
    NONE,
    BoolT,
    DictT,
    FloatT,
    IntT,
    ListT,
    MapT,
    NeverT,
    NoneT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TorchT,
    TupleT,
    Type,
    UnionT,
    UnsetT,
    all_parts,
    case_slices,
    members,
    union_cases,
    union_word,
    words,
)
from acronumba.locks import lazy
from acronumba.memory import Words, address, native

_KINDS: Mapping[type, int] = {
    IntT: w.INT, FloatT: w.FLOAT, BoolT: w.BOOL, NoneT: w.NOTHING, NeverT: w.NEVER, TextT: w.TEXT, StrT: w.CONSTANT,
    ListT: w.LIST, TupleT: w.TUPLE, DictT: w.DICT, MapT: w.MAP, UnionT: w.UNION,
}  # fmt: skip
# Which part of a union a type is, by the class of its values.
_CASES: Mapping[type, int] = {
    IntT: 0, FloatT: 1, BoolT: 2, NoneT: 3, StrT: 4, TextT: 4, ListT: 5, TupleT: 6, DictT: 7, MapT: 7,
}  # fmt: skip
_TYPES: Mapping[type, type] = {list: ListT, tuple: TupleT, dict: DictT}
_FLAT = IntT | FloatT | BoolT | NoneT | StrT | NeverT  # types that packers handle fast
_VERSION = 4  # of the format
_FIRST = 16  # bytes of words for each byte of the first stream
_LEAST = 1 << 12  # bytes of room
_LARGE = 1 << 24  # bytes of a stream


class Unknown(Exception):
    """A type has values that the reader does not support."""


@functools.cache
def _reader() -> Any:
    """Return the compiled reader, a function that takes the address of its state."""
    return load([reader()])[0].function("read")


def reader() -> Deferred:
    """Return the module of the reader, generated only if its machine code is not cached."""
    return Deferred(name="stream", key="stream", make=stream_module)


def stream_module() -> tree.Module:
    """Return the code of the reader."""
    from acronumba.emit.parse import parse_files

    functions = parse_files(["acronumba.data.stream_bytes", "acronumba.data.stream_reader"])
    return tree.Module("stream", functions, ("read",), "Plain data from bytes of marshal.", compact=True)


def is_plain(t: Type, layouts: Sequence[StructLayout] | None = None) -> bool:
    """Whether the reader knows all values of a type."""
    try:
        Nodes([t], layouts)
    except Unknown:
        return False
    return True


class Nodes:
    """The tables of expected types, by which the reader decodes.

    Parameters
    ----------
    types : sequence of Type
        Types of the columns.
    layouts : sequence of StructLayout, optional
        Of shapes, with the fields that are read; if not given, shapes are not supported.

    Raises
    ------
    Unknown
        If the reader does not support all values of a type.
    """

    def __init__(self, types: Sequence[Type], layouts: Sequence[StructLayout] | None = None) -> None:
        self._layouts = None if layouts is None else {o.cls: (tag, o) for tag, o in enumerate(layouts)}
        self._rows: dict[type, int] = {}  # nodes of shapes
        self._shapes: dict[UnionT, int] = {}  # nodes of places with values of several shapes,
        self._dicts: dict[ShapeClass, None] = {}  # ... and the shapes of dicts that are found by their keys
        self._words: list[int] = []
        self._addresses: list[int] = []  # indices of words that are offsets in bytes, to become addresses
        self.numbers: dict[tuple[Value, ...], int] = {}  # of the nodes of lists and dicts, by path
        starts = [self._node(t, (k,)) for k, t in enumerate(types)]
        branch = self._branch(list(self._dicts)) if self._dicts else None
        self.table = np.array(self._words, np.int64)
        self.table[self._addresses] += address(self.table)
        self.branch = 0 if branch is None else address(self.table) + branch  # where all dicts of several shapes begin
        self.roots = [address(self.table) + start for start in starts]  # addresses of the nodes of the columns

    def _add(self, values: Mapping[str, int], table: RecordLayout, addresses: Iterable[str] = ()) -> int:
        """Add a row; return its offset in bytes."""
        first = len(self._words)
        self._words += [0] * table.count
        return self._set(8 * first, values, table, addresses)

    def _set(self, row: int, values: Mapping[str, int], table: RecordLayout, addresses: Iterable[str] = ()) -> int:
        """Set words of a row; return its offset in bytes."""
        for name, value in values.items():
            self._words[row // 8 + table.at[name]] = value
        self._addresses += [row // 8 + table.at[name] for name in addresses]
        return row

    def _text(self, text: str) -> tuple[int, bool]:
        """Return the word of a string, and whether it is an offset."""
        word = immediate(text)
        if word is not None:
            return word, False
        first = len(self._words)
        self._words += record_of(text)
        return 8 * first, True

    def _parts(self, parts: Sequence[tuple[int, int, int, str | None] | None]) -> int:
        """Add rows of parts: the node, the offset in bytes, the case and the key of each."""
        keys = [None if p is None or p[3] is None else self._text(p[3]) for p in parts]
        first = 8 * len(self._words)
        for part, key in zip(parts, keys, strict=True):
            if part is None:
                self._add({}, w.PART)
                continue
            node, offset, case, _ = part
            named = key is not None and key[1]
            values = {"node": node, "offset": offset, "case": case, "key": 0 if key is None else key[0]}
            self._add(values, w.PART, ("node", "key") if named else ("node",))
        return first

    def _items(
        self, items: Sequence[Type], way: tuple[Value, ...], keys: Sequence[str] | None = None
    ) -> dict[str, int]:
        offset, parts = 0, []
        for k, item in enumerate(items):
            parts.append((self._node(item, (*way, k)), offset, 0, None if keys is None else keys[k]))
            offset += 8 * len(words(item))
        return {"item": self._parts(parts), "count": len(items)}

    def _union(self, t: UnionT, way: tuple[Value, ...]) -> dict[str, int]:
        if union_word(t) is not None:
            rest = [m for m in t.members if not isinstance(m, NoneT)]
            if len(rest) != 1 or isinstance(rest[0], TensorT | TorchT) or len(t.members) != 2 or NONE not in t.members:
                raise Unknown
            return {"kind": w.OPTIONAL, "item": self._node(rest[0], (*way, 0))}
        parts: list[tuple[int, int, int, str | None] | None] = [None] * w.CASES
        texts = [(0, 0, k, case.value) for k, case in enumerate(union_cases(t)) if isinstance(case, StrT)]
        if len(texts) > 1:
            of_texts = {"kind": w.CONSTANTS, "item": self._parts(texts), "count": len(texts)}
            parts[_CASES[StrT]] = self._add(of_texts, w.NODE, ["item"]), 0, 0, None
        for k, (case, place) in enumerate(case_slices(t)):
            if len(texts) > 1 and isinstance(case, StrT):
                continue
            part = self._node(case, (*way, k)), 8 * place.start, k, None
            for of in set(map(_case_of, members(case))):
                if of < 0 or parts[of] is not None:
                    raise Unknown
                parts[of] = part
        return {"item": self._parts(parts)}

    def _layout(self, cls: type) -> tuple[int, StructLayout]:
        if self._layouts is None:
            raise Unknown
        return self._layouts.get(cls, (-1, StructLayout(cls=cls, fields=(), size=1)))

    def _row(self, cls: type) -> int:
        """Return the offset of the node of a shape, whose values are rows."""
        if cls in self._rows:
            return self._rows[cls]
        if not is_shape(cls):
            raise Unknown
        row = self._rows[cls] = self._add({}, w.NODE)
        tag, layout = self._layout(cls)
        read, keys, parts = {f.name: f for f in layout.fields}, cls.shape.keys, []
        for k, name in enumerate(cls.shape.names):
            f = read.get(name)
            node = self._add({"kind": w.SKIPPED}, w.NODE) if f is None else self._node(f.type, (cls, name))
            parts.append((node, 0 if f is None else 8 * f.offset, 0, None if keys is None else keys[k]))
        count = w.ANY_TUPLE if cls.shape.is_open else len(parts)
        values = {"kind": w.ROW, "item": self._parts(parts), "count": count, "size": 8 * layout.size, "tag": tag}
        return self._set(row, values | {"class": int(keys is not None)}, w.NODE, ["item"])

    def _several(self, t: UnionT) -> int:
        """Return the offset of the node of a place with values of several shapes."""
        if t in self._shapes:
            return self._shapes[t]
        row = self._shapes[t] = self._add({}, w.NODE)
        shapes = [m.cls.shape for m in t.members if isinstance(m, StructT) and is_shape(m.cls)]
        if len(shapes) < len(t.members) - (NONE in t.members):
            raise Unknown
        shapes.sort(key=lambda shape: (shape.is_open, shape.tag is None, shape.text))
        dicts = [shape for shape in shapes if shape.keys is not None]
        parts = [(self._row(shape_class(shape)), 0, _number_of(shape, len(dicts)), shape.tag) for shape in shapes]
        self._dicts.update((shape_class(shape), None) for shape in dicts if len(dicts) > 1)
        values = {"kind": w.SHAPES, "item": self._parts(parts), "count": len(parts), "class": int(NONE in t.members)}
        return self._set(row, values, w.NODE, ["item"])

    def _branch(self, dicts: Sequence[ShapeClass], depth: int = 0) -> int:
        """Return the offset of the row of the dicts that begin with the first `depth` keys of these shapes."""
        ways: dict[str, list[ShapeClass]] = {}
        values, addresses = {}, []
        for cls in dicts:
            keys = cls.shape.keys or ()
            if len(keys) > depth:
                ways.setdefault(keys[depth], []).append(cls)
            else:
                values["row"] = self._rows[cls]
                addresses.append("row")
        if depth:
            values["key"], named = self._text((dicts[0].shape.keys or ())[depth - 1])
            addresses += ["key"] * named
        below = [self._branch(some, depth + 1) for some in ways.values()]
        for row, beside in pairwise(below):
            self._set(row, {"beside": beside}, w.BRANCH, ["beside"])
        if below:
            values["below"] = below[0]
            addresses.append("below")
        return self._add(values, w.BRANCH, addresses)

    def _node(self, t: Type, way: tuple[Value, ...]) -> int:
        """Return the offset of the node of a type, in bytes; `way` is its path."""
        if isinstance(t, StructT):
            return self._row(t.cls)
        if isinstance(t, UnionT) and union_word(t) is not None and sum(isinstance(m, StructT) for m in t.members) > 1:
            return self._several(t)
        kind = _KINDS.get(type(t))
        if kind is None or isinstance(t, UnsetT) or (isinstance(t, TupleT) and t.listed):
            raise Unknown
        values, addresses = {"kind": kind}, ["item"]
        match t:
            case ListT(item, tupled):
                values |= {"item": self._node(item, (*way, 0)), "count": len(words(item)), "tupled": int(tupled)}
            case TupleT(items):
                values |= self._items(items, way)
            case DictT(keys, items):
                values |= self._items(items, way, keys)
            case MapT() if t.item is not None:
                key = words(t.key)
                if any(isinstance(word, ListT) for word in key):
                    raise Unknown
                texts = sum(1 << j for j, word in enumerate(key) if isinstance(word, TextT))
                values |= {"key": self._node(t.key, (*way, 1)), "item": self._node(t.item, (*way, 0))}
                values |= {"count": len(words(t.entry)), "width": len(key), "texts": texts}
                addresses.append("key")
            case MapT():  # a set: `marshal` changes the order
                raise Unknown
            case UnionT():
                values |= self._union(t, way)
            case StrT(text):
                values["item"], named = self._text(text)
                addresses = ["item"] if named else []
            case _:
                addresses = []
        self.numbers[way] = values["number"] = len(self.numbers)
        return self._add(values, w.NODE, addresses)


def _case_of(t: Type) -> int:
    """Return the part of a union that a type is, by the class of its values; -1: unsupported."""
    if isinstance(t, StructT) and is_shape(t.cls):
        return _CASES[_TYPES[t.cls.shape.python]]
    if isinstance(t, TupleT) and t.listed:
        return _CASES[ListT]
    if isinstance(t, ListT) and t.tupled:
        return _CASES[TupleT]
    return _CASES.get(type(t), -1)


def _number_of(shape: Shape, dicts: int) -> int:
    """Return the length of the tuples of a shape, or the number for others; `dicts`: the number of shapes of dicts."""
    if shape.keys is not None:
        return w.BY_KEYS if dicts > 1 else w.ANY_DICT
    if shape.size is not None:
        return shape.size
    return w.ANY_LIST if shape.python is list else w.ANY_TUPLE if shape.python is tuple else w.ANY_DICT


class Stream:
    """Packs columns of plain data.

    Parameters
    ----------
    types : sequence of Type
        Types of the columns.
    given : bool
        Whether results may be lists or dicts of the input.
    layouts : sequence of StructLayout, optional
        Of shapes, with the fields that are read.
    """

    def __init__(self, types: Sequence[Type], given: bool, layouts: Sequence[StructLayout] | None = None) -> None:
        self._types = types
        self._given = given
        self._nodes = Nodes(types, layouts)
        self.places = [0, *accumulate(len(words(t)) for t in types)]  # first word of each column, and the end
        columns = [(n, 8 * at) for n, at in zip(self._nodes.roots, self.places, strict=False)]
        self._columns = np.array(columns, np.int64)
        self._ratio = float(_FIRST)  # bytes of words for each byte of a stream

    def pack(self, columns: Sequence[list[Value]]) -> tuple[Words, Heap] | None:
        """Return the words of the instances and the heap they refer to; None if a packer must do it."""
        if interpreted():  # the packer is as fast
            return None
        count = len(columns[0])
        found = _Given(self._nodes.numbers) if self._given else None
        if found is not None:
            for k, (column, t) in enumerate(zip(columns, self._types, strict=True)):
                found.look(column, t, (k,))
        try:
            data = marshal.dumps(tuple(columns), _VERSION)
        except ValueError:  # something else is among it
            return None
        size = int(self._ratio * len(data)) + _LEAST
        while size < free_bytes_for(size):
            done = self._read(data, size, count)
            if not isinstance(done, int):
                break
            if done != w.MORE:
                return None
            size *= 2
        else:
            return None
        roots, memory, top, heads = done
        self._ratio = max(1.0, 1.25 * (8 * top + w.HEAD.size * heads) / len(data))
        region = Region(kind="heads", start=len(memory) - w.HEAD.count * heads, rows=heads, width=w.HEAD.count, refs=())
        objects = {}
        if found is not None and heads:
            own = found.objects(memory[region.start :].reshape(heads, w.HEAD.count)[:, w.HEAD.at["node"]])
            if own is None:
                return None
            objects[region] = own
        return roots, Heap(words=memory, regions=(region,), pools={}, objects=objects)

    def _read(self, data: bytes, size: int, count: int) -> int | tuple[Words, Words, int, int]:
        """Return the words of the instances, the memory, the number of words and of heads in it; or a status."""
        begin = address(np.frombuffer(data, np.uint8))
        memory = aligned(size // 8, np.int64)
        refs = 1 + len(data) // (2 if len(data) < _LARGE else 5)  # back references to shorter values are rare
        scratch = np.empty(w.REF.count * refs + size // 8, np.int64)
        roots = np.zeros((count, self.places[-1]), np.int64)
        dicts = np.empty(1 + len(data) // 2 if self._nodes.branch else 1, np.int64)
        base, side = address(memory), address(scratch)
        values = {
            "pos": begin, "end": begin + len(data), "high": begin, "top": base, "bottom": base + memory.nbytes,
            "entries": side + w.REF.size * refs, "entries_end": side + scratch.nbytes, "refs": side, "refs_count": 0,
            "refs_room": refs, "alone": int(self._given), "columns": address(self._columns),
            "columns_count": len(self._types), "roots": address(roots), "step": 8 * self.places[-1], "count": count,
            "branch": self._nodes.branch, "dicts": address(dicts), "dict": 0,
        }  # fmt: skip
        state = np.array([values[name] for name in w.STATE.at], np.int64)
        status = int(_reader()(address(state)))
        if status != w.OK:
            return status
        top, bottom = (int(state[w.STATE.at[name]]) for name in ("top", "bottom"))
        return roots, memory, (top - base) // 8, (base + memory.nbytes - bottom) // w.HEAD.size


class Streams:
    """Packs the columns of mini-batches that are plain data, if the reader supports their types.

    Parameters
    ----------
    params : sequence of Type
        Of all columns.
    result : Type
    layouts
        Of the classes of objects in results.
    read : sequence of StructLayout, optional
        Of shapes among the parameters, with the fields that are read.
    """

    def __init__(
        self, params: Sequence[Type], result: Type, layouts: Sequence[StructLayout],
        read: Sequence[StructLayout] | None = None,
    ) -> None:  # fmt: skip
        self._params, self._read = params, read
        self._plain = [k for k, t in enumerate(params) if is_plain(t, read)]
        if may_return([params[k] for k in self._plain], result, layouts):  # results are the user's own
            self._plain = [k for k in self._plain if not any(isinstance(t, StructT) for t in all_parts(params[k]))]
        self._deep = {k for k in self._plain if not isinstance(params[k], _FLAT)}
        self._given = may_return([params[k] for k in self._plain], result, layouts)
        self._made: dict[tuple[int, ...], Stream] = {}
        self._wait, self._failures = 1, 0  # mini-batches until the next attempt; not at the first one

    def pack(self, columns: Sequence[Value]) -> list[tuple[int, Words, Heap]]:
        """Return number, words and heap of each column that could be packed."""
        some = tuple([k for k in self._plain if type(columns[k]) is list])
        if self._deep.isdisjoint(some) or not columns[some[0]] or len({len(columns[k]) for k in some}) > 1:
            return []
        if self._wait:
            self._wait -= 1
            _reader()  # it is compiled by the first mini-batch, as all is
            return []
        if some not in self._made:
            self._made[some] = Stream([self._params[k] for k in some], self._given, self._read)
        done = self._made[some].pack([columns[k] for k in some])
        if done is None:
            self._failures += 1
            self._wait = 1 << min(self._failures, 10)
            return []
        roots, heap = done
        if len(some) == 1:
            return [(some[0], roots, heap)]
        places = self._made[some].places
        return [(k, roots[:, at:end], heap) for k, at, end in zip(some, places, places[1:], strict=False)]


class _Given:
    """The user's own lists and dicts, in the order in which the reader meets those of each type."""

    def __init__(self, numbers: Mapping[tuple[int, ...], int]) -> None:
        self._numbers = numbers  # numbers of nodes, by path
        self._found: dict[int, list[Value]] = {}

    def look(self, values: Sequence[Value], t: Type, way: tuple[int, ...]) -> None:
        """Add the lists and dicts inside values of a type."""
        if not _holds_any(t):
            return
        match t:
            case ListT(item, tupled):
                cls = tuple if tupled else list
                lists = self._found[self._numbers[way]] = [v for v in values if type(v) is cls]
                self.look(list(chain.from_iterable(lists)) if _holds_any(item) else [], item, (*way, 0))
            case MapT(item=item) if item is not None:
                dicts = self._found[self._numbers[way]] = [v for v in values if type(v) is dict]
                self.look(list(chain.from_iterable(map(dict.values, dicts))), item, (*way, 0))
            case TupleT(items):
                tuples = [v for v in values if type(v) is tuple and len(v) == len(items)]
                for k, item in enumerate(items):
                    self.look([v[k] for v in tuples] if _holds_any(item) else [], item, (*way, k))
            case DictT(keys, items):
                for k, (key, item) in enumerate(zip(keys, items, strict=True)):
                    self.look([v[key] for v in values if type(v) is dict and key in v], item, (*way, k))
            case UnionT():
                single = union_word(t) is not None
                cases = [m for m in t.members if not isinstance(m, NoneT)] if single else union_cases(t)
                for k, case in enumerate(cases):
                    self.look(values, case, (*way, k))

    def objects(self, numbers: Words) -> Sequence[Value] | None:
        """Return the object of each head, by the node numbers of the heads, the last first; None if counts differ."""
        counts = np.bincount(native(numbers), minlength=len(self._numbers)).tolist()
        found = self._found
        if any(count != len(found.get(number, ())) for number, count in enumerate(counts)):
            return None
        return _Objects(numbers, found)


class _Objects(Sequence[Value]):
    """The user's objects by head, sorted on first access."""

    def __init__(self, numbers: Words, found: Mapping[int, list[Value]]) -> None:
        self._numbers = numbers
        self._found = found

    @lazy
    def _all(self) -> list[Value]:
        out: list[Value] = [None] * len(self._numbers)
        for number, values in self._found.items():
            for place, value in zip((self._numbers == number).nonzero()[0].tolist(), reversed(values), strict=True):
                out[place] = value
        return out

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, row: Any) -> Any:
        return self._all[row]


def _holds_any(t: Type) -> bool:
    """Whether values of a type contain lists, or dicts with keys known only at run time."""
    return any(isinstance(u, ListT | MapT) for u in all_parts(t))


def may_return(params: Iterable[Type], result: Type, layouts: Sequence[StructLayout]) -> bool:
    """Whether a result may contain a list or dict of the input."""
    made = list(all_parts(result))
    given = list(all_parts(*params))
    for found in (made, given):
        if any(isinstance(t, StructT) for t in found):
            found += all_parts(*(f.type for layout in layouts for f in layout.fields))
    own = [t for t in given if isinstance(t, ListT | MapT | StructT)]
    return any(_may_be(mine, other) for mine in own for other in made)


def _may_be(given: Type, made: Type) -> bool:
    """Whether one value may have both types."""
    match given, made:
        case (NeverT(), _) | (_, NeverT()):
            return True
        case ListT(item), ListT(other) if given.tupled == made.tupled:
            return _may_be(item, other)
        case MapT(), MapT() if made.given:
            return True
        case TupleT(items), TupleT(others):
            return len(items) == len(others) and all(map(_may_be, items, others))
        case UnionT(), _:
            return any(_may_be(m, made) for m in given.members)
        case _, UnionT():
            return any(_may_be(given, m) for m in made.members)
    return given == made


def free_bytes_for(size: int) -> int:
    """Return the limit of bytes for the words; small sizes are not checked against free memory."""
    return 1 << 62 if size < 1 << 24 else free_bytes() // 2
