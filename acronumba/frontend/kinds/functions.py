"""Functions, classes, methods and modules; one of several functions, chosen at run time."""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from acronumba.frontend.join_shapes import (
    ChoiceShape,
    JoinShape,
    Parameter,
    PartsShape,
    StaticShape,
    TypeShape,
    choices_of,
)
from acronumba.frontend.kinds.numbers import ALWAYS, NoneVal, Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Constant, Val, Value, all_same, part_shapes
from acronumba.frontend.source import Source
from acronumba.ir import nodes as ir
from acronumba.ir.functions import is_function_class, known_function
from acronumba.ir.types import NONE, FunctionT, MethodT, NoneT, StructT, Type, members, union
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks, Cases
    from acronumba.frontend.kinds.unions import UnionVal
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


# Methods of models beside the plain call.
OF_MODELS = frozenset(("batch", "check", "explain", "on", "stages", "trace", "value_and_grad", "with_options"))


NAMES = ("__name__", "__qualname__", "__module__")  # attributes of functions
# Modules whose functions are walked like the user's, but whose errors and notes refer to the user's call.
LIBRARY = (
    "acronumba.nn", "acronumba.random", "acronumba.compressed", "acronumba.frontend.library.", "acronumba.torch.rows.",
    "acronumba.torch.implements",
)  # fmt: skip


@record(eq=False, frozen=False)
class Static(Value):
    """A module, class, builtin, dtype or other object that exists only at compile time."""

    value: Any

    compares_first = 1

    def describe(self, w: Blocks) -> str:
        return getattr(self.value, "__name__", None) or repr(self.value)[:60]

    def static(self, w: Words) -> Constant:
        return self.value

    def example(self, w: Words) -> Constant:
        return self.value

    def static_key(self, w: Walker, which: bool) -> object:
        return id(self.value)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, Static)
        a, b = self.value, other.value
        return a is b or (type(a) is type(b) and not isinstance(a, type) and _equal(a, b))

    def shared_by_calls(self) -> Value:
        return self

    def stored_type(self, w: Words) -> Type | None:
        return function_type(self.value)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return () if t == self.stored_type(w) else None

    @property
    def is_choosable(self) -> bool:
        return callable(self.value)

    def truth(self, w: Walker) -> Num:
        return number(True)

    def binary(self, w: Walker, op: ast.operator, left: Val, right: Val) -> Val | None:
        """`A | B`, the second argument of `isinstance`; flags of patterns."""
        flags = left.static(w), right.static(w)
        if isinstance(op, ast.BitOr) and all(isinstance(v, re.RegexFlag) for v in flags):
            return Static(flags[0] | flags[1])
        kinds = isinstance(op, ast.BitOr) and all(isinstance(v, Static) or v.static(w) is None for v in (left, right))
        return TupleVal((left, right)) if kinds else None

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        return tuple(map(w.constant, self.value)) if isinstance(self.value, enum.EnumMeta) else None


def function_type(value: Constant) -> FunctionT | None:
    """Return the type of a function or class as data; None if it exists only at compile time."""
    known = known_function(value) if is_function_class(type(value)) else ""
    return None if isinstance(known, str) else FunctionT(known)


def _equal(a: Constant, b: Constant) -> bool:
    try:
        return bool(a == b)
    except Exception:  # a comparison of foreign objects may raise anything
        return False


