"""Texts of the compiler's stages, as lines with positions in the user's source.

In: a program, a plan, the specification of a kernel. Out: lines, each with its source position and, in the IR and the
plan, the kernels that compute it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from acronumba.analysis.plan import Plan
from acronumba.config import Options
from acronumba.emit.text import Placed
from acronumba.errors import Loc
from acronumba.ir.nodes import Emit, Op, Program
from acronumba.ir.spec import KernelSpec
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.kernels.cuda.generate import CudaCode


@record(kw_only=True)
class TextLine:
    """A line of a stage."""

    text: str
    loc: Loc | None = None  # where the user wrote that
    kernel: int = -1  # number of its kernel; -1 for none or several


def host_lines(plan: Plan, options: Options) -> list[Placed]:
    """Return the host program."""
    from acronumba.emit.text import module_lines
    from acronumba.host.machine import make_host

    return module_lines(make_host(plan, options).module)


def kernel_lines(spec: KernelSpec, options: Options) -> list[Placed]:
    """Return the code of a kernel for the CPU."""
    from acronumba.emit.target import host
    from acronumba.emit.text import module_lines
    from acronumba.kernels.cpu import generate

    return module_lines(generate(spec, host(), options.decisions, options.precision).module)


def cuda_code(spec: KernelSpec, options: Options) -> CudaCode:
    """Return the code of a kernel for a GPU."""
    from acronumba.kernels.cuda.generate import generate

    return generate(spec, options.decisions, options.precision)


def cuda_lines(spec: KernelSpec, options: Options) -> list[Placed]:
    """Return the text of a kernel for a GPU."""
    from acronumba.emit.simt import module_lines

    return module_lines(cuda_code(spec, options).module)


def cuda_tiles_text(plan: Plan, options: Options) -> str:
    """Return the tiles of products that kernels for a GPU call."""
    wanted = {tile for spec in plan.kernels for tile in cuda_code(spec, options).tiles}
    return "\n\n".join(tile.text() for tile in sorted(wanted)) or "# no kernel calls a tile\n"


def cuda_persistent_text(plan: Plan, options: Options) -> str:
    """Return the kernel that runs all others on a GPU."""
    from acronumba.kernels.cuda.persistent import persistent

    once = {o.kernel for o in plan.program.once}  # these run on the CPU
    codes = [cuda_code(spec, options) for k, spec in enumerate(plan.kernels) if k not in once]
    return persistent(codes).own if codes else "# no kernel runs on a GPU\n"


def ir_lines(program: Program, plan: Plan) -> list[TextLine]:
    """Return a program before it is planned, with the kernel of each operation."""
    from acronumba.ir.printer import program_lines

    kernels = kernels_of(plan)
    return [
        TextLine(
            text=line.text,
            loc=line.loc,
            kernel=only(kernels.get((line.instr.loc.path, line.instr.op))) if isinstance(line.instr, Op) else -1,
        )
        for line in program_lines(program)
    ]


def plan_lines(plan: Plan) -> Iterator[TextLine]:
    """Yield the kernels of a plan, then its program, as `analysis.plan.plan_text` has them."""
    from acronumba.ir.printer import program_lines
    from acronumba.ir.reference import spec_lines

    for k, spec in enumerate(plan.kernels):
        yield from (TextLine(text=text, loc=loc, kernel=k) for text, loc in spec_lines(spec))
        yield TextLine(text="")
    for line in program_lines(plan.program):
        yield TextLine(text=line.text, loc=line.loc, kernel=line.instr.kernel if isinstance(line.instr, Emit) else -1)


def kernels_of(plan: Plan) -> dict[tuple[tuple[Loc, ...], str], set[int]]:
    """Map an operation (source position with its chain of calls, and name) to the kernels that compute it."""
    found: dict[tuple[tuple[Loc, ...], str], set[int]] = {}
    for k, uses in enumerate(plan.uses):
        for loc, name in (operation for use in uses for operation in use.operations):
            found.setdefault((loc.path, name), set()).add(k)
    return found


def recorded_at(plan: Plan) -> dict[tuple[Loc, ...], int]:
    """Map a source position with its chain of calls to the kernel that is recorded there; -1 for several."""
    found: dict[tuple[Loc, ...], set[int]] = {}
    for k, uses in enumerate(plan.uses):
        for use in uses:
            found.setdefault(use.loc.path, set()).add(k)
    return {path: only(kernels) for path, kernels in found.items()}


def only(numbers: set[int] | None) -> int:
    """Return the only number of a set; -1 for None, an empty set, or several numbers."""
    return next(iter(numbers)) if numbers and len(numbers) == 1 else -1
