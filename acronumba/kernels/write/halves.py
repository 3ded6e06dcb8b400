"""Packs right operands of products of a node's matrices in bf16: two terms in a word, see `kernels.stages.halves`.

In: a `PanelProduct`. Out: statements of its kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba.emit.tree import I16, I32, Expr, Load, Local, const, convert, intrinsic, select
from acronumba.kernels.stages.index import Index, Poly, size_poly

if TYPE_CHECKING:
    from acronumba.kernels.write.matrices import PanelProduct


def word(low: Expr, high: Expr) -> Expr:
    """Return words of two rounded numbers."""
    lanes = low.type.lanes
    ty = I32.vector(lanes)

    def half(x: Expr) -> Expr:
        return convert(intrinsic("to_bf16", x, type=I16.vector(lanes)), ty, "unsigned")

    return half(low) | (half(high) << const(16, ty))


def pack_pairs(p: PanelProduct, outer: Index, to: Expr, vector: Expr, wide: Expr) -> None:
    """Copy the columns of a panel, two rounded terms in a word; beside the last of an odd number is a 0."""
    w, ty, piece = p.w, p.t.ty.vector(p.lanes), p.product.right
    size = w.number(size_poly(p.inner_size))
    even = isinstance(p.inner_size, int) and p.inner_size % 2 == 0
    with (
        w.loop("k", 0, size, 2, extent=p.inner_size) as k,
        p.each_vector(vector, wide) as (number, j),
        w.lanes_of(j, p.lanes, p.columns),
    ):

        def row(at: Poly) -> Expr:
            x = w.value(piece, p.right(piece, outer, at, Poly.of(j.name)))
            x = const(x, ty) if x.type.lanes == 1 else x
            return x if w.left is None else select(w.inside(), x, const(0, ty))

        low = row(Poly.of(k.name))
        if p.inner_size == 1:
            high: Expr = const(0, ty)
        elif even:
            high = row(Poly.of(k.name) + 1)
        else:
            high = select(k + 1 < size, row(w.named("at", select(k + 1 < size, k + 1, k))), const(0, ty))
        w.f.store_lanes(to + (k >> 1) * (wide * p.width) + number * p.width, word(low, high))


def find_odd(p: PanelProduct, odd: Local) -> None:
    """Set `odd` if a packed operand has an infinity or NaN: all bits of the exponent are set."""
    w, ty = p.w, I32.vector(p.lanes)
    total = w.local("total", const(0, ty))
    with p.each_panel() as (vector, wide):
        packed = p.packed(vector)
        with w.loop("k", 0, (w.number(size_poly(p.inner_size)) + 1 >> 1) * wide) as k:
            x = w.local("x", Load(packed + k * p.width, ty))
            for bits in (0x7F80, 0x7F800000):
                w.f.set(total, select((x & const(bits, ty)).eq(const(bits, ty)), const(1, ty), total))
    with w.when(intrinsic("hmax", total, type=I32).ne(const(0, I32))):
        w.f.set(odd, 1)
