"""Static phases: the graph of the kernels and its components, as text.

In: the program with its kernels. Out: for each phase its kernels, the lines that record them, the kernels they read,
and whether their number of batches grows. An edge means that a node of one kernel may feed a node of the other
(`carried`); phases are the strongly connected components, in topological order. A run computes its phases from the
recorded graph (`runtime.library.schedule`), which may be finer, as not every edge need occur.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.analysis.value_flow import components, value_flow
from acronumba.ir.nodes import Emit, Program
from acronumba.ir.spec import KernelSpec, Use


def phases_text(program: Program, kernels: Sequence[KernelSpec], uses: Sequence[Sequence[Use]]) -> str:
    """Return the phases of a planned program as text.

    Parameters
    ----------
    program
        With `Emit`.
    kernels
        The kernels, indexed by `Emit.kernel`.
    uses
        Per kernel: where it is recorded.
    """
    reads = kernel_graph(program, len(kernels))
    lines = ["# what may read what; a mini-batch numbers its phases by what it has recorded"]
    for number, phase in enumerate(_in_order(reads)):
        lines.append(f"phase {number}: {', '.join(kernels[k].name for k in phase)}")
        for k in phase:
            spec = kernels[k]
            places = ", ".join(dict.fromkeys(f"{use.loc.function} line {use.loc.line}" for use in uses[k]))
            sources = ", ".join(kernels[j].name for j in sorted(reads[k])) or "no kernel"
            lines.append(f"    {spec.name}: {places}; reads {sources}")
        each = " of equal dynamic dimensions" if any(kernels[k].dims and kernels[k].rows for k in phase) else ""
        if len(phase) > 1:
            why = f"its kernels feed each other: one batch{each} for each depth and kernel"
        elif phase[0] in reads[phase[0]]:
            why = f"its nodes feed each other: one batch{each} for each depth"
        else:
            why = f"none of its nodes feeds another: one batch{each}"
        lines.append(f"    {why}")
    return "\n".join(lines) + "\n" if lines else "no kernels\n"


def kernel_graph(program: Program, kernels: int) -> list[set[int]]:
    """Return per kernel the kernels whose nodes its nodes may read."""
    flow = value_flow(program)
    of = [node.kernel if isinstance(node, Emit) else -1 for node in flow.nodes]
    out: list[set[int]] = [set() for _ in range(kernels)]
    for k in range(len(of)):
        out[of[k]].update(of[u] for u in flow.operands(k))
    return out


def _in_order(reads: Sequence[set[int]]) -> list[list[int]]:
    """Return the components by the number of kernels that lead to them, then by their smallest kernel."""
    before: dict[int, set[int]] = {}
    ranked = []
    for part in components(reads):
        above: set[int] = set()
        for k in part:
            for j in reads[k] - set(part):
                above |= before[j] | {j}
        for k in part:
            before[k] = above | set(part)
        ranked.append((len(above), part[0], part))
    return [part for _, _, part in sorted(ranked)]
