"""Arguments of calls, bound to the signature of the called function as Python would bind them.

In: a row (`tables`), which names the parameters that its handler honours, and the values that a call gives. Out:
`Args`, from which the handler reads. Positions, defaults, and all other parameters come from the function's own
signature (`signatures`). An argument for a parameter that is not honoured is rejected, with the caret under it, unless
it has no effect.
"""

from __future__ import annotations

import ast
import copy
import inspect
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.advice import near
from acronumba.frontend.attributes import not_none
from acronumba.frontend.calls.signatures import UNSET, signature_of
from acronumba.frontend.calls.tables import Row
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.maps import DictVal
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


Node = ast.AST | None
Parameters = Mapping[str, inspect.Parameter]

# Values, besides the default, with which a parameter that is not honoured has no effect: results are new plain arrays,
# whose layout in memory is not observable in the language.
IDLE: Mapping[str, tuple[Any, ...]] = {
    "order": ("C", "F"), "subok": (False, True), "device": (None, "cpu"), "casting": ("same_kind", "unsafe"),
    "copy": (None, True), "optimize": (False, True, "greedy", "optimal"),
}  # fmt: skip


def bind(
    w: Walker, what: str, parameters: Parameters, args: Sequence[Val], kwargs: Mapping[str, Val]
) -> tuple[dict[str, Val], dict[str, Node]]:
    """Bind the arguments of a call to parameters as Python does.

    Returns the value of each parameter that was given one (`*rest` as a tuple, `**others` as a dict), and the AST node
    of each. An argument that does not fit is rejected, with the caret under it.
    """
    kinds = {name: p.kind for name, p in parameters.items()}
    plain = [n for n, k in kinds.items() if k in (inspect.Parameter.POSITIONAL_ONLY, _EITHER)]
    rest = next((n for n, k in kinds.items() if k == inspect.Parameter.VAR_POSITIONAL), None)
    others = next((n for n, k in kinds.items() if k == inspect.Parameter.VAR_KEYWORD), None)
    places = [place_of(w, k, len(args)) for k in range(len(args))]
    if len(args) > len(plain) and rest is None:
        seen = f"{len(args)} arguments for {what}({', '.join(plain)})"
        raise w.reject("ACR203", places[len(plain)], seen=seen)
    values: dict[str, Val] = dict(zip(plain, args, strict=False))
    where = dict(zip(plain, places, strict=False))
    if rest is not None:
        values[rest] = TupleVal(tuple(args[len(plain) :]))
        where[rest] = next(iter(places[len(plain) :]), w.here)
    extra: dict[str, Val] = {}
    for key, val in kwargs.items():
        place = place_of(w, key, len(args))
        if kinds.get(key) in (_EITHER, inspect.Parameter.KEYWORD_ONLY):
            if key in values:
                raise w.reject("ACR203", place, seen=f"{key} given twice to {what}")
            values[key], where[key] = val, place
        elif others is not None:
            extra[key] = val
        elif kinds.get(key) == inspect.Parameter.POSITIONAL_ONLY:
            seen = f"{key}= of {what}, which is given by its place alone"
            raise w.reject("ACR203", place, seen=seen, rewrite=f"leave out `{key}=`")
        else:
            raise w.reject("ACR203", place, seen=f"{what} has no parameter {key}", rewrite=near(key, kinds))
    if others is not None:
        values[others] = DictVal(tuple(extra), tuple(extra.values()))
    return values, where


_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


def place_of(w: Walker, which: int | str, count: int) -> Node:
    """Return the AST node of an argument of the current call: of a keyword, or of one of `count` positional ones."""
    node = w.here
    if not isinstance(node, ast.Call) or (isinstance(which, int) and which >= count):
        return node
    if isinstance(which, str):
        named = [kw for kw in node.keywords if kw.arg == which]
        return next(iter([*named, *(kw.value for kw in node.keywords if kw.arg is None)]), node)
    stars = [k for k, a in enumerate(node.args) if isinstance(a, ast.Starred)]
    from_end = count - which
    if not stars or from_end < len(node.args) - stars[-1]:
        k = len(node.args) - from_end
        return node.args[k] if k >= 0 else node
    return node.args[stars[0]]


