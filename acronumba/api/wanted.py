"""What gradients are wanted of, and how they are summed.

In: the choices of `value_and_grad` and the arguments of a call. Out: a `Wanted`: the float arrays by identity, the
structures that hold them, and per instance the adjoints that its tape gives (`Totals`).
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.api.arguments import Call
from acronumba.api.structures import float_arrays, part_at, steps_of, structured
from acronumba.data.row_grad import RowGrad
from acronumba.errors.codes import refuse
from acronumba.ir.types import TensorT

if TYPE_CHECKING:
    from acronumba.analysis import active
    from acronumba.ir.tape import Tape
    from acronumba.pipeline.compiled import Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What was asked for."""

    wrt: tuple[str, ...] | None  # paths; None: all keyword-only parameters
    single: bool  # whether one path was named by itself
    reduce: str
    aux: bool
    sparse: tuple[str, ...] | bool

    @classmethod
    def of(cls, wrt: str | Sequence[str] | None, reduce: str, aux: bool, sparse: bool | Sequence[str]) -> Choices:
        """Return the choices, or raise what is wrong with them."""
        if reduce not in ("mean", "sum"):
            raise refuse("ACR706", message='`reduce` is "mean" or "sum"', seen=repr(reduce))
        paths = (wrt,) if isinstance(wrt, str) else None if wrt is None else tuple(wrt)
        if paths is not None and not paths:
            raise refuse("ACR706", message="`wrt` names nothing", rewrite='value_and_grad(f, wrt="p")')
        for path in paths or ():
            steps_of(path)
        rows = sparse if isinstance(sparse, bool) else (sparse,) if isinstance(sparse, str) else tuple(sparse)
        return cls(wrt=paths, single=isinstance(wrt, str), reduce=reduce, aux=aux, sparse=rows)


