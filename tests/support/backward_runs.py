"""Gradients of planned models with NumPy: forward and backward kernels by `ir.reference`, node by node.

The planned program is run by the interpreter with forward kernels that keep what they are told to; each node is noted.
The backward pass goes over the nodes from the last to the first. What compiled code will do in batches is done here for
each node by itself: contributions to adjoints, sums over nodes, and what is computed once pulled back at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from acronumba.analysis.active import ActiveOperands
from acronumba.analysis.backward.derive import Backward, differentiate
from acronumba.analysis.backward.reference import NodeBack, sweep
from acronumba.ir import nodes as ir
from acronumba.ir.interpret import Interpreter, _extents
from acronumba.ir.reference import evaluate, evaluate_rows
from acronumba.ir.spec import KernelSpec
from acronumba.ir.tape import _Origins
from acronumba.ir.values import List, Memo
from tests.support.derivatives import Slope, pulled


class Planned(Interpreter):
    """Runs instances of a planned program and notes each node."""

    def __init__(self, plan: Any, leaves: Sequence[Any], found: Sequence[ActiveOperands] | None = None) -> None:
        found = list(map(everything, plan.kernels)) if found is None else found
        self.derived = [
            differentiate(k, p.wanted, p.results, p.shared) for k, p in zip(plan.kernels, found, strict=True)
        ]
        self.nodes: list[Any] = []
        self.origins: dict[int, tuple[Any, Any]] = {}  # by the id of an array: it, and the user's object
        super().__init__(plan.program, leaves, kernels=plan.kernels)
        for inner, value in zip(self._shared, leaves, strict=False):
            if isinstance(inner, np.ndarray):
                self.origins[id(inner)] = (inner, value)

    def _new_memo(self) -> Memo:
        return _Origins(self.origins)

    def _emit(self, i: ir.Emit, env: Any) -> None:
        d = self.derived[i.kernel]
        spec = d.forward
        operands = [
            self._shared[o.index] if o.kind == "shared" else self._operand(i.args[o.index], env) for o in spec.operands
        ]
        dims = [env[x] for x in i.dims]
        if spec.rows is None:
            outs = evaluate(spec, operands, dims)
        else:
            n = _extents(i.shapes[0], env)[0]
            outs = evaluate_rows(spec, operands, dims, [(n, *_known(spec, v)) for v in spec.results])
        outs = tuple(np.array(v) for v in outs)
        self.nodes.append((i.kernel, [env[a] for a in i.args], operands, outs, dims))
        for out, value in zip(i.outs, outs, strict=False):
            env[out] = value


def _known(spec: Any, v: int) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else 0 for n in spec.body[v - len(spec.operands)].shape)


class BackwardPlan:
    """The backward pass over the nodes of a run."""

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
        mine = [self.adjoints.get(id(o)) for o in outs[: len(outs) - len(d.kept)]]
        if all(m is None for m in mine):
            return
        if d.forward.rows is None:
            self._one(k, d, operands, dims, outs, mine, lambda v, g: self._take(d, objects, v, g))
            return
        parts: dict[int, list[Any]] = {}
        ways = ["whole" if o.kind == "shared" else d.forward.rows[o.index] for o in d.forward.operands]
        for i in range(len(outs[0])):
            row = [x if way == "whole" else x[i] for x, way in zip(operands, ways, strict=True)]
            given = [None if m is None else m[i] for m in mine]
            found: dict[int, Any] = {}

            def note(v: int, g: Any, found: dict[int, Any] = found) -> None:
                found[v] = found[v] + g if v in found else g

            self._one(k, d, row, dims, tuple(o[i] for o in outs), given, note)
            for v, g in found.items():
                parts.setdefault(v, []).append(g)
        for v, gs in parts.items():
            self._take(d, objects, v, np.sum(gs, axis=0) if ways[v] == "whole" else np.stack(gs))

    def _one(
        self, k: int, d: Backward, operands: Any, dims: list[int], outs: Any, mine: list[Any],
        take: Callable[[int, Any], None],
    ) -> None:  # fmt: skip
        values = (*d.forward.operands, *d.forward.body)
        node = NodeBack(d, operands, dims, outs, mine)
        for v, g in node.gives():
            take(v, g)
        sums: dict[int, Any] = {}
        node.add_terms(sums, {t.of: [n for n in values[t.of].shape if isinstance(n, int)] for t in d.terms})
        for of, g in sums.items():
            self.totals[k, of] = self.totals[k, of] + g if (k, of) in self.totals else g

    def _take(self, d: Backward, objects: list[Any], v: int, g: Any) -> None:
        x = objects[d.forward.operands[v].index]
        if isinstance(x, List):
            for item, part in zip(x.words, g, strict=True):
                self._give(item, part)
        elif isinstance(x, np.ndarray):
            self._give(x, g)

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
        given = [
            run._shared[o.index] if o.kind == "shared" else run._shared[numbers[o.index]] if numbers else None
            for o in spec.operands
        ]
        found = sweep(spec, given, (), {of: g})
        return [(o.index, found[v]) for v, o in enumerate(spec.operands) if o.kind == "shared" and v in found]


def everything(spec: KernelSpec) -> ActiveOperands:
    """Return that all of a kernel takes part."""
    kinds = ("tensor", "list", "shared")
    wanted = {v for v, o in enumerate(spec.operands) if o.dtype.startswith("float") and o.kind in kinds}
    return ActiveOperands(wanted=frozenset(wanted), results=frozenset(range(len(spec.results))), shared=frozenset())


def kernel_errors(slope: Slope) -> float:
    """Return how far the gradients of a kernel by its backward kernel are from those of the rules, relative."""
    spec, part = slope.spec, everything(slope.spec)
    d = differentiate(spec, part.wanted, part.results, part.shared)
    outs = tuple(map(np.array, evaluate(d.forward, slope.at, slope.dims)))
    by_kind = [{o.index: x for o, x in zip(spec.operands, slope.at, strict=True) if (o.kind == "shared") == k}
               for k in (False, True)]  # fmt: skip
    objects, shared = ([found.get(k) for k in range(max(found, default=-1) + 1)] for found in by_kind)
    run: Any = SimpleNamespace(
        derived=[d], kernels=[spec], nodes=[(0, objects, slope.at, outs, slope.dims)], _shared=shared,
        program=SimpleNamespace(once=()), origins={},
    )  # fmt: skip
    back = BackwardPlan(run, {id(outs[j]): w for j, w in slope.weights.items()})
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
