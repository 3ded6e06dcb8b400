"""The structure of the shared values of a call (`SharedTree`), and their leaves.

Keyword-only parameters, globals and closure variables are the same for every instance of a mini-batch. Their
*structure* (classes, lengths, keys, bools, strings, dtypes and shapes of arrays) is known when a model is compiled;
the *leaves* (arrays, ints, floats) are run-time values, addressed by a path such as ``p.cells[0].w``. The front end
reads a `SharedTree`; at each call `matcher` checks that the values still have that structure.

    Shared = SharedLeaf                a run-time value: array, int, float, packed list or object
           | SharedConst               known when compiled: bool, str, enum, None, function, class, module, dtype
           | SharedNode                a dataclass, NamedTuple, tuple, list or dict of these
           | SharedAgain               a module that contains this place: a structure inside itself
           | SharedOpaque              cannot be used; reading it is rejected
"""

from __future__ import annotations

import enum
import re
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, TypeAlias

import numpy as np

from acronumba.data.classes import adapter_of, is_object, is_record, names_of, oddness
from acronumba.data.nested import Knots
from acronumba.data.tables import (
    ARRAYS,
    DICTS,
    LONG_DICT,
    PLAIN_ARRAYS,
    Inherited,
    key_type,
    leaf_type,
    table_type,
    varies,
)
from acronumba.foreign import as_numpy, is_foreign, is_of_numba, is_tensor, is_tensor_of
from acronumba.generics import Value
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    Array0T,
    BoolT,
    DictT,
    EnumT,
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
    TupleT,
    Type,
    UnionT,
    all_parts,
    class_key,
    union,
    wrong_key,
)  # fmt: skip
from acronumba.locks import lazy
from acronumba.memory import DType
from acronumba.records import record

Class: TypeAlias = type  # where `type` is another name


@record()
class SharedLeaf:
    """A value that is read at each call: entry `path` of the leaves."""

    path: str  # "p.cells[0].w", "p['b']"
    # TensorT with constant extents, Array0T, INT, FLOAT; packed: ListT (of numbers or rows), MapT, StructT (a recursive
    # class or a closed shape)
    type: Type
    tensor: bool = False  # a tensor of PyTorch, of the type of its array
    cls: Class = dict  # the class of a packed dict: dict, `defaultdict`, `OrderedDict` or `Counter`
    factory: Callable[[], Any] | None = None  # of a `defaultdict`
    fields: tuple[tuple[Class, str, Type], ...] = ()  # of the closed shapes in it: their classes, names and types


@record()
class SharedConst:
    """A constant of the compiled program: another value needs another program."""

    value: Value  # bool, str, None, enum member, function, class, module, np.dtype


@record()
class SharedNode:
    """A structure whose parts are known one by one."""

    path: str
    kind: str  # "object" (of a dataclass, NamedTuple or plain class), "tuple", "list", "dict"
    cls: type  # the class of the object; tuple, list, dict for the others
    names: tuple[Value, ...]  # fields or keys, in order; "0", "1", ... for tuples and lists
    items: tuple[Shared, ...]  # one per name
    extra: frozenset[str] = frozenset()  # attributes of the object besides its fields
    fixed: frozenset[str] = frozenset()  # attributes that code cannot assign: parameters, buffers and modules

    def item(self, name: Any) -> Shared | None:
        """Return the part with this name, or under this key, or None."""
        return self.items[self.names.index(name)] if name in self.names else None


@record()
class SharedOpaque:
    """A value that cannot be shared; reading it is an error."""

    path: str
    what: str  # for the message: "a float16 array: use float32"


@record()
class SharedAgain:
    """A reference to an object of an adapted class that contains it: `self.proxy.module` is `self`."""

    path: str
    outer: str  # path of the object
    levels: int  # how many structures further out it is


Shared: TypeAlias = SharedLeaf | SharedConst | SharedNode | SharedAgain | SharedOpaque


@dataclass(frozen=True)
class SharedTree:
    """The structure of all keyword-only parameters of a model."""

    roots: Mapping[str, Shared]  # by parameter name, in the order of the signature

    @lazy
    def key(self) -> tuple[object, ...]:
        """Key: trees with equal keys can run the same program; hashable."""
        return tuple((name, shared_key(root)) for name, root in self.roots.items())

    @lazy
    def leaves(self) -> tuple[SharedLeaf, ...]:
        """All leaves, depth first."""
        return tuple(leaf for root in self.roots.values() for leaf in leaves_of(root))