DEFAULT = Choices.of(None, "mean", False, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the tape of an instance gives."""

    of: Mapping[int, Any]  # gradients by the id of the array
    rows: Mapping[int, Any]  # ids of arrays that are read by rows alone: which rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What gradients are wanted of."""

    paths: tuple[str, ...]
    single: bool
    shared: tuple[Any, ...]  # per path: the value that it leads to; None of a positional parameter
    places: tuple[tuple[int, tuple[str, ...]] | None, ...]  # per path: a positional parameter, and the steps into it
    arrays: Mapping[int, Any]  # the float arrays of shared values, by id
    sparse: frozenset[int] | bool  # ids of tables whose gradients are wanted by rows; True: of all such

    def check(self, compiled: Compiled, leaves: Sequence[Any], width: int) -> None:
        """Refuse a program in which a gradient gets lost."""
        if (refusal := compiled.active(self.in_program(compiled, leaves), width).refusal()) is not None:
            raise refusal

    def in_program(self, compiled: Compiled, leaves: Sequence[Any]) -> active.Wanted:
        """Return the same by the numbers that shared values and parameters have in a program."""
        from acronumba.analysis import active

        shared = compiled.program.shared
        tensors = {k for k, p in enumerate(shared) if isinstance(p.type, TensorT) and id(leaves[k]) in self.arrays}
        others = (k for k, p in enumerate(shared) if not isinstance(p.type, TensorT))
        packed = {k for k in others if any(id(a) in self.arrays for a in float_arrays(leaves[k]))}
        params = frozenset(place[0] for place in self.places if place is not None)
        return active.Wanted(shared=frozenset(tensors), packed=frozenset(packed), params=params)

    def totals(self, tape: Tape, loss: Any, instance: Sequence[Any], *, wide: bool) -> Totals:
        """Return the gradients that an instance has a part in; a loss that is no array is a constant."""
        if loss is None:
            return Totals(of={}, rows={})
        places = [(path, *place) for path, place in zip(self.paths, self.places, strict=True) if place]
        own = {id(a) for path, k, steps in places for a in float_arrays(part_at(instance[k], path, steps))}
        numbers = {n for n, x in tape.given.items() if id(x) in self.arrays or id(x) in own}
        found = tape.pull({tape.number(loss): 1.0}, numbers, wide=wide)
        out: dict[int, Any] = {}
        for n in sorted(found):
            key = id(tape.given[n])
            out[key] = out[key] + found[n] if key in out else found[n]
        rows = {id(tape.given[n]): at for n in numbers if self.sparse and (at := tape.rows_read(n)) is not None}
        return Totals(of=out, rows=rows)

    def tensors(self, compiled: Compiled, leaves: Sequence[Any]) -> dict[int, int] | None:
        """Return the shared tensors of a program that are wanted, with the ids of their arrays.

        None if gradients are wanted of more than shared tensors, or by rows.
        """
        if self.sparse or any(place is not None for place in self.places):
            return None
        shared = compiled.program.shared
        others = [k for k, p in enumerate(shared) if not isinstance(p.type, TensorT)]
        if any(id(a) in self.arrays for k in others if k < len(leaves) for a in float_arrays(leaves[k])):
            return None
        tensors = (k for k, p in enumerate(shared[: len(leaves)]) if isinstance(p.type, TensorT))
        return {k: id(leaves[k]) for k in tensors if id(leaves[k]) in self.arrays}

    def structures(
        self, totals: Mapping[int, Totals], parts: Sequence[Totals], share: float, call: Call, *, wide: bool, one: bool
    ) -> Any:
        """Return the gradients of a mini-batch in their structures.

        Parameters
        ----------
        totals, parts
            Of instances that did not fail, and of those of them that ran together: their arrays become those of the
            gradients.
        one
            Whether it is a call with one instance: gradients of its own arrays are in no list.
        """
        sums: dict[int, Any] = {}

        def scaled(g: Any) -> Any:
            return g if share == 1.0 else g * np.asarray(share, g.dtype)

        for key in self.arrays:
            own = [t.of[key] for t in parts if key in t.of]
            found = [t.of[key] for t in totals.values() if key in t.of]
            if own or found:
                total = own.pop(0) if own else found.pop(0).copy()
                for part in (*own, *found):
                    total += part
                sums[key] = scaled(total)

        def gradient(x: Any, found: Mapping[int, Any] = sums) -> Any:
            array = np.asarray(x)
            g = found.get(id(x))
            g = np.zeros(array.shape, np.float64 if wide else array.dtype) if g is None else np.asarray(g, order="C")
            out = self._by_rows(x, g, totals) if found is sums else None
            return out if out is not None else g.reshape(array.shape)[()] if isinstance(x, np.generic) else g

        results = []
        for k, place in enumerate(self.places):
            if place is None:
                results.append(structured(self.shared[k], gradient))
                continue
            column = []
            for n in range(call.count):
                of = {key: scaled(g).copy() for key, g in totals[n].of.items()} if n in totals else {}
                part = part_at(call.columns[place[0]][n], self.paths[k], place[1])
                column.append(structured(part, lambda x, of=of: gradient(x, of)))  # type: ignore[misc]
            results.append(column[0] if one else column)
        return results[0] if self.single else tuple(results)

    def _by_rows(self, x: Any, g: Any, totals: Mapping[int, Totals]) -> RowGrad | None:
        """Return the gradient of a table by rows where it is wanted so, and read so."""
        key = id(x)
        if not self.sparse or (self.sparse is not True and key not in self.sparse):
            return None
        read = [t.rows.get(key) if key in t.of else () for t in totals.values()]
        if not g.ndim or any(r is None for r in read):
            if self.sparse is True:
                return None
            raise refuse("ACR706", message="a table whose gradient is wanted by rows is read as a whole, too",
                         rewrite="leave it out of `sparse`")  # fmt: skip
        index = np.unique(np.concatenate([np.zeros(0, np.int64), *(np.asarray(r, np.int64) for r in read)]))
        return RowGrad(index, g[index], g.shape)


def wanted_of(fn: types.FunctionType, choices: Choices, call: Call) -> Wanted:
    """Return what gradients are wanted of in a call."""
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    paths = choices.wrt
    if paths is None:
        paths = tuple(name for name, value in call.shared.items() if float_arrays(value))
        if not paths:
            raise refuse(
                "ACR706", message="no keyword-only parameter holds a float array", rewrite="name others: `wrt=`"
            )
    shared: list[Any] = []
    places: list[tuple[int, tuple[str, ...]] | None] = []
    for path in paths:
        name, steps = steps_of(path)
        place = None
        value = None
        if name in call.shared:
            value = part_at(call.shared[name], path, steps)
        elif name in names:
            place = names.index(name), steps
        else:
            value = part_at(_outer(fn, name), path, steps)
        shared.append(value)
        places.append(place)
    arrays = {
        id(a): a for value, place in zip(shared, places, strict=True) if place is None for a in float_arrays(value)
    }
    for path, value, place in zip(paths, shared, places, strict=True):
        if place is None and not float_arrays(value):
            raise refuse("ACR706", message=f"`{path}` holds no float array", seen=type(value).__name__)
    single = choices.single or (choices.wrt is None and len(paths) == 1)
    return Wanted(
        paths=paths, single=single, shared=tuple(shared), places=tuple(places), arrays=arrays,
        sparse=_tables(choices, call, fn),
    )  # fmt: skip


def _tables(choices: Choices, call: Call, fn: types.FunctionType) -> frozenset[int] | bool:
    if isinstance(choices.sparse, bool):
        return choices.sparse
    found = set()
    for path in choices.sparse:
        name, steps = steps_of(path)
        found.add(id(part_at(call.shared[name] if name in call.shared else _outer(fn, name), path, steps)))
    return frozenset(found) or False


def _outer(fn: types.FunctionType, name: str) -> Any:
    """Return a variable of an enclosing function, or a global one."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    if name in cells:
        return cells[name].cell_contents
    if name in fn.__globals__:
        return fn.__globals__[name]
    raise refuse("ACR706", message=f"{fn.__qualname__} has no parameter `{name}`, and there is no such variable")
