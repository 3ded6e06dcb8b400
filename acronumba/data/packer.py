"""Generator of packers: readable Python text from the types of a schema alone.

A generated packer has two phases. First a breadth-first walk: in each round every field of the objects found in the
round before is appended to a column, and the objects that the columns refer to are those of the next round. Then every
object gets its address, and each column is written into the rows by NumPy. The functions that a packer calls are in
`data.collect`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from acronumba.data.codec import Slot, variable
from acronumba.data.codecs import codec
from acronumba.data.heap import AllVisible, reference_columns, row_references
from acronumba.data.schema import classes_of
from acronumba.ir.nodes import FieldLayout, StructLayout
from acronumba.ir.shapes import Shape, is_shape
from acronumba.ir.types import (
    UNSET,
    Array0T,
    DictT,
    FunctionT,
    ListT,
    MapT,
    MethodT,
    OpaqueT,
    StrT,
    StructT,
    TensorT,
    Type,
    UnionT,
    all_parts,
    as_array,
    members,
    parts,
    type_text,
    union_word,
    words,
)
from acronumba.records import record


@record(kw_only=True)
class PackerText:
    """A generated packer."""

    text: str  # defines `pack(columns, count, careful) -> (Heap, int64[count, words of the parameters])`
    names: Mapping[str, Any]  # globals of the text besides the functions of `data.collect`


@record(frozen=False)
class _Pool:
    """Objects of one class, or lists of one type."""

    name: str  # of the variable
    made: str  # the expression that creates the pool
    slots: list[Slot] = field(default_factory=list)


def packer_text(
    params: Sequence[Type], layouts: Sequence[StructLayout], visible: AllVisible, exact: bool = False
) -> PackerText:
    """Return the text of a packer for parameters of these types, with classes in these layouts.

    With `exact` the packer converts nothing: values must have exactly these types.

    The packer raises `Mismatch` for an object whose instance attribute hides a class attribute in `visible`.
    """
    return _Writer(params, layouts, visible, exact).text()


class _Writer:
    def __init__(
        self, params: Sequence[Type], layouts: Sequence[StructLayout], visible: AllVisible, exact: bool
    ) -> None:
        self._params = params
        self.exact = exact
        self._visible = visible
        self._layouts = {layout.cls: (tag, layout) for tag, layout in enumerate(layouts)}
        self._names: dict[str, Any] = {}
        self._used: set[str] = set(_TAKEN)
        self._structs: dict[type, _Pool] = {}
        self._lists: dict[ListT | MapT, _Pool] = {}
        self._lines: list[str] = []

    # --- Pools and columns ---

    def _name(self, text: str) -> str:
        name, k = text, 1
        while name in self._used:
            k += 1
            name = f"{text}{k}"
        self._used.add(name)
        return name

    def constant(self, name: str, value: object) -> str:
        """Return the name of a global of the packer."""
        name = self._name(name)
        self._names[name] = value
        return name

    def layout(self, cls: type) -> tuple[int, StructLayout]:
        """Return tag and layout; a class whose fields are never read is only a tag."""
        return self._layouts.get(cls) or (-1, StructLayout(cls=cls, fields=(), size=1))

    def _find(self, t: Type) -> None:
        """Make the pools of everything that values of a type reach."""
        todo = [t]
        while todo:
            t = todo.pop()
            if isinstance(t, ListT | MapT) and t not in self._lists:
                self._lists[t] = self._list_pool(t)
            for cls in sorted(classes_of(t) - self._structs.keys(), key=lambda c: self.layout(c)[0]):
                self._structs[cls] = self._struct_pool(cls)
                todo += [f.type for f in self.layout(cls)[1].fields]
            todo += [t.entry] if isinstance(t, MapT) else parts(t)

    def _struct_pool(self, cls: type) -> _Pool:
        name = self._name(variable(cls.__name__))
        layout = self.layout(cls)[1]
        made = f"room.objects({self.constant(name.upper(), cls)}, {layout.size}, {row_references(layout)!r})"
        return _Pool(name, made)

    def _list_pool(self, listed: ListT | MapT) -> _Pool:
        kind = "dict" if isinstance(listed, MapT) else "tuple" if listed.tupled else "list"
        item, name = item_type(listed), self._name(f"{kind}{len(self._lists)}")
        constant = self.constant(name.upper(), listed)
        if isinstance(listed, MapT):
            return _Pool(name, f"room.maps({constant}, {len(words(item))}, {reference_columns(words(item))!r})")
        return _Pool(name, f"room.lists({constant}, {len(words(item))}, {reference_columns(words(item))!r})")

    def _slot(self, t: Type, name: str, first: int) -> Slot:
        slot = Slot(t, self._name(name), first, self._name(f"{name}_now"), self._name(f"{name}_case"))
        inner = codec(t).parts(t)
        first += bool(inner) and isinstance(t, UnionT)  # the tag
        for part, item in inner:
            slot.parts.append(self._slot(item, f"{name}_{part}", first))
            first += len(words(item))
        return slot

    # --- The text ---

    def line(self, indent: int, text: str) -> None:
        self._lines.append("    " * indent + text if text else "")

    def text(self) -> PackerText:
        for t in self._params:
            self._find(t)
        roots, width = [], 0
        for k, t in enumerate(self._params):
            roots.append(self._slot(t, f"p{k}", width))
            width += len(words(t))
        for cls, pool in self._structs.items():
            pool.slots = [self._slot(f.type, f"{pool.name}_{f.name}", f.offset) for f in self.layout(cls)[1].fields]
        for listed, pool in self._lists.items():
            pool.slots = [self._slot(item_type(listed), f"{pool.name}_item", 0)]
        self.line(0, "def pack(columns, count, careful):")
        self.line(1, f'"""Pack instances of ({", ".join(map(_plain_text, self._params))}).')
        self._legend()
        self.line(1, '"""')
        self._declare(roots)
        self._follow(roots)
        self._fill(roots, width)
        self.line(1, "return heap, roots")
        return PackerText(text="\n".join(self._lines) + "\n", names=self._names)

    @property
    def _pools(self) -> list[_Pool]:
        return [*self._structs.values(), *self._lists.values()]

    def _legend(self) -> None:
        for cls, pool in self._structs.items():
            fields = self.layout(cls)[1].fields
            self.line(0, "")
            self.line(1, f"{pool.name}: objects of {cls.__name__}, rows of {self.layout(cls)[1].size} words")
            for f in fields:
                self.line(2, f"{f.offset}  {f.name}: {_plain_text(f.type)}")
        for listed, pool in self._lists.items():
            self.line(0, "")
            self.line(1, f"{pool.name}: {_plain_text(listed)}, {len(words(item_type(listed)))} words per element")

    def _declare(self, roots: list[Slot]) -> None:
        """Make the pools and the columns: a column holds one field of all objects, in the order of their rows."""
        self.line(1, "room = HeapBuilder(careful)")
        for pool in self._pools:
            self.line(1, f"{pool.name} = {pool.made}")
        for slot in [*roots, *(s for pool in self._pools for s in pool.slots)]:
            for column in codec(slot.type).columns(slot):
                self.line(1, f"{column.name} = {codec(column.type).column(column.type, self)}")

    def pool_name(self, t: StructT | ListT | MapT) -> str:
        """Return the variable of the pool of a type."""
        return (self._structs[t.cls] if isinstance(t, StructT) else self._lists[t]).name

    def _follow(self, roots: list[Slot]) -> None:
        self.line(0, "")
        self.line(1, "# Follow the instances, by rounds.")
        for k, slot in enumerate(roots):
            if isinstance(slot.type, TensorT):
                self.line(1, f"{slot.name}.add_rows(columns[{k}])")
            else:
                self._walk(slot, f"columns[{k}]", 1)
        if len(self._structs) == 1 and not self._lists:
            ((cls, pool),) = self._structs.items()
            self.line(1, f"while new := {pool.name}.take():")
            self._round(cls, pool, 2)
            return
        if not self._pools:
            return
        self.line(1, "while room.more():")
        for cls, pool in self._structs.items():
            self.line(2, f"if new := {pool.name}.take():")
            self._round(cls, pool, 3)
        for pool in self._lists.values():
            self.line(2, f"if new := {pool.name}.take():")
            before = len(self._lines)
            self._walk(pool.slots[0], "new", 3)
            if len(self._lines) == before:
                self.line(3, "pass")

    def _round(self, cls: type, pool: _Pool, indent: int) -> None:
        before = len(self._lines)
        if visible := self._visible.get(cls):
            self.line(indent, f"expect_shown(new, {self.constant('VISIBLE', visible)})")
        for slot, f in zip(pool.slots, self.layout(cls)[1].fields, strict=True):
            self._walk(slot, _item_of(cls.shape, f.name) if is_shape(cls) else _values_of(f), indent)
        if len(self._lines) == before:
            self.line(indent, "pass")

    def _walk(self, slot: Slot, source: str, indent: int) -> None:
        codec(slot.type).walk(slot, source, self, indent)

    def _fill(self, roots: list[Slot], width: int) -> None:
        self.line(0, "")
        self.line(1, "# Room for all of it; then the rows, column by column.")
        for slot in [*roots, *(s for pool in self._pools for s in pool.slots)]:
            for column in codec(slot.type).columns(slot):
                if any(isinstance(as_array(m), TensorT | Array0T) for m in members(column.type)) and not column.parts:
                    self.line(1, f"{column.name}.close()")
        self.line(1, "heap = room.allocate()")
        for cls, pool in self._structs.items():
            self.line(0, "")
            self.line(1, f"rows = heap.table({pool.name}.region)")
            self.line(1, f"rows[:, 0] = {self.layout(cls)[0]}")
            for slot in pool.slots:
                codec(slot.type).write(slot, "rows", ":", self)
        for listed, pool in self._lists.items():
            if words(item_type(listed)):
                self.line(0, "")
                self.line(1, f"rows = heap.table({pool.name}.items)")
                codec(item_type(listed)).write(pool.slots[0], "rows", ":", self)
        for listed, pool in self._lists.items():
            if isinstance(listed, MapT):
                self.line(1, f"{pool.name}.index(heap)")
        self.line(0, "")
        self.line(1, f"roots = zeros((count, {width}), int64)")
        for slot in roots:
            codec(slot.type).write(slot, "roots", ":", self)


