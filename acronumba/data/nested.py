"""Recursive types of data without classes: which lists, tuples and dicts contain themselves.

In: columns of values. Out: the shapes (`ir.shapes`) at which their types are closed, and the values of each. A place (a
parameter, a field, the items of a list) is looked at as a column, so the work depends on the number of values and of
shapes, not on the depth. A dict that contains one with the same keys is closed; a list that contains a list only where
two places, one in the other, hold it beside something else, or in more than `DEEPEST` levels, so `[[1.0, 2.0], [3.0]]`
and `[[[1, 2], [3]], False]` keep their exact types;
a tuple also where both have the same item, as a label, or a list between them. The set of closed shapes only grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from acronumba.generics import Value
from acronumba.ir.shapes import ALL, Shape
from acronumba.ir.types import MOST_CONSTANTS, MOST_LENGTHS
from acronumba.records import record

DEEPEST = 8  # levels of lists, or of tuples of one length, in each other that keep their exact type
MOST_LEVELS = 16  # levels of containers of different shapes
MOST_PLACES = 4096  # beyond which containers in themselves are closed at once
MOST_KEYS = 16  # sets of keys of the dicts of one place; more are the data of dicts with run-time keys
MOST_FORMS = 8  # sets of keys of dicts in dicts, which hold values of one kind; more are of dicts with run-time keys
LONG_TUPLE = 16  # an unannotated tuple of one type that is longer has type `tuple[X, ...]`
LISTS, MAPS, TUPLES = Shape(list), Shape(dict), Shape(tuple)
_CONTAINERS = frozenset((list, tuple, dict))
_OF_TABLES = frozenset((dict, bool, int, float, str, type(None)))


@record()
class _Level:
    """A shape around a place."""

    times: int  # the number of containers of this shape around it
    values: list[Value]  # the innermost of these,
    depth: int  # and the number of containers of other shapes around them
    mixed: bool = False  # whether a place around it holds such a list beside something else


class Knots:
    """The closed shapes of a column, and their values.

    Parameters
    ----------
    column : sequence
    most : int, optional
        How many values of a shape are looked at in each round: the types are a guess then.
    """

    def __init__(self, column: Sequence[Value] = (), most: int | None = None) -> None:
        self._most = most
        self.closed: set[Shape] = set()
        self.tagged: set[tuple[type, int]] = set()  # classes and lengths of tuples and lists that begin with a tag
        self.values: dict[Shape, dict[int, Value]] = {}  # by id
        self.inside = False  # whether the current place is in a value of a closed shape
        self._places = 0
        self._labelled: dict[tuple[type, int], list[Value]] = {}  # those in others that all begin with a string
        self._guessing = False
        self.tables = _are_tables(column)  # whether dicts in dicts have run-time keys, as those of a trie
        self.is_node = _nodes_among(column)
        self.look(column)

    # ---- the values of a place, by shape

    def groups(self, column: Sequence[Value]) -> dict[Shape, list[Value]]:
        """Return the distinct containers of a column by their shapes."""
        found: dict[Shape, list[Value]] = {}
        for cls in set(map(type, column)) & _CONTAINERS:
            values = list({id(v): v for v in column if type(v) is cls}.values())
            if cls is list:
                is_node = self.is_node
                found |= {} if is_node is None else self._sized([v for v in values if is_node(v)])
                rest = values if is_node is None else [v for v in values if not is_node(v)]
                found |= {LISTS: rest} if rest else {}
            elif cls is tuple:
                found |= self._tuples(values)
            else:
                found |= {MAPS: values} if self.tables else _dicts(values)
        return found

    def _tuples(self, values: list[Value]) -> dict[Shape, list[Value]]:
        sizes = set(map(len, values))
        if len(sizes) > MOST_LENGTHS or max(sizes) > LONG_TUPLE:
            return {TUPLES: values}
        if len(sizes) > 1 and _is_uniform(values):
            return {TUPLES: values}
        return self._sized(values)

    def _sized(self, values: list[Value]) -> dict[Shape, list[Value]]:
        """Return tuples, or lists, by their length and tag."""
        found: dict[tuple[int, str | None], list[Value]] = {}
        cls = type(values[0]) if values else list
        tagged = {size for kind, size in self.tagged if kind is cls}
        for v in values:
            size = len(v)
            found.setdefault((size, v[0] if size in tagged and type(v[0]) is str else None), []).append(v)
        return {Shape(cls, size, tag): some for (size, tag), some in found.items()}

    def meets(self, column: Sequence[Value], groups: Mapping[Shape, list[Value]]) -> bool:
        """Whether the values of a place are of several shapes or classes."""
        return len(groups) + len(set(map(type, column)) - _CONTAINERS) > 1

    def refers(self, shape: Shape, values: list[Value], mixed: bool) -> bool:
        """Whether values of a place are rows: their shape is closed, and they hold something closed."""
        if shape not in self.closed:
            return False
        if shape.python is dict or shape.tag is not None or mixed or (self.inside and not shape.is_open):
            return True
        if shape.python is list and not shape.is_open:
            return True
        return any(self.holds(column) for _, column in columns_of(shape, values))

    def holds(self, column: Sequence[Value]) -> bool:
        """Whether values hold something of a closed shape."""
        groups = self.groups(column)
        if not self.closed.isdisjoint(groups):
            return True
        return any(self.holds(inner) for shape, of in groups.items() for _, inner in columns_of(shape, of))

    # ---- which shapes are closed

    def look(self, column: Sequence[Value]) -> None:
        """Find the closed shapes of a column, and their values."""
        while True:
            count = -1
            while count != len(self.closed):
                count = len(self.closed)
                self._labelled = {}
                self._walk(column, {})
                for (cls, size), values in self._labelled.items():
                    self._tag(cls, size, values)
            if not self.closed:
                return
            before = len(self.closed) + len(self.tagged)
            self.values = {}
            self.gather([column])
            for shape, of in list(self.values.items()):
                values = list(of.values())
                for _, inner in columns_of(shape, values):
                    self._walk(inner, {shape: _Level(1, values, 1)}, int(shape.is_open))
                if shape.size and shape.tag is None:
                    self._tag(shape.python, shape.size, values)
            for lists in self._lists_by_key():
                self._walk(lists, {})
            if len(self.closed) + len(self.tagged) == before:
                break
        self.values = {s: of for s, of in self.values.items() if of}

    def _tag(self, cls: type, size: int, values: list[Value]) -> None:
        """Distinguish tuples or lists of one length by their first items, if these tell what the others are."""
        if _has_tags(values, self.is_node):
            self.tagged.add((cls, size))
            self.closed.update(Shape(cls, size, v[0]) for v in values)

    def _lists_by_key(self) -> Iterable[list[Value]]:
        """Return the lists under each key of closed dicts: they get the same type."""
        found: dict[Value, list[Value]] = {}
        times = Counter(key for shape in self.values for key in shape.keys or ())
        for shape, of in self.values.items():
            for key in (key for key in shape.keys or () if times[key] > 1):
                found.setdefault(key, []).extend(v[key] for v in of.values() if type(v[key]) is list)
        return found.values()

    def _walk(self, column: Sequence[Value], path: Mapping[Shape, _Level], opened: int = 0) -> None:
        """Look at a place; `opened` is the depth of the innermost container of any length around it."""
        groups = self.groups(column)
        if not groups:
            return
        self._places += 1
        mixed = self.meets(column, groups)
        labelled = {s: of for s, of in groups.items() if _is_labelled(s, of)}
        if len(labelled) > 1:
            self.closed.update(labelled)
        self.closed.update(shape for shape in groups if shape.python is list and not shape.is_open)
        if any(_is_labelled(s, level.values) for s, level in path.items()):
            for shape, values in labelled.items():
                self._labelled.setdefault((shape.python, shape.size or 0), []).extend(values)
        for shape, values in groups.items():
            level = path.get(shape)
            if level is None:
                continue
            again = mixed and (level.mixed or shape.python is not list)
            crowded = again or level.times >= DEEPEST or self._places > MOST_PLACES or self.tables
            if crowded or shape.keys is not None or _is_node(shape, level, values, opened):
                self.closed.add(shape)
        dicts = [shape for shape in groups if shape.keys is not None]
        if len(dicts) > 1 and any(shape.keys is not None for shape in path):
            self.closed.update(dicts)
        if len(path) > MOST_LEVELS:
            self.closed.update(groups)
        if mixed and not self.closed.isdisjoint(groups):
            self.closed.update(s for s in groups if not s.is_open)
        for shape, values in groups.items():
            if shape not in self.closed:
                depth = len(path) + 1
                times = path[shape].times + 1 if shape in path else 1
                met = shape in path and (mixed or path[shape].mixed)
                inside = {**path, shape: _Level(times, values, depth, met)}
                for _, inner in columns_of(shape, values):
                    self._walk(inner, inside, depth if shape.is_open else opened)

    def gather(self, columns: Iterable[Sequence[Value]]) -> None:
        """Collect the values of closed shapes that columns reach."""
        front = list(columns)
        while front:
            new: dict[Shape, list[Value]] = {}
            for column in front:
                self._gather(column, new)
            front = [inner for shape, values in new.items() for _, inner in columns_of(shape, values)]
            self.inside = True
        self.inside = False

    def _gather(self, column: Sequence[Value], new: dict[Shape, list[Value]]) -> None:
        groups = self.groups(column)
        mixed = self.meets(column, groups)
        for shape, values in groups.items():
            if self.refers(shape, values, mixed):
                new.setdefault(shape, []).extend(self.add(shape, values))
                continue
            for _, inner in columns_of(shape, values):
                self._gather(inner, new)

    def add(self, shape: Shape, values: list[Value]) -> list[Value]:
        """Add values of a closed shape; return those that are new."""
        known = self.values.setdefault(shape, {})
        some = [v for v in values if id(v) not in known]
        if self._most is not None:
            some = [] if self._guessing else some[: self._most]
        known.update((id(v), v) for v in some)
        return some

    def fields(self, observe: Callable[[Shape, str, Sequence[Value]], None]) -> None:
        """Call a function for each field of each closed shape, with its values, until no more are found."""
        self._guessing = True
        self.inside, count = True, -1
        while count != (now := sum(map(len, self.values.values()))):
            count = now
            for shape in list(self.values):
                for name, column in columns_of(shape, list(self.values[shape].values())):
                    observe(shape, name, column)


def columns_of(shape: Shape, values: Sequence[Value]) -> list[tuple[str, list[Value]]]:
    """Return the columns of the items of containers of one shape, by field; of an open one, all its elements."""
    if shape.is_open:
        held = (v.values() for v in values) if shape.python is dict else values
        return [(ALL, list(chain.from_iterable(held)))]
    return [(name, [v[at] for v in values]) for name, at in zip(shape.names, shape.places, strict=True)]


def _dicts(values: list[Value]) -> dict[Shape, list[Value]]:
    found: dict[tuple[Value, ...], list[Value]] = {}
    for v in values:
        found.setdefault(tuple(v), []).append(v)
    if len(found) > MOST_KEYS or not all(type(k) is str for keys in found for k in keys):
        return {MAPS: values}
    if len(found) > 1 and _are_alike(values[:8]) and _are_alike(values):
        return {MAPS: values}  # values of one kind
    return {Shape(dict, keys=keys): some for keys, some in found.items()}


def _are_tables(column: Sequence[Value]) -> bool:
    """Whether dicts hold only dicts, in at least three levels, and values of one kind, under many sets of many keys."""
    front = [v for v in column if type(v) is dict]
    sets, kinds, seen, levels = set[tuple[Value, ...]](), set[type](), set[int](), 0
    while front:
        sets.update(map(tuple, front))
        seen.update(map(id, front))
        values = list(chain.from_iterable(map(dict.values, front)))
        kinds.update(map(type, values))
        if len(kinds - {dict}) > 1 or not kinds <= _OF_TABLES:
            return False
        levels += 1
        front = list({id(v): v for v in values if type(v) is dict and id(v) not in seen}.values())
    return levels > 2 and len(sets) > MOST_FORMS and len({k for keys in sets for k in keys}) > MOST_FORMS


def _are_alike(dicts: list[Value]) -> bool:
    """Whether the values in dicts are of one kind."""
    classes = set(map(type, chain.from_iterable(map(dict.values, dicts))))
    return len({_number(cls) for cls in classes} - {type(None)}) < 2


def _number(cls: type) -> type:
    """Return the class that stands for those of like values."""
    return float if cls in (int, bool) else cls


def _begins_with_text(value: Value) -> bool:
    return bool(value) and type(value[0]) is str


def _begins_with_item(value: Value) -> bool:
    return bool(value) and type(value[0]) not in _CONTAINERS


def _nodes_among(column: Sequence[Value]) -> Callable[[Value], bool] | None:
    """Return how nodes, `["name", 1.0, [...]]`, are told from the lists that they hold at places of their own.

    None if lists are not of these two kinds. Nodes begin with a string, or if no list does so, with no container.
    """
    front = [v for v in column if type(v) is list]
    if not any(_begins_with_item(v) and list in map(type, v) for v in front):
        return None
    lists: list[list[Value]] = []
    seen = set[int]()
    while front:
        lists += front
        seen.update(map(id, front))
        inner = [v for v in chain.from_iterable(front) if type(v) in _CONTAINERS]
        front = list({id(v): v for v in inner if id(v) not in seen}.values())
        if {*map(type, front)} - {list}:
            return None
    is_node = _begins_with_text if any(map(_begins_with_text, lists)) else _begins_with_item
    if not all(is_node(v) for v in column if type(v) is list):
        return None
    nodes: dict[Value, list[Value]] = {}
    for v in lists:
        if is_node(v):
            nodes.setdefault((len(v), v[0] if type(v[0]) is str else None), []).append(v)
        elif is_node is _begins_with_item and not all(type(x) is list and is_node(x) for x in v):
            return None
    if len(nodes) > MOST_CONSTANTS:  # the first items are no tags
        nodes = {size: [v for of in nodes.values() for v in of if len(v) == size] for size, _ in nodes}
    elif len(nodes) > len({tag for _, tag in nodes}) and is_node is _begins_with_text:
        return None
    places = [
        {type(x) is list and not is_node(x) for x in items if x is not None}
        for some in nodes.values() for items in zip(*some, strict=True)
    ]  # fmt: skip
    few = len({len(some[0]) for some in nodes.values()}) <= MOST_LENGTHS
    return is_node if few and {True} in places and all(len(kinds) < 2 for kinds in places) else None


def _is_labelled(shape: Shape, values: list[Value]) -> bool:
    return bool(shape.size) and all(type(v[0]) is str for v in values)


def _is_node(shape: Shape, level: _Level, values: list[Value], opened: int) -> bool:
    """Whether tuples in others of their length are nodes of one kind, not parts of another kind."""
    if shape.is_open:
        return False
    return (level.depth < opened and _alike(level.values, values)) or _has_label(level.values, values)


def _alike(outer: list[Value], inner: list[Value]) -> bool:
    """Whether the items of tuples of one length are of like classes."""
    pairs = zip(zip(*outer, strict=True), zip(*inner, strict=True), strict=True)
    return all(not {*map(type, a)}.isdisjoint(map(type, b)) for a, b in pairs)


def _has_label(outer: list[Value], inner: list[Value]) -> bool:
    """Whether some item of tuples of one length is no container, and of the same classes in all of them."""
    pairs = zip(zip(*outer, strict=True), zip(*inner, strict=True), strict=True)
    kinds = (({*map(type, a)}, {*map(type, b)}) for a, b in pairs)
    return any(a == b and a.isdisjoint(_CONTAINERS) for a, b in kinds)


def _is_uniform(values: list[Value]) -> bool:
    """Whether tuples of several lengths have like items at all places, so that they are sequences."""
    if all(type(v[0]) is str for v in values if v) and any(type(x) is not str for v in values for x in v):
        return False  # the first items may be tags
    longest = max(map(len, values))
    kinds = [{_number(type(v[k])) for v in values if len(v) > k} for k in range(longest)]
    return all(not kinds[0].isdisjoint(some) for some in kinds)


def _has_tags(values: list[Value], is_node: Callable[[Value], bool] | None) -> bool:
    """Whether the first items of tuples, or nodes, of one length tell what the others are."""
    if not {str}.issuperset({type(v[0]) for v in values}) or len(found := {v[0] for v in values}) > MOST_CONSTANTS:
        return False

    def kind(x: Value) -> object:
        return is_node is not None and is_node(x) if type(x) is list else type(x)

    kinds = [[{kind(v[k]) for v in values if v[0] == tag} for k in range(1, len(values[0]))] for tag in found]
    return any(a.isdisjoint(b) for one in kinds for other in kinds for a, b in zip(one, other, strict=True))
