"""The arguments of a call, bound to the model's signature.

In: the function, and the arguments of `Model.batch`. Out: a `Call`: one column per positional parameter, and the shared
parameters; or an error in terms of the signature.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from acronumba.api.columns import as_columns, is_packed
from acronumba.api.snapshot import Snapshot
from acronumba.data.shared import SharedTree, describe
from acronumba.data.source_guard import SourceGuard
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.locks import undivided
from acronumba.pipeline.boundary import def_loc
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.api.kept import Kept
    from acronumba.data.hints import Hint

clock = itertools.count()  # of calls
_NONE: Sequence[str] = ()


@record(kw_only=True, eq=False)
class Call:
    """The arguments of a batch, checked."""

    columns: tuple[Value, ...]  # one sequence per positional parameter
    shared: Mapping[str, Value]  # every keyword-only parameter
    frozen: frozenset[str]  # names of the shared parameters that are (immutable) snapshots
    count: int  # instances
    numbers: Sequence[int] | None = None  # numbers of the instances, if they are a part of a mini-batch
    at: int = field(default_factory=clock.__next__)  # when it began, by `clock`
    same: Kept | None = None  # stands for `shared` in all calls with these values, unchanged
    _trees: list[SharedTree] = field(default_factory=list)  # see `tree`

    def tree(self) -> SharedTree:
        """Return the structure of the shared parameters, computed once for all parts of a call."""
        if not self._trees:
            self._trees.append(describe(self.shared))
        return self._trees[0]

    def again(self) -> Call:
        """Return the call with packs replaced by their instances, to be packed anew."""
        return replace(self, columns=tuple(c.again() if is_packed(c) else c for c in self.columns))

    def some(self, members: Sequence[int]) -> Call:
        """Return the call for some of the instances."""
        columns = tuple(_some(column, members) for column in self.columns)
        numbers = members if self.numbers is None else [self.numbers[k] for k in members]
        return replace(self, columns=columns, count=len(members), numbers=numbers)


def _columns(count: int) -> str:
    return f"{count} positional argument{'' if count == 1 else 's'}"


def _some(column: Value, members: Sequence[int]) -> Value:
    return column.some(members) if hasattr(column, "originals") else [column[k] for k in members]


class Signature:
    """The parameters of a model; `by_name`: those without a column may be given by name, for all instances."""

    def __init__(self, fn: Callable[..., Any], bound: Mapping[str, Value], *, by_name: bool = False) -> None:
        self.fn, self.bound, self._by_name = fn, bound, by_name
        self.name = getattr(fn, "__qualname__", repr(fn))
        loc = def_loc(fn)
        try:
            parameters = inspect.signature(fn, follow_wrapped=False).parameters.values()
        except (TypeError, ValueError):
            raise reject("ACR210", loc, seen=f"{self.name}, of class {type(fn).__name__}") from None
        if not isinstance(fn, types.FunctionType):
            raise reject("ACR210", loc, seen=f"{self.name}, of class {type(fn).__name__}")
        variadic = [p for p in parameters if p.kind is p.VAR_KEYWORD]
        if variadic:
            raise reject("ACR208", loc, seen=", ".join(map(str, variadic)), message="`**kw` is not supported")
        self._source_guard = SourceGuard()
        self._source_guard.function(fn)
        by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.positional = [p for p in parameters if p.kind in by_position and p.name not in bound]
        shared = [p for p in parameters if p.kind is p.KEYWORD_ONLY or p.name in bound]
        self.shared = {p.name: p.replace(default=bound.get(p.name, p.default)) for p in shared}
        self.rest = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self._names = [p.name for p in self.positional]
        self._defaults = {name: p.default for name, p in self.shared.items()}
        if not self.positional and not self.rest:
            raise reject(
                "ACR208",
                loc,
                seen="no positional parameter",
                message="a model needs a parameter that varies by instance",
            )

    def is_valid(self, fn: Callable[..., Any]) -> bool:
        """Whether these are still the parameters of the function."""
        return fn is self.fn and self._source_guard.is_valid()

    def bind(self, columns: Sequence[Value], shared: Mapping[str, Value]) -> Call:
        """Bind the arguments, or raise an error; a parameter without a column has its default for all instances."""
        names = self._names
        if self.rest is not None:  # `*args`: the call says how many
            names = [*names, *(f"{self.rest.name}[{k}]" for k in range(len(columns) - len(names)))]
        if not columns or len(columns) > len(names):
            extra = len(columns) > len(names) and [name for name in self.shared if name not in shared]
            by_name = f"pass shared values by name: `{', '.join(f'{name}=...' for name in extra)}`" if extra else ""
            raise self._wrong(f"takes a column for each of: {', '.join(names)}", _columns(len(columns)), by_name)
        if shared.keys() <= self._defaults.keys():
            own, defaults = _NONE, self._defaults
        else:
            own = self._given_by_name(len(columns), names, shared)
            defaults = {**self._defaults, **dict.fromkeys(own, inspect.Parameter.empty)}
        values: dict[str, Value] = {}
        frozen = set()
        for name, default in defaults.items():
            value = shared.get(name, default)
            if value is inspect.Parameter.empty:
                raise self._wrong(
                    f"the shared parameter `{name}` is missing", ", ".join(shared) or "no shared parameter"
                )
            if type(value) is Snapshot or is_packed(value):
                value = value.value if type(value) is Snapshot else value.once()
                frozen.add(name)
            values[name] = value
        given = as_columns(columns, [name for name in names if name not in own] if own else names, self.hint)
        count, *others = map(len, given)
        for name, length in zip(names[1:], others, strict=False):
            if length != count:
                seen = f"{names[0]}: {count} instances, {name}: {length}"
                raise reject("ACR707", message=f"{self.name}: the columns have different lengths", seen=seen)
        for p in self.positional[len(given) :]:
            if p.default is p.empty and p.name not in own:
                raise self._wrong(f"the column for `{p.name}` is missing", _columns(len(given)))
        return Call(columns=tuple(given), shared=values, frozen=frozenset(frozen), count=count)

    def _given_by_name(self, columns: int, names: Sequence[str], shared: Mapping[str, Value]) -> Sequence[str]:
        """Return the positional parameters that all instances share in this call, as they are given by name."""
        free = {p.name: p for p in self.positional[columns:] if self._by_name and p.kind is not p.POSITIONAL_ONLY}
        for name in shared:
            if self._by_name and name in names[:columns]:
                raise self._wrong(f"`{name}` has a column already", f"{name}=...")
            if name not in self.shared and name not in free:
                if name in names:
                    by_position = f"`{name}` varies by instance: pass its column by position"
                    raise self._wrong(by_position, f"{name}=...", self._starred(shared))
                near = difflib.get_close_matches(name, [n for n in self.shared if n not in shared], 1)
                rewrites = [f"did you mean `{n}`?" for n in near]
                raise self._wrong(f"`{name}` is not a parameter", f"{name}=...", *rewrites)
        return [name for name in free if name in shared]

    def hint(self, name: str) -> Hint:
        """Return the hint for classes and arrays from the annotation of a parameter."""
        with undivided:
            from acronumba.data.hints import argument_hint
        return argument_hint(self.fn, name)

    def _starred(self, shared: Mapping[str, Value]) -> str:
        """Return the `def` line that makes the parameters passed by name shared; "" if no positional one is left."""
        varying = [p.name for p in self.positional if p.name not in shared]
        names = [*varying, "*", *(p.name for p in self.positional if p.name in shared), *self.shared]
        return f"`def {self.name}({', '.join(names)})`, if all instances share it" if varying else ""

    def _wrong(self, message: str, seen: str, rewrite: str = "") -> Exception:
        if self.positional and self.positional[0].name == "self":  # a method: nothing tells the object
            columns = ", ".join(p.name for p in self.positional[1:])
            rewrite = f"a function of both: `model(lambda {columns}, *, net: net.{self.fn.__name__}({columns}))`"
        if not rewrite and self.shared.keys() <= self.bound.keys():
            rewrite = "pass a sequence for each parameter, by position"
        return reject("ACR706", message=f"{self.name}: {message}", seen=seen, rewrite=rewrite)
