"""Saving and loading shared values."""

from __future__ import annotations

import enum
import json
import os
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from acronumba import storage
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError, ShapeMismatch, TypeMismatch
from acronumba.storage import leaves, load, save


class Act(enum.Enum):
    TANH = 1


class Cell(NamedTuple):
    w: np.ndarray
    b: np.ndarray


@dataclass
class Params:
    embed: np.ndarray
    cells: list[Cell]
    out: dict[str, np.ndarray]
    pair: tuple[int, float]
    act: Act = Act.TANH
    name: str = "model"
    nothing: None = None
    flag: bool = True
    scale: Any = field(default_factory=lambda: np.float32(0.5))
    empty: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int8))


def params(seed: int = 0) -> Params:
    random = np.random.default_rng(seed)

    def array(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    return Params(
        embed=array(5, 3),
        cells=[Cell(array(2, 3), array(2)), Cell(array(2, 2), array(2).astype(np.float64))],
        out={"w": array(4, 2), "ids": np.arange(3)},
        pair=(7 + seed, 0.25),
    )


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    save(path, params(0))
    got = load(path, like=params(1))
    assert equal(got, params(0))
    assert type(got.pair[0]) is int and type(got.scale) is np.float32 and type(got.cells[0]) is Cell
    got.embed[:] = 0  # the arrays are new, and may be changed
    assert not np.array_equal(load(path, like=params(1)).embed, got.embed)


def test_names_are_paths(tmp_path: Path) -> None:
    save(tmp_path / "p", params())
    tensors = load_file(tmp_path / "p")
    assert sorted(tensors) == [
        "cells.0.b", "cells.0.w", "cells.1.b", "cells.1.w", "embed", "empty", "flag", "out.ids", "out.w", "pair.0",
        "pair.1", "scale",
    ]  # fmt: skip
    assert tensors["pair.0"].shape == () and tensors["pair.0"].dtype == np.int64


def test_arrays_of_every_layout(tmp_path: Path) -> None:
    base = np.arange(24.0).reshape(4, 6)
    data = {"t": base.T, "s": base[::2, ::-1], "big": base.astype(">f4"), "zero": np.array(3.0), "b": base > 3}
    save(tmp_path / "p", data)
    got = load(tmp_path / "p", like=data)
    for name, array in data.items():
        assert np.array_equal(got[name], array) and got[name].shape == array.shape


def test_every_difference_is_named(tmp_path: Path) -> None:
    save(tmp_path / "p", {"a": np.zeros((2, 3)), "b": np.zeros(3, np.float32), "c": 1})
    like = {"a": np.zeros((3, 2)), "b": np.zeros(3), "d": 1.0}
    with pytest.raises(AcronumbaError) as caught:
        load(tmp_path / "p", like=like)
    text = str(caught.value)
    assert "`a` is float64[2, 3], expected float64[3, 2]" in text
    assert "`b` is float32[3], expected float64[3]" in text
    assert "`d` is missing" in text and "`c` is not expected" in text
    assert isinstance(caught.value, TypeMismatch)
    with pytest.raises(ShapeMismatch):  # only the shapes differ
        load(tmp_path / "p", like={"a": np.zeros((3, 2)), "b": np.zeros(3, np.float32), "c": 0})


def test_numbers_are_strict(tmp_path: Path) -> None:
    save(tmp_path / "p", {"n": 1})
    assert load(tmp_path / "p", like={"n": 5}) == {"n": 1}
    for other in (1.0, True, np.int64(1), np.zeros(())):
        if isinstance(other, np.int64):
            assert type(load(tmp_path / "p", like={"n": other})["n"]) is np.int64
        else:
            with pytest.raises(AcronumbaError, match="expected"):
                load(tmp_path / "p", like={"n": other})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a.b": np.zeros(1), "a": {"b": np.zeros(1)}}, "two values have the name `a.b`"),
        ({"a": object()}, "`a` cannot be stored"),
        ({"a": np.array([None])}, "dtype object"),
        ({"a": {1: np.zeros(1)}}, "must be strings"),
        ({"a": 2**70}, "64 bits"),
    ],
)
def test_what_cannot_be_saved(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(AcronumbaError, match=words):
        save(tmp_path / "p", value)
    assert not list(tmp_path.iterdir())


def test_cycles_are_rejected(tmp_path: Path) -> None:
    loop: list[Any] = [np.zeros(1)]
    loop.append(loop)
    with pytest.raises(AcronumbaError, match="`1` contains itself"):
        save(tmp_path / "p", loop)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    save(tmp_path / "p", {"a": np.ones(2)})
    with pytest.raises(AcronumbaError):
        save(tmp_path / "p", {"a": np.ones(2), "b": object()})
    assert load(tmp_path / "p", like={"a": np.zeros(2)})["a"].tolist() == [1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["p"]
    (tmp_path / "q").touch()
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == stat.S_IMODE((tmp_path / "q").stat().st_mode)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 100])
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(AcronumbaError, match="damaged"):
        load(tmp_path / "p", like={"a": np.zeros(1)})
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "q", like={"a": np.zeros(1)})


def test_truncated_file(tmp_path: Path) -> None:
    save(tmp_path / "p", params())
    data = (tmp_path / "p").read_bytes()
    (tmp_path / "p").write_bytes(data[:-5])
    with pytest.raises(AcronumbaError, match="damaged"):
        load(tmp_path / "p", like=params())


