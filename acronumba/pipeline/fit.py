"""Matching of a specialisation and a call, by types of instances and structure of shared and outer values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.data.shared import (
    Attributes,
    Match,
    SharedTree,
    Unread,
    describe_value,
    key_text,
    matcher,
    shared_key,
    without,
)
from acronumba.data.tables import Inherited
from acronumba.generics import Value
from acronumba.ir import nodes as ir
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import (
    NEVER,
    Array0T,
    BoolT,
    DictT,
    FloatT,
    IntT,
    ListT,
    MapT,
    MethodT,
    OpaqueT,
    StructT,
    TensorT,
    TorchT,
    TupleT,
    Type,
    UnionT,
    all_parts,
    type_text,
    union,
)  # fmt: skip

if TYPE_CHECKING:
    from acronumba.data.schema import Schema
    from acronumba.frontend.walker import GlobalRead


class OuterMatch:
    """Checks that a global or closure variable still has the structure that was compiled."""

    def __init__(self, read: GlobalRead, inherited: Inherited, unread: Unread, written: Attributes) -> None:
        self.path: str = read.path
        self._key = shared_key(read.shared)
        self._match: Match = matcher(without(read.shared, written), inherited, unread)

        self.read: Callable[[], Value] = read.read

    def matches(self) -> bool:
        try:
            value = self.read()
        except (KeyError, ValueError):
            return False
        return self._match(value) or shared_key(describe_value(self.path, value)) == self._key


def has_numbers(t: Type | None) -> bool:
    """Whether values of the type contain Python numbers that are not in objects."""
    return t is not None and any(isinstance(u, IntT | FloatT | BoolT) for u in all_parts(t))


def holds(wide: Type, narrow: Type) -> bool:
    """Whether every value of the narrow type is, without a conversion, a value of the wide type."""
    match wide, narrow:
        case _, UnionT(inner):
            return all(holds(wide, t) for t in inner)
        case UnionT(inner), _:
            return any(holds(t, narrow) for t in inner)
        case Array0T(), Array0T() | TensorT(shape=()):
            return union(wide, narrow) == wide
        case MethodT(fn), MethodT(other_fn):
            return fn is other_fn and holds(wide.inner, narrow.inner)
        case TorchT(), TorchT():
            return holds(wide.inner, narrow.inner)
        case TensorT(), TensorT():
            return wide.dtype == narrow.dtype and wide.rank == narrow.rank and wide.column <= narrow.column
        case TupleT(), TupleT():
            return len(wide.items) == len(narrow.items) and all(map(holds, wide.items, narrow.items))
        case DictT(), DictT():
            return wide.keys == narrow.keys and all(map(holds, wide.items, narrow.items))
        case ListT(item), ListT(other) if wide.tupled == narrow.tupled:
            return holds(item, other)
        case MapT(), MapT() if wide.given and wide.given == narrow.given:
            return holds(wide.entry, narrow.entry)
        case _:
            return wide == narrow or narrow == NEVER or isinstance(wide, OpaqueT)


def may_hold(wide: Schema, narrow: Schema) -> bool:
    """Whether one schema may contain another, judged by the types of the parameters alone, without those of fields."""
    return len(wide.params) == len(narrow.params) and all(map(holds, wide.params, narrow.params))


def packed_of(tree: SharedTree, shared: Mapping[str, Value]) -> list[list[Value]]:
    """Return the shared objects of recursive classes: they are packed like instances, so their fields need types."""
    names = list(shared)
    rows = (leaf for leaf in tree.leaves if any(isinstance(t, StructT) for t in all_parts(leaf.type)))
    return [[getter(leaf.path, names)(shared)] for leaf in rows]


def same_types(wide: Schema, narrow: Schema, reads: Mapping[type, frozenset[str]]) -> bool:
    """Whether two schemas agree in the parameters and in every field that is read."""
    if wide.params != narrow.params:
        return False
    for cls, names in reads.items():
        a: Mapping[str, Type] = wide.fields.get(cls, {})
        b: Mapping[str, Type] = narrow.fields.get(cls, {})
        if any(a.get(name) != b.get(name) for name in names):
            return False
    return True


def orders_by_layout(program: ir.Program) -> bool:
    """Whether the order of a sum may depend on whether a vector is known to be contiguous.

    That is so for products of vectors that are not shared: a column is contiguous only if its extent is known to be 1.
    """
    views: set[ir.Var] = set()  # of shared arrays
    for op in (o for f in program.functions for block in f.blocks for o in block.instrs if isinstance(o, ir.Op)):
        shared = [isinstance(a, ir.SharedArg) or a in views for a in op.args]
        if TENSORS[op.op].kind == "view" and shared[0]:
            views.add(op.out)
        if op.op != "matmul" or not type_text(op.out.type).startswith("float"):
            continue
        types = [program.shared[a.index].type if isinstance(a, ir.SharedArg) else a.type for a in op.args]
        ranks = [t.rank if isinstance(t, TensorT) else 0 for t in types]
        if 1 in ranks and not any(rank == 2 and same for rank, same in zip(ranks, shared, strict=True)):
            return True
    return False


Getter = Callable[[Mapping[str, Value]], Value]


def getter(path: str, names: Sequence[str]) -> Getter:
    """Return a function from the roots by name to the value at a path such as ``p.cells[0].w`` or ``p['b']``.

    Parameters
    ----------
    path : str
        Begins with a name.
    names : sequence of str
        Of the roots; some contain dots, as ``config.weights``.
    """
    root = root_of(path, names)
    steps: list[Callable[[Value], Value]] = []
    node = ast.parse("root" + path[len(root) :], mode="eval").body
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append(operator.attrgetter(node.attr))
        elif isinstance(node, ast.Subscript):
            steps.append(_item_getter(node.slice))
        else:
            raise ValueError(f"not a path: {path}")
        node = node.value
    steps.append(operator.itemgetter(root))
    steps.reverse()

    def get(roots: Mapping[str, Value]) -> Value:
        value: Value = roots
        for step in steps:
            value = step(value)
        return value

    return get


def _item_getter(index: ast.expr) -> Callable[[Value], Value]:
    """Return a function that reads an item by an index, or by a key as `key_text` writes it."""
    try:
        return operator.itemgetter(ast.literal_eval(index))
    except ValueError:  # a member of an enumeration, or a tuple with one
        text = ast.unparse(index)
        return lambda value: next(v for k, v in value.items() if key_text(k) == text)


def root_of(path: str, names: Sequence[str]) -> str:
    """Return the root that a path begins with."""
    return max((n for n in names if path == n or path.startswith((f"{n}.", f"{n}["))), key=len)