def shared_key(shared: Shared) -> tuple[object, ...]:
    """Return a hashable description in which constants of different types differ (True is not 1)."""
    match shared:
        case SharedConst(value):
            try:
                hash(value)
            except TypeError:
                return "const", type(value), id(value)
            return "const", type(value), value
        case SharedNode(_, kind, cls, names, items, extra, fixed):
            return kind, cls, names, kinds_of(names), tuple(shared_key(item) for item in items), extra, fixed
        case SharedAgain(levels=levels):
            return "again", levels
        case _:
            return (shared,)


def nodes_of(shared: Shared) -> Iterable[SharedNode]:
    """Yield the nodes of a structure, depth first."""
    if isinstance(shared, SharedNode):
        yield shared
        for item in shared.items:
            yield from nodes_of(item)


Attributes: TypeAlias = Mapping[str | type, Iterable[str]]  # of objects by path, or by class


def without(shared: Shared, names: Attributes) -> Shared:
    """Return a structure without some attributes of its objects, which are given by the path of the object."""
    if not isinstance(shared, SharedNode) or not names:
        return shared
    left = [k for k, n in enumerate(shared.names) if n not in names.get(shared.path, ())]
    items = tuple(without(shared.items[k], names) for k in left)
    return replace(shared, names=tuple(shared.names[k] for k in left), items=items)


def leaves_of(shared: Shared) -> Iterable[SharedLeaf]:
    """Yield the leaves of a structure, depth first."""
    if isinstance(shared, SharedLeaf):
        yield shared
    elif isinstance(shared, SharedNode):
        for item in shared.items:
            yield from leaves_of(item)


def values_of(shared: Shared, value: Value) -> Iterable[tuple[SharedLeaf, Value]]:
    """Yield the leaves of a structure with their values in `value`, which has this structure, depth first."""
    if isinstance(shared, SharedLeaf):
        yield shared, value
    elif isinstance(shared, SharedNode):
        for item, inner in parts_of(shared, value):
            yield from values_of(item, inner)


def parts_of(node: SharedNode, value: Value) -> Iterable[tuple[Shared, Value]]:
    """Yield the structures of the parts of a value with these parts."""
    held: Any = value
    for k, (name, item) in enumerate(zip(node.names, node.items, strict=True)):
        yield item, getattr(held, name) if node.kind == "object" else held[name if node.kind == "dict" else k]