@record(eq=False, frozen=False)
class Func(Value):
    """A function of the user: an object, or a nested definition with its scope."""

    source: Source
    globals: dict[str, Any]
    closure: dict[str, Any]  # free variables of a function object: cells
    scope: tuple[Any, ...] | None = None  # scope that a nested definition belongs to
    fn: Any = None  # the function object
    defaults: tuple[Val, ...] = ()  # of a nested definition, positional
    kw_defaults: dict[str, Val] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.source.file, self.source.node.lineno, self.source.node.col_offset, self.scope, id(self.fn))

    @property
    def code(self) -> Any:
        """Key by which recursion is detected: the definition, its globals and its closure."""
        return (self.source.node, id(self.globals), *map(id, self.closure.values()))

    @property
    def of_library(self) -> bool:
        return (self.globals.get("__name__") or "").startswith(LIBRARY)

    family = "function"
    immutable = True
    is_function = True
    is_choosable = True
    compares_first = 2

    def describe(self, w: Blocks) -> str:
        return f"function {self.source.name}"

    def static_key(self, w: Walker, which: bool) -> object:
        return self.code, self.scope if self.scope is None else self.scope[1:]

    def form_key(self, w: Walker) -> object:
        return self.static_key(w, True)

    def children(self) -> tuple[Val, ...]:
        return *self.defaults, *self.kw_defaults.values()

    def with_children(self, children: Sequence[Val]) -> Value:
        n = len(self.defaults)
        named = dict(zip(self.kw_defaults, children[n:], strict=True))
        return replace(self, defaults=tuple(children[:n]), kw_defaults=named)

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Func)
        return self.key == other.key

    def shared_by_calls(self) -> Value:
        return self

    def truth(self, w: Walker) -> Num:
        return number(True)

    def stored_type(self, w: Words) -> Type | None:
        return None if self.fn is None or self.fn in w.unwrapped else function_type(self.fn)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return () if t == self.stored_type(w) else None

    def attribute(self, w: Walker, name: str) -> Val | None:
        if name in OF_MODELS:
            raise w.reject("ACR205", seen=f".{name}")
        return w.constant(getattr(self.fn, name)) if name in NAMES and self.fn not in (None, *w.unwrapped) else None

    def functions(self) -> list[Func]:
        return [self, *Value.functions(self)]


@record()
class MethodName:
    """The method of this name of the first argument of its call: `x.sum`, `stack.append`."""

    name: str

    def __repr__(self) -> str:
        return f"method {self.name}"


@record(eq=False, frozen=False)
class Partial(Value):
    """A function with bound arguments: a method and its object, `functools.partial`, or `super(cls, obj)`."""

    func: Val
    args: tuple[Val, ...]
    names: tuple[str, ...] = ()
    named: tuple[Val, ...] = ()
    is_method: bool = False  # a method of the user's, bound to its object

    is_function = True
    is_choosable = True

    def describe(self, w: Blocks) -> str:
        return f"bound {w.describe(self.func)}"

    def static_key(self, w: Walker, which: bool) -> object:
        return self.names, *(v.static_key(w, which) for v in self.children())

    def form_key(self, w: Walker) -> object:
        return "partial", self.func.form_key(w), len(self.args), self.names

    def children(self) -> tuple[Val, ...]:
        return self.func, *self.args, *self.named

    def with_children(self, children: Sequence[Val]) -> Value:
        n = 1 + len(self.args)
        return replace(self, func=children[0], args=tuple(children[1:n]), named=tuple(children[n:]))

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Partial)
        return self.func.alike(other.func) and len(self.args) == len(other.args) and self.names == other.names

    def stored_type(self, w: Words) -> Type | None:
        known = self.func.stored_type(w) if self.is_method else None
        owner = self.args[0].stored_type(w) if isinstance(known, FunctionT) else None
        if not isinstance(known, FunctionT) or owner is None or known.fn is None:
            return None
        return MethodT(known.fn, owner) if all(isinstance(m, StructT) for m in members(owner)) else None

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        known = self.func.stored_type(w) if self.is_method else None
        if not isinstance(t, MethodT) or not isinstance(known, FunctionT) or t.fn is not known.fn:
            return None
        return w.to_words(self.args[0], t.inner)

    def truth(self, w: Walker) -> Num:
        return number(True)


def method_of(owner: Val, name: str) -> Partial:
    """Return a method of an object, which is looked up when it is called."""
    return Partial(Static(_named(name)), (owner,))


