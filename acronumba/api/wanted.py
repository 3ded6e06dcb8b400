"""The selection of arrays to differentiate by, and the sums of their gradients.

In: the choices of `value_and_grad` and the arguments of a call. Out: a `Selection`: the float arrays by identity, the
structures that hold them, and per instance the adjoints from its tape (`Totals`).
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.api.arguments import Call
from acronumba.api.structures import float_arrays, is_float_array, objects_of, part_at, steps_of, structured
from acronumba.data.row_grad import Gradient, RowGrad, scaled, total
from acronumba.data.shared import nodes_of
from acronumba.data.skeleton import Skeleton, has_parts
from acronumba.errors.codes import reject
from acronumba.foreign import OfParts, numpy_array
from acronumba.generics import Value
from acronumba.ir import nodes as ir
from acronumba.ir.types import TensorT, words
from acronumba.memory import DeviceTensor

if TYPE_CHECKING:
    from acronumba.analysis import active
    from acronumba.data.pack import Batch
    from acronumba.ir.tape import Tape
    from acronumba.pipeline.compiled import Compiled
    from acronumba.pipeline.gradients import Asked
    from acronumba.runtime.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The arguments of `value_and_grad`."""

    wrt: tuple[str, ...] | None  # paths; None: all keyword-only parameters
    single: bool  # whether one path was named by itself
    reduce: str
    aux: bool
    sparse: tuple[str, ...] | bool

    @classmethod
    def of(cls, wrt: str | Sequence[str] | None, reduce: str, aux: bool, sparse: bool | Sequence[str]) -> Choices:
        """Return the validated choices."""
        if reduce not in ("mean", "sum"):
            raise _wrong("reduce", reduce, '"mean" or "sum"', 'reduce="mean"')
        if not isinstance(aux, bool):
            raise _wrong("aux", aux, "True or False", "aux=True")
        paths = _paths_in("wrt", wrt) if wrt is not None else None
        if paths is not None and not paths:
            raise reject("ACR706", message="`wrt` is empty", rewrite='value_and_grad(f, wrt="p")')
        rows = sparse if isinstance(sparse, bool) else _paths_in("sparse", sparse)
        return cls(wrt=paths, single=isinstance(wrt, str), reduce=reduce, aux=aux, sparse=rows)


def _wrong(name: str, value: Value, right: str, rewrite: str) -> Exception:
    seen = repr(value) if isinstance(value, str | int | float | tuple | None) else _form(value)
    return reject("ACR706", message=f"`{name}` must be {right}", seen=seen, rewrite=rewrite)


def _paths_in(name: str, value: Value) -> tuple[str, ...]:
    """Return the paths in an argument; each begins with the name of a parameter."""
    paths = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(path, str) for path in paths):
        raise _wrong(name, value, "a path, or several of them", f'{name}="p", {name}=("p.w", "x")')
    for path in paths:
        steps_of(path)
    return paths


DEFAULT = Choices.of(None, "mean", False, ())


