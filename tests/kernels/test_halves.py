"""Products in bf16: instructions, their portable form and the definition have the same bits; so have all batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from acronumba import model, nn
from acronumba.bench.workloads import WAITING, ZOO, Workload, inputs
from acronumba.emit import compile, interpret, llvm_intrinsics, tree
from acronumba.emit.arithmetic import dots_bf16, fma_without_denormals, from_bf16, to_bf16
from acronumba.emit.target import has_halves, host, override, processor
from acronumba.emit.tree import F32, I16, I64
from acronumba.ir.spec import CHUNK
from acronumba.kernels import tiles
from acronumba.pipeline.link import link as linked
from acronumba.runtime.reference import reference_kernels
from tests.support.aligned import aligned_zeros

LANES = 8
WITHOUT = ",".join(x for x in processor()[1].split(",") if "bf16" not in x)
NATIVE = has_halves(processor()[1], 256)

# Bits of float32: zeros, denormals, the least and the largest normal numbers, infinities, NaN, ties of rounding.
SPECIAL = np.array(
    [0, 1, 0x7FFF, 0x8000, 0x7FFFFF, 0x800000, 0x800001, 0x807FFF, 0x808000, 0x808001, 0x7F7F7FFF, 0x7F7F8000,
     0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x3F800000, 0x3F808000, 0x3F818000,
     0x3F817FFF, 0x3F808001],
    np.uint32,
)  # fmt: skip
SPECIAL = np.concatenate([SPECIAL, SPECIAL | 0x80000000]).view(np.float32)


@pytest.fixture(params=["instruction", "portable"])
def lowered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compile with the instructions of AVX512-BF16, and as for a processor without them."""
    if request.param == "portable":
        monkeypatch.setattr(llvm_intrinsics, "processor", lambda: (processor()[0], WITHOUT))
    elif not NATIVE:
        pytest.skip("this processor has no instructions for bf16")
    return str(request.param)


def over_lanes(name: str, given: tuple[tree.Ty, ...], result: tree.Ty, size: int, lanes: int) -> tree.Module:
    """Return a module with a function that applies an intrinsic to arrays."""
    f = tree.Builder("each", [(p, I64) for p in ("count", "out", *"abc"[: len(given)])])
    with f.loop("k", 0, f["count"]) as k:
        args = [tree.Load(f[p] + k * (4 * lanes), t) for p, t in zip("abc", given, strict=False)]
        f.store_lanes(f["out"] + k * (size * lanes), tree.intrinsic(name, *args, type=result))
    return tree.Module(f"each_{name}", (f.function(),), ("each",))