class SameObjects:
    """Which paths of shared values lead to one object."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[str, Value]] = {}  # of each object: its first path, and itself
        self.paths: dict[str, str] = {}  # of each other path: the first one of its object

    def first(self, path: str) -> str:
        """Return the path under which an object is known."""
        return self.paths.get(path, path)

    def add(self, shared: Shared, value: Value) -> None:
        """Add the objects of a structure, which `value` has."""
        if not isinstance(shared, SharedNode):
            return
        if shared.kind == "object":
            first, _ = self._first.setdefault(id(value), (shared.path, value))
            if first != shared.path:
                self.paths[shared.path] = first
        for part, inner in parts_of(shared, value):
            self.add(part, inner)


def reaches_twice(value: object, seen: set[int]) -> str:
    """Return the path of the first mutable value that was seen before: ".a", "['b'][0]"; "" if there is none."""
    if isinstance(value, (*CONSTANTS, str, np.generic)) or type(value) in (int, float):
        return ""
    parts: Iterable[tuple[str, object]] = ()
    if is_object(value):
        parts = [(f".{n}", getattr(value, n)) for n in names_of(value) if hasattr(value, n)]
    elif isinstance(value, dict):
        parts = [(f"[{k!r}]", v) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"[{k}]", v) for k, v in enumerate(value)]
    elif not (isinstance(value, np.ndarray) or is_foreign(value)):
        return ""
    if not isinstance(value, tuple):
        if id(value) in seen:
            return " "
        seen.add(id(value))
    return next((f"{step}{found}" for step, part in parts if (found := reaches_twice(part, seen))), "")


def describe(values: Mapping[str, object]) -> SharedTree:
    """Return the structure of the shared values of a call, by parameter name."""
    return SharedTree({name: describe_value(name, value) for name, value in values.items()})


DEPTH = 100  # structures nested deeper than this are not followed
ENDLESS = "a structure that contains itself, or is nested too deeply"
BY_VALUE = (str, range, re.Pattern)  # classes of constants that are compared by value
CONSTANTS = (bool, type(None), enum.Enum, type, np.dtype, types.ModuleType, np.vectorize)
ADDED: list[type] = []  # classes of constants of other libraries: of dtypes, for example
_CONTAINERS = frozenset((dict, list, tuple, set))


def describe_value(
    path: str,
    value: object,
    _classes: tuple[type, ...] = (),
    _inside: tuple[tuple[str, object], ...] = (),
    _fixed: bool = False,
    _knots: Knots | None = None,
) -> Shared:
    """Return the structure of one shared value; `path` is its source expression.

    `_knots` has the closed shapes of the list, tuple or dict around it. Numbers in objects of adapted classes
    (`data.classes.Adapter`) are constants (`_fixed`).
    """
    cls = type(value)
    whole = None if cls in _CONTAINERS else _without_parts(path, value, _fixed)
    if whole is not None:
        return whole
    for levels, (place, outer) in enumerate(reversed(_inside)):
        if value is outer:
            return SharedOpaque(path, ENDLESS) if adapter_of(cls) is None else SharedAgain(path, place, levels)
    if len(_inside) > DEPTH:
        return SharedOpaque(path, ENDLESS)
    inside = (*_inside, (path, value))
    adapter = adapter_of(cls)
    if adapter is not None:
        wrong, found = adapter.wrong(value), adapter.container(value)
        if wrong:
            return SharedOpaque(path, wrong)
        _fixed = True
        if found is not None:
            names = tuple(found) if isinstance(found, dict) else tuple(map(str, range(len(found))))
            places = map(repr, found) if isinstance(found, dict) else range(len(found))
            placed = zip(places, found.values() if isinstance(found, dict) else found, strict=True)
            members = tuple([describe_value(f"{path}[{k}]", v, _classes, inside, True) for k, v in placed])
            return SharedNode(path, "dict" if isinstance(found, dict) else "list", cls, names, members)
    if is_object(value):
        if cls in _classes and adapter is None:
            return SharedLeaf(path, StructT(cls))
        names = tuple(name for name in names_of(value) if hasattr(value, name))
        inner = (*_classes, cls)
        steps = [f".{n}" if adapter is None else adapter.step(value, n) for n in names]
        parts = zip(steps, names, strict=True)
        items = tuple(describe_value(path + step, getattr(value, n), inner, inside, _fixed) for step, n in parts)
        extra = frozenset(getattr(value, "__dict__", ())) - {*names} if is_record(cls) else frozenset()
        fixed = frozenset() if adapter is None else frozenset(adapter.fixed(value))
        return SharedNode(path, "object", cls, names, items, extra, fixed)
    knots = _knots if _knots is not None or cls not in _CONTAINERS or _fixed else Knots([value])
    closed = None if knots is None or not knots.closed else _nested(path, value, knots)
    return _container(path, value, _classes, inside, _fixed, knots) if closed is None else closed


def _nested(path: str, value: Value, knots: Knots) -> SharedLeaf | None:
    """Return the leaf of a list, tuple or dict that contains others of its shape, or of a list of such; else None."""
    from acronumba.data.schema import infer

    found = knots.groups([value])
    rows = any(knots.refers(shape, of, False) for shape, of in found.items())
    if not rows and not (type(value) is list and knots.holds(value)):
        return None
    schema = infer([[value]])
    types = all_parts(*schema.params, *(t for row in schema.fields.values() for t in row.values()))
    plain = IntT | FloatT | BoolT | NoneT | StrT | TextT | EnumT | NeverT | ListT | TupleT | DictT | MapT | UnionT
    if not all(isinstance(t, plain) or (isinstance(t, StructT) and is_shape(t.cls)) for t in types):
        knots.closed.clear()  # with arrays or functions, which are known by their paths
        return None
    fields = ((cls, name, t) for cls, row in schema.fields.items() for name, t in row.items() if is_shape(cls))
    return SharedLeaf(path, schema.params[0], fields=tuple(sorted(fields, key=lambda f: (class_key(f[0]), f[1]))))


MOST_ITEMS = 1 << 20  # of a list whose items are known one by one


def _container(
    path: str, value: object, classes: tuple[type, ...], inside: tuple[tuple[str, object], ...], fixed: bool,
    knots: Knots | None = None,
) -> Shared:  # fmt: skip
    """Return the structure of a dict, set, list or tuple; any other value cannot be shared."""
    if isinstance(value, dict):
        made_as, factory = type(value), getattr(value, "default_factory", None)
        if len(value) > LONG_DICT or made_as is not dict or not all(type(k) is str for k in value) or varies(value):
            table = table_type(value)
            if table is not None:
                return SharedLeaf(path, table, cls=made_as, factory=factory)
        if made_as in (Counter, defaultdict):
            return SharedOpaque(path, f"a {made_as.__name__} that is empty, or holds more than numbers: pass dict(x)")
        texts = [key_text(k) for k in value]
        if None in texts or len(set(texts)) < len(texts):
            what = wrong_key(union(*map(key_type, value)))
            return SharedOpaque(path, f"a dict with keys {what or 'that look alike, or are flags'}")
        named = zip(texts, value.values(), strict=True)
        entries = tuple([describe_value(f"{path}[{text}]", v, classes, inside, fixed, knots) for text, v in named])
        return SharedNode(path, "dict", made_as, tuple(value), entries)
    if type(value) is set:
        elements = table_type(dict.fromkeys(value, 0))
        if elements is not None or not value:
            return SharedLeaf(path, MapT(NEVER if elements is None else elements.key, None, given=True))
    if isinstance(value, list | tuple):
        number = list_of_numbers(value)
        if number is not None:
            return SharedLeaf(path, number)
        kind = "list" if isinstance(value, list) else "tuple"
        if len(value) > MOST_ITEMS:
            return SharedOpaque(
                path, f"a {kind} of {len(value):,} values that are not all numbers: make it in the call"
            )
        held = tuple(describe_value(f"{path}[{k}]", v, classes, inside, fixed, knots) for k, v in enumerate(value))
        return SharedNode(path, kind, list if kind == "list" else tuple, tuple(map(str, range(len(value)))), held)
    cls = type(value)
    return SharedOpaque(path, f"an object of class {cls.__name__}, which is no plain class: {oddness(cls)}")


def _without_parts(path: str, value: object, fixed: bool) -> Shared | None:
    """Return the structure of a constant or leaf, None for any other value; with `fixed`, numbers are constants."""
    cls, other = type(value), _other_behaviour(value)
    if other:
        return SharedOpaque(path, other)
    if fixed and cls in (int, float):
        return SharedConst(value)
    function = callable(value) and (not is_object(value) or is_of_numba(value)) and adapter_of(cls) is None
    constant = function or isinstance(value, (*CONSTANTS, *ADDED))
    if cls in BY_VALUE or (constant and not isinstance(value, ARRAYS)):
        return SharedConst(value)
    leaf = leaf_type(value)
    if leaf is None:
        return None
    return SharedOpaque(path, leaf) if isinstance(leaf, str) else SharedLeaf(path, leaf, is_tensor(value))


def key_text(key: object) -> str | None:
    """Return the text of a dict's key in a path, or None if the key cannot be a constant of the program."""
    if isinstance(key, enum.Enum):
        return None if _other_behaviour(key) else f"{type(key).__name__}.{key.name}"
    if type(key) is tuple:
        inner = [key_text(k) for k in key]
        texts = [text for text in inner if text is not None]
        return None if len(texts) < len(inner) else f"({', '.join(texts)}{',' * (len(texts) == 1)})"
    return repr(key) if type(key) in (str, int, bool) or key is None else None


