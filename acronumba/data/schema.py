"""Type inference for the instances of a mini-batch, from annotations and from the data.

In: the columns of a batch (one per positional parameter) and the fields that the model reads. Out: a `Schema`, the type
of each parameter and of each field of each reachable class. Annotations of dataclass fields decide where they can
(`int`, `Tree | None`, `list[Tree]`); types that they leave open (`np.ndarray`, `Any`, no annotation) are inferred from
the data. The walk is breadth-first over whole columns, without recursion, and visits every object once, so that depth,
sharing and cycles cost nothing. `data.layouts` computes the memory layout of the classes; `data.pack` fills their rows.
"""

from __future__ import annotations

import enum
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MethodType
from typing import TypeAlias

import numpy as np

from acronumba.data.callables import (
    holds_functions,
    storable_union,
    types_of_functions,
    types_of_methods,
    with_functions_of,
)
from acronumba.data.classes import field_names, is_record, is_struct, names_among
from acronumba.data.hints import (
    OBSERVED,
    ArrayHint,
    ClassHint,
    DictHint,
    Hint,
    KeysHint,
    ListHint,
    Observed,
    TupleHint,
    UnionHint,
    class_hints,
    decided,
    may_hold,
    read_hint,
)
from acronumba.data.nested import LONG_TUPLE, Knots
from acronumba.data.tables import FEW_KEYS, LONG_DICT, Inherited, is_table
from acronumba.foreign import as_numpy, is_foreign_class, is_tensor
from acronumba.generics import Value
from acronumba.ir.functions import is_function_class
from acronumba.ir.shapes import Shape, is_shape, shape_class
from acronumba.ir.types import (
    DTYPES,
    MOST_CONSTANTS,
    NEVER,
    PLAIN,
    UNSET,
    Array0T,
    DictT,
    EnumT,
    FunctionT,
    ListT,
    MapT,
    NoneT,
    OpaqueT,
    StrT,
    StructT,
    TensorT,
    TextT,
    TorchT,
    TupleT,
    Type,
    UnionT,
    all_parts,
    class_key,
    members,
    parts,
    type_text,
    union,
    with_parts,
    wrong_key,
)
from acronumba.memory import DType
from acronumba.records import record

Fields: TypeAlias = "dict[type, dict[str, Type]]"
Reads: TypeAlias = "Mapping[type, frozenset[str]]"  # which fields of each class the model reads

NODES = "give the nodes a class, such as a dataclass, which may hold itself"