def run(module: tree.Module, lanes: int, out: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    compile.load([module])[0].call("each", len(arrays[0]) // lanes, *(a.ctypes.data for a in (out, *arrays)))
    return out


def hard(count: int, seed: int, low: int = 0, high: int = 256) -> np.ndarray:
    """Return random float32 with exponents of a range."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 23, count) | rng.integers(low, high, count) << 23 | rng.integers(0, 2, count) << 31
    return bits.astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("lanes", [8, 16])
def test_rounding_is_to_even_without_denormals(lowered: str, lanes: int) -> None:
    x = np.concatenate([SPECIAL, hard(1 << 14, 0), hard(1 << 12, 1, 0, 3)])
    x = np.resize(x, -(-len(x) // lanes) * lanes)
    module = over_lanes("to_bf16", (F32.vector(lanes),), I16.vector(lanes), 2, lanes)
    assert np.array_equal(run(module, lanes, np.empty(len(x), np.int16), x), to_bf16(x))
    normal = np.isfinite(x) & (np.abs(x) >= 2.0**-126) & (np.abs(x) < 3.38e38)
    near = from_bf16(to_bf16(x))[normal].astype(np.float64)
    digits, exponent = np.frexp(x[normal].astype(np.float64))
    assert np.array_equal(near, np.ldexp(np.rint(digits * 256) / 256, exponent))
    assert not from_bf16(to_bf16(hard(1000, 2, 0, 1))).any()


def pairs_at_the_edge(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums near the least normal number, and factors whose products are halves and quarters of its last bit."""
    rng = np.random.default_rng(seed)
    c = (rng.integers(0, 3, count) | 0x800000 | rng.integers(0, 2, count) << 31).astype(np.uint32).view(np.float32)
    exponent = rng.integers(50, 56, (2, 2 * count)) << 7
    a, b = (exponent | rng.integers(0, 128, (2, 2 * count)) | rng.integers(0, 2, (2, 2 * count)) << 15).astype(
        np.uint16
    )
    return c, a.view(np.int16), b.view(np.int16)


def test_sums_of_pairs(lowered: str) -> None:
    rng = np.random.default_rng(0)
    c = np.concatenate([rng.choice(SPECIAL, 4096), hard(4096, 3), hard(4096, 4, 0, 4)])
    a, b = (np.concatenate([rng.choice(to_bf16(SPECIAL), 8192), to_bf16(hard(8192, s)), to_bf16(hard(8192, s, 58, 68))])
            for s in (5, 6))  # fmt: skip
    edge = pairs_at_the_edge(1 << 14, 7)
    c, a, b = (np.concatenate([x, y]) for x, y in zip((c, a, b), edge, strict=True))
    c = np.where(np.abs(c) < 2.0**-126, np.copysign(np.float32(0), c), c)  # no sum is denormal
    wide = I16.vector(2 * LANES)
    module = over_lanes("dots_bf16", (F32.vector(LANES), wide, wide), F32.vector(LANES), 4, LANES)
    with np.errstate(all="ignore"):
        wanted = dots_bf16(c, a, b)
    got = run(module, LANES, np.empty_like(c), c, a, b)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    some = ~np.isnan(got)
    assert np.array_equal(got[some].view(np.int32), wanted[some].view(np.int32))
    assert np.any(wanted == 0) and np.any(np.abs(wanted) == np.float32(2.0**-126))


def test_sums_that_are_denormal_once_rounded_are_zero() -> None:
    """2 ** -126 - 2 ** -150 has 24 bits but is denormal: the nearest float32 is 2 ** -126."""
    least, half = np.float32([2.0**-126]), np.float32([2.0**-75])
    assert fma_without_denormals(half, -half, least) == 0
    assert fma_without_denormals(half / 2, -half, least) == least
    assert np.signbit(fma_without_denormals(half, half, -least)).all()


# ---- tiles


def tile(rows: int, vectors: int) -> tree.Module:
    return tiles.tile_module([tiles.TileKey(rows, vectors, "bf16")], host())


def product(x: np.ndarray, packed: np.ndarray, call: Callable[..., object], cuts: tuple[int, ...] = ()) -> np.ndarray:
    pieces = [np.ascontiguousarray(p) for p in np.split(to_bf16(x), cuts, axis=1)]
    where = np.array([[row.ctypes.data for row in p] for p in pieces], np.int64)
    lengths = np.array([p.shape[1] for p in pieces], np.int64)
    wide = packed.shape[2] * packed.shape[3] * 4
    c = aligned_zeros((len(x), wide // 4), "float32")
    call(
        (where.ctypes.data, len(x), len(pieces), lengths.ctypes.data, packed.ctypes.data, wide, c.ctypes.data, wide, 0),
        interpret.InterpreterMemory(where, lengths, packed, c, *pieces),
    )
    return c


def by_definition(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return x @ w.T: pairs of terms in order, in chunks."""
    x, w = (np.pad(to_bf16(a), ((0, 0), (0, a.shape[1] % 2))) for a in (x, w))
    out = np.zeros((len(x), len(w)), np.float32)
    for first in range(0, x.shape[1], CHUNK):
        c = np.zeros(out.size, np.float32)
        for k in range(first, min(first + CHUNK, x.shape[1]), 2):
            a, b = np.broadcast_arrays(x[:, None, k : k + 2], w[None, :, k : k + 2])
            c = dots_bf16(c, a.reshape(-1), b.reshape(-1))
        out = out + c.reshape(out.shape) if first else c.reshape(out.shape)
    return out


@pytest.mark.parametrize("k", [1, 2, 37, CHUNK, CHUNK + 3, 2 * CHUNK + 6])
def test_tiles(lowered: str, k: int) -> None:
    rows, vectors, lanes = 3, 2, host().lanes(F32)
    x, w = hard(rows * k, k, 90, 130).reshape(rows, k), hard(2 * lanes * k, k + 1, 100, 128).reshape(-1, k)
    x[0, : k // 2], w[1, k // 3 :] = (
        hard(k // 2, 3, 60, 70),
        hard(k - k // 3, 4, 40, 66),
    )  # sums that are nearly denormal
    packing = tiles.packing_of(host(), "bf16", gates=1, n=len(w), k=k, q=vectors, lanes=lanes, transposed=True)
    packed = packing.apply(w)
    code = compile.load([tile(rows, vectors)])[0]
    name = tiles.TileKey(rows, vectors, "bf16").name
    got = product(x, packed, lambda args, _: code.call(name, *args))
    assert got.tobytes() == by_definition(x, w).tobytes()
    for cuts in ((), (0, k), (k // 4 * 2,), (k // 8 * 2, k // 4 * 2)):
        assert product(x, packed, lambda args, _: code.call(name, *args), cuts).tobytes() == got.tobytes()
    if k <= 37:
        run = product(x, packed, lambda args, memory: interpret.run(tile(rows, vectors), name, args, memory))
        assert run.tobytes() == got.tobytes()


def test_packed_weights_are_the_same_from_both_sides() -> None:
    w = hard(37 * 21, 0, 100, 130).reshape(37, 21)
    ways = [{"gates": 1, "n": 37, "k": 21, "q": 2, "lanes": 8, "transposed": t} for t in (True, False)]
    one, other = (tiles.packing_of(host(), "bf16", **way).apply(a) for way, a in zip(ways, (w, w.T), strict=True))
    assert one.tobytes() == other.tobytes() and one.dtype == np.uint32


# ---- models


@model
def cell(x: np.ndarray, h: np.ndarray, *, w: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = np.tanh(w @ np.concatenate((x, h)))
    return y, np.concatenate((u @ y, x[:3] @ u[:3, :3]))


def weights(h: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(h)
    return {"w": (rng.standard_normal((h, 2 * h)) * h**-0.5).astype(np.float32),
            "u": (rng.standard_normal((37, h)) * h**-0.5).astype(np.float32)}  # fmt: skip


def instances(count: int, h: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(1)
    xs, hs = ([rng.standard_normal(h).astype(np.float32) for _ in range(count)] for _ in range(2))
    return xs, hs


def bits(results: object) -> list[bytes]:
    return [b"".join(a.tobytes() for a in r) for r in results]  # type: ignore[attr-defined]


@pytest.mark.parametrize("h", [64, 35])
def test_a_row_has_the_same_bits_in_any_batch(h: int) -> None:
    """`h` even: the pieces of a row are rounded one by one; odd: the whole row."""
    low, (xs, hs) = cell.with_options(precision="bf16", threads=1), instances(70, h)
    p = weights(h)
    whole = bits(low.batch(xs, hs, **p))
    assert whole != bits(cell.batch(xs, hs, **p))
    for some in ([5], [3, 2], [*range(69, -1, -7)], [*range(70)][::-1]):
        assert bits(low.batch([xs[k] for k in some], [hs[k] for k in some], **p)) == [whole[k] for k in some]
    assert bits(low.with_options(threads=2).batch(xs, hs, **p)) == whole
    for changed in ({"hoist": False}, {"fuse": False}, {"gather_fusion": False}, {"blocks": False}):
        assert bits(low.with_options(**changed).batch(xs, hs, **p)) == whole, changed
    y, _ = low.batch(xs, hs, **p)[0]
    row = np.concatenate((xs[0], hs[0]))
    assert np.allclose(y, np.tanh(by_definition(row[None], p["w"])[0]), rtol=0, atol=1e-6)


def test_other_processors_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    p, (xs, hs) = weights(64), instances(9, 64)
    xs[3][:] *= np.float32(1e-37)  # denormals
    xs[4][5], xs[5][1] = np.inf, np.nan
    wanted = bits(cell.with_options(precision="bf16").batch(xs, hs, **p))
    some = xs[:3], hs[:3]
    grads = [g.tobytes() for g in loss.with_options(precision="bf16").value_and_grad.batch(*some, **p)[1]]
    monkeypatch.setattr(llvm_intrinsics, "processor", lambda: (processor()[0], WITHOUT))
    for width in (128, 256):
        with override(replace(host(), features=WITHOUT, vector_bits=width, registers=16)) as target:
            assert not target.halves
            again = model(cell.__wrapped__, precision="bf16")
            assert bits(again.batch(xs, hs, **p)) == wanted
            if width == 256:
                again = model(loss.__wrapped__, precision="bf16")
                assert [g.tobytes() for g in again.value_and_grad.batch(*some, **p)[1]] == grads


def test_it_is_asked_for_and_told() -> None:
    p, (xs, hs) = weights(64), instances(3, 64)
    low = cell.with_options(precision="bf16")
    assert bits(cell.with_options(precision="tf32").batch(xs, hs, **p)) == bits(cell.batch(xs, hs, **p))
    found = low.check(xs, hs, **p)
    assert found.ok and found.precision == "bf16" and 1e-4 < max(v.plain_error for v in found.verdicts) < 1e-2
    assert "factors of matrix products are bf16: that changes" in str(found)
    assert "in bf16" in str(low.explain(xs, hs, **p)) and "in bf16" not in str(cell.explain(xs, hs, **p))


@model
def attend(x: np.ndarray, *, w: np.ndarray, causal: bool) -> np.ndarray:
    scores = (x @ w) @ x.T
    n = len(x)
    if causal:
        scores = np.where(np.tril(np.ones((n, n))) == 0, np.float32(-1e9), scores)
    return nn.softmax(scores / np.float32(4)) @ x


def attended(x: np.ndarray, w: np.ndarray, causal: bool) -> np.ndarray:
    """Return the same in float64, with factors that are rounded."""

    def half(x: np.ndarray) -> np.ndarray:
        return from_bf16(to_bf16(np.ascontiguousarray(x, np.float32))).astype(np.float64)

    scores = half(half(x) @ half(w)) @ half(x).T
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape)) == 0, -1e9, scores)
    p = np.exp((scores - scores.max(1, keepdims=True)) / 4)
    return half(p / p.sum(1, keepdims=True)) @ half(x)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    """Sentences of odd lengths, and of several tiles; an infinity meets zeros of the mask."""
    rng, d = np.random.default_rng(0), 33
    w = (rng.standard_normal((d, d)) * d**-0.5).astype(np.float32)
    xs = [rng.standard_normal((n, d)).astype(np.float32) for n in (1, 3, 5, 16, 17, 63, 130)]
    low = attend.with_options(precision="bf16", threads=1)
    whole = low.batch(xs, w=w, causal=causal)
    for x, y, exact in zip(xs, whole, attend.batch(xs, w=w, causal=causal), strict=True):
        off = np.abs(y - attended(x, w, causal))
        assert off.max() < 4e-3 and np.mean(off) < 1e-4  # a factor may be rounded otherwise
        assert len(x) == 1 or np.abs(y - exact).max() > 1e-4
    bits = [y.tobytes() for y in whole]
    for some in ([2], [6, 1], [5, 4, 3, 2, 1, 0]):
        assert [y.tobytes() for y in low.batch([xs[k] for k in some], w=w, causal=causal)] == [bits[k] for k in some]
    assert [y.tobytes() for y in low.with_options(threads=2).batch(xs, w=w, causal=causal)] == bits
    xs[4][11, 1], xs[5][3, 2], xs[6][2, 2] = np.inf, np.nan, 3.4e38
    odd, unfused = (f.batch(xs, w=w, causal=causal) for f in (low, low.with_options(fuse=False)))
    for y, z in zip(odd, unfused, strict=True):
        np.testing.assert_array_equal(y, z)


@model
def loss(x: np.ndarray, h: np.ndarray, *, w: np.ndarray, u: np.ndarray) -> np.float32:
    return np.sum(np.concatenate(cell(x, h, w=w, u=u)) ** 2)


def test_gradients_are_near_those_in_float32() -> None:
    p, (xs, hs) = weights(64), instances(40, 64)
    low = loss.with_options(precision="bf16")
    _, exact = loss.value_and_grad.batch(xs, hs, **p)
    _, found = low.value_and_grad.batch(xs, hs, **p)
    for g, mine in zip(exact, found, strict=True):
        assert 1e-5 < np.abs(mine - g).max() / np.abs(g).max() < 2e-2
    again = low.with_options(threads=2).value_and_grad.batch(xs, hs, **p)[1]
    assert [g.tobytes() for g in again] == [g.tobytes() for g in found]
    p["w"] *= np.float32(0.5)  # packed anew
    moved = [low.value_and_grad, model(loss.__wrapped__, precision="bf16").value_and_grad]
    one, other = ([g.tobytes() for g in f.batch(xs, hs, **p)[1]] for f in moved)
    assert one == other
    assert low.value_and_grad.check(xs[:4], hs[:4], **p).ok


def test_numpy_rounds_the_same_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there is no compiler."""
    p, (xs, hs) = weights(35), instances(3, 35)
    wanted, exact = cell.with_options(precision="bf16").batch(xs, hs, **p), cell.batch(xs, hs, **p)
    monkeypatch.setattr(
        "acronumba.pipeline.link.link",
        lambda plan, o, progress=None: linked(plan, o, kernels=reference_kernels(plan.kernels, o.precision)),
    )
    found = model(cell.__wrapped__, precision="bf16").batch(xs, hs, **p)
    for a, b, c in zip(wanted, found, exact, strict=True):
        assert np.abs(a[0] - b[0]).max() < 1e-5 < np.abs(a[0] - c[0]).max()


@pytest.mark.slow
@pytest.mark.parametrize("workload", [*ZOO, *WAITING], ids=lambda w: w.name)
def test_models_of_the_zoo(workload: Workload) -> None:
    xs, p = inputs(workload, "small", 3, None)
    assert workload.model.with_options(precision="bf16").check(xs, p=p).ok