def header(about: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = about if isinstance(about, bytes) else json.dumps(about).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def about(dtype: Any = "F64", shape: Any = (1,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


EIGHT = np.ones(1).tobytes()
DAMAGED = {
    "a long header": header(about(), EIGHT, 1 << 60),
    "no json": header(b"{" * 20, EIGHT),
    "deep json": header(b"[" * 100_000, EIGHT),
    "no dict": header([1, 2], EIGHT),
    "no entry": header({"a": 3}, EIGHT),
    "no shape": header({"a": {"dtype": "F64", "data_offsets": [0, 8]}}, EIGHT),
    "a negative extent": header(about(shape=(-1, -1)), EIGHT),
    "a flag for an extent": header(about(shape=(True,)), EIGHT),
    "extents of more": header(about(shape=(2**40, 2**40)), EIGHT),
    "offsets beyond the end": header(about(shape=(2,), offsets=(0, 16)), EIGHT),
    "offsets in turn": header(about(offsets=(8, 0)), EIGHT),
    "three offsets": header(about(offsets=(0, 8, 8)), EIGHT),
    "a gap": header(about(offsets=(8, 16)), 2 * EIGHT),
    "bytes left": header(about(), 2 * EIGHT),
    "the same bytes twice": header(about() | {"b": about()["a"]}, EIGHT),
    "one name twice": header(json.dumps(about()).encode()[:-1] + b"," + json.dumps(about()).encode()[1:], EIGHT),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_every_damage_is_told(kind: str, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(DAMAGED[kind])
    for run in (lambda: load(tmp_path / "p", like={"a": np.zeros(1)}), lambda: storage.shapes(tmp_path / "p")):
        with pytest.raises(TypeMismatch, match="damaged"):
            run()
    (tmp_path / "p").write_bytes(header(about(), EIGHT))
    assert load(tmp_path / "p", like={"a": np.zeros(1)})["a"].tolist() == [1.0]


@pytest.mark.skipif(os.name != "posix", reason="makes a pipe")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(TypeMismatch, match="no regular file"):
            load(path, like={"a": np.zeros(1)})


def test_a_file_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one that is put in its place meanwhile is not read."""
    half = np.arange(4, dtype=np.float32).view(np.uint32) >> 16
    bits = {"h": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}} | {
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}
    }
    path, opened = tmp_path / "p", os.open
    path.write_bytes(header(bits, half.astype("<u2").tobytes() + np.ones(2, np.float32).tobytes()))

    def once(file: Any, *rest: Any) -> int:
        handle = opened(file, *rest)
        save(tmp_path / "other", {"w": np.zeros(2, np.float32), "h": np.zeros(4, np.float32)})
        os.replace(tmp_path / "other", path)
        return handle

    like = {"h": np.zeros(4, np.float32), "w": np.zeros(2, np.float32)}
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "open", lambda file, *rest: (once if file == path else opened)(file, *rest))
        got = load(path, like=like, cast=True)
    assert got["h"].tolist() == [0, 1, 2, 3] and got["w"].tolist() == [1, 1]
    assert load(path, like=like)["w"].tolist() == [0, 0]


def test_files_of_others_can_be_read(tmp_path: Path) -> None:
    save_file({"w": np.arange(3, dtype=np.int16)}, tmp_path / "p")
    got = load(tmp_path / "p", like={"w": np.zeros(3, np.int16), "name": "kept"})
    assert got["w"].tolist() == [0, 1, 2] and got["name"] == "kept"


def test_frozen_and_computed_fields(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Layer:
        w: np.ndarray
        size: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", len(self.w))

    layer = Layer(np.ones(4))
    save(tmp_path / "p", layer)
    got = load(tmp_path / "p", like=replace(layer, w=np.zeros(4)))
    assert got.size == 4 and got.w.tolist() == [1] * 4


def test_leaves_are_the_float_arrays_each_once_with_the_names_of_save(tmp_path: Path) -> None:
    p = params()
    p.cells.append(Cell(p.embed, p.cells[0].b))
    names = [name for name, _ in leaves(p)]
    assert names == ["embed", "cells.0.w", "cells.0.b", "cells.1.w", "cells.1.b", "out.w", "scale"]
    assert leaves(p)[0][1] is p.embed
    save(tmp_path / "p.safetensors", p)
    assert set(names) < load_file(tmp_path / "p.safetensors").keys()


def test_leaves_of_gradients_go_with_those_of_parameters() -> None:
    w = np.zeros((2, 3), np.float32)
    g = np.ones_like(w)
    ours, theirs = leaves({"a": w, "n": 3, "b": w, "c": 0.5}), leaves({"a": g, "n": None, "b": g, "c": None})
    assert [name for name, _ in ours] == [name for name, _ in theirs] == ["a"]
    assert [name for name, _ in leaves(np.zeros(2))] == ["value"]


@pytest.mark.parametrize("kind", ["F16", "BF16"])
def test_floats_of_16_bits_are_widened_if_asked_for(kind, tmp_path):
    values = np.array([[1.5, -2.0, 0.0], [np.inf, 3.140625, 2.0**-14]], np.float32)
    data = values.astype(np.float16).tobytes()
    if kind == "BF16":
        data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    path = tmp_path / "p.safetensors"
    head = json.dumps({"w": {"dtype": kind, "shape": [2, 3], "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)
    like = {"w": np.empty((2, 3), np.float32)}
    with pytest.raises(TypeMismatch, match="expected float32"):
        load(path, like)
    found = load(path, like, cast=True)["w"]
    assert found.dtype == np.float32 and np.array_equal(found, values)
    assert np.array_equal(load(path, {"w": np.empty((2, 3))}, cast=True)["w"], values)
    with pytest.raises(AcronumbaError, match="expected"):
        load(path, {"w": np.empty((2, 4), np.float32)}, cast=True)
