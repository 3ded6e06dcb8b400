"""Weights that change at every call: packed by compiled code, and packed again, with the bits of NumPy's packing."""

from __future__ import annotations

import numpy as np
import pytest

from acronumba.emit.compile import load
from acronumba.emit.target import host
from acronumba.kernels.stages.weights import SideBySide, Step, ViewPacking
from acronumba.kernels.tiles import CodePacking, Packing, packing_of
from acronumba.memory import Array
from acronumba.runtime.backward import library_of_gradients
from acronumba.runtime.buffers import ArenaPool
from acronumba.runtime.packing import Packer

TURNED, STRAIGHT = (Packing(2, 19, 21, 1, 8, "float32", turned) for turned in (True, False))
WIDE = Packing(1, 19, 21, 1, 8, "float32", True)
SLICE = (Step("slice", ((3, 0), (1, 1)), (38, 21)),)
REVERSED = (Step("slice", ((37, 0), (-1, 1)), (38, 21)),)
TAKE = (Step("take", (1, 1), (38, 21)),)
COPY = Step("transpose", ((1, 0),), (38, 21)), Step("reshape", (), (21, 38)), Step("reshape", (), (38, 21))
CODES = CodePacking(2, 19, 21, 1, 8, 4, True)
PAIRS = [packing_of(host(), "bf16", gates=2, n=19, k=21, q=2, lanes=8, transposed=t) for t in (True, False)]
CASES = {
    "turned": (TURNED, [(38, 21)], True),
    "straight": (STRAIGHT, [(21, 38)], True),
    "float64": (Packing(2, 19, 21, 1, 8, "float64", False), [(21, 38)], True),
    "slice": (ViewPacking(SLICE, TURNED), [(50, 21)], True),
    "reversed": (ViewPacking(REVERSED, TURNED), [(38, 21)], True),
    "take": (ViewPacking(TAKE, TURNED), [(38, 3, 21)], True),
    "copy": (ViewPacking(COPY, TURNED), [(21, 38)], False),
    "side by side": (SideBySide((TURNED, WIDE, ViewPacking(SLICE, TURNED))), [(38, 21), (19, 21), (50, 21)], True),
    "with a copy": (SideBySide((TURNED, ViewPacking(COPY, TURNED))), [(38, 21), (21, 38)], False),
    "pairs turned": (PAIRS[0], [(38, 21)], True),
    "pairs": (PAIRS[1], [(21, 38)], True),
    "codes": (CODES, [(38, 21)], False),
}


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    return (rng.integers(-9, 9, shape) * 1.01).astype(dtype)


@pytest.mark.parametrize("name", CASES)
def test_packed_again_with_the_bits_of_numpy(name: str) -> None:
    packing, shapes, repeats = CASES[name]
    dtype = "int8" if packing is CODES else "float64" if name == "float64" else "float32"
    rng = np.random.default_rng(0)
    arrays = [values(rng, shape, dtype) for shape in shapes]
    by = Packer(load([library_of_gradients()])[0], ArenaPool(0))
    for turn in range(3):
        if turn == 1:
            by.restart()
        packed = packing.apply(*arrays, by=by)
        np.testing.assert_array_equal(packed, packing.apply(*arrays))
    by.restart()
    packed = packing.apply(*arrays, by=by)
    for _ in range(2):
        for array in arrays:
            array[...] = values(rng, array.shape, dtype)
        assert by.repeat() == repeats
        if repeats:
            np.testing.assert_array_equal(packed, packing.apply(*arrays))


def test_columns_in_another_order_are_packed_by_numpy() -> None:
    by = Packer(load([library_of_gradients()])[0], ArenaPool(0))
    array = np.asfortranarray(values(np.random.default_rng(0), (38, 21), "float32"))
    np.testing.assert_array_equal(TURNED.apply(array, by), TURNED.apply(array))
    assert not by.repeat()
