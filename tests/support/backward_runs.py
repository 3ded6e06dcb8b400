"""Gradients of planned models with NumPy: forward and backward kernels by `ir.reference`, node by node.

The planned program is run by the interpreter with forward kernels that keep what they are told to; each node is noted.
The way back goes over the nodes from the last to the first. What compiled code will do in batches is done here for each
node by itself: contributions to adjoints, sums over nodes, and what is computed once pulled back at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from acronumba.analysis.active import Part
from acronumba.analysis.backward.differentiate import Derived, Source, differentiate, pulled_back
from acronumba.analysis.backward.keeping import keeping
from acronumba.ir import nodes as ir
from acronumba.ir.interpret import Interpreter
from acronumba.ir.reference import evaluate, evaluate_rows
from acronumba.ir.spec import KernelSpec
from acronumba.ir.tape import _Origins
from acronumba.ir.values import List, Memo
from acronumba.ir.verify import verify
from tests.support.derivatives import Slope, pulled


class Planned(Interpreter):
    """Runs instances of a planned program and notes each node."""

    def __init__(self, plan: Any, leaves: Sequence[Any], found: Sequence[Part] | None = None) -> None:
        found = list(map(everything, plan.kernels)) if found is None else found
        self.derived = [differentiate(k, p.wanted, p.results) for k, p in zip(plan.kernels, found, strict=True)]
        self.nodes: list[Any] = []
        self.origins: dict[int, tuple[Any, Any]] = {}  # by the id of an array: it, and the user's object
        program = keeping(plan.program, self.derived)
        once = {o.kernel for o in program.once}  # these keep nothing: they are done again where they are pulled back
        kernels = [plan.kernels[k] if k in once else d.forward for k, d in enumerate(self.derived)]
        verify(program, kernels)
        super().__init__(program, leaves, kernels=kernels)
        for inner, value in zip(self._shared, leaves, strict=False):
            if isinstance(inner, np.ndarray):
                self.origins[id(inner)] = (inner, value)

    def _new_memo(self) -> Memo:
        return _Origins(self.origins)

    def _emit(self, i: ir.Emit, env: Any) -> None:
        super()._emit(i, env)
        spec = self.kernels[i.kernel]
        operands = [
            self._shared[o.index] if o.kind == "shared" else self._operand(i.args[o.index], env) for o in spec.operands
        ]
        for out in i.outs:
            env[out] = np.array(env[out])  # an object of its own
        self.nodes.append(
            (i.kernel, [env[a] for a in i.args], operands, tuple(env[out] for out in i.outs), [env[x] for x in i.dims])
        )


def _known(spec: Any, v: int) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else 0 for n in spec.body[v - len(spec.operands)].shape)


class Backward:
    """The way back over the nodes of a run."""

    def __init__(self, run: Planned, seeds: dict[int, Any]) -> None:
        self.run = run
        self.adjoints: dict[int, Any] = dict(seeds)  # by the id of the array
        self.totals: dict[tuple[int, int], Any] = {}  # per kernel and value: sums over nodes
        with np.errstate(all="ignore"):
            for node in reversed(run.nodes):
                self._node(*node)
        self.shared = self._shared()
        self.given: dict[int, Any] = {}  # gradients by the id of the user's object
        for k, x in enumerate(run._shared):
            if k in self.shared and id(x) in run.origins:
                self._give_user(x, self.shared[k])
        for key, (word, _) in run.origins.items():
            if key in self.adjoints and not any(word is x for x in run._shared):
                self._give_user(word, self.adjoints[key])

    def _give_user(self, x: Any, g: Any) -> None:
        key = id(self.run.origins[id(x)][1])
        self.given[key] = self.given[key] + g if key in self.given else g

    def _give(self, x: Any, g: Any) -> None:
        self.adjoints[id(x)] = self.adjoints[id(x)] + g if id(x) in self.adjoints else g

    def _node(self, k: int, objects: list[Any], operands: list[Any], outs: tuple[Any, ...], dims: list[int]) -> None:
        d = self.run.derived[k]
        own = outs[: len(outs) - len(d.kept)]
        mine = [self.adjoints.get(id(o)) for o in own]
        if all(m is None for m in mine):
            return
        many = d.forward.rows is not None
        count = self.count = outs[0].shape[0] if many else 0
        mine = [np.zeros_like(o) if m is None else m for m, o in zip(mine, own, strict=True)]
        number = {o.index: v for v, o in enumerate(d.forward.operands) if o.kind != "shared"}
        back: tuple[Any, ...] = ()

        def found(s: Source, shape: tuple[int, ...] | None = None) -> Any:
            match s.kind:
                case "argument":
                    x = np.asarray(operands[number[s.index]])
                    whole = many and d.forward.rows is not None and d.forward.rows[s.index] == "whole"
                    return np.broadcast_to(x, (count, *x.shape)) if whole and shape is not None else x
                case "result":
                    return outs[s.index]
                case "back":
                    return back[s.index]
                case "shared":
                    x = np.asarray(operands[s.index])
                    return np.broadcast_to(x, (count, *x.shape)) if many else x
                case "row":
                    return np.asarray(operands[s.index])[np.asarray(operands[number[s.by]])]
            g = mine[s.index]
            if shape is None:
                return g
            size = int(np.prod(shape[many:]))
            flat = g.reshape(count, -1) if many else g.reshape(-1)
            return flat[..., s.start : s.start + size].reshape(shape)

        if d.backward is not None:
            given = [found(s) for s in d.wiring]
            given += [self.run._shared[o.index] for o in d.backward.operands if o.kind == "shared"]
            if d.backward.rows is None:
                back = evaluate(d.backward, given, dims)
            else:
                back = evaluate_rows(
                    d.backward, given, dims, [(count, *_known(d.backward, v)) for v in d.backward.results]
                )
        for give in d.gives:
            o = d.forward.operands[give.operand]
            x, shape = objects[o.index], np.shape(operands[give.operand])
            whole = many and d.forward.rows is not None and d.forward.rows[o.index] == "whole"
            g = found(give.source, (count, *shape) if whole else shape)
            g = g.sum(axis=0) if whole else g
            if isinstance(x, List):
                for item, part in zip(x.words, g, strict=True):
                    self._give(item, part)
            elif isinstance(x, np.ndarray):
                self._give(x, g)
        self._terms(k, d, found, many)

    def _terms(self, k: int, d: Derived, found: Any, many: bool) -> None:
        first = len(d.forward.operands)
        for t in d.terms:
            source = d.forward.operands[t.of] if t.of < first else d.forward.body[t.of - first]
            total = self.totals.setdefault(
                (k, t.of), np.zeros([n for n in source.shape if isinstance(n, int)], source.dtype)
            )
            if not total.size:
                continue
            if t.kind == "sum":
                g = found(t.g, ((-1,) if many else ()) + total.shape) if t.g.kind == "adjoint" else found(t.g)
                total += g.reshape(-1, *total.shape).sum(axis=0)
                continue
            assert t.x is not None
            x = found(t.x, ())
            if t.kind == "outer":
                matrix = total.shape[-2:]
                x = x.reshape(-1, x.shape[-1])
                g = self._rows(found(t.g), t.g, len(x), matrix[0] if t.turned else matrix[1], many)
                here = slice(t.start, t.start + x.shape[-1])
                every = range(self.count) if many and t.by is not None else [0]
                for n in every:  # each node (row of one) has a matrix
                    some = slice(n * len(x) // len(every), (n + 1) * len(x) // len(every)) if every else slice(0)
                    part = total
                    if t.by is not None:
                        at = np.asarray(found(t.by, ())).reshape(-1)[n]
                        part = total[min(max(int(at), 0), len(total) - 1)]
                    if t.turned:
                        part[:, here] += g[some].T @ x[some]
                    else:
                        part[here] += x[some].T @ g[some]
            else:
                index = np.asarray(x, np.int64).reshape(-1)
                g = self._rows(found(t.g), t.g, len(index), int(np.prod(total.shape[1:])), many)
                np.add.at(total.reshape(total.shape[0], -1), np.clip(index, 0, max(total.shape[0] - 1, 0)), g)

    @staticmethod
    def _rows(g: Any, s: Source, rows: int, width: int, many: bool) -> Any:
        """Return the rows of a term; they may be a piece of an adjoint of each node."""
        count = g.shape[0] if many else 1
        size = rows * width // max(count, 1)
        return g.reshape(count, -1 if g.size else size)[:, s.start : s.start + size].reshape(rows, width)

    def _shared(self) -> dict[int, Any]:
        """Return the gradients of the shared tensors that were given, by number."""
        out: dict[int, Any] = {}

        def add(k: int, g: Any) -> None:
            out[k] = out[k] + g if k in out else np.array(g)

        run = self.run
        for k, x in enumerate(run._shared):
            if isinstance(x, np.ndarray) and id(x) in self.adjoints:
                add(k, self.adjoints[id(x)])
        for (k, of), total in self.totals.items():
            spec = run.derived[k].forward
            if of < len(spec.operands):
                add(spec.operands[of].index, total)
            else:
                for index, g in self._pulled(spec, of, total, {}):
                    add(index, g)
        for once in reversed(run.program.once):
            if once.index in out:
                spec = run.kernels[once.kernel]
                for index, g in self._pulled(spec, spec.results[0], out.pop(once.index), dict(enumerate(once.numbers))):
                    add(index, g)
        return out

    def _pulled(self, spec: Any, of: int, g: Any, numbers: dict[int, int]) -> list[tuple[int, Any]]:
        run = self.run
        wanted = {v for v, o in enumerate(spec.operands) if o.kind == "shared"}
        d, given_by = pulled_back(spec, of, wanted)
        at = [spec.operands[v] for v in given_by]
        values = [run._shared[o.index if o.kind == "shared" else numbers[o.index]] for o in at]
        kept = evaluate(d.forward, values, ())
        back: tuple[Any, ...] = ()
        if d.backward is not None:
            given = [
                values[s.index] if s.kind == "argument" else g if s.kind == "adjoint" else kept[s.index]
                for s in d.wiring
            ]
            back = evaluate(d.backward, given, ())
        out = []
        for give in d.gives:
            part = g.reshape(-1)[give.source.start :] if give.source.kind == "adjoint" else back[give.source.index]
            shape = np.shape(values[give.operand])
            out.append((at[give.operand].index, part.reshape(-1)[: int(np.prod(shape))].reshape(shape)))
        assert not d.terms
        return out


def everything(spec: KernelSpec) -> Part:
    """Return that all of a kernel takes part."""
    kinds = ("tensor", "list", "shared")
    wanted = {v for v, o in enumerate(spec.operands) if o.dtype.startswith("float") and o.kind in kinds}
    return Part(wanted=frozenset(wanted), results=frozenset(range(len(spec.results))))


def kernel_errors(slope: Slope) -> float:
    """Return how far the gradients of a kernel by its backward kernel are from those of the rules, relative."""
    spec, part = slope.spec, everything(slope.spec)
    d = differentiate(spec, part.wanted, part.results)
    outs = tuple(map(np.array, evaluate(d.forward, slope.at, slope.dims)))
    by_kind = [{o.index: x for o, x in zip(spec.operands, slope.at, strict=True) if (o.kind == "shared") == k}
               for k in (False, True)]  # fmt: skip
    objects, shared = ([found.get(k) for k in range(max(found, default=-1) + 1)] for found in by_kind)
    run: Any = SimpleNamespace(
        derived=[d], kernels=[spec], nodes=[(0, objects, slope.at, outs, slope.dims)], _shared=shared,
        program=SimpleNamespace(once=()), origins={},
    )  # fmt: skip
    back = Backward(run, {id(outs[j]): w for j, w in slope.weights.items()})
    seeds: dict[int, Any] = {}
    for j, w in slope.weights.items():
        seeds[spec.results[j]] = seeds[spec.results[j]] + w if spec.results[j] in seeds else w
    worst = 0.0
    for v, g in pulled(spec, slope.at, slope.dims, seeds).items():
        if v in part.wanted and g.size and np.isfinite(g).all():
            own = spec.operands[v].kind != "shared"
            mine = back.adjoints.get(id(slope.at[v])) if own else back.shared.get(spec.operands[v].index)
            mine = np.zeros_like(g) if mine is None else mine
            worst = max(worst, float(np.abs(mine - g).max() / (np.abs(g).max() or 1.0)))
    return worst
