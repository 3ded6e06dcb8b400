"""Weights in fewer bits: plain calls, batches, files, reports, and what is rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from acronumba import (
    InstanceErrors,
    TypeMismatch,
    compress,
    compression,
    leaves,
    load,
    model,
    optim,
    pack,
    save,
    value_and_grad,
)
from acronumba.api.dispatch import bind, specialise
from acronumba.compressed import Bfloat16, Compressed, Int8, Pool, product
from acronumba.emit import llvm_intrinsics
from acronumba.emit.llvm import module_text
from acronumba.emit.passes import LEVEL, optimise
from acronumba.emit.target import Target, host, override
from acronumba.kernels.tiles import TileKey, tile_module
from tests.support.device_runs import Run, alike


@dataclass
class Params:
    embed: Any  # [30, 20]
    w: Any  # [48, 36]
    b: np.ndarray  # [48]
    out: Any  # [5, 16]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


def params() -> Params:
    return Params(embed=normal(30, 20), w=normal(48, 36, seed=1), b=normal(48, seed=2), out=normal(5, 16, seed=3))


def sentences(n: int, seed: int = 0) -> list[list[int]]:
    r = np.random.default_rng(seed)
    return [[int(k) for k in r.integers(30, size=r.integers(1, 9))] for _ in range(n)]


@model
def tag(words: list[int], *, p: Params) -> list[np.ndarray]:
    h = np.zeros(p.b.shape[0] // 3, np.float32)
    found = []
    for k in words:
        i, f, u = np.split(p.w @ np.concatenate([p.embed[k], h]) + p.b, 3)
        h = np.tanh(i) * u + f * h
        found.append(p.out @ h)
    return found


def bits(results: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for result in results for x in result]


# ---- what a compressed array is


def test_a_row_is_whole_numbers_times_a_scale() -> None:
    w = normal(7, 40)
    small = Int8.of(w)
    assert small.codes.dtype == np.int8 and small.shape == w.shape and small.ndim == 2 and len(small) == 7
    assert np.all(np.abs(small.codes).max(axis=1) == 127)
    assert np.all(np.abs(small.whole() - w) <= 0.5001 * small.scale[:, None])
    assert small.nbytes == 7 * 40 + 7 * 4 + 8
    assert np.array_equal(np.asarray(small), small.whole()) and np.array_equal(np.tanh(small), np.tanh(small.whole()))


def made_of_vectors(n: int, k: int, vectors: int = 40, seed: int = 0) -> np.ndarray:
    """Return a matrix that a pool can be without an error: few vectors, of whole numbers."""
    r = np.random.default_rng(seed)
    some = r.integers(-127, 128, (vectors, 8))
    some[0, 0] = 127
    return some[r.integers(vectors, size=(n, k // 8))].reshape(n, k).astype(np.float32) / 256


def test_a_pool_has_the_vectors_that_rows_are_made_of() -> None:
    w = made_of_vectors(64, 96)
    small = Pool.of(w)
    assert small.index.dtype == np.uint8 and small.index.shape == (64, 12) and small.pool.dtype == np.int8
    assert np.allclose(small.whole(), w, rtol=0, atol=1e-6) and small.shape == w.shape and len(small) == 64
    assert small.nbytes == 64 * 12 + 256 * 8 + 4 + 8
    other = normal(64, 96)
    near = Pool.of(other)
    assert 0.1 < np.square(near.whole() - other).mean() / np.square(other).mean() < 0.5
    vectors, pool = other.reshape(-1, 8), near.pool.astype(np.float32) * near.scale
    distances = np.square(vectors[:, None] - pool).sum(axis=2)
    chosen = np.take_along_axis(distances, near.index.reshape(-1, 1).astype(np.int64), axis=1)[:, 0]
    assert np.mean(chosen <= distances.min(axis=1) + 1e-4) > 0.98  # before its vectors were rounded, all were nearest


def test_rows_of_zeros_stay_zeros() -> None:
    small = Int8.of(np.zeros((2, 3), np.float32))
    assert np.array_equal(small.whole(), np.zeros((2, 3))) and np.array_equal(small @ np.ones(3, np.float32), [0, 0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("x", [1e-45, 8e-44, 1e-42, 3.38e38])
def test_rows_of_any_magnitude_stay_near(x: float) -> None:
    """The scale of a row below 1e-43 would be 0."""
    w = np.full((1, 3), x, np.float32)
    w[0, 1] = 0
    assert np.abs(Int8.of(w).whole() - w).max() <= max(w.max() / 100, 9e-44)


def test_products_sum_whole_numbers_exactly() -> None:
    small, x = Int8.of(normal(9, 300)), normal(300, seed=4)
    step = np.abs(x).max() / np.float32(127)
    codes = np.rint(x / step).astype(np.int64)
    wanted = (small.codes.astype(np.int64) @ codes) * small.scale.astype(np.float64) * step
    assert np.allclose(small @ x, wanted, rtol=1e-6, atol=0)
    rows = normal(4, 300, seed=5)
    assert np.array_equal(rows @ small.T, np.stack([small @ row for row in rows]))
    assert np.array_equal(small @ rows.T, (rows @ small.T).T) and np.array_equal(small.T.T.codes, small.codes)
    assert np.array_equal(np.matmul(small, x), small @ x)


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_other_operand_has_as_many_bits_as_are_chosen(bits: int) -> None:
    w, most = normal(9, 40), np.float32(2 ** (bits - 1) - 1)
    small = compress({"w": w}, bits=bits)["w"]
    assert small.bits == bits and np.array_equal(small.codes, Int8.of(w).codes)
    x = normal(3, 40, seed=4)
    x[1] *= 1e4
    largest = np.abs(x).max(axis=1, keepdims=True)
    codes = np.rint(x * (most / largest)).astype(np.int64)
    assert np.abs(codes).max() == most
    exact = (codes @ small.codes.T.astype(np.int64)).astype(np.float32) * small.scale * (largest * (1 / most))
    assert np.array_equal(x @ small.T, exact)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_gives_nan_and_disturbs_no_other(bad: float) -> None:
    x = normal(3, 40)
    x[1, 7] = bad
    small = Int8.of(normal(9, 40))
    found = product(x, small.codes, small.scale, small.most)
    assert np.isnan(found[1]).all() and np.array_equal(found[[0, 2]], (x @ small.T)[[0, 2]])
    assert np.isfinite(found[[0, 2]]).all()


def test_tiny_rows_count_as_zeros() -> None:
    small = Int8.of(normal(9, 40))
    assert np.array_equal(small @ np.full(40, 1e-31, np.float32), np.zeros(9))
    assert np.any(small @ np.full(40, 1e-29, np.float32))


@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.5, 3.1e38, 1e-40, -9.2e-41, 2.0**-126, 2.0**-149, 1.00390625])
def test_halves_are_the_nearest_floats_of_sixteen_bits(x: float) -> None:
    w = np.float32([[x, x * (1 - 2.0**-9)]])
    found = Bfloat16.of(w)
    back = (found.halves.astype(np.uint32) << 16).view(np.float32)
    assert found.whole().tobytes() == back.tobytes() and found.whole().dtype == np.float32
    step = np.maximum(2.0 ** (np.floor(np.log2(np.maximum(np.abs(w, dtype=np.float64), 2.0**-126))) - 7), 2.0**-133)
    assert np.all(np.abs(back.astype(np.float64) - w) <= step / 2)


# ---- models


def test_a_model_takes_compressed_weights_as_its_plain_call_does() -> None:
    small, xs = compress(params()), sentences(24)
    assert isinstance(small.w, Int8) and isinstance(small.b, np.ndarray)
    done = tag.batch(xs, p=small)
    alike(list(done), [tag(x, p=small) for x in xs])
    assert compression.difference(tag.batch(xs, p=params()), done).largest > 1e-4  # it is not what float32 gives
    found = tag.check(xs[:4], p=small)
    assert found.ok and "in the plain call, too: p.embed (int8), p.w (int8), p.out (int8)" in str(found)


def test_results_have_the_same_bits_in_any_company() -> None:
    small, xs = compress(params()), sentences(24)
    whole = bits(tag.batch(xs, p=small))
    assert bits(r for x in xs for r in tag.batch([x], p=small)) == whole
    assert bits(tag.batch(pack(xs), p=pack(small))) == whole
    assert bits(tag.with_options(threads=2).batch(xs, p=small)) == whole


@pytest.mark.long
@pytest.mark.parametrize("off", ["fuse", "horizontal", "hoist", "blocks", "ragged"])
def test_results_have_the_same_bits_with_any_options(off: str) -> None:
    small, xs = compress(params()), sentences(24)
    assert bits(tag.with_options(**{off: False}).batch(xs, p=small)) == bits(tag.batch(xs, p=small))


def test_the_program_means_the_same_in_its_interpreter_and_on_a_simulated_device() -> None:
    small, xs = compress(params()), sentences(3)
    wanted = [tag(x, p=small) for x in xs]
    alike(tag._interpret(xs, p=small), wanted)
    alike(Run(tag, xs, p=small).results, wanted)


@model
def over_rows(x: np.ndarray, *, p: Any) -> Any:
    return np.tanh(x @ p["w"].T), p["w"] @ x.T, x @ p["v"], np.matmul(p["w"], x[0])


@pytest.mark.long
def test_products_with_rows_columns_and_transposes() -> None:
    small = compress({"w": normal(11, 36), "v": normal(36, 9)})
    xs = [normal(n, 36, seed=n) for n in (3, 1, 7, 16)]
    alike(list(over_rows.batch(xs, p=small)), [over_rows(x, p=small) for x in xs])


@model
def as_array(k: int, x: np.ndarray, *, w: Any) -> Any:
    return (w[k], w[1:4] @ x, w[k, 2], w + 1, 2 * w, x - w, np.tanh(w), -w, w.shape, w.ndim, len(w), w.T.shape,
            np.concatenate([w, w]), np.dot(w, x), w.astype(np.float64), w / 2)  # fmt: skip


@pytest.mark.parametrize("kind", ["int8", *(pytest.param(k, marks=pytest.mark.long) for k in ("bf16", "pool"))])
def test_other_uses_see_the_array_that_it_stands_for(kind: str) -> None:
    w, x = compress({"w": normal(512 if kind == "pool" else 6, 8)}, kind)["w"], normal(8, seed=1)
    alike(list(as_array.batch([0, 5], [x, 2 * x], w=w)), [as_array(0, x, w=w), as_array(5, 2 * x, w=w)])
    assert np.array_equal(as_array(0, x, w=w)[6], np.tanh(w.whole()))


def test_activations_of_float64_are_not_rounded() -> None:
    w, x = compress({"w": normal(6, 8)})["w"], normal(8).astype(np.float64)
    times = model(_times)
    assert np.allclose(times(x, w=w), w.whole() @ x, rtol=1e-12) and times(x, w=w).dtype == np.float64
    alike(list(times.batch([x], w=w)), [times(x, w=w)])


def test_products_with_halves_are_those_of_float32() -> None:
    p, xs = params(), sentences(12)
    small = compress(p, "bf16")
    same = Params(small.embed.whole(), small.w.whole(), p.b, small.out.whole())
    done = tag.batch(xs, p=small)
    alike(list(done), list(tag.batch(xs, p=same)))
    alike(list(done), [tag(x, p=small) for x in xs])
    assert 1e-4 < compression.difference(tag.batch(xs, p=p), done).largest < 2.0**-6
    once = [line for line in str(tag.stages(xs, p=small)["once"]).splitlines() if "halves" in line]
    assert len(once) == 2 and "p.w.halves" in once[0] and "p.out.halves" in once[1]  # of all nodes


@pytest.mark.parametrize("kind", ["int8", "pool"])
def test_another_number_of_bits_compiles_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = compress({"w": normal(400, 72)}, kind, **{"vectors": 64} if kind == "pool" else {})["w"]
    times, xs = model(_times), list(normal(5, 72, seed=4))
    times.batch(xs, w=w)
    compiled = specialise(times, bind(times, (xs,), {"w": w}))[0]
    monkeypatch.setattr("acronumba.emit.compile._build", None)  # nothing can be compiled any more
    for packing in ("tiles.CodePacking", "lookups.LookupPacking"):  # or packed
        monkeypatch.setattr(f"acronumba.kernels.{packing}.apply", None)
    seen = set()
    for bits in range(2, 9):
        other = compression.with_bits({"w": w}, bits)["w"]
        assert other.bits == bits and other.scale is w.scale
        found = times.batch(xs, w=other)
        assert all(np.array_equal(y, other @ x) for y, x in zip(found, xs, strict=True))
        assert specialise(times, bind(times, (xs,), {"w": other}))[0] is compiled
        seen.add(found[0].tobytes())
    assert len(seen) == 7


def test_small_pools_mean_the_same_everywhere() -> None:
    p = Params(embed=normal(300, 24), w=normal(144, 72, seed=1), b=normal(144, seed=2), out=normal(5, 48, seed=3))
    small, xs = compress(p, "pool", skip="out", vectors=30, bits=5), sentences(6)
    assert small.w.pool.shape == (30, 8) and small.w.bits == 5 and small.w.nbytes == 144 * 9 + 240 + 12
    small.w.index[3, 3] = 200  # beyond the pool: the last vector
    assert np.array_equal(small.w.whole()[3, 24:32], small.w.pool[29].astype(np.float32) * small.w.scale)
    wanted = [tag(x, p=small) for x in xs]
    alike(list(tag.batch(xs, p=small)), wanted)
    alike(tag._interpret(xs[:2], p=small), wanted[:2])
    alike(Run(tag, xs[:2], p=small).results, wanted[:2])


def pools() -> Params:
    """Return parameters of which all but one matrix are made of pools."""
    p = Params(embed=normal(300, 24), w=normal(144, 72, seed=1), b=normal(144, seed=2), out=normal(5, 48, seed=3))
    return compress(p, "pool", skip="out")


def test_products_with_pools_are_those_of_their_codes() -> None:
    small, xs = pools(), sentences(12)
    assert isinstance(small.embed, Pool) and isinstance(small.w, Pool) and isinstance(small.out, np.ndarray)
    done = tag.batch(xs, p=small)
    alike(list(done), [tag(x, p=small) for x in xs])
    codes = Int8(small.w.codes, np.repeat(small.w.scale, 144))
    assert bits(tag.batch(xs, p=replace(small, w=codes))) == bits(done)
    assert bits(r for x in xs for r in tag.batch([x], p=small)) == bits(done)
    alike(tag._interpret(xs[:2], p=small), [tag(x, p=small) for x in xs[:2]])
    alike(Run(tag, xs[:2], p=small).results, [tag(x, p=small) for x in xs[:2]])
    once = str(tag.stages(xs, p=small)["once"])  # of all nodes
    assert "take(p.w.pool, p.w.index)" in once and "p.embed" not in once


def _times(x: np.ndarray, *, w: Any) -> Any:
    return w @ x


@model
def several(x: np.ndarray, *, ws: list[Any]) -> Any:
    return [w @ x[: w.shape[1]] for w in ws]


def test_any_extents() -> None:
    ws = [Int8.of(normal(n, k)) for n, k in [(1, 1), (3, 2), (8, 3), (17, 257), (90, 600), (5, 255)]]
    xs = [normal(600, seed=s) * 10.0**s for s in range(7)] + [np.full(600, v, np.float32) for v in (0, np.nan, 1e-40)]
    for found, x in zip(several.batch(xs, ws=ws), xs, strict=True):
        for got, w in zip(found, ws, strict=True):
            assert np.array_equal(got, w @ x[: w.shape[1]], equal_nan=True), w.shape


def test_an_error_names_the_line_of_the_user() -> None:
    @model
    def wrong(x: np.ndarray, *, w: Any) -> Any:
        return w % x

    with pytest.raises(TypeMismatch) as rejected:
        wrong.batch([normal(3)], w=Int8.of(normal(2, 3)))
    assert "return w % x" in str(rejected.value) and "seen: w, a Int8 % float32" in str(rejected.value)
    with pytest.raises(InstanceErrors) as failed:
        model(_times).batch([normal(4)], w=Int8.of(normal(2, 3)))
    line = _times.__code__.co_firstlineno + 1
    assert f"(test_compressed.py:{line}): ACR401: dimensions 4 and 3 do not match" in str(failed.value)


def test_there_are_no_gradients() -> None:
    @value_and_grad
    def loss(words: list[int], *, p: Params) -> Any:
        return np.sum(tag(words, p=p)[0])

    with pytest.raises(TypeMismatch, match=r"`p.embed` is compressed, and has no gradient"):
        loss.batch(sentences(2), p=compress(params()))
    with pytest.raises(TypeMismatch, match=r"`OUTER.codes` is compressed"):
        value_and_grad(_through_outer).batch([normal(3)], b=normal(4))
    assert [name for name, _ in leaves(compress(params()))] == ["b"]


OUTER = Int8.of(normal(4, 3))


def _through_outer(x: np.ndarray, *, b: np.ndarray) -> Any:
    return np.sum(OUTER @ x + b)


@value_and_grad
def distance(x: np.ndarray, y: np.ndarray, *, p: Any) -> Any:
    return np.sum((p["w"] @ x + p["b"] - y) ** 2)


def test_pools_learn() -> None:
    """A matrix that is made of vectors is found; one gradient goes to all places that have a vector."""
    wanted = made_of_vectors(64, 96)
    xs = list(normal(64, 96, seed=5) * 10)
    ys = [wanted @ x + np.float32(0.5) for x in xs]
    p = {"w": wanted + normal(64, 96, seed=6) / 2, "b": np.zeros(64, np.float32)}
    kept = {name: array.copy() for name, array in p.items()}
    pooled, opt = compression.Pooled(p), optim.Adam(0.003)
    losses = []
    for step in range(120):
        value, grads = distance.batch(xs, ys, p=pooled.params)
        losses.append(float(value))
        if step == 1:  # by hand
            of, index = grads["w"].reshape(-1, 8), pooled.compressed()["w"].index.reshape(-1)
            sums = np.stack([of[index == k].sum(axis=0) for k in range(256)])
            before = {"w": pooled.trained["pools"]["w"].copy()}
            other = optim.Adam(0.003)
            other.state = {"step": opt.state["step"], **{
                kind: {"w": opt.state[kind]["pools.w"].copy()} for kind in opt.state if kind != "step"
            }}  # fmt: skip
            other.update(before, {"w": sums.astype(np.float32)})
        pooled.update(opt, grads)
        if step == 1:
            assert np.allclose(pooled.trained["pools"]["w"], before["w"], rtol=0, atol=1e-6)
    assert np.median(losses[60:]) < losses[0] / 3
    assert all(np.array_equal(array, kept[name]) for name, array in p.items())
    small = pooled.compressed()
    assert isinstance(small["w"], Pool) and np.array_equal(small["w"].whole(), pooled.params["w"])
    assert np.array_equal(small["b"], pooled.params["b"]) and small["b"].min() > 0.1


def test_pools_go_on_from_a_file(tmp_path: Any) -> None:
    p = {"w": normal(64, 96), "b": np.zeros(64, np.float32)}
    xs, ys = list(normal(8, 96, seed=5)), list(normal(8, 64, seed=6))

    def train(pooled: compression.Pooled, opt: optim.Optimiser, steps: int) -> None:
        for _ in range(steps):
            pooled.update(opt, distance.batch(xs, ys, p=pooled.params).grads)

    whole, opt = compression.Pooled(p, every=4), optim.Adam(0.01)
    train(whole, opt, 8)
    save(tmp_path / "pools", whole.trained)
    save(tmp_path / "adam", opt.state)
    train(whole, opt, 5)
    again, other = compression.Pooled(p, every=4), optim.Adam(0.01)
    again.trained = load(tmp_path / "pools", like=again.trained)
    again.choose()
    other.begin(again.trained)
    other.state = load(tmp_path / "adam", like=other.state)
    train(again, other, 5)
    assert np.array_equal(again.params["w"], whole.params["w"]) and np.array_equal(again.params["b"], whole.params["b"])


# ---- compress, reports, files


def test_skip_names_arrays_by_patterns() -> None:
    p = params()
    small = compress({"a": p, "c": [p.w]}, skip=["a.*w*", "c.0"])
    assert [isinstance(v, Compressed) for v in vars(small["a"]).values()] == [True, False, False, True]
    assert small["c"][0] is p.w
    assert not isinstance(compress(p, skip="embed").embed, Compressed)


def test_what_cannot_be_compressed_is_said() -> None:
    p = params()
    for wrong, match in [
        (lambda: compress(p, "int3"), r"there is no kind 'int3'.*\n.*int8"),
        (lambda: compress(p, skip="head"), r"`skip` names no array: 'head'"),
        (lambda: compress({"b": p.b}), "there is no matrix of float32"),
        (lambda: compress({"w": np.full((2, 2), np.nan, np.float32)}), "`w` holds NaN"),
        (
            lambda: compress({"w": np.ones((1, 70_000), np.float32)}),
            "`w` cannot be int8: its rows have more than 65536",
        ),
        (lambda: compress({"w": np.full((2, 2), 3.4e38, np.float32)}, "bf16"), "`w` cannot be bf16: it has elements"),
        (lambda: compress({"w": np.ones((600, 12), np.float32)}, "pool"), "`w` cannot be pool: its rows have 12 elem"),
        (lambda: compress({"w": np.ones((8, 16), np.float32)}, "pool"), "`w` cannot be pool: it has 128 elements"),
        (lambda: compress({"w": np.full((2, 2), 3.4e38, np.float32)}), "`w` cannot be int8: it has elements"),
        *(
            (lambda bits=bits: compress(p, bits=bits), rf"`bits` is {bits!r}\n.*a whole number from 2 to 8")
            for bits in (1, 9, True, "6", 6.0)
        ),
        (lambda: compress(compress(p)), r"`\w+` is compressed already\n.*pass the original parameters"),
        (lambda: compress(p, "pool", vectors=0), r"`vectors` is 0\n.*a whole number from 1 to 256"),
        (lambda: compress(p, "pool", vectors=257), "`vectors` is 257"),
        (lambda: compress(p, vectors=64), r"weights of kind 'int8' have no `vectors`"),
        (lambda: compress(p, "bf16", bits=8), r"weights of kind 'bf16' have no `bits`"),
        (lambda: compression.with_bits(compress(p), 1), "`bits` is 1"),
        (lambda: compression.with_bits(compress(p, "bf16"), 4), "no array has integer weights"),
        (lambda: compress({"w": np.ones((8, 16), np.float32)}, "pool", vectors=9), "too few for a pool of 72"),
        (lambda: compression.report({"w": p.w}, {"w": p.embed}), "`w` is not the same array in both"),
    ]:
        with pytest.raises(TypeMismatch, match=match):
            wrong()


def test_a_report_has_the_exact_error_and_the_bytes() -> None:
    p = params()
    small = compress(p)
    found = compression.report(p, small)
    assert [a.name for a in found.arrays] == ["embed", "w", "out"]
    assert found.before == sum(a.nbytes for a in vars(p).values())
    assert found.after == p.b.nbytes + sum(a.nbytes for a in (small.embed, small.w, small.out))
    error = np.abs(small.w.whole().astype(np.float64) - p.w).max() / np.abs(p.w).max()
    assert found.arrays[1].largest == pytest.approx(error) and 1e-3 < found.arrays[1].largest < 127**-1
    assert found.arrays[1].largest / 10 < found.arrays[1].mean and "48x36" in str(found)
    few = compression.report(p, compression.with_bits(small, 4))
    assert [a.kind for a in few.arrays] == ["int8, 4 bits"] * 3 and few.arrays[1].mean == found.arrays[1].mean


def test_a_difference_tells_numbers_choices_and_structure() -> None:
    a = [(np.float32([1, 2, 4]), 3), (np.float32([1, 2]), 3), (np.float32([1]), 0)]
    b = [(np.float32([1, 2, 3]), 3), (np.float32([2, 1]), 3), (np.float32([1]), 1)]
    found = compression.difference(a, b)
    assert found.largest == 0.5 and found.where == "[1][0]" and found.chosen == (1,) and found.others == (2,)
    assert "another largest element: 1 of 3" in str(found)


def test_files_hold_the_halves(tmp_path: Any) -> None:
    small = compress(params(), "bf16")
    save(tmp_path / "small", small)
    again = load(tmp_path / "small", like=small)
    assert np.array_equal(again.w.halves, small.w.halves) and again.w.nbytes == small.w.whole().nbytes // 2
    with pytest.raises(TypeMismatch, match=r"`w.codes` is missing"):
        load(tmp_path / "small", like=compress(params()))


def test_files_hold_the_pool(tmp_path: Any) -> None:
    small = pools()
    save(tmp_path / "small", small)
    again = load(tmp_path / "small", like=pools())
    assert np.array_equal(again.w.index, small.w.index) and np.array_equal(again.w.whole(), small.w.whole())
    assert again.embed.nbytes == 300 * 3 + 2048 + 4 + 8


def test_files_hold_the_bits_and_older_ones_do_not(tmp_path: Any) -> None:
    small = {"a": compress(params(), bits=5), "b": pools()}
    save(tmp_path / "small", small)
    again = load(tmp_path / "small", like={"a": compress(params()), "b": pools()})
    assert again["a"].w.bits == 5 and again["b"].w.bits == 8
    arrays = load_file(tmp_path / "small")
    older = {name: a for name, a in arrays.items() if not name.endswith(".most")}
    assert len(older) == len(arrays) - 5
    save_file(older, tmp_path / "older")
    again = load(tmp_path / "older", like=compression.with_bits(small, 6))
    assert again["a"].w.bits == again["b"].embed.bits == 6 and np.array_equal(again["a"].w.codes, small["a"].w.codes)
    assert again["a"].w.most is not small["a"].w.most
    save(tmp_path / "one", Int8.of(normal(3, 4)))
    assert load(tmp_path / "one", like=Int8.of(normal(3, 4))).bits == 8
    del older["a.w.scale"]
    save_file(older, tmp_path / "older")
    with pytest.raises(TypeMismatch, match=r"`a.w.scale` is missing\n"):
        load(tmp_path / "older", like=small)


def test_files_hold_the_codes(tmp_path: Any) -> None:
    p = Params(normal(300, 200), normal(48, 36), normal(48), normal(5, 16))
    small = compress(p)
    save(tmp_path / "small", small)
    save(tmp_path / "large", p)
    assert (tmp_path / "small").stat().st_size < 0.3 * (tmp_path / "large").stat().st_size
    again = load(tmp_path / "small", like=compress(p))
    assert np.array_equal(again.w.codes, small.w.codes) and np.array_equal(again.embed.whole(), small.embed.whole())
    with pytest.raises(TypeMismatch, match=r"`embed.codes` is missing"):
        load(tmp_path / "large", like=small)


# ---- processors


@pytest.mark.long
def test_every_processor_has_the_same_bits() -> None:
    """With an instruction for bytes, and without; where this machine has none, LLVM writes others for it."""
    ws = [Int8.of(normal(n, k)) for n, k in [(19, 37), (8, 600), (5, 4)]]
    xs = [normal(600, seed=s) for s in range(5)]
    wanted = [w.tobytes() for found in several.batch(xs, ws=ws) for w in found]
    on = host()
    without = ",".join(x for x in on.features.split(",") if "vnni" not in x)
    for features, width in ((f"{on.features},+avxvnni", 128), (without, 128), (without, on.vector_bits)):
        with override(replace(on, features=features, vector_bits=width)) as target:
            assert target.dots == ("+avxvnni" in features)
            again = model(several.__wrapped__)
            assert [w.tobytes() for found in again.batch(xs, ws=ws) for w in found] == wanted


@pytest.mark.parametrize(("cpu", "bits", "instruction"), [
    ("icelake-server", 512, "vpdpbusd"), ("alderlake", 256, "vpdpbusd"), ("haswell", 256, "vpmaddwd"),
])  # fmt: skip
def test_tiles_use_the_instruction_for_codes(
    cpu: str, bits: int, instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    features = {512: "+avx512vnni,+avx512vl", 256: "+avxvnni"}[bits] if instruction == "vpdpbusd" else ""
    monkeypatch.setattr(llvm_intrinsics, "processor", lambda: (cpu, features))
    target = Target(name=cpu, features=features, vector_bits=bits, registers=16 if bits < 512 else 32)
    text = module_text(tile_module([TileKey(2, 2, "int32")], target))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu=cpu, opt=LEVEL)
    module = llvm.parse_assembly(text)
    optimise(module, machine)
    assert machine.emit_assembly(module).count(instruction) >= 4  # in the loop over k: two rows by two vectors