class Args:
    """The bound arguments of a call, by the handler's names of the parameters that it honours."""

    def __init__(self, w: Walker, row: Row, args: Sequence[Val], kwargs: Mapping[str, Val]) -> None:
        self.w, self.what = w, row.what
        self.places = [place_of(w, k, len(args)) for k in range(len(args))]  # the nodes of positional arguments
        signature = signature_of(row.signature)
        kwargs = {row.aliases.get(k, k) if k not in signature.parameters else k: v for k, v in kwargs.items()}
        values, where = bind(w, row.what, signature.parameters, args, kwargs)
        names = row.names()
        self.values: dict[str, Val] = {}
        self.where: dict[str, Node] = {}
        self.optional: set[str] = set()  # parameters that may be None
        self.into: Val | None = None  # the array of `out`, to be written to
        for theirs, p in signature.parameters.items():
            mine = names.get(theirs)
            if mine is None:
                if theirs in values and p.kind == inspect.Parameter.VAR_KEYWORD:
                    others = values[theirs]
                    if isinstance(others, DictVal) and others.keys:
                        key = others.keys[0]
                        raise w.reject("ACR202", place_of(w, key, len(args)), seen=f"{key}= of {row.what}")
                    continue
                if theirs in values and p.kind != inspect.Parameter.VAR_POSITIONAL:
                    self._idle(p, values[theirs], where[theirs])
                elif theirs in values and values[theirs].children():
                    raise w.reject("ACR202", where[theirs], seen=f"{len(args)} arguments for {row.what}")
                continue
            self.where[mine] = where.get(theirs, w.here)
            if theirs in values:
                self.values[mine] = values[theirs]
            elif p.default is inspect.Parameter.empty:
                raise w.reject("ACR203", seen=f"{row.what} without {theirs}")
            if p.default in (None, UNSET):
                self.optional.add(mine)
        self.given = frozenset(self.values)
        for theirs, mine in names.items():
            if mine not in self.values:
                self.values[mine] = _default(w, signature.parameters[theirs].default)

    def _idle(self, p: inspect.Parameter, val: Val, place: Node) -> None:
        """Reject the argument of a parameter that is not honoured, unless it certainly has no effect."""
        value = self.w.static(val)
        if not any(value is v or (type(value) is type(v) and value == v) for v in (p.default, *IDLE.get(p.name, ()))):
            seen = f"{self.w.describe(val)} for {p.name} of {self.what}"
            raise self.w.reject("ACR202", place, seen=seen, rewrite=REWRITES.get(p.name, "leave it out"))

    def __getitem__(self, name: str) -> Val:
        return self.values[name]

    def only(self, names: Sequence[str]) -> Args:
        """Return a copy with some of the arguments."""
        out = copy.copy(self)
        out.values = {k: self.values[k] for k in names}
        return out

    def replaced(self, name: str, val: Val) -> Args:
        """Return a copy with one argument replaced."""
        out = copy.copy(self)
        out.values = {**self.values, name: val}
        return out

    @property
    def rest(self) -> tuple[Val, ...]:
        """The arguments of the `*` parameter."""
        name = next(n for n in self.values if n.startswith("*"))
        val = self.values[name]
        assert isinstance(val, TupleVal)
        return val.items

    def is_none(self, name: str) -> bool:
        return isinstance(self.values[name], NoneVal)

    def tensor(self, name: str) -> Tensor:
        with self.w.at_node(self.where[name]):
            val = self.values[name]
            return self.w.ops.as_tensor(not_none(self.w, val))

    def tensors(self, name: str) -> list[Tensor]:
        """Return the arguments of the `*` parameter as arrays."""
        with self.w.at_node(self.where[name]):
            return [self.w.ops.as_tensor(v) for v in self.rest]

    def static(self, name: str) -> Any:
        """Return the value of an argument that must be known at compile time."""
        out = self.w.static(self.values[name])
        if out is NOT_CONST:
            seen = f"{name}= of {self.what} is known only at run time"
            raise self.w.reject("ACR403", self.where[name], seen=seen)
        return out

    def choice(self, name: str, *choices: Any) -> Any:
        """Return an argument that must be one of some constants, or of one of some types."""
        value = self.w.static(self.values[name])
        kinds = tuple(c for c in choices if isinstance(c, type))
        known = value is not NOT_CONST and any(type(value) is type(c) and value == c for c in choices)
        if not known and not isinstance(value, kinds):
            seen = f"{self.w.describe(self.values[name])} for {name} of {self.what}"
            texts = (c.__name__ if isinstance(c, type) else repr(c) for c in choices)
            raise self.w.reject("ACR202", self.where[name], seen=seen, rewrite=f"use {' or '.join(texts)}")
        return value

    def flag(self, name: str) -> bool:
        """Return an argument that is true or false."""
        value = self.static(name)
        if not isinstance(value, int):
            raise self.w.reject("ACR301", self.where[name], seen=f"{name}={value!r}", rewrite="use True or False")
        return bool(value)

    def whole(self, name: str) -> int:
        """Return an argument that is an integer."""
        return self._whole(name, self.static(name))

    def _whole(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise self.w.reject("ACR301", self.where[name], seen=f"{value!r} for {name} of {self.what}",
                                rewrite="use an int")  # fmt: skip
        return operator.index(value)

    def axis(self, name: str, rank: int) -> int:
        """Return one axis, counted from the front."""
        axis = self.whole(name)
        with self.w.at_node(self.where[name]):
            return self.w.ops.axes_of(axis, rank)[0]

    def axes(self, name: str, rank: int, lists: bool = False) -> tuple[int, ...]:
        """Return one axis, or a tuple of them (a list only if `lists`), in the order given, counted from the front."""
        value, val = self.static(name), self.values[name]
        if isinstance(value, tuple) and (lists or not val.is_list):
            axes = tuple(self._whole(name, v) for v in value)
        else:
            axes = (self._whole(name, value),)
        with self.w.at_node(self.where[name]):
            self.w.ops.axes_of(axes, rank)
        return tuple(a % rank for a in axes)

    def reduced(self, name: str, rank: int) -> tuple[int, ...]:
        """Return the axes of a reduction in increasing order; None means all axes."""
        return tuple(range(rank)) if self.static(name) is None else tuple(sorted(self.axes(name, rank)))

    def dtype(self, name: str = "dtype") -> str | None:
        value = self.static(name)
        if value is None:
            return None
        try:
            dtype = np.dtype(value)
        except (TypeError, ValueError):
            raise self.w.reject("ACR310", self.where[name], seen=repr(value)) from None
        with self.w.at_node(self.where[name]):
            return self.w.ops.dtype_name(dtype)

    def may_cast(self, tensors: Sequence[Tensor], dtype: str | None) -> None:
        """Reject a dtype that the argument `casting` does not allow, as NumPy does."""
        rule = self.choice("casting", "no", "equiv", "safe", "same_kind", "unsafe")
        for t in tensors:
            if dtype is not None and not np.can_cast(t.type.dtype, dtype, rule):
                raise self.w.reject(
                    "ACR301", self.where["dtype"], seen=f"{t.type.dtype} to {dtype} with casting={rule!r}",
                    rewrite="casting='unsafe'",
                )  # fmt: skip


def _default(w: Walker, value: Any) -> Val:
    if isinstance(value, tuple):
        return TupleVal(tuple(_default(w, v) for v in value))
    return NoneVal() if value is UNSET else w.constant(value)


REWRITES = {
    "out": "leave it out, and give the result a name", "dtype": "x.astype(dtype)", "where": "np.where(where, x, 0)",
    "initial": "combine it with the result", "mode": "np.clip the indices", "ndmin": "np.expand_dims(x, 0)",
    "correction": "use ddof", "axes": "transpose the arrays first", "mod": "pow(x, y) % mod",
}  # fmt: skip