def kinds_of(keys: Iterable[object]) -> tuple[Any, ...]:
    """Return the classes of keys of a dict: equal keys may be of several."""
    return tuple(kinds_of(key) if type(key) is tuple else type(key) for key in keys)


def _other_behaviour(value: object) -> str:
    """Return why an instance of a subclass of a built-in class cannot be treated as one of that class; "" if it can."""
    if isinstance(value, enum.Enum) and not isinstance(value, re.RegexFlag):
        named = any(value is member for member in type(value).__members__.values())
        return "" if named else f"{value!r}, a combination of flags: pass them one by one, as bools"
    cls = type(value)
    if cls in DICTS and isinstance(getattr(value, "default_factory", None), type | types.FunctionType | None):
        return ""
    for plain in (dict, list, tuple, *BY_VALUE):
        if isinstance(value, plain) and cls is not plain and not is_object(value):
            own = f"an object of class {cls.__name__}, which may behave in other ways than a {plain.__name__}"
            return f"{own}: pass {plain.__name__}(x)"
    return ""


LONG = 16  # lists of numbers longer than this are data, not structure


def list_of_numbers(value: list[Value] | tuple[Value, ...]) -> ListT | None:
    """Return the type of a long list whose elements are all ints, floats or bools; None for other lists."""
    if isinstance(value, list) and len(value) > LONG:
        for cls, item in ((int, INT), (float, FLOAT), (bool, BOOL)):
            if all(type(v) is cls for v in value):
                return ListT(item)
    return None


