"""Derivatives of kernels: by the rules, and by central differences, both in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from acronumba.api.dispatch import bind, specialise
from acronumba.ir.reference import KernelFailure, evaluate
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.ir.values import List, ObjectRow
from acronumba.ir.vjp import RULES, Applied, Eager, adjoints, differentiable
from tests.support.kernel_fuzz import Cell, Fuzz

STEP = 1e-6


def widened(spec: KernelSpec) -> KernelSpec:
    """Return the kernel with float64 in the place of float32."""

    def wide(x: Any) -> Any:
        return replace(x, dtype="float64") if x.dtype == "float32" else x

    return replace(spec, operands=tuple(map(wide, spec.operands)), body=tuple(map(wide, spec.body)))


def every(spec: KernelSpec) -> KernelSpec:
    """Return the kernel with all that it computes as results."""
    return replace(spec, results=tuple(range(len(spec.operands), len(spec.operands) + len(spec.body))))


def pulled(spec: KernelSpec, operands: Sequence[Any], dims: Sequence[int], seeds: dict[int, Any]) -> dict[int, Any]:
    """Return the adjoints of operands that are float tensors, from those of results."""
    values = [*map(np.asarray, operands), *evaluate(every(spec), operands, dims)]
    found: dict[int, Any] = {}

    def give(v: int, g: Any) -> None:
        found[v] = found[v] + g if v in found else g

    def static(attr: object) -> Any:
        match attr:
            case Dim():
                return int(dims[attr.index])
            case ("value", int(k)):
                return values[k].item()
            case tuple():
                return tuple(map(static, attr))
        return attr

    for v, g in seeds.items():
        give(v, g)
    for v in reversed(range(len(operands), len(values))):
        op = spec.body[v - len(operands)]
        if v not in found or op.op not in RULES:
            continue
        wanted = [
            k for k, a in enumerate(op.args) if values[a].dtype.kind == "f" and differentiable(op.op, k, op.attrs)
        ]
        one = Applied(
            op=op.op, args=tuple(values[a] for a in op.args), attrs=static(op.attrs), result=values[v],
            adjoint=found[v], wanted=wanted,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            for k, g in adjoints(Eager(), one).items():
                assert g.shape == values[op.args[k]].shape and g.dtype == values[op.args[k]].dtype, (op, k, g)
                give(op.args[k], g)
    return found


class Slope:
    """The derivative of random weights of a kernel's results, along a random direction of its operands."""

    def __init__(self, spec: KernelSpec, operands: Sequence[Any], dims: Sequence[int], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.spec, self.dims = widened(spec), dims
        floats = [o.dtype == "float64" and o.kind in ("tensor", "shared") for o in self.spec.operands]
        self.at = [np.asarray(x, np.float64) if f else x for x, f in zip(operands, floats, strict=True)]
        self.along = {v: rng.standard_normal(np.shape(self.at[v])) for v, f in enumerate(floats) if f}
        first = len(operands)
        self.weights: dict[int, Any] = {}
        for j, out in enumerate(evaluate(self.spec, self.at, dims)):
            if self.spec.body[self.spec.results[j] - first].dtype == "float64":
                self.weights[j] = rng.standard_normal(out.shape)

    def value(self, step: float) -> float:
        moved = [x + step * self.along[v] if v in self.along else x for v, x in enumerate(self.at)]
        with np.errstate(all="ignore"):
            out = evaluate(self.spec, moved, self.dims)
            return float(sum((out[j] * w).sum() for j, w in self.weights.items()))

    def by_rules(self) -> float:
        seeds: dict[int, Any] = {}
        for j, w in self.weights.items():
            v = self.spec.results[j]
            seeds[v] = seeds[v] + w if v in seeds else w
        found = pulled(self.spec, self.at, self.dims, seeds)
        with np.errstate(all="ignore"):
            return float(sum((found[v] * d).sum() for v, d in self.along.items() if v in found))

    def by_differences(self, step: float = STEP) -> float:
        return (self.value(step) - self.value(-step)) / (2 * step)

    def compare(self) -> str:
        """Return "equal", "different", or why differences tell nothing here."""
        try:
            mine, there, near = self.by_rules(), self.by_differences(), self.by_differences(STEP / 8)
        except KernelFailure:
            return "fails"
        if not np.isfinite([mine, there, near]).all() or max(abs(there), abs(mine), abs(self.value(0.0))) > 1e6:
            return "not finite or huge"
        scale = max(abs(there), abs(mine), 1e-2)
        if abs(mine - there) <= 2e-4 * scale:
            return "equal"
        return "a kink nearby" if abs(there - near) > 1e-3 * scale else "different"


# ---- of random kernels


SMOOTH = tuple(sorted(RULES.keys() - {"cumprod", "cummax", "cummin", "arccosh", "stack", "own"}))


def random_slope(seed: int) -> Slope | None:
    dtypes = ("float64", "float64", "float32", "int64", "bool")
    f = Cell(seed) if seed % 7 == 0 else Fuzz(seed, length=8, dtypes=dtypes, favour=SMOOTH, extents=(0, 1, 1, 2, 3, 5))
    body = [replace(op, attrs=(1.0,)) if op.op == "scale_gradient" else op for op in f.spec.body]
    f.spec = replace(f.spec, body=tuple(body))
    rows, shared = f.operands(1)
    own = iter(rows[0])
    given = [shared[v] if o.kind == "shared" else next(own) for v, o in enumerate(f.spec.operands)]
    rng = np.random.default_rng(seed)

    def tame(x: Any) -> Any:
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        x = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.3, posinf=1.0, neginf=-1.0), -3, 3)
        return 0.3 * x + 0.1 * rng.random(x.shape)

    try:
        return Slope(f.spec, [tame(x) for x in given], f.dims, seed)
    except Exception as error:
        if type(error).__name__ == "KernelFailure":
            return None
        raise


