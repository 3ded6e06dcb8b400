"""Stages of products with shared weights: the products that share a stage, and the tails on their panels.

In: a `Pending`. Out: a `ProductStage`.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import Symbolic, Untraceable, arguments
from acronumba.kernels.stages.index import ZERO, Index, Poly, reindex
from acronumba.kernels.stages.pending import Pending
from acronumba.kernels.stages.tasks import Product, ProductPart, ProductStage
from acronumba.kernels.write.element import DTYPES


def product_stage(pending: Pending) -> ProductStage:
    """Return a stage of the next ready product, with the products and tasks that can share it."""
    ready = [v for v in pending.tasks if v in pending.products and pending.ready(v)]
    first = pending.products[ready[0]]
    best: tuple[tuple[int, int], ProductStage] | None = None
    for n in _widths(pending, first):
        stage = _try_stage(pending, first, n, ready)
        score = (len(stage.tail), n)
        if best is None or score > best[0]:
            best = (score, stage)
    assert best is not None
    stage = best[1]
    computed = {part.product.value for part in stage.parts}
    fused = computed | set(stage.tail)
    needed = set(pending.graph.spec.results) & computed
    for v in pending.tasks:
        if v not in fused:
            needed |= pending.reads[v].keys() & computed
    for v in pending.fails:
        needed |= pending.check_reads(v) & computed
    stage.tail[:0] = sorted(needed)
    return stage


def _widths(pending: Pending, product: Product) -> list[int]:
    """Return candidate widths of a gate: all columns of the product, or those of the parts that it is split into."""
    whole = product.columns
    assert isinstance(whole, int)
    out = [whole]
    if not pending.strategy.vertical:
        return out
    lanes = pending.target.column_step(DTYPES[pending.graph.dtype(product.value)].ty)
    for v in pending.tasks:
        if product.value in pending.reads[v] and v not in pending.products:
            shape = pending.graph.shape(v)
            n = shape[0 if product.across else -1] if shape else 0
            if isinstance(n, int) and 0 < n < whole and whole % n == 0 and whole // n <= pending.strategy.gates:
                if -(-n // lanes) * (whole // n) <= 2 * -(-whole // lanes):
                    out.append(n)
    return list(dict.fromkeys(out))


def _try_stage(pending: Pending, first: Product, n: int, ready: Sequence[int]) -> ProductStage:
    """Return the stage of a product with gates of `n` columns, with compatible products and their tail."""
    group = [first.value]

    def fits(v: int) -> bool:
        p = pending.products.get(v)
        if p is None or v not in ready or p.how != "shared" or (p.lead, p.across) != (first.lead, first.across):
            return False
        if not pending.strategy.horizontal:
            return False
        whole = p.columns
        return (
            isinstance(whole, int)
            and p.form == first.form
            and whole % max(n, 1) == 0
            and (whole == n or whole // max(n, 1) <= pending.strategy.gates)
        )

    # What is ready depends on nothing that is not done: no product of the group feeds another.
    alike = [v for v in ready if v not in group and fits(v)]
    while joined := [v for v in alike if any(_alike(pending, v, u) for u in group)]:
        group += joined
        alike = [v for v in alike if v not in joined]
    tail: list[int] = []
    bare = ProductStage(first.lead, n, [ProductPart(first, 1)], [])
    space, axis = bare.space, bare.axis
    changed = pending.strategy.vertical
    while changed:
        changed = False
        for v in pending.tasks:
            if v in tail or pending.loops_of(v) != (space, ()) or v in pending.products:
                continue
            unmet = [u for u in pending.reads[v] if u not in pending.done and u not in group and u not in tail]
            if any(not fits(u) for u in unmet):
                continue
            if not any(u in group or u in unmet for u in pending.reads[v]) and not any(
                u in tail for u in pending.reads[v]
            ):
                continue
            if _matches(pending, v, n, space, axis, {*group, *unmet}, set(tail)):
                group += unmet
                tail.append(v)
                changed = True
    parts = []
    for v in group:
        p = pending.products[v]
        assert isinstance(p.columns, int)
        parts.append(ProductPart(p, p.columns // n if n else 1))
    order = {v: k for k, v in enumerate(pending.tasks)}
    return ProductStage(first.lead, n, parts, sorted(tail, key=order.__getitem__))


def _alike(pending: Pending, v: int, u: int) -> bool:
    """Whether two products read the same left operand or the same weight."""
    p, q = pending.products[v], pending.products[u]
    return p.pieces == q.pieces or p.matrix == q.matrix


def _matches(
    pending: Pending, v: int, n: int, space: tuple[Size, ...], axis: int, group: set[int], tail: set[int]
) -> bool:  # fmt: skip
    """Whether the stored value `v` can be computed panel by panel: it reads products at the panel's columns only."""
    names = [f"i{k}" for k in range(len(space))]
    at = tuple(ZERO if s == 1 else Poly.of(x) for s, x in zip(space, names, strict=True))
    here = Index(space, at)
    places = Symbolic(dict(zip(names, space, strict=True)), names[axis])
    try:
        roots = arguments(places, pending.graph, v, here)
    except Untraceable:
        return not pending.reads[v].keys() & (group | tail)
    for u, index in pending.chosen.leaves(roots, places):
        if u in group:
            if index is None:
                return False
            try:
                own = reindex(index, pending.graph.shape(u), places.split)
            except Untraceable:
                return False
            offset = (own.at[axis] - here.at[axis]).constant
            others = any(a != b for k, (a, b) in enumerate(zip(own.at, here.at, strict=True)) if k != axis)
            if others or offset is None or n == 0 or offset % n:
                return False
        elif u in tail:
            if index != here:
                return False
        elif u >= pending.graph.first and u not in pending.done:
            return False
    return True
