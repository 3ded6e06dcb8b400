"""Products of 8-bit codes, as a CPU computes them.

In: a `KernelSpec`. Out: a specification with the same results, in which the left operands of products with shared codes
have the form that tiles read: unsigned bytes, offset by 128, if the CPU has an instruction that multiplies unsigned by
signed bytes; else 16-bit integers, of which every CPU multiplies pairs.
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
    if target.warps:
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
    now = {v: v for v in range(first)}  # the number of each value, and of it as tiles read it
    read: dict[int, int] = {}
    body: list[KernelOp] = []

    def add(op: KernelOp) -> int:
        body.append(op)
        return first + len(body) - 1

    def convert(v: int) -> None:
        source = spec.operands[v] if v < first else spec.body[v - first]
        op = KernelOp("cast", (now[v],), (), "int16", source.shape, source.name, -1, spec.body[max(0, v - first)].loc)
        if target.dots:
            top = add(replace(op, op="const", args=(), attrs=(-128,), dtype="int8", shape=(), name="top"))
            op = replace(op, op="xor", args=(now[v], top), dtype="int8")
        read[v] = add(op)

    for v in sorted(lefts):
        if v < first:
            convert(v)
    for v, op in enumerate(spec.body, first):
        codes = is_of_codes(spec, op)
        op = replace(op, args=tuple(read.get(a, now[a]) if codes else now[a] for a in op.args))
        alone = op.op == "cast" and v not in spec.results and uses[v] == products[v]
        if v in lefts and alone and not target.dots:
            now[v] = read[v] = add(replace(op, dtype="int16"))
            continue
        now[v] = add(op)
        if v in lefts:
            convert(v)
    return replace(spec, body=tuple(body), results=tuple(now[v] for v in spec.results))