@cache
def _named(name: str) -> MethodName:
    return MethodName(name)


@record(eq=False, frozen=False)
class OneOfFunctions(Value):
    """One of several functions, classes or shared objects such as modules, chosen at run time by a number.

    Some of them, but not all, may be None.
    """

    options: tuple[Val, ...]
    index: Num
    of: UnionVal | None = None  # the union of which this is the class: `type(x)`

    immutable = True
    is_function = True
    is_choosable = True
    is_several = True

    def describe(self, w: Blocks) -> str:
        return " or ".join(map(w.describe, self.options))

    def alternatives(self, w: Words) -> Cases[Callable[[], Val]]:
        for k in range(len(self.options)):
            last = k == len(self.options) - 1
            yield ALWAYS if last else w.scalar("eq", self.index, number(k)), partial(self.options.__getitem__, k)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, OneOfFunctions)
        return all_same(self.options, other.options) and self.index.same(other.index)

    def stored_type(self, w: Words) -> Type | None:
        found = [v.stored_type(w) for v in self.options]
        return None if None in found else union(*(t for t in found if t is not None))

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...]:
        return w.words_of_cases(t, self.alternatives(w), lambda read: w.to_words(read(), t))

    def join_shape(self, w: Merge) -> JoinShape:
        return ChoiceShape(tuple(c for v in self.options for c in choices_with_none(v.join_shape(w))))

    def truth(self, w: Walker) -> Num:
        return w.negate(self.is_one_of(w, self.which_are_none))

    @property
    def which_are_none(self) -> tuple[bool, ...]:
        return tuple(isinstance(v, NoneVal) for v in self.options)

    def is_one_of(self, w: Words, which: Sequence[bool]) -> Num:
        """Return whether one of these options is chosen."""
        out: Num = number(False)
        for k, one in enumerate(which):
            out = w.either(out, w.scalar("eq", self.index, number(k))) if one else out
        return out

    def some_of(self, w: Words, kept: Sequence[bool]) -> Val | None:
        """Return one of some options, of which it certainly is one; None if there are none."""
        options = tuple(v for v, keep in zip(self.options, kept, strict=True) if keep)
        if len(options) < 2:
            return next(iter(options), None)
        index = number(0)
        for k, place in enumerate(k for k, keep in enumerate(kept) if keep):
            index = w.select(w.scalar("eq", self.index, number(place)), number(k), index)
        return OneOfFunctions(options, index)

    def split(self, w: Words, wanted: Callable[[Type], bool]) -> tuple[Num, Val, Val] | None:
        """Split into None and the others where None is tested for."""
        none = self.which_are_none
        if not any(none) or not wanted(NONE) or wanted(StructT(object)):
            return None
        rest = self.some_of(w, [not n for n in none])
        assert rest is not None
        return self.is_one_of(w, none), NoneVal(), rest

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        return ChoiceShape(tuple(c for a in part_shapes(w, self.options, parameter) for c in choices_with_none(a)))

    def children(self) -> tuple[Val, ...]:
        return self.options

    def with_children(self, children: Sequence[Val]) -> Value:
        return OneOfFunctions(tuple(children), self.index)


def options_of(val: Val) -> tuple[Val, ...]:
    return val.options if isinstance(val, OneOfFunctions) else (val,)


def choices_with_none(a: JoinShape) -> tuple[StaticShape | PartsShape, ...]:
    """Return the alternatives of a join shape that holds one of several functions, or None; else none."""
    if isinstance(a, TypeShape) and isinstance(a.type, NoneT):
        return (StaticShape(NoneVal()),)
    return (a,) if isinstance(a, StaticShape) and isinstance(a.val, NoneVal) else choices_of(a)


def can_be_chosen(items: Sequence[Val]) -> bool:
    """Whether one of some values can be chosen at run time by a number: functions or modules, beside which is None."""
    return any(v.is_choosable for v in items) and all(v.is_choosable or isinstance(v, NoneVal) for v in items)
