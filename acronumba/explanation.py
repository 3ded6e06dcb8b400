"""`Model.explain`: what the compiler decided, with the user's source lines.

In: a specialisation. Out: an `Explanation`: for each kernel the lines it comes from, what it reads from each node
and what all nodes share; which shared values the program uses; where float32 becomes float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from acronumba.ir.types import type_text
from acronumba.kernels.spec import Dim, KernelSpec, Operand
from acronumba.source_lines import line_text

if TYPE_CHECKING:
    from acronumba.pipeline import Compiled
    from acronumba.runtime.trace import TraceData


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNote:
    """One kernel."""

    name: str
    lines: tuple[tuple[int, str], ...]  # line numbers and texts of the user's source that it computes
    operations: tuple[str, ...]
    shared: tuple[str, ...]  # operands that are the same for all nodes
    varying: tuple[str, ...]  # operands of each node
    results: tuple[str, ...]
    phase: int  # component of the kernel graph that it is in; -1 if it was not recorded
    nodes: int  # in the mini-batch that was explained
    batches: int
    once: bool  # whether it computes what all instances share


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the compiler decided. `str` and rich print it."""

    model: str
    parameters: tuple[str, ...]  # types of the positional parameters
    shared: tuple[str, ...]  # shared values that are used: path and type
    constants: tuple[str, ...]  # shared ints that became constants of the program
    recursive: tuple[str, ...]  # functions that are called; all others are inlined
    kernels: tuple[KernelNote, ...]
    idle: tuple[str, ...]  # options that were changed and change nothing in this version
    warnings: tuple[str, ...]  # a line each: where float32 becomes float64
    nodes: int  # of the mini-batch
    batches: int
    lower_bound: int

    def __str__(self) -> str:
        lines = [f"{self.model}"]
        lines += ["", "varying by instance:", *(f"  {p}" for p in self.parameters)]
        lines += ["", "shared by all instances:", *(f"  {s}" for s in self.shared or ("nothing",))]
        if self.constants:
            lines += ["", "constants (another value compiles anew):", *(f"  {c}" for c in self.constants)]
        if self.recursive:
            lines += ["", f"called, not inlined: {', '.join(self.recursive)}"]
        count = sum(len(k.operations) for k in self.kernels)
        single = sum(len(k.operations) * k.nodes for k in self.kernels)
        bound = "proved optimal" if self.batches <= self.lower_bound else f"at least {self.lower_bound}"
        lines += [
            "",
            f"this mini-batch: {self.nodes} nodes (of {single} operations) in {self.batches} batches ({bound})",
        ]
        lines += ["", f"blocks: {count} operations became {len(self.kernels)} kernels, in order of their phases"]
        for kernel in sorted(self.kernels, key=lambda k: k.phase):
            used = (
                f"phase {kernel.phase}, {kernel.nodes} nodes in {kernel.batches} batches"
                if kernel.nodes
                else "once per mini-batch"
                if kernel.once
                else "not used"
            )
            lines += ["", f"  {kernel.name}: {used}", f"    computes {', '.join(kernel.operations)}"]
            lines += [f"    {number:>5} | {text}" for number, text in kernel.lines]
            lines += [f"    shared:  {', '.join(kernel.shared)}"] * bool(kernel.shared)
            lines += [f"    varying: {', '.join(kernel.varying)}"] * bool(kernel.varying)
            lines += [f"    gives:   {', '.join(kernel.results)}"]
        if self.idle:
            lines += ["", f"without effect in this version: {', '.join(self.idle)}"]
        if self.warnings:
            lines += ["", "warnings:", *(f"  {w}" for w in self.warnings)]
        return "\n".join(lines)

    __repr__ = __str__


def explain(compiled: Compiled, trace: TraceData) -> Explanation:
    """Return what was decided for a specialisation, and what came of it in a mini-batch."""
    program = compiled.program
    planned = compiled.plan.program
    paths = [s.path for s in planned.shared]
    once = {compiled.plan.kernels[o.kernel].name for o in planned.once}
    names = compiled.fn.__code__.co_varnames[: compiled.fn.__code__.co_argcount]
    return Explanation(
        model=compiled.fn.__qualname__,
        parameters=tuple(f"{n}: {type_text(t)}" for n, t in zip(names, program.params, strict=False)),
        shared=tuple(f"{s.path}: {type_text(s.type)}" for s in program.shared),
        constants=tuple(compiled.constants),
        recursive=tuple(f.name for f in program.functions[1:]),
        kernels=tuple(_note(k, compiled.fn.__code__.co_filename, trace, paths, once) for k in compiled.plan.kernels),
        idle=compiled.options.without_effect(),
        warnings=program.warnings,
        nodes=trace.nodes,
        batches=len(trace.batches),
        lower_bound=trace.lower_bound,
    )


def _note(spec: KernelSpec, file: str, trace: TraceData, paths: list[str], once: set[str]) -> KernelNote:
    lines: dict[tuple[str, int], str] = {}
    for op in spec.body:
        if op.loc.line:
            lines.setdefault((op.loc.file, op.loc.line), line_text(op.loc))
    ours = {f for f, _ in lines} & {file} or {f for f, _ in lines}
    batches = [b for b in trace.batches if b.kernel == spec.name]
    return KernelNote(
        name=spec.name,
        lines=tuple((n, text) for (f, n), text in sorted(lines.items()) if f in ours),
        operations=tuple(op.op for op in spec.body),
        shared=tuple(f"{paths[o.index]}: {_tensor(o.dtype, o.shape)}" for o in spec.operands if o.kind == "shared"),
        varying=tuple(_operand(o) for o in spec.operands if o.kind != "shared"),
        results=tuple(_value(spec, k) for k in spec.results),
        phase=min((b.phase for b in batches), default=-1),
        nodes=sum(b.size for b in batches),
        batches=len(batches),
        once=spec.name in once,
    )


def _operand(o: Operand) -> str:
    return (
        f"{o.name}: {_tensor(o.dtype, o.shape)}" if o.shape or o.kind in ("tensor", "shared") else f"{o.name}: {o.kind}"
    )


def _value(spec: KernelSpec, k: int) -> str:
    op = spec.body[k - len(spec.operands)]
    return f"{op.name or op.op}: {_tensor(op.dtype, op.shape)}"


def _tensor(dtype: str, shape: tuple[int | Dim, ...]) -> str:
    return f"{dtype}[{', '.join('?' if isinstance(n, Dim) else str(n) for n in shape)}]"
