"""The backward pass through a plan: the derivative of each of its kernels.

In: a `Plan`, and the shared tensors whose gradients are requested. Out: `BackwardPlan`: the same plan with kernels that
save values for the backward pass, and the `Backward` of each kernel. Saved values are further results of a kernel that
the program does not read: losses have the bits of the plan itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from acronumba.analysis import active
from acronumba.analysis.active import RequestedValues
from acronumba.analysis.backward.derive import Backward, Pullback, depends, differentiate, pullback
from acronumba.analysis.plan import Plan
from acronumba.ir.nodes import Block, Emit, Extent, Instr, Var
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.ir.types import TensorT
from acronumba.records import record


@record(kw_only=True)
class BackwardPlan:
    """The derivative of a plan."""

    plan: Plan  # forward
    kernels: tuple[Backward | None, ...]  # per kernel of the plan; None: it takes no part in the backward pass
    specs: tuple[KernelSpec, ...]  # backward kernels, each once; then those of `pullbacks`
    number: tuple[int, ...]  # per kernel of the plan: which of `specs`; -1: none
    wanted: frozenset[int]  # entries of `Program.shared`, with those computed once that depend on them
    pullbacks: Mapping[
        tuple[int, int], Pullback
    ]  # by kernel and value: the pullback of a value computed from shared tensors alone


def derive_all(plan: Plan, wanted: RequestedValues, width: int | None) -> tuple[Backward, ...]:
    """Return the `Backward` of each kernel of a plan; `width`: number of words of the result that are the loss."""
    parts = active.parts(plan.program, plan.kernels, wanted, width)
    return tuple(
        differentiate(spec, part.wanted, part.results, part.shared)
        for spec, part in zip(plan.kernels, parts, strict=True)
    )


def plan_backward(
    plan: Plan, wanted: Collection[int], width: int | None, params: Collection[int] = (), packed: Collection[int] = (),
    cheap: bool = False,
) -> BackwardPlan:  # fmt: skip
    """Return the derivative of a plan.

    Parameters
    ----------
    plan
        The plan to differentiate.
    wanted
        Entries of `Program.shared`, given tensors.
    width
        Number of words of the result that are the loss; None: all tensors in it have adjoints.
    params, packed
        Positional parameters, and shared objects and lists, whose arrays get gradients, too.
    cheap
        See `pullback`.
    """
    program = plan.program
    given = RequestedValues(shared=frozenset(wanted), packed=frozenset(packed), params=frozenset(params))
    reached = set(wanted)
    for once in program.once:
        operands = plan.kernels[once.kernel].operands
        read = (operands[v] for v in depends(plan.kernels[once.kernel], 0))
        if any(o.kind == "shared" and o.index in reached for o in read):
            reached.add(once.index)
    found = derive_all(plan, given, width)
    kernels = tuple(back if back.outputs or back.terms else None for back in found)
    numbers: dict[KernelSpec, int] = {}
    number = [
        -1 if back is None or back.backward is None else numbers.setdefault(back.backward, len(numbers))
        for back in kernels
    ]
    forward = tuple(spec if back is None else back.forward for spec, back in zip(plan.kernels, kernels, strict=True))
    functions = tuple(replace(f, blocks=tuple(_keep(block, kernels) for block in f.blocks)) for f in program.functions)
    kept = replace(plan, program=replace(program, functions=functions), kernels=forward)
    pullbacks = _pullbacks(plan, kernels, reached, cheap)
    specs = (*numbers, *(p.spec for p in pullbacks.values()))
    return BackwardPlan(
        plan=kept, kernels=kernels, specs=specs, number=tuple(number), wanted=frozenset(reached), pullbacks=pullbacks
    )


def _pullbacks(
    plan: Plan, kernels: Sequence[Backward | None], wanted: Collection[int], cheap: bool
) -> dict[tuple[int, int], Pullback]:
    """Map (kernel, value) to its pullback, for values computed from shared tensors alone: see `pullback`."""
    values = {(once.kernel, plan.kernels[once.kernel].results[0]) for once in plan.program.once if once.index in wanted}
    for k, back in enumerate(kernels):
        first = len(plan.kernels[k].operands)
        values |= {(k, t.of) for t in (back.terms if back is not None else ()) if t.which < 0 and t.of >= first}
    found = {(k, v): pullback(plan.kernels[k], v, wanted, cheap) for k, v in sorted(values)}
    return {at: p for at, p in found.items() if p is not None}


def _keep(block: Block, kernels: Sequence[Backward | None]) -> Block:
    """Return a block whose nodes have saved values as further results."""
    return replace(block, instrs=tuple(_more(i, kernels) if isinstance(i, Emit) else i for i in block.instrs))


def _more(i: Emit, kernels: Sequence[Backward | None]) -> Instr:
    back = kernels[i.kernel]
    if back is None or not back.kept:
        return i
    spec, outs, shapes = back.forward, list(i.outs), list(i.shapes)
    for k in back.kept:
        op = spec.body[k - len(spec.operands)]
        rows = () if spec.rows is None else i.shapes[0][:1]
        shape: tuple[Extent, ...] = (*rows, *(i.dims[n.index] if isinstance(n, Dim) else n for n in op.shape))
        known = tuple(n if isinstance(n, int) else None for n in shape)
        outs.append(Var(f"{i.outs[0].name}_kept_{k}", TensorT(op.dtype, known)))
        shapes.append(shape)
    return replace(i, outs=tuple(outs), shapes=tuple(shapes))
