"""Register tiles and packed weights: right to a proven bound, and the same bits however a product is cut."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from acronumba.emit import compile, interpret, target, tree
from acronumba.ir.spec import CHUNK
from acronumba.kernels import tiles
from acronumba.strategy import DEFAULT
from tests.support.aligned import aligned_zeros

DTYPES = ("float32", "float64")


@functools.cache
def module_for(vectors: int, rows: int, dtype: str, bits: int) -> tree.Module:
    with target.override(vector_bits=bits) as machine:
        return tiles.tile_module([tiles.TileKey(r, vectors, dtype) for r in range(1, rows + 1)], machine)


@functools.cache
def compiled(vectors: int, rows: int, dtype: str, bits: int) -> compile.Compiled:
    return compile.load([module_for(vectors, rows, dtype, bits)])[0]


class Product:
    """x @ w for packed w, driven as a kernel does it: panel by panel, rows in groups."""

    def __init__(self, shape: tiles.PanelShape, packing: tiles.Packing, bits: int, interpreted: bool = False) -> None:
        self.shape, self.packing, self.bits, self.interpreted = shape, packing, bits, interpreted
        self.element = np.dtype(packing.dtype).itemsize

    def __call__(self, pieces: Sequence[np.ndarray], packed: np.ndarray, height: int, passed: int = 0) -> np.ndarray:
        """Multiply the rows, given in pieces, in tiles of at most `height` rows."""
        p, count = self.packing, len(pieces[0])
        out = aligned_zeros((count, p.panels, p.gates, p.columns), p.dtype)
        lengths = np.array([piece.shape[1] for piece in pieces], np.int64)
        for panel in range(p.panels):
            for first in range(0, count, height):
                rows = min(height, count - first)
                where = np.array(
                    [[row.ctypes.data for row in piece[first : first + rows]] for piece in pieces], np.int64
                )
                c = aligned_zeros((rows, p.gates * p.columns), p.dtype)
                c[:] = np.nan
                arguments = (
                    where.ctypes.data, rows, len(pieces), lengths.ctypes.data,
                    packed.ctypes.data + panel * p.k * p.step, p.step, c.ctypes.data, c.strides[0], passed,
                )  # fmt: skip
                name = tiles.TileKey(rows, self.shape.vectors, p.dtype).name
                if self.interpreted:
                    memory = interpret.InterpreterMemory(where, lengths, packed, c, *pieces)
                    module = module_for(self.shape.vectors, self.shape.rows, p.dtype, self.bits)
                    interpret.run(module, name, arguments, memory)
                else:
                    compiled(self.shape.vectors, self.shape.rows, p.dtype, self.bits).call(name, *arguments)
                out[first : first + rows, panel] = c.reshape(rows, p.gates, p.columns)
        columns = out.transpose(0, 2, 1, 3).reshape(count, p.gates, p.panels * p.columns)
        return columns[:, :, : p.n].reshape(count, p.gates * p.n)


def setting(
    gates: int, n: int, k: int, dtype: str, bits: int, count: int = 7
) -> tuple[Product, np.ndarray, np.ndarray, np.ndarray]:
    """Return a product, its rows x, its weight w of shape (k, gates * n), and w packed."""
    with target.override(vector_bits=bits) as machine:
        shape = tiles.panel_shape(gates, n, machine, dtype)
        lanes = machine.lanes(tiles.TYPES[dtype])
    packing = tiles.Packing(gates=gates, n=n, k=k, q=shape.q, lanes=lanes, dtype=dtype, transposed=False)
    random = np.random.default_rng(k)
    x = random.standard_normal((count, k)).astype(dtype)
    w = random.standard_normal((k, gates * n)).astype(dtype)
    return Product(shape, packing, bits), x, w, packing.apply(w)


def assert_product(y: np.ndarray, x: np.ndarray, w: np.ndarray) -> None:
    """Within the worst case of k roundings, measured against the product in extended precision."""
    exact = x.astype(np.longdouble) @ w.astype(np.longdouble)
    size = np.abs(x).astype(np.longdouble) @ np.abs(w).astype(np.longdouble)
    assert np.all(np.abs(y - exact) <= (x.shape[1] + 1) * np.finfo(x.dtype).eps / 2 * size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("gates", "n"), [(1, 1), (5, 33), (3, 20), (8, 9)])
@pytest.mark.parametrize("bits", [512, 256, 128])
def test_product_of_every_height(dtype: str, gates: int, n: int, bits: int) -> None:
    product, x, w, packed = setting(gates, n, 19, dtype, bits)
    results = [product(([x]), packed, height) for height in range(1, product.shape.rows + 1)]
    assert_product(results[0], x, w)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [37, CHUNK, 2 * CHUNK + 5])
def test_pieces_give_the_same_bits(dtype: str, k: int) -> None:
    product, x, w, packed = setting(5, 33, k, dtype, 256)
    whole = product([x], packed, product.shape.rows)
    assert_product(whole, x, w)
    for cuts in ((0, k), (1, k - 1), (20,), (5, 5, 11), (k // 2,), (k // 3, 2 * k // 3)):
        pieces = [np.ascontiguousarray(piece) for piece in np.split(x, cuts, axis=1)]
        np.testing.assert_array_equal(product(pieces, packed, product.shape.rows), whole)


@pytest.mark.parametrize("first", [1, 16, 200, CHUNK, CHUNK + 17, 2 * CHUNK + 255])
def test_terms_that_are_0_may_be_left_out(first: int) -> None:
    """Those before the first that is not: chunks end where they would end with them."""
    k = 3 * CHUNK
    product, x, _, packed = setting(2, 33, k, "float32", 512)
    x[:, :first] = 0
    whole = product([x], packed, 4)
    rest, skipped = np.ascontiguousarray(x[:, first:]), packed.reshape(-1)[first * product.packing.step // 4 :]
    panels = product.packing.panels
    assert panels == 1, "one panel, which begins later"
    assert product([rest], skipped, 4, first % CHUNK).tobytes() == whole.tobytes()


@pytest.mark.parametrize("k", [1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_long_sums_are_summed_by_chunks(k: int) -> None:
    product, x, w, packed = setting(1, 5, k, "float64", 256)
    total = np.zeros((len(x), 5))
    for r, column in np.ndindex(total.shape):
        for first in range(0, k, CHUNK):
            c = 0.0
            for i in range(first, min(first + CHUNK, k)):
                c = float(Fraction(x[r, i]) * Fraction(w[i, column]) + Fraction(c))
            total[r, column] = total[r, column] + c if first else c
    np.testing.assert_array_equal(product([x], packed, product.shape.rows), total)


def test_long_sums_are_accurate() -> None:
    product, x, w, packed = setting(1, 64, 4096, "float32", 256)
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert np.sqrt(np.mean((product([x], packed, 4) - exact) ** 2)) < 8 * 2.0**-24 * np.sqrt(4096)


def test_empty_sum_is_zero() -> None:
    product, _, _, _ = setting(2, 5, 3, "float32", 256)
    packing = tiles.Packing(2, 5, 0, product.packing.q, product.packing.lanes, "float32", False)
    y = Product(product.shape, packing, 256)(
        [np.zeros((3, 0), np.float32)], packing.apply(np.zeros((0, 10), np.float32)), 2
    )
    np.testing.assert_array_equal(y, np.zeros((3, 10), np.float32))


def test_unpacked_right_operand() -> None:
    """A matrix with contiguous columns serves as panel as it is: the step is its row."""
    with target.override(vector_bits=256) as machine:
        vectors = 2
        width = vectors * machine.lanes(tree.F32)
    random = np.random.default_rng(3)
    a = random.standard_normal((4, 11)).astype(np.float32)
    b = random.standard_normal((11, 3 * width)).astype(np.float32)
    c = np.full((4, 3 * width), np.nan, np.float32)
    rows = np.array([row.ctypes.data for row in a])
    k = np.array([11])
    library = compiled(vectors, 4, "float32", 256)
    for column in range(0, 3 * width, width):
        library.call(
            "tile_4x2_float32", rows.ctypes.data, 4, 1, k.ctypes.data, b[:, column:].ctypes.data, b.strides[0],
            c[:, column:].ctypes.data, c.strides[0], 0,
        )  # fmt: skip
    assert_product(c, a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("gates", "n"), [(3, 20), (8, 9)])
def test_interpreted_tile_equals_compiled(dtype: str, gates: int, n: int) -> None:
    product, x, _, packed = setting(gates, n, 6, dtype, 256, count=3)
    plain = Product(product.shape, product.packing, 256, interpreted=True)
    height = min(2, product.shape.rows)
    np.testing.assert_array_equal(plain([x], packed, height), product([x], packed, height))


def test_nan_of_one_row_stays_in_it() -> None:
    product, x, _, packed = setting(5, 33, 19, "float32", 256)
    clean = product([x], packed, product.shape.rows)
    x[2, 5] = np.nan
    y = product([x], packed, product.shape.rows)
    assert np.isnan(y[2]).all()
    np.testing.assert_array_equal(np.delete(y, 2, 0), np.delete(clean, 2, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("gates", "n", "k", "q", "lanes"), [(1, 1, 1, 1, 4), (3, 16, 5, 2, 8), (2, 37, 4, 1, 16), (5, 8, 3, 3, 8)]
)
def test_packing(dtype: str, gates: int, n: int, k: int, q: int, lanes: int) -> None:
    w = np.random.default_rng(0).standard_normal((k, gates * n)).astype(dtype)
    plain = tiles.Packing(gates, n, k, q, lanes, dtype, False)
    turned = tiles.Packing(gates, n, k, q, lanes, dtype, True)
    packed = plain.apply(w)
    assert packed.ctypes.data % 64 == 0
    assert packed.shape == plain.shape and packed.nbytes == plain.panels * plain.k * plain.step
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(packed, turned.apply(np.ascontiguousarray(w.T)))
    np.testing.assert_array_equal(packed, plain.apply(np.asfortranarray(w)))
    for column in range(-(-n // (q * lanes)) * q * lanes):
        panel, rest = divmod(column, q * lanes)
        for gate in range(gates):
            expected = w[:, gate * n + column] if column < n else np.zeros(k)
            np.testing.assert_array_equal(packed[panel, :, gate, rest], expected)


def test_packing_rejects_another_shape() -> None:
    packing = tiles.Packing(2, 3, 4, 1, 8, "float32", True)
    with pytest.raises(ValueError, match=r"\(6, 4\), got \(4, 6\)"):
        packing.apply(np.zeros((4, 6), np.float32))


@pytest.mark.parametrize(("bits", "registers", "widest"), [(512, 32, 6), (256, 16, 5), (128, 32, 6), (128, 16, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_panel_shape_fits_the_registers(bits: int, registers: int, widest: int, dtype: str) -> None:
    machine = target.Target(name="", features="", vector_bits=bits, registers=registers)
    lanes = machine.lanes(tiles.TYPES[dtype])
    for gates in range(1, 13):
        for n in (1, 5, lanes, 3 * lanes + 1, 100, 256, 512):
            shape = tiles.panel_shape(gates, n, machine, dtype)
            assert shape.vectors == gates * shape.q
            assert shape.q <= -(-n // lanes)
            wide = -(-shape.vectors // -(-shape.vectors // widest))  # of one pass over k
            assert 1 <= shape.rows <= DEFAULT.tile_rows
            assert shape.rows == 1 or shape.rows * wide + wide < registers
            if n % lanes == 0 and (n // lanes) % 4 == 0 and gates <= widest:
                assert shape.rows * wide >= (20 if registers == 32 else 8)


def test_panel_shape_avoids_empty_columns() -> None:
    machine = target.Target(name="", features="", vector_bits=512, registers=32)
    assert tiles.panel_shape(1, 7 * 16, machine, "float32").q == 4  # four vectors of columns, and three
    assert tiles.panel_shape(1, 200, machine, "float32").q == 5  # five, five and three
    assert tiles.panel_shape(2, 200, machine, "float32").q == 1  # side by side: 14 vectors for 13, if it were 2


def test_module_exports_each_tile_once() -> None:
    with target.override(vector_bits=256) as machine:
        shape = tiles.panel_shape(5, 256, machine, "float32")
        keys = tiles.tile_keys(shape, "float32")
        module = tiles.tile_module([*keys, *reversed(keys)], machine)
    assert module.exports == tuple(f"tile_{r}x{shape.vectors}_float32" for r in range(1, shape.rows + 1))


def test_signature() -> None:
    with target.override(vector_bits=256) as machine:
        function = tiles.tile_function(tiles.TileKey(2, 3, "float64"), machine)
    assert tuple(p.name for p in function.params) == tiles.PARAMETERS
    assert all(p.type == tree.I64 for p in function.params)
    assert function.result == tree.VOID
