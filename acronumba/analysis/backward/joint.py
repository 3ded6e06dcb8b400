"""The joint graph of a kernel: its values, and what is computed from the adjoints of its results.

In: a `KernelSpec`. Out: a `Joint`, a builder for the rules of `ir.vjp` whose values are numbers: operands, operations
of the kernel, then what is added. Equal expressions are one, also across both halves; what changes nothing is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.ir.evaluate import apply
from acronumba.ir.ops import TENSORS, Attrs
from acronumba.ir.spec import KernelSpec, Size
from acronumba.ir.vjp import Builder, Sizes


@dataclass(frozen=True, slots=True)
class Val:
    """A value of the joint graph."""

    op: str  # "operand", "adjoint", or an operation
    args: tuple[int, ...]
    attrs: Attrs  # of an adjoint: the number of the result
    dtype: str
    shape: Sizes

    @property
    def numbers(self) -> tuple[int, ...]:
        """The values of host numbers among the static arguments."""
        found = (x for a in self.attrs for x in (a if isinstance(a, tuple) else (a,)))
        whole = [self.attrs, *(a for a in self.attrs if isinstance(a, tuple))]
        named = [x[1] for x in (*found, *whole) if isinstance(x, tuple) and len(x) == 2 and x[0] == "value"]
        return tuple(dict.fromkeys(named))


class Joint(Builder):
    """Values of a kernel and of its derivative, by number."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self.first = len(spec.operands)
        self.vals = [Val("operand", (), (), o.dtype, o.shape) for o in spec.operands]
        self.known: dict[Val, int] = {}
        for op in spec.body:
            self.vals.append(Val(op.op, op.args, op.attrs, op.dtype, op.shape))
            self.known.setdefault(_key(self.vals[-1]), len(self.vals) - 1)
        self.forward = len(self.vals)  # the first value that is not of the kernel

    def shape(self, x: int) -> Sizes:
        return self.vals[x].shape

    def dtype(self, x: int) -> str:
        return self.vals[x].dtype

    def number_of(self, attr: object) -> int:
        match attr:
            case ("value", int(k)):
                return k
        return int(super().number_of(attr))

    def adjoint(self, j: int) -> int:
        """Return the adjoint of result `j`."""
        v = self.spec.results[j]
        return self._add(Val("adjoint", (), (j,), self.dtype(v), self.shape(v)))

    def op(self, name: str, args: Sequence[int], shape: Sizes, dtype: str, attrs: Attrs = ()) -> int:
        short = self._short(name, args, shape, dtype, attrs)
        return self._add(Val(name, tuple(args), attrs, dtype, shape)) if short is None else short

    def _add(self, val: Val) -> int:
        key = _key(val)
        if key not in self.known:
            self.known[key] = len(self.vals)
            self.vals.append(val)
        return self.known[key]

    def _short(self, name: str, args: Sequence[int], shape: Sizes, dtype: str, attrs: Attrs) -> int | None:
        """Return a value that is there already, or a shorter way to one."""
        below = self.vals[args[0]] if args else None
        if below is None:
            return None
        if TENSORS[name].kind == "element" and not shape and all(self.vals[a].op == "const" for a in args):
            return self._computed(name, args, dtype)
        match name:
            case "where" if below.op == "const":
                chosen = args[1] if below.attrs[0] else args[2]
                return chosen if self.shape(chosen) == shape else None
            case "pow" if self.shape(args[0]) == shape:
                exponent = self.constant(args[1])
                return args[0] if exponent == 1.0 else int(self.mul(args[0], args[0])) if exponent == 2.0 else None
            case "neg" if below.op == "neg":
                return below.args[0]
            case "mul":
                for x, y in (args, (args[1], args[0])):
                    if self.constant(x) == 1.0 and self.shape(y) == shape:
                        return y
            case "add":
                for x, y in (args, (args[1], args[0])):
                    if self.constant(x) == 0.0 and self.shape(y) == shape:
                        return y
            case "reshape" if below.op == "reshape":
                return int(self.reshape(below.args[0], shape))
            case "transpose" if below.op == "transpose":
                (inner,), (outer,) = below.attrs, attrs
                return int(self.transpose(below.args[0], [inner[k] for k in outer]))
        return None

    def _computed(self, name: str, args: Sequence[int], dtype: str) -> int | None:
        """Return an operation on constants as a constant, if it is a finite number."""
        with np.errstate(all="ignore"):
            given = [np.asarray(self.vals[a].attrs[0], self.dtype(a)) for a in args]
            value = apply(name, given, (), (), dtype).item()
        return int(self.const(value, dtype)) if np.isfinite(value) else None

    def constant(self, v: int) -> object:
        """Return the constant that all elements of a value are; None if it is none."""
        while self.vals[v].op in ("broadcast", "reshape"):
            v = self.vals[v].args[0]
        return self.vals[v].attrs[0] if self.vals[v].op == "const" else None

    # ---- sums of adjoints

    def sum_of(self, gs: Sequence[int]) -> int:
        """Return the sum of adjoints, in this order; pieces side by side become one concatenation."""
        left = list(gs)
        k = 0
        while k < len(left):
            merged = next(
                ((j, m) for j in range(k + 1, len(left)) if (m := self._beside(left[k], left[j])) is not None), None
            )
            if merged is None:
                k += 1
            else:
                left[k] = merged[1]
                del left[merged[0]]
        out = left[0]
        for g in left[1:]:
            out = self.add(out, g)
        return out

    def _pieces(self, g: int) -> tuple[int, list[tuple[int, int, int | None]]] | None:
        """Return axis and (start, size, value or None for zeros) of a concatenation."""
        val = self.vals[g]
        if val.op != "concat":
            return None
        (axis,) = val.attrs
        out: list[tuple[int, int, int | None]] = []
        at = 0
        for a in val.args:
            n = self.shape(a)[axis]
            if not isinstance(n, int):
                return None
            out.append((at, n, None if self.constant(a) == 0.0 else a))
            at += n
        return axis, out

    def _beside(self, g: int, h: int) -> int | None:
        p, q = self._pieces(g), self._pieces(h)
        if p is None or q is None or p[0] != q[0]:
            return None
        axis, shape = p[0], self.shape(g)
        full = sorted((x for x in (*p[1], *q[1]) if x[2] is not None), key=lambda x: x[0])
        end = shape[axis]
        assert isinstance(end, int)

        def zeros(n: int) -> list[int]:
            return [self.full(0.0, (*shape[:axis], n, *shape[axis + 1 :]), self.dtype(g))] if n else []

        at, parts = 0, []
        for start, n, v in full:
            if start < at:
                return None
            parts += [*zeros(start - at), v]
            at = start + n
        return int(self.concat([*parts, *zeros(end - at)], axis))


def _key(val: Val) -> Any:
    return (val.op, val.args, repr(val.attrs), val.dtype, val.shape)


def elements(shape: Sizes) -> int:
    """Return about how many elements there are; an extent that is known at run time only counts 16."""
    out = 1
    for n in shape:
        out *= _size(n)
    return out


def _size(n: Size) -> int:
    return n if isinstance(n, int) else 16
