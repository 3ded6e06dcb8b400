"""What a kernel does in one go: the optimisations of the code generator that can be switched off.

In: the `Options` of a model. Out: a `Fusion`, read by `kernels.stages.graph` (what is stored, what shares a stage) and
by `kernels.cpu` (how operands are read). A kernel's results have the same bits with every setting.
"""

from __future__ import annotations

from dataclasses import dataclass

from acronumba.config import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """What is computed together.

    vertical     an operation that reads another's result is computed in the same loop, from registers or from the
                 panel of a product; off: every operation is a stage of its own and stores its result, except
                 addressing that is the same for all nodes (reshape, transpose, slice, broadcast, a constant index)
    horizontal   independent operations share a stage: products with the same left operand or the same weight, and
                 element-wise operations and reductions over one iteration space; off: only what depends on each other
    gather       operands are read where they lie, through pointers or indices; off: a first stage copies the block's
                 operands into contiguous rows, and rows looked up in a table are copied before they are read
    """

    vertical: bool = True
    horizontal: bool = True
    gather: bool = True

    @staticmethod
    def of(options: Options) -> Fusion:
        """Return what the options ask for."""
        return Fusion(vertical=options.fuse, horizontal=options.horizontal, gather=options.gather_fusion)


EVERYTHING = Fusion()
