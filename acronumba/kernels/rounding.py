"""Weights rounded to bf16 in compiled code, for those that change at every call: see `kernels.tiles.PairPacking`.

In: a machine. Out: a module with two functions. They write words of two neighbours in a row of an array of float32
(`along`), or of neighbours in a column (`across`); beside the last of an odd number there is a 0.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from acronumba.emit import tree
from acronumba.emit.compile import Deferred
from acronumba.emit.tree import F32, I16, I32, I64, Expr, const, convert, intrinsic, select

if TYPE_CHECKING:
    from acronumba.emit.target import Target

PARAMETERS = ("array", "stride", "rows", "columns", "words")


def _along(lanes: int) -> tree.Function:
    f = tree.Builder("along", [(p, I64) for p in PARAMETERS], doc="Round the elements of each row.")
    wide = f.let("wide", (f["columns"] + 1) >> 1 << 2)
    with f.loop("r", 0, f["rows"]) as r:
        source, to = f.let("source", f["array"] + f["stride"] * r), f.let("to", f["words"] + wide * r)
        with f.when((f["columns"] & 1).ne(0)):
            f.store_lanes(to + (wide - 2), const(0, I16))
        with f.loop("k", 0, f["columns"], lanes) as k:
            left = f["columns"] - k
            half = intrinsic("to_bf16", tree.Load(source + k * 4, F32.vector(lanes), left), type=I16.vector(lanes))
            f.store_lanes(to + k * 2, half, left)
    return f.function()


def _across(lanes: int) -> tree.Function:
    f = tree.Builder("across", [(p, I64) for p in PARAMETERS], doc="Round the elements of each two rows.")
    words = I32.vector(lanes)

    def half(address: Expr, left: Expr) -> Expr:
        x = tree.Load(address, F32.vector(lanes), left)
        return convert(intrinsic("to_bf16", x, type=I16.vector(lanes)), words, "unsigned")

    with f.loop("r", 0, f["rows"], 2) as r:
        source, to = f.let("source", f["array"] + f["stride"] * r), f.let("to", f["words"] + f["columns"] * (r * 2))
        both = f.let("both", r + 1 < f["rows"])
        with f.loop("k", 0, f["columns"], lanes) as k:
            left = f["columns"] - k
            other = half(source + f["stride"] + k * 4, select(both, left, const(0, I64)))
            f.store_lanes(to + k * 4, half(source + k * 4, left) | (other << const(16, words)), left)
    return f.function()


def _module(on: Target) -> tree.Module:
    lanes = on.lanes(F32)
    return tree.Module("rounding", (_along(lanes), _across(lanes)), ("along", "across"), "Weights rounded to bf16.")


def deferred(on: Target) -> Deferred:
    """Return the module, made only if its machine code is not cached."""
    return Deferred(name="rounding", key=f"rounding {on}", make=functools.partial(_module, on))