Match: TypeAlias = Callable[[Value], bool]
# Attributes of adapted objects that a program does not read: paths of the objects, and names.
Unread: TypeAlias = Container[tuple[str, Value]]


def can_hide(cls: type, found: object) -> bool:
    """Whether an instance attribute takes precedence over the class attribute `found` (a data descriptor wins)."""
    return cls.__dictoffset__ != 0 and not hasattr(type(found), "__set__")


def hiding(cls: type, name: str) -> tuple[str, str]:
    """Return the message for an object with an instance attribute that is no field, and the suggested rewrite."""
    base = cls.__name__
    if issubclass(cls, enum.Enum):
        rewrite = f"a function of {base}, with an `if` for this member"
    elif callable(getattr(cls, name, None)):
        rewrite = f"a subclass of {base} with this `{name}`"
    else:
        rewrite = f"a field `{name}` of {base}"
    return f"`{name}` was set on this object and is not a field of {base}", rewrite


def matcher(shared: Shared, inherited: Inherited, unread: Unread = ()) -> Match:
    """Return a function that checks whether a value has a structure.

    Of adapted objects (`data.classes.Adapter`) the attributes in `unread` are not compared.

    The function is called at each mini-batch, so all decisions are made here, once. It compares classes, lengths,
    dtypes and shapes, and checks that no instance attribute hides a class attribute; it does nothing else.
    """
    found = _matcher(shared, inherited, unread)
    if not _again(shared):
        return found
    return lambda v: found(v) and _is_again(shared, v, (), unread)


def _again(shared: Shared) -> bool:
    return isinstance(shared, SharedAgain) or (isinstance(shared, SharedNode) and any(map(_again, shared.items)))


def _is_again(shared: Shared, value: Value, inside: tuple[Value, ...], unread: Unread) -> bool:
    """Whether the references to objects further out are to these objects."""
    if isinstance(shared, SharedAgain):
        return value is inside[-1 - shared.levels]
    held: Value = value
    inside = (*inside, value)
    for k, (name, item) in enumerate(zip(shared.names, shared.items, strict=True)) if _again(shared) else ():  # type: ignore[union-attr]
        of_name = shared.kind == "object"  # type: ignore[union-attr]
        if of_name and (shared.path, name) in unread:  # type: ignore[union-attr]
            continue
        part = getattr(held, name) if of_name else held[name if shared.kind == "dict" else k]  # type: ignore[union-attr]
        if not _is_again(item, part, inside, unread):
            return False
    return True


def _matcher(shared: Shared, inherited: Inherited, unread: Unread) -> Match:
    match shared:
        case SharedConst(value):
            return _match_const(value)
        case SharedLeaf(_, TensorT(dtype, shape), tensor):
            return _match_tensor(np.dtype(dtype), shape, ARRAYS if shape else np.generic, tensor)
        case SharedLeaf(_, Array0T(dtype), tensor):
            return _match_tensor(np.dtype(dtype), (), np.ndarray, tensor)
        case SharedLeaf() if shared.fields:
            return _match_nested(shared)
        case SharedLeaf(_, StructT(cls)):
            return lambda v: type(v) is cls
        case SharedLeaf(_, ListT() as listed):
            return lambda v: type(v) is list and list_of_numbers(v) == listed
        case SharedLeaf(_, MapT(item=None) as elements):
            return lambda v: type(v) is set and describe_value("", v) == SharedLeaf("", elements)
        case SharedLeaf(_, MapT() as table, cls=cls, factory=factory):
            return _match_table(table, cls, factory)
        case SharedLeaf(_, leaf):
            if leaf == INT:
                return lambda v: type(v) is int and -(2**63) <= v < 2**63
            return lambda v: type(v) is float
        case SharedNode():
            return _match_node(shared, inherited, unread)
        case SharedAgain():
            return is_object
        case SharedOpaque(_, what) if what == ENDLESS:
            return lambda v: isinstance(v, dict | list | tuple) or is_object(v)
        case SharedOpaque(path):
            # Never read by the program: any other unusable value matches.
            return lambda v: isinstance(describe_value(path, v), SharedOpaque)