# ---- of runs


class Run:
    """A run of an instance by the reference, made scalar: random weights of all floats of its result."""

    def __init__(self, model: Any, columns: Sequence[Any], shared: dict[str, Any], k: int, seed: int = 0) -> None:
        call = bind(model, columns, shared)
        compiled, leaves, _ = specialise(model, call, packed=False)
        recorder = compiled.recorder_of_tapes(leaves)
        words, self.tape = recorder.record([column[k] for column in call.columns])
        rng = np.random.default_rng(seed)
        self.weights = {
            self.tape.number(x): rng.standard_normal(x.shape) for x in arrays_in(words) if x.dtype.kind == "f"
        }
        given = [n for n in self.tape.given if self.tape.values[n].dtype.kind == "f"]
        self.along = {n: rng.standard_normal(self.tape.values[n].shape) for n in given}

    def value(self, step: float) -> float:
        at = {n: self.tape.values[n].astype(np.float64) + step * d for n, d in self.along.items()}
        values = self.tape.widened(at)
        with np.errstate(all="ignore"):
            return float(sum((values[n] * w).sum() for n, w in self.weights.items()))

    def slope(self, wide: bool = True) -> float:
        found = self.tape.pullback(self.weights, self.along.keys(), wide=wide)
        with np.errstate(all="ignore"):
            return float(sum((found[n] * d).sum() for n, d in self.along.items() if n in found))

    def error(self, steps: Sequence[float] = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)) -> float:
        """Return how far the slope is from central differences, relative, at the best step."""
        mine = self.slope()
        found = [(self.value(e) - self.value(-e)) / (2 * e) for e in steps]
        if not np.isfinite([mine, *found]).all():
            return np.nan
        return min(abs(mine - x) / max(abs(mine), abs(x), 1e-9) for x in found)


def pairs_in(words: Sequence[Any], others: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the float arrays at the same places of two results."""
    out: list[tuple[Any, Any]] = []
    seen: set[tuple[int, int]] = set()
    todo = list(zip(words, others, strict=True))
    while todo:
        w, v = todo.pop()
        if isinstance(w, np.ndarray):
            assert w.shape == v.shape and w.dtype == v.dtype
            if w.dtype.kind == "f":
                out.append((w, v))
        elif isinstance(w, ObjectRow | List) and (id(w), id(v)) not in seen:
            seen.add((id(w), id(v)))
            todo += zip(w.words, v.words, strict=True)
    return out


def arrays_in(words: Sequence[Any]) -> list[Any]:
    """Return the arrays that the words of a result lead to, each once."""
    out: dict[int, Any] = {}
    seen: set[int] = set()
    todo = list(words)
    while todo:
        w = todo.pop()
        if isinstance(w, np.ndarray):
            out.setdefault(id(w), w)
        elif isinstance(w, ObjectRow | List) and id(w) not in seen:
            seen.add(id(w))
            todo += w.words
    return list(out.values())
