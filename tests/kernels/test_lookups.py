"""Sums that are looked up: exact for every pool and all codes, however rows are cut, compiled and interpreted."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from acronumba import compress, compression, model
from acronumba.api.dispatch import bind, specialise
from acronumba.compressed import STEEPEST, Int8, Pool, rows_of
from acronumba.emit import compile, interpret, tree
from acronumba.emit.target import host, override
from acronumba.kernels import lookups
from acronumba.kernels.tiles import TileKey, bytes_of_panel, panel_shape, tile_module
from acronumba.strategy import Strategy
from tests.support.aligned import aligned_zeros

MACHINE = replace(host(), vector_bits=512, features=f"{host().features},+avx512bw,+avx512vl,+avx512vnni")


@functools.cache
def module(vectors: int, rows: int) -> tree.Module:
    return tile_module([TileKey(r, vectors, "lookups") for r in range(1, rows + 1)], MACHINE)


@functools.cache
def compiled(vectors: int, rows: int) -> compile.Compiled:
    return compile.load([module(vectors, rows)])[0]


def looked_up(
    codes: np.ndarray, pool: np.ndarray, index: np.ndarray, gates: int, cuts: tuple[int, ...] = (), run: bool = False
) -> np.ndarray:
    """Return the products of rows of codes with those of a pool, by tiles; `run`: in the interpreter."""
    (count, k), n = codes.shape, len(index) // gates
    shape = panel_shape(gates, n, MACHINE, "lookups")
    packed = lookups.LookupPacking(gates=gates, n=n, k=k, q=shape.q).apply(pool, index)
    panels, size = packed.shape
    assert size == bytes_of_panel(MACHINE, "lookups", k, shape.vectors * 64) and packed.ctypes.data % 64 == 0
    bytes_ = (codes.astype(np.int64) + 128).astype(np.uint8)
    pieces = [np.ascontiguousarray(piece) for piece in np.split(bytes_, cuts, axis=1)]
    lengths = np.array([piece.shape[1] for piece in pieces], np.int64)
    scratch = aligned_zeros((lookups.scratch_bytes(k),), "uint8")
    out = np.zeros((count, panels, gates, shape.q * lookups.LANES), np.int32)
    for panel in range(panels):
        for first in range(0, count, shape.rows):
            rows = min(shape.rows, count - first)
            where = np.array([[r.ctypes.data for r in piece[first : first + rows]] for piece in pieces], np.int64)
            c = aligned_zeros((rows, shape.vectors * lookups.LANES), "int32")
            c[:] = 77
            arguments = (
                where.ctypes.data, rows, len(pieces), lengths.ctypes.data, packed.ctypes.data + panel * size,
                c.strides[0], c.ctypes.data, c.strides[0], scratch.ctypes.data,
            )  # fmt: skip
            name = TileKey(rows, shape.vectors, "lookups").name
            if run:
                memory = interpret.InterpreterMemory(where, lengths, packed, c, scratch, *pieces)
                interpret.run(module(shape.vectors, shape.rows), name, arguments, memory)
            else:
                compiled(shape.vectors, shape.rows).call(name, *arguments)
            out[first : first + rows, panel] = c.reshape(rows, gates, -1)
    return out.transpose(0, 2, 1, 3).reshape(count, gates, -1)[:, :, :n].reshape(count, gates * n)


def drawn(n: int, k: int, count: int, vectors: int, largest: int, bits: int) -> tuple[np.ndarray, ...]:
    """Return codes of so many bits, a pool of codes up to the largest, and numbers."""
    r, most = np.random.default_rng(n + k + bits), 2 ** (bits - 1) - 1
    codes = r.integers(-most, most + 1, (count, k)).astype(np.int8)
    pool = r.integers(-largest, largest + 1, (vectors, 8)).astype(np.int8)
    return codes, pool, r.integers(vectors, size=(n, k // 8)).astype(np.uint8)


def wanted(codes: np.ndarray, pool: np.ndarray, index: np.ndarray) -> np.ndarray:
    return codes.astype(np.int64) @ rows_of(pool, index).astype(np.int64).T


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize(("gates", "n", "k", "count", "vectors"), [(1, 400, 136, 6, 64), (3, 40, 8, 1, 5)])
def test_sums_are_exact(bits: int, gates: int, n: int, k: int, count: int, vectors: int) -> None:
    for largest in (127, 40, 1):  # of which 127 does not fit into 16 bits with codes of 7 and 8 bits
        codes, pool, index = drawn(gates * n, k, count, vectors, largest, bits)
        np.testing.assert_array_equal(looked_up(codes, pool, index, gates), wanted(codes, pool, index))


@pytest.mark.parametrize(("gates", "n"), [(1, 16), (1, 17), (7, 16), (8, 20), (1, 1100), (4, 272)])
def test_any_columns(gates: int, n: int) -> None:
    codes, pool, index = drawn(gates * n, 24, 2, 64, 90, 8)
    np.testing.assert_array_equal(looked_up(codes, pool, index, gates), wanted(codes, pool, index))


def test_the_largest_and_the_smallest_sums_there_can_be() -> None:
    for code, vector in ((127, 127), (-127, 127), (-128, -128), (127, -128), (0, 0), (1, 0)):
        codes, pool = np.full((2, 80), code, np.int8), np.full((3, 8), vector, np.int8)
        codes[1, 8:] = 0
        index = np.zeros((16, 10), np.uint8)
        np.testing.assert_array_equal(looked_up(codes, pool, index, 1), wanted(codes, pool, index))


def test_numbers_beyond_the_pool_are_the_last_vector() -> None:
    codes, pool, index = drawn(16, 40, 2, 20, 60, 8)
    index[3, 2] = 200
    np.testing.assert_array_equal(looked_up(codes, pool, index, 1), wanted(codes, pool, index))


@pytest.mark.parametrize("cuts", [(40,), (3, 50), (8, 8, 9), (1, 2, 3, 71)])
def test_pieces_are_put_together(cuts: tuple[int, ...]) -> None:
    codes, pool, index = drawn(32, 72, 5, 64, 127, 7)
    np.testing.assert_array_equal(looked_up(codes, pool, index, 2, cuts), wanted(codes, pool, index))


@pytest.mark.parametrize("bits", [3, 8])
def test_the_interpreter_says_the_same(bits: int) -> None:
    codes, pool, index = drawn(48, 40, 2, 64, 127, bits)
    np.testing.assert_array_equal(looked_up(codes, pool, index, 3, (5,), run=True), wanted(codes, pool, index))


# ---- in models


@model
def many(x: np.ndarray, *, w: Any, v: Any) -> Any:
    y = w @ x
    return y, v @ np.tanh(y), np.stack([x, 2 * x]) @ w.T, np.concatenate([x[:9], x[9:]]) @ w[:400].T


def weights() -> dict[str, Any]:
    r = np.random.default_rng(3)
    small = {"w": r.standard_normal((420, 72)), "v": r.standard_normal((24, 420))}
    return compress({k: a.astype(np.float32) for k, a in small.items()}, "pool", vectors=64, skip="v")


def bits_of(results: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for result in results for x in result]


XS = [np.random.default_rng(s).standard_normal(72).astype(np.float32) * 10.0 ** (s - 3) for s in range(9)]


@pytest.mark.parametrize("bits", range(2, 9))
def test_products_have_the_same_bits_as_the_plain_call(bits: int) -> None:
    p = compression.with_bits(weights(), bits)
    for found, x in zip(many.batch(XS, **p), XS, strict=True):
        w = p["w"]
        assert np.array_equal(found[0], w @ x) and np.array_equal(found[3], x @ w[:400].T)
        assert np.array_equal(found[2], np.stack([x, 2 * x]) @ w.T)


def test_the_same_bits_without_look_ups_in_any_company_and_by_threads() -> None:
    p = weights()
    whole = bits_of(many.batch(XS, **p))
    assert bits_of(r for x in XS for r in many.batch([x], **p)) == whole
    assert bits_of(many.with_options(threads=2).batch(XS * 9, **p))[: len(whole)] == whole
    codes = Int8(p["w"].codes, np.repeat(p["w"].scale, 420))
    assert bits_of(many.batch(XS, w=codes, v=p["v"])) == whole
    without = ",".join(x for x in host().features.split(",") if "vnni" not in x and x != "+avx512bw")
    with override(replace(host(), features=without)) as target:
        assert not target.lookups
        assert bits_of(model(many.__wrapped__).batch(XS, **p)) == whole


@pytest.mark.parametrize(
    "chosen", [Strategy(lookups=0, tile_rows=1), Strategy(lookups=1 << 20), Strategy(vertical=False)]
)
def test_the_same_bits_whatever_is_looked_up(chosen: Strategy) -> None:
    p = weights()
    assert bits_of(many.with_options(strategy=chosen).batch(XS, **p)) == bits_of(many.batch(XS, **p))


def layer(x: np.ndarray, a: Any, b: Any) -> Any:
    return np.tanh(a @ x + b @ x), a @ x


@model
def layers(x: np.ndarray, *, ws: list[Any]) -> Any:
    found = []
    for k in range(0, len(ws), 2):
        y, z = layer(x, ws[k], ws[k + 1])
        found.append(y)
        found.append(z)
        x = y[:72]
    return found


def test_several_pools_in_one_kernel() -> None:
    r = np.random.default_rng(8)
    ws = compress([r.standard_normal((400, 72)).astype(np.float32) for _ in range(6)], "pool", vectors=50)
    wide = [Int8(w.codes, np.repeat(w.scale, 400)) for w in ws]
    assert bits_of(layers.batch(XS, ws=ws)) == bits_of(layers.batch(XS, ws=wide))
    ws[3].pool[7] = 0  # in place
    wide[3].codes[:] = ws[3].codes
    assert bits_of(layers.batch(XS, ws=ws)) == bits_of(layers.batch(XS, ws=wide))


@pytest.mark.skipif(not host().lookups, reason="this processor looks nothing up")
def test_what_is_looked_up_needs_no_array_of_codes() -> None:
    p = weights()
    fresh = model(many.__wrapped__)
    fresh.batch(XS, **p)
    compiled_, values, _ = specialise(fresh, bind(fresh, (XS,), p))
    computed = [o.index for o in compiled_.plan.program.once if compiled_.plan.program.shared[o.index].pool]
    made = compiled_.executable.shared.prepare(values)
    assert computed and not set(computed) & made.arrays.keys()


def test_small_pools_have_tables_of_sixteen_bits() -> None:
    for w in (weights()["w"], Pool.of(np.ones((64, 64), np.float32), vectors=3)):
        assert np.abs(w.pool.astype(np.int64)).sum(axis=1).max() <= STEEPEST
