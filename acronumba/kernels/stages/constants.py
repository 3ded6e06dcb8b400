"""Constant folding: operations on constants alone become constants.

In: a `KernelSpec`. Out: a specification with the same values by the same numbers. Only operations are folded that every
machine rounds alike (IEEE 754 arithmetic and square roots, conversions, integers), so the bits are those that the
kernel would compute. Operations that only direct gradients become views of the same shape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import KernelOp, KernelSpec
from acronumba.kernels.write.element import DTYPES

Constants: TypeAlias = dict[int, NDArray[np.generic]]  # scalars by the number of the value


def fold(spec: KernelSpec) -> KernelSpec:
    """Return the specification with its constant scalars computed."""
    first = len(spec.operands)
    known: Constants = {}
    body = []
    for v, op in enumerate(spec.body, first):
        value = _value(op, known)
        if value is not None:
            known[v] = value
            if op.op != "const":
                op = replace(op, op="const", args=(), attrs=(value.item(),))
        if op.op == "scale_gradient":
            op = replace(op, op="reshape", attrs=())
        body.append(op)
    return replace(spec, body=tuple(body))


def _value(op: KernelOp, known: Constants) -> NDArray[np.generic] | None:
    """Return the constant that an operation computes, in its dtype; None if it is not a constant scalar."""
    if op.op == "const":
        return np.asarray(op.attrs[0]).astype(op.dtype)
    if not TENSORS[op.op].exact or op.shape or op.site >= 0 or DTYPES[op.dtype].kind == "b":
        return None
    if not op.args or not all(a in known for a in op.args):
        return None
    args = [known[a] for a in op.args]
    to_integer = op.op == "cast" and DTYPES[op.dtype].kind != "f"
    if to_integer and any(a.dtype.kind == "f" and not abs(a) < 2**31 for a in args):
        return None
    with np.errstate(all="ignore"):
        args = [a.astype(op.dtype) for a in args]
        value = np.asarray(TENSORS[op.op].reference(args, op.attrs, (), op.dtype))
    return value if np.isfinite(value) else None