@record(kw_only=True, eq=False)
class Schema:
    """The types of a mini-batch."""

    params: tuple[Type, ...]  # of the positional parameters
    fields: Mapping[type, Mapping[str, Type]]  # of every reachable class, in the order of the class

    @property
    def key(self) -> tuple[object, ...]:
        """Key: schemas are equal if their keys are; hashable."""
        rows = sorted(self.fields.items(), key=lambda item: class_key(item[0]))
        return self.params, tuple((cls, tuple(fields.items())) for cls, fields in rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def holds_arrays(schema: Schema, place: int) -> bool:
    """Whether values of a positional parameter, given by its number, may hold arrays."""
    seen: set[type] = set()
    stack = [schema.params[place]]
    while stack:
        t = stack.pop()
        if isinstance(t, TensorT | Array0T | OpaqueT):
            return True
        if isinstance(t, StructT) and t.cls not in seen:
            seen.add(t.cls)
            stack += schema.fields.get(t.cls, {}).values()
        stack += parts(t)
    return False


def schema_text(schema: Schema) -> str:
    """Return the schema as text: one line per parameter, then every class with its fields."""
    lines = [f"parameter {k}: {type_text(t)}" for k, t in enumerate(schema.params)]
    for cls, fields in sorted(schema.fields.items(), key=lambda item: class_key(item[0])):
        lines += ["", f"class {cls.__name__}:"]
        lines += [f"    {name}: {type_text(t)}" for name, t in fields.items()] or ["    pass"]
    return "\n".join(lines) + "\n"


# --- The walk: every object that the instances reach, by class ------------------------------------------------------

_LEAVES = (int, float, complex, str, bytes, bool, type(None), np.ndarray, np.generic, enum.Enum)
MISSING = OpaqueT("a missing attribute")


def column_of(objects: Sequence[object], name: str) -> list[Value]:
    """Return one field of each object that has it."""
    try:
        return list(map(operator.attrgetter(name), objects))
    except AttributeError:  # not in all of them
        pass
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _read_one_by_one(objects, name, error)
    try:
        return [v for o in objects if (v := getattr(o, name, MISSING)) is not MISSING]
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _read_one_by_one(objects, name, error)


def _read_one_by_one(objects: Sequence[object], name: str, error: BaseException) -> list[Value]:
    """Return one field of each object, without objects where reading fails: packing reports these."""
    found = [v for o in objects if (v := attribute(o, name)) is not MISSING]
    if len(found) == len(objects) and not isinstance(error, Exception):
        raise error  # no object did this
    return found


def attribute(o: object, name: str) -> object:
    """Return an attribute, or `MISSING` if reading it raises anything but `KeyboardInterrupt`."""
    try:
        return getattr(o, name)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return MISSING


class _Walk:
    """All objects of a batch, found by rounds."""

    def __init__(self, reads: Reads | None, most: int | None = None) -> None:
        self.reads = reads
        self._most = most  # objects after which nothing more is looked for
        self._count = 0
        self.objects: dict[type, dict[int, Value]] = {}  # by class and id, in the order found
        self._boxes: dict[int, Value] = {}  # lists, tuples and dicts by id
        self._leaves: set[type] = set()  # classes without contents to follow
        self._followed: dict[type, tuple[str, ...]] = {}  # fields of a class that may have contents to follow
        self._seen: dict[type, set[str]] = {}  # fields of plain classes

    def fields(self, cls: type) -> list[str]:
        names = field_names(cls) if is_record(cls) else sorted(self._seen.get(cls, ()))
        return [n for n in names if self.reads is None or n in self.reads.get(cls, ())]

    def hints(self, cls: type) -> dict[str, Hint]:
        return class_hints(cls, self.objects)

    def run(self, columns: Iterable[Sequence[object]]) -> None:
        """Visit everything reachable from the values of some columns."""
        front: list[Sequence[object]] = list(columns)
        while front:
            by_class: dict[type, list[object]] = {}
            for column in front:
                kinds = set(map(type, column)) - self._leaves
                for cls in kinds:
                    by_class.setdefault(cls, []).extend([v for v in column if type(v) is cls])
            front = []
            for cls, values in by_class.items():
                front += self._open(cls, values[: self._most])
            if self._most is not None and self._count > self._most:
                return

    def _open(self, cls: type, values: list[Value]) -> Iterable[Sequence[object]]:
        """Return the columns inside those values of a class that are new."""
        if cls in (list, tuple):
            return [list(chain.from_iterable(_unseen(self._boxes, values)))]
        if cls in (dict, defaultdict):
            return [list(chain.from_iterable(d.values() for d in _unseen(self._boxes, values)))]
        if cls is MethodType:
            return [[v.__self__ for v in _unseen(self._boxes, values)]]
        if cls not in self._followed:
            if issubclass(cls, _LEAVES) or is_function_class(cls) or not is_struct(cls):
                self._leaves.add(cls)
                return []
            self.objects[cls] = {}
            if is_record(cls):
                hints = self.hints(cls)
                self._followed[cls] = tuple(name for name in self.fields(cls) if may_hold(hints[name]))
            else:
                self._seen[cls] = set() if self.reads is None else set(self.reads.get(cls, ()))
        objects = _unseen(self.objects[cls], values)
        self._count += len(objects)
        if cls in self._seen:  # earlier objects of the class have been followed
            if self.reads is None:
                self._seen[cls] |= names_among(cls, objects)
            self._followed[cls] = tuple(self.fields(cls))
        return [column_of(objects, name) for name in self._followed[cls]]


def _unseen(seen: dict[int, Value], values: list[Value]) -> list[Value]:
    """Return the values that were not seen before, each once, and remember them."""
    new = {id(v): v for v in values}
    if not seen.keys().isdisjoint(new):
        new = {key: v for key, v in new.items() if key not in seen}
    seen.update(new)
    return list(new.values())


# --- Types of columns -----------------------------------------------------------------------------------------------


def infer(
    columns: Sequence[Value],
    reads: Reads | None = None,
    annotations: Sequence[object] | None = None,
    most: int | None = None,
) -> Schema:
    """Return the types of the positional parameters over a whole batch.

    Parameters
    ----------
    columns : sequence of sequences
        One per positional parameter, each with one value per instance; an array [n, ...] has n rows, a `Packed` is
        taken with the types it was packed with.
    reads : mapping from class to field names, optional
        The fields that the model reads. Only these are followed. Without it, all are.
    annotations : sequence, optional
        Annotations of the parameters, where they should decide. `inspect.Parameter.empty` leaves one to the data.
    most : int, optional
        About how many objects are looked at: the types are a guess then. See `guess`.

    Returns
    -------
    Schema
        Fields that cannot be stored are `OpaqueT`.
    """
    packed = [(k, c.schema) for k, c in enumerate(columns) if isinstance(getattr(c, "schema", None), Schema)]
    done = dict(packed)
    plain = {k: _column(c) for k, c in enumerate(columns) if k not in done}
    walk = _Walk(reads, most)
    walk.run(c for c in plain.values() if not isinstance(c, np.ndarray))
    fields: dict[type, dict[str, Type]] = {}
    params: list[Type] = []
    for k, _ in enumerate(columns):
        if k in done:
            params.append(done[k].params[0])
        else:
            hint = OBSERVED if annotations is None else _param_hint(annotations[k])
            params.append(_param(plain[k], hint, fields, most))
    for cls, objects in walk.objects.items():
        hints, values = walk.hints(cls), list(objects.values())
        fields[cls] = {n: _field(hints[n], column_of(values, n), cls, len(values), fields) for n in walk.fields(cls)}
    schema = Schema(params=tuple(params), fields=_settle(fields, params, walk))
    for _, other in packed:
        schema = Schema(params=schema.params, fields=_merge_fields(schema.fields, other.fields))
    return restrict(schema, reads)


def hides(columns: Iterable[Sequence[object]], reads: Reads, inherited: Inherited) -> bool:
    """Whether an object of a plain class has an instance attribute that hides a class attribute a program reads."""
    walk = _Walk(reads)
    walk.run(c for c in columns if not isinstance(c, np.ndarray))
    plain = ((cls, objects) for cls, objects in walk.objects.items() if not is_record(cls) and cls in inherited)
    return any(not names_among(cls, objects.values()).isdisjoint(inherited[cls]) for cls, objects in plain)


_SAMPLE = 1 << 7  # objects from which types are guessed
FEW_VALUES = 1 << 5  # values of one closed shape in each round from which types are guessed


def guess(column: Sequence[Value]) -> Schema | None:
    """Return the types of a column from a sample of its first values, or None if a sample is not enough.

    If all values can be packed with these types, without a conversion if they are `loose`, `infer` would have found the
    same.
    """
    return infer([column[:_SAMPLE]], most=_SAMPLE) if len(column) else None


def loose(found: Schema) -> bool:
    """Whether packing would convert values without an annotation that asks for it."""
    if _loose(OBSERVED, found.params[0]):
        return True
    hints = {cls: class_hints(cls, found.fields) for cls in found.fields}
    return any(_loose(hints[cls][name], t) for cls, row in found.fields.items() for name, t in row.items())


def _loose(hint: Hint, t: Type) -> bool:
    """Whether values of other types than the sample's type `t` would be packed as if they had it, or be left out."""
    texts = NoneT | StrT | FunctionT | TextT | EnumT
    firm = texts | TensorT | Array0T | TorchT | StructT | ListT | TupleT | DictT | UnionT
    return not decided(hint) and not all(isinstance(u, firm) for u in all_parts(t))


def _column(column: Value) -> Value:
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column
    return column if isinstance(column, list) else list(column)


def _param_hint(annotation: object) -> Hint:
    return OBSERVED if isinstance(annotation, type) and annotation.__name__ == "_empty" else read_hint(annotation)


def _param(column: Value, hint: Hint, fields: Fields, most: int | None) -> Type:
    if not isinstance(column, np.ndarray):
        return _place(hint, column, fields, most)
    if column.dtype.name not in DTYPES or not column.dtype.isnative:
        return OpaqueT(_array_text(column.dtype))
    return _tensor(column.dtype, column.ndim - 1, column.ndim > 2 and column.shape[-1] == 1)


def _tensor(dtype: DType, rank: int, column: bool) -> TensorT:
    """Return the type of arrays with dynamic extents; with `column`, the extent of the last axis is 1."""
    return TensorT(dtype.name, (*(None,) * (rank - 1), 1) if column else (None,) * rank)


def _array_text(dtype: DType) -> str:
    return f"an array of dtype {dtype.str if not dtype.isnative else dtype.name}"


def _type(hint: Hint, column: Sequence[Value], knots: Knots) -> Type:
    """Return the type of a column of values; values that do not conform to the hint are passed over."""
    match hint:
        case Observed():
            return observed(column, knots)
        case ArrayHint():
            own = [v for v in column if issubclass(type(v), np.ndarray | np.generic)]
            foreign = set(filter(is_foreign_class, set(map(type, column))))
            others = _foreign([v for v in column if type(v) in foreign], hint.scalar)
            return storable_union(_arrays(own, hint.scalar), others)
        case ClassHint():
            kinds = set(map(type, column))
            found = sorted((c for c in kinds if issubclass(c, hint.cls) and is_struct(c)), key=class_key)
            if is_record(hint.cls) and not found:
                return StructT(hint.cls)
            if not found:
                return observed([v for v in column if issubclass(type(v), hint.cls)], knots)
            return union(*(StructT(c) for c in found))
        case ListHint():
            kinds = set(map(type, column)) & {list, tuple} or {tuple if hint.tupled else list}
            return union(*(_list_type(hint.item, column, cls, knots) for cls in sorted(kinds, key=class_key)))
        case TupleHint():
            size = len(hint.items)
            rows = [v for v in _distinct(column, (tuple,)) if len(v) == size]
            return TupleT(tuple(_type(h, [v[k] for v in rows], knots) for k, h in enumerate(hint.items)))
        case DictHint():
            by_strings = [v for v in _distinct(column, (dict,)) if all(type(k) is str for k in v)]
            return _dicts(by_strings, hint.item, knots)
        case KeysHint():
            rows = [v for v in _distinct(column, (dict,)) if v.keys() == set(hint.keys)]
            orders = {tuple(v) for v in rows}
            keys = orders.pop() if len(orders) == 1 else hint.keys
            items = dict(zip(hint.keys, hint.items, strict=True))
            return DictT(keys, tuple(_type(items[k], [v[k] for v in rows], knots) for k in keys))
        case UnionHint():
            return storable_union(*(_type(m, column, knots) for m in hint.members))
    return hint


def _list_type(hint: Hint, column: Sequence[Value], cls: type, knots: Knots) -> ListT:
    """Return the type of the lists, or of the tuples, of a column whose elements a hint describes."""
    elements = list(chain.from_iterable(_distinct(column, (cls,))))
    item = _type(hint, elements, knots)
    return ListT(item if elements or _possible(item) else NEVER, tupled=cls is tuple)


def _field(hint: Hint, column: Sequence[Value], cls: type, count: int, fields: Fields) -> Type:
    """Return the type of a field of `count` objects; objects of plain classes may have no value for it."""
    t = _place(hint, column, fields)
    return t if len(column) == count or is_record(cls) else storable_union(t, UNSET)


def _place(hint: Hint, column: Sequence[Value], fields: Fields, most: int | None = None) -> Type:
    """Return the type of a parameter or field; the types of the items of the shapes in it are added to `fields`."""
    knots = Knots(column, None if most is None else FEW_VALUES)
    t = _type(hint, column, knots)
    found: dict[tuple[type, str], Type] = {}

    def observe(shape: Shape, name: str, items: Sequence[Value]) -> None:
        found[shape_class(shape), name] = _shape_field(shape, name, items, knots)

    knots.fields(observe)
    _alike(found)
    for (cls, name), inner in found.items():
        row = fields.setdefault(cls, {})
        row[name] = storable_union(row[name], inner) if name in row else inner
    return t


def _alike(found: dict[tuple[type, str], Type]) -> None:
    """Give the lists of nested data under one key the same type in all dicts, as programs take them from any."""
    lists: dict[Value, set[Type]] = {}
    keys = {at: at[0].shape.place(at[1]) for at in found if is_shape(at[0]) and at[0].shape.keys is not None}
    for at, key in keys.items():
        lists.setdefault(key, set()).update(m for m in members(found[at]) if isinstance(m, ListT))
    for at, key in keys.items():
        if len(lists[key]) > 1 and any(classes_of(t) for t in lists[key]) and lists[key] & {*members(found[at])}:
            found[at] = union(found[at], *lists[key])


def _shape_field(shape: Shape, name: str, column: Sequence[Value], knots: Knots) -> Type:
    if not shape.is_open:
        tags = set(column) if name == "item0" and shape.size and set(map(type, column)) == {str} else set()
        several = sum(s.python is shape.python for s in knots.closed) > 1
        return union(*map(StrT, tags)) if several and 0 < len(tags) <= MOST_CONSTANTS else observed(column, knots)
    if shape.python is not dict:
        return ListT(observed(column, knots), tupled=shape.python is tuple)
    keys = list(dict.fromkeys(chain.from_iterable(knots.values[shape].values())))
    return MapT(observed(keys, knots), observed(column, knots), given=True)


def _possible(t: Type) -> bool:
    """Whether a type has any value."""
    return all(map(_possible, t.items)) if isinstance(t, TupleT | DictT) else t != NEVER


def _distinct(column: Sequence[Value], kinds: tuple[type, ...]) -> list[Value]:
    return list({id(v): v for v in column if type(v) in kinds}.values())


def observed(column: Sequence[Value], knots: Knots) -> Type:
    """Infer the type of values without an annotation."""
    found: list[Type] = []
    groups = knots.groups(column) if knots.closed else {}
    mixed = knots.meets(column, groups)
    rows = {shape: of for shape, of in groups.items() if knots.refers(shape, of, mixed)}
    if rows:
        for shape, of in rows.items():
            knots.add(shape, of)
            found.append(StructT(shape_class(shape)))
        done = {id(v) for of in rows.values() for v in of}
        column = [v for v in column if id(v) not in done]
    for cls in sorted(set(map(type, column)), key=class_key):
        found.append(_observe_class(cls, column, knots))
    return storable_union(*found)


def _observe_class(cls: type, column: Sequence[Value], knots: Knots) -> Type:
    if cls in PLAIN:
        return PLAIN[cls]
    if issubclass(cls, enum.Enum):
        return EnumT(cls)
    if cls in (np.ndarray, np.memmap) or issubclass(cls, np.generic):
        return _arrays([v for v in column if type(v) is cls], np.generic)
    if is_foreign_class(cls):
        return _foreign([v for v in column if type(v) is cls], np.generic)
    if is_struct(cls) and not is_function_class(cls):
        return StructT(cls)
    if cls is set:
        key = observed(list(chain.from_iterable(_distinct(column, (set,)))), knots)
        wrong = wrong_key(key)
        return OpaqueT(f"a set with elements {wrong}") if wrong else MapT(key, None, given=True)
    if cls is defaultdict:
        return _table(_distinct(column, (cls,)), OBSERVED, knots, cls)
    if cls in (list, tuple, dict):
        values = _distinct(column, (cls,))
        if cls is not list:
            return _tuples(values, knots) if cls is tuple else _dicts(values, OBSERVED, knots)
        return ListT(observed(list(chain.from_iterable(values)), knots))
    if cls.__module__.startswith("numba."):
        return OpaqueT(
            f"an object of class {cls.__name__} of Numba: pass list(x), dict(x), or a class without @jitclass"
        )
    if cls is MethodType:
        return types_of_methods([v for v in column if type(v) is cls], lambda values: observed(values, knots))
    if is_function_class(cls):
        return types_of_functions([v for v in column if type(v) is cls])
    return OpaqueT(f"an object of class {cls.__name__}")


def _arrays(values: list[Value], scalar: type) -> Type:
    """Return the union of the types of arrays and NumPy scalars of a scalar class."""
    dtypes = {(v.dtype, v.ndim, isinstance(v, np.generic), v.ndim > 1 and v.shape[-1] == 1) for v in values}
    found: list[Type] = []
    for dtype, rank, single, column in sorted(dtypes, key=lambda item: (item[0].str, *item[1:])):
        if not issubclass(dtype.type, scalar):
            continue
        stored = dtype.name in DTYPES and dtype.isnative
        t = _tensor(dtype, rank, column) if rank or single else Array0T(dtype.name)
        found.append(t if stored else OpaqueT(_array_text(dtype)))
    return storable_union(*found)


def _foreign(values: list[Value], scalar: type) -> Type:
    """Return the union of the types of arrays of other libraries."""
    found = list(map(as_numpy, values))
    rejected = {why: OpaqueT(why) for why in found if isinstance(why, str)}
    kinds = [(a, is_tensor(v)) for v, a in zip(values, found, strict=True) if not isinstance(a, str)]
    tensors = _arrays([a for a, tensor in kinds if tensor], scalar)
    marked = [TorchT(_scalar(m)) if isinstance(m, TensorT | Array0T) else m for m in members(tensors)]
    return storable_union(_arrays([a for a, tensor in kinds if not tensor], scalar), *marked, *rejected.values())


def _scalar(t: TensorT | Array0T) -> TensorT:
    return t.scalar if isinstance(t, Array0T) else t


def _tuples(values: list[tuple[Value, ...]], knots: Knots) -> Type:
    sizes = set(map(len, values))
    if len(sizes) == 1 and max(sizes) <= LONG_TUPLE:
        return TupleT(tuple(observed([v[k] for v in values], knots) for k in range(max(sizes))))
    item = observed(list(chain.from_iterable(values)), knots)
    if len(sizes) > 1 or not isinstance(item, UnionT):
        return ListT(item, tupled=True)
    return TupleT(tuple(observed([v[k] for v in values], knots) for k in range(max(sizes))))


def _dicts(values: list[dict[Value, Value]], hint: Hint, knots: Knots) -> Type:
    """Return the type of dicts: a record if all have the same string keys, else a map."""
    keys = {tuple(v) for v in values}
    if not keys:
        return NEVER
    names = next(iter(keys))
    if len(keys) == 1 and all(type(k) is str for k in names) and not knots.tables:
        items = tuple(_type(hint, [v[k] for v in values], knots) for k in names)
        if not _varied(items) and (len(names) <= LONG_DICT or not is_table(items)):
            return DictT(names, items)
    return _table(values, hint, knots, True)


def _table(values: list[dict[Value, Value]], hint: Hint, knots: Knots, given: bool | type) -> Type:
    """Return the type of dicts with run-time keys."""
    key = observed(list(dict.fromkeys(chain.from_iterable(values))), knots)
    wrong = wrong_key(key)
    if wrong:
        return OpaqueT(f"a dict with keys {wrong}")
    return MapT(key, _type(hint, list(chain.from_iterable(v.values() for v in values)), knots), given)


def _varied(items: Sequence[Type]) -> bool:
    """Whether the values of a dict are dicts of numbers or strings, with many different keys or orders of them."""
    records = [t for t in items if isinstance(t, DictT)]
    few = len(records) < len(items) or len({t.keys for t in records}) <= FEW_KEYS
    return not few and is_table(chain.from_iterable(t.items for t in records))


# --- From columns to a schema ---------------------------------------------------------------------------------------


def classes_of(t: Type) -> set[type]:
    """Return the classes that values of the type refer to directly."""
    return {u.cls for u in all_parts(t) if isinstance(u, StructT)}


def loses(schema: Schema) -> bool:
    """Whether some value is represented only in part; fields that are not stored at all are in `heap.rest_of`."""
    fields = (t for row in schema.fields.values() for t in row.values() if not isinstance(t, OpaqueT))
    return any(isinstance(t, OpaqueT) for t in all_parts(*schema.params, *fields))


def _classes(some: Iterable[Type]) -> set[type]:
    return {c for t in some for c in classes_of(t)}


def _settle(fields: dict[type, dict[str, Type]], params: Sequence[Type], walk: _Walk) -> dict[type, dict[str, Type]]:
    """Add classes that annotations name but no object has, if annotations alone decide the types of their fields.

    So the schema of a batch is the same whether or not it has an instance of such a class; other classes are dropped.
    """
    front = _classes(params) | _classes(t for row in fields.values() for t in row.values())
    added: dict[type, dict[str, Type] | None] = {}
    while front := front - fields.keys() - added.keys():
        for cls in front:
            hints = class_hints(cls, [*fields, *front])
            names = field_names(cls)  # all fields, so that the dropped classes do not depend on the fields read
            added[cls] = (
                {n: _type(hints[n], [], Knots()) for n in names} if all(decided(hints[n]) for n in names) else None
            )
        front = _classes(t for row in added.values() if row for t in row.values())
    dropped = {cls for cls, row in added.items() if row is None}
    while more := {c for c, row in added.items() if row is not None and c not in dropped and _needs(row, dropped)}:
        dropped |= more
    fields |= {cls: row for cls, row in added.items() if cls not in dropped and row is not None}
    return {cls: {n: _without(t, dropped) for n, t in row.items()} for cls, row in fields.items()}


def _needs(row: Mapping[str, Type], dropped: set[type]) -> bool:
    """Whether an object cannot exist without an object of a dropped class."""
    return any(bool(classes_of(t) & dropped) for t in row.values())


def _without(t: Type, dropped: set[type]) -> Type:
    if not dropped or not classes_of(t) & dropped:
        return t
    return NEVER if isinstance(t, StructT) else with_parts(t, lambda part: _without(part, dropped))


def _merge_fields(
    a: Mapping[type, Mapping[str, Type]], b: Mapping[type, Mapping[str, Type]]
) -> dict[type, dict[str, Type]]:
    out = {cls: dict(row) for cls, row in a.items()}
    for cls, row in b.items():
        mine = out.setdefault(cls, {})
        for name, t in row.items():
            mine[name] = storable_union(mine[name], t) if name in mine else t
    return out


def restrict(schema: Schema, reads: Reads | None) -> Schema:
    """Return the schema without unread fields, and without the classes that are then unreachable."""
    fields: dict[type, dict[str, Type]] = {}
    front = _classes(schema.params)
    while front:
        for cls in front:
            row = schema.fields.get(cls, {})
            fields[cls] = {n: t for n, t in row.items() if reads is None or n in reads.get(cls, ())}
        front = _classes(t for c in front for t in fields[c].values()) - fields.keys()
    return Schema(params=schema.params, fields=fields)


def merge(*schemas: Schema) -> Schema:
    """Return the least schema for data of all the schemas, which have equally many parameters."""
    params = tuple(storable_union(*ts) for ts in zip(*(s.params for s in schemas), strict=True))
    fields: Mapping[type, Mapping[str, Type]] = {}
    for schema in schemas:
        fields = _merge_fields(fields, schema.fields)
    return Schema(params=params, fields=fields)


def with_functions(schema: Schema, others: Iterable[Schema]) -> Schema:
    """Return a schema with the functions that were in the same places of the data before.

    So as many programs are compiled as new functions appear, not as many as sets of functions.
    """
    for other in others if any(map(holds_functions, all_types(schema))) else ():
        params = tuple(map(with_functions_of, schema.params, other.params))
        fields = {
            cls: {n: with_functions_of(t, other.fields.get(cls, {}).get(n, t)) for n, t in row.items()}
            for cls, row in schema.fields.items()
        }
        schema = Schema(params=params, fields=fields)
    return schema


def all_types(schema: Schema) -> Iterable[Type]:
    return chain(schema.params, *(row.values() for row in schema.fields.values()))