def _of_codes(program: ir.Program) -> list[str]:
    """Return the paths of shared int8 arrays that integer matrix products may read, which have no gradient."""
    instrs = (i for f in program.functions for block in f.blocks for i in block.instrs)
    outs = (i.out.type for i in instrs if isinstance(i, ir.Op) and i.op == "matmul")
    if not any(isinstance(t, TensorT) and t.dtype == "int32" for t in outs):
        return []
    return [p.path for p in program.shared if isinstance(p.type, TensorT) and p.type.dtype == "int8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Gradients from the tape of an instance."""

    of: Mapping[int, Gradient]  # gradients of shared arrays by their ids
    own: Mapping[int, Gradient]  # the same of arrays of the instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selection of arrays to differentiate by."""

    paths: tuple[str, ...]
    single: bool
    shared: tuple[Value, ...]  # per path: its value; None for a positional parameter
    places: tuple[int | None, ...]  # per path: the number of its positional parameter
    parts: tuple[Sequence[Value], ...]  # per path: for a positional parameter, its value in each instance
    columns: Mapping[int, Sequence[Value]]  # selected positional parameters: one object for each instance
    arrays: Mapping[int, Value]  # the float arrays of shared values, by id
    sparse: frozenset[int] | bool  # ids of tables with gradients by rows; True: all that allow it
    skeletons: tuple[Skeleton | None, ...] = ()  # of `shared`

    def of(self, compiled: Compiled, leaves: Sequence[Value], packed: Batch | None, call: Call) -> Selection:
        """Return the selection for some instances of a call, which a specialisation fits."""
        return self

    def is_of_shared(self, choices: Choices, call: Call) -> bool:
        """Whether it depends on nothing but the shared values of the call."""
        named = (*self.paths, *(choices.sparse if isinstance(choices.sparse, tuple) else ()))
        return bool(self.skeletons) and all(steps_of(path)[0] in call.shared for path in named)

    def constant(self, compiled: Compiled, leaves: Sequence[Value]) -> frozenset[int]:
        """Return words of the result that have no cotangents, as no selected array leads to them."""
        return frozenset()

    def check(self, compiled: Compiled, leaves: Sequence[Value], width: int | None) -> None:
        """Raise for compressed arrays, and for operations without a gradient on the way to a selected array."""
        nodes = (node for root in compiled.tree.roots.values() for node in nodes_of(root))
        small = [node.path for node in nodes if issubclass(node.cls, OfParts)] or _of_codes(compiled.program)
        if small:
            raise reject("ACR706", message=f"`{small[0]}` is compressed, and has no gradient",
                         rewrite="train the parameters in float32, and compress them afterwards")  # fmt: skip
        if (rejection := compiled.derivatives.active(self.in_program(compiled, leaves), width).rejection()) is not None:
            raise rejection

    def in_program(self, compiled: Compiled, leaves: Sequence[Value]) -> active.RequestedValues:
        """Return the selection by the numbers of shared values and parameters in a program."""
        from acronumba.analysis import active

        shared = compiled.program.shared
        tensors = {k for k, p in enumerate(shared) if isinstance(p.type, TensorT) and id(leaves[k]) in self.arrays}
        others = (k for k, p in enumerate(shared) if not isinstance(p.type, TensorT))
        packed = {k for k in others if any(id(a) in self.arrays for a in float_arrays(leaves[k]))}
        params = frozenset(place for place in self.places if place is not None)
        return active.RequestedValues(shared=frozenset(tensors), packed=frozenset(packed), params=params)

    def check_apart(self, compiled: Compiled, leaves: Sequence[Value], call: Call, members: Sequence[int]) -> None:
        """Raise if an instance holds an object of a packed shared value, and a gradient of one of the two is selected.

        A read of such an object does not show whether it was reached by the instance or by the shared value.
        """
        packed = self.in_program(compiled, leaves).packed
        for j, param in enumerate(compiled.program.shared[: len(leaves)]):
            if isinstance(param.type, TensorT) or not (self.columns or j in packed):
                continue
            objects = objects_of(leaves[j])
            for k in members if objects else ():
                if not objects.keys().isdisjoint(objects_of(self.instance(call, k))):
                    raise reject("ACR706", message=f"instance {k} holds an object of the shared `{param.path}`",
                                 rewrite="pass a separate object: copy.deepcopy of it")  # fmt: skip

    def instance(self, call: Call, k: int) -> list[Value]:
        """Return the arguments of an instance; the same objects in each call for selected parameters."""
        return [self.columns.get(j, column)[k] for j, column in enumerate(call.columns)]

    def own(self, k: int) -> set[int]:
        """Return the ids of the selected float arrays in an instance."""
        return {id(a) for parts in self.parts if parts for a in float_arrays(parts[k])}

    def totals(self, tape: Tape, seeds: Mapping[int, Gradient | float], k: int, *, wide: bool) -> Totals:
        """Return the contribution of an instance to the gradients, from adjoints of values by number."""
        own = self.own(k)
        given = {n: id(x) for n, x in tape.given.items() if id(x) in self.arrays}
        mine = {n: id(x) for n, x in tape.own.items() if id(x) in own}
        read: dict[int, list[int] | None] = {}
        found = tape.pullback(seeds, given.keys() | mine.keys(), wide=wide, read=read)
        for n in found.keys() & given.keys() if self.sparse else ():
            if self.by_rows(given[n]) and found[n].ndim and (rows := read.get(n)) is not None:
                index = np.unique(np.asarray(rows, np.int64) % max(len(found[n]), 1))
                found[n] = RowGrad(index, found[n][index], found[n].shape)
        return Totals(of=_by_id(given, found), own=_by_id(mine, found))

    def by_rows(self, key: int) -> bool:
        """Whether the gradient of an array, given by id, is to be by rows."""
        return self.sparse is True or (self.sparse is not False and key in self.sparse)

    def tensors(self, compiled: Compiled, leaves: Sequence[Value]) -> dict[int, int]:
        """Map the numbers of selected shared tensors of a program to the ids of their arrays."""
        shared = compiled.program.shared
        tensors = (k for k, p in enumerate(shared[: len(leaves)]) if isinstance(p.type, TensorT))
        return {k: id(leaves[k]) for k in tensors if id(leaves[k]) in self.arrays}

    def packed(self, compiled: Compiled, leaves: Sequence[Value]) -> frozenset[int]:
        """Return the numbers of shared objects and lists of a program that hold selected arrays."""
        return self.in_program(compiled, leaves).packed

    def asked_of_shared(self, compiled: Compiled, leaves: Sequence[Value], run: Run) -> list[Asked]:
        """Return the selected arrays of shared objects and lists of a run."""
        from acronumba.data.tensors import InMemory, arrays_in
        from acronumba.pipeline.gradients import SHARED, Asked

        found: dict[int, Asked] = {}
        for k in self.packed(compiled, leaves):
            references = InMemory(run.reader(), compiled.packer.layouts)
            for a in arrays_in(leaves[k], compiled.program.shared[k].type, [run.prepared.given[k]], references):
                if id(a.array) in self.arrays:
                    data = references.data(a.words[0])
                    found.setdefault(data, Asked(SHARED, a.array, data, self.by_rows(id(a.array))))
        return list(found.values())

    def asked(self, compiled: Compiled, packed: Batch, members: Sequence[int]) -> list[Asked]:
        """Return the selected arrays of packed instances; `members`: the numbers of the instances."""
        if not self.columns:
            return []
        from acronumba.data.buffers import Memory
        from acronumba.data.tensors import InMemory, arrays_in
        from acronumba.pipeline.gradients import Asked

        references = InMemory(Memory(packed.keep), compiled.packer.layouts)
        params = compiled.schema.params
        starts = np.cumsum([0, *(len(words(t)) for t in params)]).tolist()
        found: list[Asked] = []
        whole = all(place is None or path.isidentifier() for path, place in zip(self.paths, self.places, strict=True))
        for j, k in enumerate(members):
            if j in packed.errors:
                continue
            own, row = None if whole else self.own(k), packed.roots[j].tolist()
            at: dict[int, Asked] = {}
            for place, column in self.columns.items():
                for a in arrays_in(column[k], params[place], row[starts[place] : starts[place + 1]], references):
                    if (own is None or id(a.array) in own) and id(a.array) not in at:
                        at[id(a.array)] = Asked(j, a.array, references.data(a.words[0]))
            found += at.values()
        return found

    def structures(
        self, totals: Mapping[int, Totals], parts: Sequence[Totals], share: float, *, wide: bool, one: bool
    ) -> Any:
        """Return the gradients of a mini-batch in their structures.

        Parameters
        ----------
        totals, parts
            Gradients per instance that did not fail, and per mini-batch that ran as a whole: the arrays of the latter
            are reused for the gradients.
        one
            Whether the call had one instance: gradients of its own arrays are not in a list.
        """
        sums = self._sums(totals, parts, share, wide=wide)

        def gradient(x: Value, found: Mapping[int, Gradient] = sums) -> Gradient:
            array = numpy_array(x)
            g = found.get(id(x))
            if isinstance(g, RowGrad | DeviceTensor):
                return g
            g = np.zeros(array.shape, np.float64 if wide else array.dtype) if g is None else np.asarray(g, order="C")
            return g.reshape(array.shape)[()] if isinstance(x, np.generic) else g

        results = []
        for k, skeleton in enumerate(self.skeletons):
            if skeleton is not None:
                found = list(map(sums.get, map(id, skeleton.leaves)))
                for n, (x, g) in enumerate(zip(skeleton.leaves, found, strict=True)):
                    if not (type(x) is type(g) is np.ndarray and g.flags.c_contiguous):
                        found[n] = gradient(x) if id(x) in self.arrays else None
                results.append(skeleton.rebuilt(found))
                continue
            column = []
            for n, part in enumerate(self.parts[k]):
                mine = totals[n].own if n in totals else {}
                of = {key: np.multiply(g, np.asarray(share, g.dtype)) for key, g in mine.items()}
                column.append(structured(part, lambda x, of=of: gradient(x, of)))  # type: ignore[misc]
            results.append(column[0] if one else column)
        return results[0] if self.single else tuple(results)

    def _sums(
        self, totals: Mapping[int, Totals], parts: Sequence[Totals], share: float, *, wide: bool
    ) -> Mapping[int, Gradient]:
        """Return the sums of the gradients of shared arrays, by id; arrays that nothing reached are missing."""
        if len(parts) == 1 and share == 1.0 and not totals and not self.sparse:
            return parts[0].of
        sums: dict[int, Gradient] = {}
        for key, x in self.arrays.items():
            own = [t.of[key] for t in parts if key in t.of]
            found = [*own, *(t.of[key] for t in totals.values() if key in t.of)]
            if found:
                sums[key] = scaled(total(found, fresh=bool(own)), share)
            elif self.by_rows(key) and np.ndim(x):
                shape, dtype = np.shape(x), np.float64 if wide else numpy_array(x).dtype
                sums[key] = RowGrad(np.zeros(0, np.int64), np.zeros((0, *shape[1:]), dtype), shape)
            if self.sparse is not True and self.by_rows(key) and not isinstance(sums.get(key), RowGrad):
                raise reject("ACR706", message="a table in `sparse` is also read as a whole",
                             rewrite="leave it out of `sparse`")  # fmt: skip
        return sums


def _by_id(ids: Mapping[int, int], found: Mapping[int, Gradient]) -> dict[int, Gradient]:
    """Return adjoints by array id, from adjoints by value number."""
    out: dict[int, Gradient] = {}
    for n in sorted(ids.keys() & found.keys()):
        out[ids[n]] = total([out[ids[n]], found[n]]) if ids[n] in out else found[n]
    return out


def _form(value: Value) -> str:
    return f"an array of {value.dtype}" if hasattr(value, "dtype") else type(value).__name__


def wanted_of(fn: types.FunctionType, choices: Choices, call: Call) -> Selection:
    """Select the arrays of a call to differentiate by."""
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    paths = choices.wrt
    found: dict[int, tuple[Skeleton, list[Value]]] = {}  # the structure of a value, and its float arrays, by its id

    def arrays_of(value: Value) -> list[Value]:
        if id(value) not in found:
            skeleton = Skeleton(value)
            found[id(value)] = skeleton, list(filter(is_float_array, skeleton.leaves))
        return found[id(value)][1]

    if paths is None:
        paths = tuple(name for name, value in call.shared.items() if arrays_of(value))
        if not paths:
            seen = ", ".join(f"{name}: {_form(value)}" for name, value in call.shared.items())
            raise reject("ACR706", message="no keyword-only parameter holds a float array", seen=seen,
                         rewrite="name others with `wrt=`, or convert numbers: np.array(w, np.float32)")  # fmt: skip
    shared: list[Value] = []
    places: list[int | None] = []
    parts: list[Sequence[Value]] = []
    columns: dict[int, Sequence[Value]] = {}
    for path in paths:
        name, steps = steps_of(path)
        place, value, inside = None, None, []
        if name in call.shared:
            value = part_at(call.shared[name], path, steps)
        elif name in names:
            place = names.index(name)
            column = columns.setdefault(place, list(call.columns[place]))
            inside = [part_at(x, path, steps) for x in column]
        else:
            value = part_at(_outer(fn, name), path, steps)
        shared.append(value)
        places.append(place)
        parts.append(inside)
    arrays = {id(a): a for value, place in zip(shared, places, strict=True) if place is None for a in arrays_of(value)}
    for path, value, place, within in zip(paths, shared, places, parts, strict=True):
        held = [value] if place is None else [*within]
        might = place is not None and (not held or any(v is None or has_parts(v) for v in held))  # hold some elsewhere
        if not might and not any(map(arrays_of, held)):
            raise reject("ACR706", message=f"`{path}` holds no float array", seen=_form(held[0]),
                         rewrite="name a path that does, or convert numbers: np.array(w, np.float32)")  # fmt: skip
    single = choices.single or (choices.wrt is None and len(paths) == 1)
    return Selection(
        paths=paths, single=single, shared=tuple(shared), places=tuple(places), parts=tuple(parts),
        columns=columns, arrays=arrays, sparse=_tables(choices, call, fn, arrays),
        skeletons=tuple(found[id(v)][0] if k is None else None for v, k in zip(shared, places, strict=True)),
    )  # fmt: skip


def _tables(choices: Choices, call: Call, fn: types.FunctionType, arrays: Mapping[int, Value]) -> frozenset[int] | bool:
    if isinstance(choices.sparse, bool):
        return choices.sparse
    found = set()
    for path in choices.sparse:
        name, steps = steps_of(path)
        if name not in call.shared and name in fn.__code__.co_varnames[: fn.__code__.co_argcount]:
            raise reject("ACR706", message=f"`{path}` belongs to the instances: only shared tables have row gradients",
                         rewrite="leave it out of `sparse`")  # fmt: skip
        table = part_at(call.shared[name] if name in call.shared else _outer(fn, name), path, steps)
        if id(table) not in arrays:
            raise reject("ACR706", message=f"`{path}` in `sparse` is not a table that `wrt` names",
                         seen=type(table).__name__, rewrite="name arrays in `wrt`")  # fmt: skip
        found.add(id(table))
    return frozenset(found) or False


def _outer(fn: types.FunctionType, name: str) -> Value:
    """Return a variable of an enclosing function, or a global one."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    if name in cells:
        return cells[name].cell_contents
    if name in fn.__globals__:
        return fn.__globals__[name]
    code = fn.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    raise reject("ACR706", message=f"{fn.__qualname__} has no parameter `{name}`, and there is no such variable",
                 rewrite=f"one of: {', '.join(names)}")  # fmt: skip
