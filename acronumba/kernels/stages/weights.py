"""Shared weights of products: matrices that are the same for all nodes, or static views of shared tensors.

In: the right operand of a product. Out: the shared operand below it and the steps from that to the matrix (`Weight`).
The steps are applied once, when the weight is packed for the tiles; kernels only read the packed form, in which the
weights of several products may lie side by side.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from acronumba.ir.ops import TENSORS, Attrs
from acronumba.ir.spec import KernelOp, KernelSpec
from acronumba.kernels.tiles import AnyPacking, Packer, Packing, allocated
from acronumba.records import record


@record()
class Step:
    """A view with everything known: `op` of slice, reshape, transpose; or "take" with attrs (axis, index)."""

    op: str
    attrs: Attrs
    shape: tuple[int, ...]

    def apply(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the value, a view where NumPy has one."""
        if self.op == "take":
            axis, k = self.attrs
            return np.asarray(np.moveaxis(array, axis, 0)[k])
        if self.op == "slice":
            ends = [(start, start + step * n, step) for start, step, n in zip(*self.attrs, self.shape, strict=True)]
            return array[tuple(slice(start, end if end >= 0 else None, step) for start, end, step in ends)]
        return np.asarray(TENSORS[self.op].reference([array], self.attrs, self.shape, array.dtype.name))


@record()
class ViewPacking:
    """The packing of a view of a shared tensor."""

    steps: tuple[Step, ...]
    packing: AnyPacking

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the packed copy."""
        return self.packing.shape

    @property
    def dtype(self) -> str:
        return self.packing.dtype

    def apply(
        self, array: NDArray[np.generic], by: Packer | None = None, to: NDArray[np.generic] | None = None
    ) -> NDArray[np.generic]:
        """Return the packed copy of the view, aligned to 64 bytes; `by` and `to`: as for `Packing`."""
        view = array
        for step in self.steps:
            view = step.apply(view)
        if by is not None and not np.may_share_memory(view, array):
            by.copied()
        return self.packing.apply(view, by, to)


@record()
class SideBySide:
    """Several weights packed as one, gates after gates."""

    parts: tuple[AnyPacking | ViewPacking, ...]

    def apply(self, *arrays: NDArray[np.generic], by: Packer | None = None) -> NDArray[np.generic]:
        """Return the packed copy of the arrays, one per part, aligned to 64 bytes."""
        panels, k, _, columns = self.parts[0].shape
        gates = [part.shape[2] for part in self.parts]
        packed = allocated((panels, k, sum(gates), columns), self.parts[0].dtype, by)
        for part, array, end in zip(self.parts, arrays, accumulate(gates), strict=True):
            part.apply(array, by, packed[:, :, end - part.shape[2] : end])
        return packed


@record()
class InRegisters:
    """Weights packed as one, in the order in which lanes of a GPU load them, 16 bytes at a time.

    Of a panel, each lane has some columns, and of every 16 terms 4, see `kernels.cuda.stream`. Terms and gates beyond
    those of the weight are 0.
    """

    side_by_side: Packing | ViewPacking | SideBySide
    parts: int  # of the sum
    quads: int  # groups of 16 terms of a part
    share: int  # lanes that share the gates of a unit
    own: int  # gates of a lane
    split: bool = False  # for tensor cores: lanes in another order

    def apply(self, *arrays: NDArray[np.generic], by: Packer | None = None) -> NDArray[np.generic]:
        """Return the packed copy of the arrays, aligned to 64 bytes."""
        inner = self.side_by_side
        packed = inner.apply(*arrays) if isinstance(inner, SideBySide) else inner.apply(arrays[0])
        panels, k, gates, units = packed.shape
        padded = np.zeros((panels, self.parts * self.quads * 16, self.share * self.own, units), packed.dtype)
        padded[:, :k, :gates] = packed
        few = min(units, 8)
        lanes = padded.reshape(panels, self.parts, self.quads, 4, 4, self.share, self.own, units // few, few)
        lanes = lanes.transpose(0, 1, 2, 4, 7, 6, *((5, 8, 3) if self.split else (3, 5, 8)))
        ordered = lanes.reshape(panels, self.parts, -1, 4, 32).swapaxes(3, 4)
        out = allocated(ordered.shape, packed.dtype.name, by)
        out[...] = ordered
        return out


@record()
class Weight:
    """A shared matrix."""

    operand: int  # number of the shared operand
    steps: tuple[Step, ...]  # from the operand to the matrix, a last transposition left out
    shape: tuple[int, int]  # of the matrix before that transposition
    flip: bool  # whether it is transposed


def weight(spec: KernelSpec, v: int) -> Weight | None:
    """Return the shared matrix that the value `v` is, or None."""
    first = len(spec.operands)
    flip = False
    steps: list[Step] = []
    while v >= first:
        op = spec.body[v - first]
        if op.op == "transpose" and op.attrs[0] == (1, 0) and not steps:
            flip = not flip
        elif (step := _step(spec, op)) is not None:
            steps.append(step)
        else:
            return None
        v = op.args[0]
    operand = spec.operands[v]
    shape = steps[0].shape if steps else operand.shape
    if operand.kind != "shared" or len(shape) != 2:
        return None
    rows, columns = shape
    assert isinstance(rows, int) and isinstance(columns, int)
    return Weight(v, tuple(reversed(steps)), (rows, columns), flip)


def _step(spec: KernelSpec, op: KernelOp) -> Step | None:
    shape = tuple(n for n in op.shape if isinstance(n, int))
    if len(shape) < len(op.shape):
        return None
    if op.op in ("reshape", "transpose"):
        return Step(op.op, op.attrs, shape)
    if op.op == "slice":
        starts, steps = op.attrs
        assert isinstance(starts, tuple)
        return Step("slice", (starts, steps), shape) if all(isinstance(s, int) for s in starts) else None
    first = len(spec.operands)
    if op.op == "take" and op.args[1] >= first:
        source = op.args[0]
        from_shape = spec.operands[source].shape if source < first else spec.body[source - first].shape
        index = spec.body[op.args[1] - first]
        (axis,) = op.attrs
        assert isinstance(axis, int)
        n = from_shape[axis]
        if index.op == "const" and isinstance(n, int):
            (k,) = index.attrs
            assert isinstance(k, int)
            return Step("take", (axis, k), shape) if 0 <= k < n else None
    return None
