"""Reference semantics of backward kernels: evaluated with NumPy, one node at a time.

In: `Backward`, a node's operands, extents and adjoints. Out: parts of adjoints and sums. `pullback` pulls sums over all
nodes back to the shared tensors. Compiled code is compared with this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from acronumba.analysis.backward.derive import FLOATS, Backward, ParameterGradient, RowBlock, Source, has_extents
from acronumba.analysis.backward.joint import numbers_in
from acronumba.ir.evaluate import apply
from acronumba.ir.ops import Array
from acronumba.ir.reference import evaluate
from acronumba.ir.spec import Dim, KernelSpec, Size
from acronumba.ir.vjp import Applied, Eager, adjoints, differentiable


class NodeBack:
    """A node on the backward pass.

    Parameters
    ----------
    back
        The derivative of the node's kernel.
    operands
        One array or number for each operand of the kernel.
    dims
        The node's run-time extents.
    results
        Results of the forward kernel, saved values included.
    given
        The adjoint of each result of the node, or None.
    """

    def __init__(
        self, back: Backward, operands: Sequence[Array], dims: Sequence[int], results: Sequence[Array],
        given: Sequence[Array | None],
    ) -> None:  # fmt: skip
        self.back, self.operands, self.dims, self.results = back, operands, dims, results
        self.given = [np.zeros_like(r) if g is None else g for g, r in zip(given, results, strict=False)]
        self.made: tuple[Array, ...] = ()
        if back.backward is not None:
            spec = back.backward
            arguments = [self._whole(s) for s in back.arguments]
            shared = {o.index: x for o, x in zip(back.forward.operands, operands, strict=True) if o.kind == "shared"}
            self.made = evaluate(
                spec, [shared[o.index] if o.kind == "shared" else arguments[o.index] for o in spec.operands], dims
            )

    def _whole(self, source: Source) -> Array:
        if source.row is not None:
            table = next(
                x
                for x, o in zip(self.operands, self.back.forward.operands, strict=True)
                if o.kind == "shared" and o.index == source.number
            )
            return table[min(max(int(self.at(source.row, ())), 0), len(table) - 1)]
        if source.kind == "argument":
            place = next(
                k for k, o in enumerate(self.back.forward.operands) if o.kind != "shared" and o.index == source.number
            )
            return self.operands[place]
        of = {"result": self.results, "adjoint": self.given, "backward": self.made}[source.kind]
        return of[source.number]

    def _extents(self, shape: Sequence[Size]) -> tuple[int, ...]:
        return tuple(int(self.dims[n.index]) if isinstance(n, Dim) else n for n in shape)

    def at(self, source: Source, shape: Sequence[Size]) -> Array:
        """Return so many elements from where a source begins."""
        real = self._extents(shape)
        flat = np.ravel(self._whole(source))
        return flat[source.start : source.start + int(np.prod(real))].reshape(real)

    def gives(self) -> list[tuple[int, Array]]:
        """Return pairs of an operand and a term of its adjoint; for a list, of its elements stacked."""
        out = []
        for term in self.back.terms:
            if term.which >= 0:
                total = np.zeros_like(self.operands[term.of])
                self._add_outer(total, term, [self._rows(p) for p in term.parts])
                out.append((term.of, total))
        for output in self.back.outputs:
            part, whole = self.at(output.source, output.shape), np.shape(self.operands[output.operand])
            if output.row is not None:
                row = output.row if isinstance(output.row, int) else int(self.at(output.row, ()))
                adjoint = np.zeros(whole, part.dtype)
                count = min(part.shape[0] if part.ndim == len(whole) else 1, len(adjoint))
                row = min(max(row, 0), len(adjoint) - count)  # as `take` reads the nearest row there is
                if count:
                    adjoint[row : row + count] = part.reshape(-1, *whole[1:])[:count]
                part = adjoint
            out.append((output.operand, part))
        return out

    def add_terms(self, sums: dict[int, Array], shapes: Mapping[int, tuple[int, ...]]) -> None:
        """Add the node's part to the gradients of values that depend on shared tensors alone."""
        for term in self.back.terms:
            if term.which >= 0:
                continue
            parts = [self._rows(p) for p in term.parts]
            total = sums.setdefault(term.of, np.zeros(shapes[term.of], parts[-1].dtype))
            if not total.size:
                continue
            if term.kind == "sum":
                total += parts[0].reshape(total.shape)
            elif term.kind == "rows":
                rows = total.reshape(len(total), -1)
                at = np.clip(parts[0].reshape(-1), 0, len(total) - 1)
                np.add.at(rows, at, parts[1].reshape(-1, rows.shape[1]))
            else:
                self._add_outer(total, term, parts)

    def _add_outer(self, total: Array, term: ParameterGradient, parts: Sequence[Array]) -> None:
        left, right = (p.reshape(-1, p.shape[-1]) for p in parts)
        if term.row is not None:
            total = total[min(max(int(self._rows(term.row)), 0), len(total) - 1)]
        (r, c) = term.start
        total[r : r + left.shape[1], c : c + right.shape[1]] += left.T @ right

    def _rows(self, part: RowBlock) -> Array:
        return self.at(part.source, part.shape)


def sweep(
    spec: KernelSpec, operands: Sequence[Array | None], dims: Sequence[int], seeds: Mapping[int, Array]
) -> dict[int, Array]:
    """Return the adjoints of all values of a kernel that have one, operation by operation.

    Parameters
    ----------
    spec, operands, dims
        A node. Operands may be None: values that depend on them are left out.
    seeds
        Adjoints by the numbers of values.
    """

    def static(attr: object) -> Any:
        match attr:
            case Dim():
                return int(dims[attr.index])
            case ("value", int(k)):
                return int(values[k])
            case tuple():
                return tuple(static(a) for a in attr)
        return attr

    values: list[Any] = [
        None if x is None else np.asarray(x, o.dtype) for x, o in zip(operands, spec.operands, strict=True)
    ]
    below, todo = set[int](), [*seeds]  # values that the seeds are computed from
    while todo:
        v = todo.pop()
        if v not in below and v >= len(spec.operands):
            below.add(v)
            op = spec.body[v - len(spec.operands)]
            todo += (*op.args, *numbers_in(op.attrs))
    for v, op in enumerate(spec.body, len(spec.operands)):
        read = (*op.args, *numbers_in(op.attrs))
        if v not in below or any(values[k] is None for k in read) or (not dims and has_extents(op)):
            values.append(None)
            continue
        shape = static(op.shape)
        values.append(np.asarray(apply(op.op, [values[a] for a in op.args], static(op.attrs), shape, op.dtype)))
    found = dict(seeds)
    first = len(spec.operands)
    for v in reversed(range(first, len(values))):
        op = spec.body[v - first]
        if v not in found or op.dtype not in FLOATS or any(values[a] is None for a in op.args):
            continue
        args = tuple(values[a] for a in op.args)
        wanted = {k for k, a in enumerate(args) if a.dtype.name in FLOATS and differentiable(op.op, k, op.attrs)}
        if wanted:
            one = Applied(
                op=op.op, args=args, attrs=static(op.attrs), result=values[v], adjoint=found[v], wanted=wanted
            )
            for k, g in adjoints(Eager(), one).items():
                a = op.args[k]
                found[a] = found[a] + g if a in found else np.asarray(g)
    return found