_IMMUTABLE = frozenset((int, float, bool, str))


def _match_table(table: MapT, cls: type, factory: Callable[[], Any] | None) -> Match:
    """Return a function that matches dicts; that the last dict is unchanged is seen in less time."""
    last: tuple[Any, list[Value], list[Value]] = None, [], []  # a dict, its keys and its values

    def run(v: Any) -> bool:
        nonlocal last
        found = type(v)
        if found is not cls or getattr(v, "default_factory", None) is not factory:
            return False
        held, keys, values = last
        if v is held and len(v) == len(keys) and all(map(is_, v, keys)) and all(map(is_, v.values(), values)):
            return True
        keys, values = list(v), list(v.values())
        if table_type(v) != table:
            return False
        if _IMMUTABLE.issuperset(map(type, keys)) and _IMMUTABLE.issuperset(map(type, values)):
            last = v, keys, values
        return True

    return run


def _match_nested(leaf: SharedLeaf) -> Match:
    """Return a function that matches nested data; that the last value is unchanged is seen in less time."""
    from acronumba.data.unchanged import Guard, guard_of_plain

    last: tuple[object, Guard | None] = None, None

    def run(v: Value) -> bool:
        nonlocal last
        if v is last[0] and last[1] is not None and last[1].is_valid():
            return True
        same = describe_value(leaf.path, v) == leaf
        last = (v, guard_of_plain(v)) if same else (None, None)
        return same

    return run


def is_itself(value: Value) -> bool:
    """Whether constants like this one are compared by identity."""
    by_value = isinstance(value, (*BY_VALUE, *ADDED, np.dtype, types.MethodType)) or type(value) in (int, float)
    return isinstance(value, enum.Enum) or not by_value


def _match_const(value: Value) -> Match:
    if not is_itself(value):
        return lambda v: type(v) is type(value) and v == value
    return lambda v: v is value


def _match_tensor(dtype: DType, shape: tuple[int | None, ...], kinds: Any, tensor: bool) -> Match:
    if tensor:
        name = dtype.name
        return lambda v: is_tensor(v) and is_tensor_of(v, name, shape)

    def run(v: Value) -> bool:
        if is_tensor(v):
            return False
        if not isinstance(v, ARRAYS):
            if not is_foreign(v):
                return False
            v = as_numpy(v)
            if isinstance(v, str):
                return False
        elif type(v) not in PLAIN_ARRAYS and isinstance(v, np.ndarray):
            return False
        return bool(v.dtype == dtype and v.shape == shape and isinstance(v, kinds))

    return run


def _match_node(node: SharedNode, inherited: Inherited, unread: Unread) -> Match:
    adapter = adapter_of(node.cls)
    skipped = unread if adapter is not None and node.kind == "object" else ()
    parts = tuple(
        (name, _matcher(item, inherited, unread))
        for name, item in zip(node.names, node.items, strict=True)
        if (node.path, name) not in skipped
    )
    cls, names, count = node.cls, node.names, len(node.names)
    visible = inherited.get(cls, frozenset()) - {*names}
    kinds = kinds_of(names)
    get = getattr if adapter is None else adapter.get
    fixed = tuple(name for name in names if name in node.fixed)

    def run_object(v: Value) -> bool:
        if type(v) is not cls or (visible and not visible.isdisjoint(v.__dict__)):
            return False
        if adapter is not None and (adapter.wrong(v) or tuple(adapter.fixed(v)) != fixed):
            return False
        try:
            return all(part(get(v, name)) for name, part in parts)
        except AttributeError:
            return False

    def run_dict(v: Value) -> bool:
        held: Value = v
        same = type(v) is cls and tuple(held) == names and kinds_of(held) == kinds
        return same and all(part(held[name]) for name, part in parts)

    def run_sequence(v: Value) -> bool:
        if type(v) is not cls or len(v) != count or list_of_numbers(v) is not None:  # type: ignore[arg-type]
            return False
        return all(part(inner) for inner, (_, part) in zip(v, parts, strict=True))  # type: ignore[call-overload]

    return {"object": run_object, "dict": run_dict}.get(node.kind, run_sequence)
