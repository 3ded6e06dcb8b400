"""Products of codes of 8 bits, as a processor computes them.

In: a `KernelSpec`. Out: one of the same results. A processor without an instruction for bytes multiplies pairs of 16
bits: the left operands of products with shared codes are written in 16 bits then, so that no tile has to widen them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from acronumba.emit.target import Target
from acronumba.ir.spec import KernelOp, KernelSpec
from acronumba.kernels.stages.weights import weight


def is_of_codes(spec: KernelSpec, op: KernelOp) -> bool:
    """Whether an operation sums products of codes exactly."""
    return op.op == "matmul" and op.dtype == "int32" and {_dtype(spec, a) for a in op.args} <= {"int8", "int16"}


def _dtype(spec: KernelSpec, v: int) -> str:
    first = len(spec.operands)
    return spec.operands[v].dtype if v < first else spec.body[v - first].dtype


def for_machine(spec: KernelSpec, target: Target) -> KernelSpec:
    """Return the kernel with the left operands of such products in the form that tiles of a machine read."""
    if target.warps or target.dots:
        return spec
    first = len(spec.operands)
    lefts: set[int] = set()
    for op in spec.body:
        if is_of_codes(spec, op):
            x, y = op.args
            if weight(spec, y) is not None:
                lefts.add(x)
            elif weight(spec, x) is not None:
                lefts.add(y)
    if not lefts:
        return spec
    uses = Counter(a for op in spec.body for a in op.args)
    products = Counter(a for op in spec.body if is_of_codes(spec, op) for a in op.args if a in lefts)
    now = {v: v for v in range(first)}  # the number of each value, and of it in 16 bits
    wide: dict[int, int] = {}
    body: list[KernelOp] = []

    def add(op: KernelOp) -> int:
        body.append(op)
        return first + len(body) - 1

    def widen(v: int) -> None:
        source = spec.operands[v] if v < first else spec.body[v - first]
        like = spec.body[0] if v < first else spec.body[v - first]
        wide[v] = add(replace(
            like, op="cast", args=(now[v],), attrs=(), dtype="int16", shape=source.shape, name=source.name, site=-1
        ))  # fmt: skip

    for v in sorted(lefts):
        if v < first:
            widen(v)
    for v, op in enumerate(spec.body, first):
        codes = is_of_codes(spec, op)
        op = replace(op, args=tuple(wide.get(a, now[a]) if codes else now[a] for a in op.args))
        if v in lefts and op.op == "cast" and v not in spec.results and uses[v] == products[v]:
            now[v] = wide[v] = add(replace(op, dtype="int16"))
            continue
        now[v] = add(op)
        if v in lefts:
            widen(v)
    return replace(spec, body=tuple(body), results=tuple(now[v] for v in spec.results))
