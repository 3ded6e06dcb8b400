"""Closed types of values that are made in the call: lists, tuples and dicts that contain others of their shape.

In: a type. Out: the type in which such shapes are rows (`ir.shapes`), whose fields are facts of the program. The rule
is like that of the data (`data.nested`), from the second level on; so a type has an end, however deep the values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from acronumba.data.nested import DEEPEST
from acronumba.frontend.exceptions import Restart
from acronumba.ir.shapes import Shape, is_shape, shape_class
from acronumba.ir.types import (
    NEVER,
    DictT,
    ListT,
    MapT,
    NoneT,
    StrT,
    StructT,
    TupleT,
    Type,
    UnionT,
    members,
    parts,
    union,
    with_parts,
)

if TYPE_CHECKING:
    from acronumba.frontend.words import Words


def shape_of(t: Type, nodes: Set[int] = frozenset()) -> Shape | None:
    """Return the shape of lists, tuples or dicts of a type; None for any other type.

    `nodes` are the lengths of lists of the instance data that are nodes: lists of unlike items, as tuples.
    """
    match t:
        case TupleT() if t.cls is tuple:
            if t.listed and len(t.items) not in nodes:
                return Shape(list)
            return Shape(list if t.listed else tuple, len(t.items))
        case DictT() if all(type(k) is str for k in t.keys):
            return Shape(dict, keys=t.keys)
        case ListT():
            return Shape(tuple if t.tupled else list)
        case MapT() if t.item is not None:
            return Shape(dict)
    return None


def fits(shape: Shape, t: Type, nodes: Set[int]) -> bool:
    """Whether values of a type have a shape."""
    found = shape_of(t, nodes)
    tag = t.items[0].value if isinstance(t, TupleT) and t.items and isinstance(t.items[0], StrT) else None
    return found == shape or (found is not None and tag is not None and Shape(found.python, found.size, tag) == shape)


def close(w: Words, t: Type, cls: type | None = None) -> Type:
    """Return a type, in which shapes that contain themselves are closed; `cls`: the class whose field has it."""
    if is_shape(cls) and cls.shape.is_open:  # the field has the list itself
        return union(*(with_parts(m, lambda part: _close(w, part, cls.shape)) for m in members(t)))
    return _close(w, t, cls.shape if is_shape(cls) else None)


def close_parts(w: Words, t: Type) -> Type:
    """Return the type of an entry of a dict, with the shapes in its key and its value closed."""
    inside = Shape(dict) if w.facts.dicts_nest else None
    return union(*(with_parts(m, lambda part: _close(w, part, inside)) for m in members(t)))


def _close(w: Words, t: Type, inside: Shape | None) -> Type:
    closed: set[Shape] = set()
    _mark(w, t, {} if inside is None else {inside: (DEEPEST, NEVER, 0)}, closed, w.facts.knots)
    new = {s for s in closed - w.facts.knots if s.keys is not None}
    w.facts.knots |= closed
    if new:  # such dicts are rows in all types
        w.facts.begin_again()
        raise Restart
    return _named(w, t, closed) if closed else t


def _mark(
    w: Words, t: Type, path: Mapping[Shape, tuple[int, Type, int]], closed: set[Shape], known: Set[Shape],
    opened: int = 0,
) -> None:  # fmt: skip
    """Collect the shapes of a type that are closed; `known` are so in other types, and here from the first level on.

    `path` has for each shape around it the number of such containers, the innermost and its depth; `opened` is the
    depth of the innermost container of any length.
    """
    several = members(t)
    named = [m.cls.shape for m in several if isinstance(m, StructT) and is_shape(m.cls)]
    for m in several:
        shape = shape_of(m, w.facts.nodes)
        if shape is None:
            for part in parts(m):
                _mark(w, part, path, closed, known, opened)
            continue
        times, outer, depth = path.get(shape, (0, m, 0))
        grows = len(several) > 1 or (not shape.is_open and _is_node(outer, m, depth < opened))
        again = times or shape in known
        if times >= DEEPEST or (times > (shape not in known) and grows) or (again and shape.keys is not None):
            closed.add(shape)
        if named and (not shape.is_open or shape in named):
            closed.add(shape)
        if times < DEEPEST:
            inside = {**path, shape: (times + 1, m, len(path) + 1)}
            for part in parts(m)[isinstance(m, MapT) :]:  # keys are not closed
                _mark(w, part, inside, closed, known, len(path) + 1 if shape.is_open else opened)


def _is_node(outer: Type, inner: Type, listed: bool) -> bool:
    """Whether tuples in others of their length are nodes of one kind; `listed`: they are in a list of these."""
    pairs = list(zip(parts(outer), parts(inner), strict=False))
    if listed and all(not {*map(type, members(a))}.isdisjoint(map(type, members(b))) for a, b in pairs):
        return True
    return any(a == b and shape_of(a) is None and not isinstance(a, UnionT | NoneT) for a, b in pairs)


def _note_tags(w: Words, cls: type, t: Type) -> None:
    """Distinguish tuples made in the call by their first items from now on, if these are constants."""
    shape = shape_of(t, w.facts.nodes)
    if shape is None or not shape.size or cls in w.facts.given or (shape.python, shape.size) in w.facts.tagged:
        return
    tags = members(parts(t)[0])
    if all(isinstance(tag, StrT) for tag in tags) and len(tags) > 1:
        w.facts.tagged.add((shape.python, shape.size))
        w.facts.begin_again()
        raise Restart


def _named(w: Words, t: Type, closed: set[Shape]) -> Type:
    """Return a type with references to rows in place of closed shapes, whose fields are widened."""
    found: list[Type] = []
    tags = [m.cls for m in members(t) if isinstance(m, StructT) and is_shape(m.cls) and m.cls.shape.tag is not None]
    for m in members(t):
        inner = (
            MapT(m.key, _named(w, m.item, closed), m.given)
            if isinstance(m, MapT) and m.item is not None
            else with_parts(m, lambda part: _named(w, part, closed))
        )
        shape = shape_of(m, w.facts.nodes)
        if shape is None or shape not in closed:
            found.append(inner)
            continue
        cls = next((c for c in tags if fits(c.shape, inner, w.facts.nodes)), None) or shape_class(shape)
        _note_tags(w, cls, m)
        if isinstance(inner, TupleT) and inner.listed and shape.is_open:
            inner = ListT(union(*inner.items))
        fields = (inner,) if shape.is_open else parts(inner)
        for name, part in zip(shape.names, fields, strict=True):
            w.widen_field(cls, name, part)
        found.append(StructT(cls))
    return union(*found)