def item_type(t: ListT | MapT) -> Type:
    """Return the type of the elements of lists, or of the entries of dicts."""
    return t.item if isinstance(t, ListT) else t.entry


def _plain_text(t: Type) -> str:
    """Return a type as text that cannot end a docstring, whatever the keys of a dict are."""
    return type_text(t).replace("\\", "?").replace('"', "'") if not _has_data(t) else "..."


def _values_of(f: FieldLayout) -> str:
    """Return the expression for the values of a field of the new objects."""
    if UNSET not in members(f.type):
        return f"[o.{f.name} for o in new]"
    found = f"[getattr(o, {f.name!r}, NO_VALUE) for o in new]"
    in_one_word = isinstance(f.type, UnionT) and union_word(f.type) is not None
    return f"none_for_no_value({found})" if in_one_word else found


def _item_of(shape: Shape, name: str) -> str:
    """Return the expression for a field of the new values of a shape."""
    return "new" if shape.is_open else f"[o[{shape.place(name)!r}] for o in new]"


def _has_data(t: Type) -> bool:
    return any(isinstance(u, DictT | StrT | FunctionT | MethodT | OpaqueT) for u in all_parts(t))


_TAKEN = frozenset(
    "pack columns count careful new room heap rows roots o v k zeros int64 fromiter flatnonzero HeapBuilder expect "
    "expect_constant expect_function owners Ints Floats Bools Enums transpose entries case_numbers are_arrays "
    "expect_shown NONES NOTHING NO_VALUE NO_VALUES none_for_no_value".split()
)
