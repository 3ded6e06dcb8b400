"""Arrays of other libraries, wherever arrays may be: as shared values, instances and columns, and in plain calls.

PyTorch and JAX take part where they are installed. A class that only says what it is, as theirs do, always does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import acronumba
from acronumba import AcronumbaError, InstanceErrors, model, nn, pack
from acronumba.api.structures import rebuilt
from tests.support.chosen import one_in
from tests.support.zoo_models import ZOO

RNG = np.random.default_rng(5)


class Tensor:
    """An array of a library that is always there: it is followed back, so that NumPy gets only what is detached."""

    def __init__(self, array: np.ndarray, followed: bool = True) -> None:
        self.data, self.followed = array, followed

    def detach(self) -> Tensor:
        return Tensor(self.data, followed=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.followed:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.asarray(self.data, dtype)

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("Can't export tensors that require gradient")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Exported:
    """The same of a library that has only the protocol of DLPack."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.data, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def _torch(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(array)


def _parameter(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").nn.Parameter(_torch(array), requires_grad=array.dtype.kind == "f")


def _jax(array: np.ndarray) -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(array)


MAKERS = [Tensor, Exported, _torch, _parameter, _jax]
every = pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__.strip("_").lower())


@dataclass
class Node:
    x: np.ndarray
    kids: list[Node]


@dataclass
class Params:
    w: Any
    b: Any


@model
def total(n: Node, *, p: Params) -> Any:
    h = nn.softmax(p.w @ n.x + p.b)
    for k in n.kids:
        h = h + total(k, p=p)
    return h


@model
def project(x: Any, *, w: Any) -> Any:
    return np.tanh(w @ x)


W, B, X = (RNG.standard_normal(s).astype(np.float32) for s in ((3, 4), (3,), (5, 4)))


def nodes(make: Callable[[np.ndarray], Any]) -> list[Node]:
    return [Node(make(x), [Node(make(x + 1), []), Node(make(x), [])]) for x in X]


def bits(results: Any) -> list[bytes]:
    return [np.asarray(r).tobytes() for r in results]


@every
def test_shared_values_of_another_library_are_read_where_they_lie(make: Any) -> None:
    plain, w = Params(W, B), W.copy()
    given = Params(make(w), make(B))
    wanted = total.batch(nodes(np.asarray), p=plain)
    assert bits(total.batch(nodes(np.asarray), p=given)) == bits(wanted)
    assert bits(total.batch(nodes(np.asarray), p=pack(given))) == bits(wanted)
    if make is not _jax:  # its arrays never change
        w *= 2
        assert bits(total.batch(nodes(np.asarray), p=given)) == bits(total.batch(nodes(np.asarray), p=Params(w, B)))


@every
def test_instances_may_hold_them(make: Any) -> None:
    p = Params(W, B)
    wanted = bits(total.batch(nodes(np.asarray), p=p))
    assert bits(total.batch(nodes(make), p=p)) == wanted
    assert bits(total.batch(pack(nodes(make)), p=p)) == wanted
    mixed = [b if k % 2 else a for k, (a, b) in enumerate(zip(nodes(make), nodes(np.asarray), strict=True))]
    assert bits(total.batch(mixed, p=p)) == wanted


@every
def test_a_column_of_them(make: Any) -> None:
    wanted = bits(project.batch(X, w=W))
    assert bits(project.batch(make(X), w=W)) == wanted
    assert bits(project.batch(pack(make(X)), w=W)) == wanted
    assert bits(project.batch([make(x) for x in X], w=make(W))) == wanted
    rows = [{"x": make(x), "name": object()} for x in X]
    assert bits(model(lambda row, *, w: np.tanh(w @ row["x"])).batch(rows, w=W)) == wanted


@every
def test_the_plain_call_has_arrays_of_numpy(make: Any) -> None:
    node, p = nodes(make)[0], Params(make(W), make(B))
    found = total(node, p=p)
    assert type(found) is np.ndarray
    assert found.tobytes() == total(nodes(np.asarray)[0], p=Params(W, B)).tobytes()
    assert total.check(nodes(make), p=p).ok


@every
def test_an_array_of_rank_0_is_one(make: Any) -> None:
    double = model(lambda x: x * 2)
    points = [np.array(v) for v in (1.5, 2.5)]
    found = double.batch([make(v) for v in points])
    assert [type(v) for v in found] == [type(v) for v in double.batch(points)]
    assert list(found) == [3.0, 5.0]


@every
def test_gradients_of_them_are_arrays_of_numpy(make: Any) -> None:
    loss = model(lambda x, *, w: np.sum(np.tanh(w @ x)))
    value, (g,) = acronumba.value_and_grad(loss, wrt=("w",)).batch(X, w=W)
    same, (h,) = acronumba.value_and_grad(loss, wrt=("w",)).batch([make(x) for x in X], w=make(W))
    assert value == same
    assert np.array_equal(g, h)


@every
def test_a_failure_is_told_by_the_plain_call(make: Any) -> None:
    @model
    def pick(x: Any, k: int) -> Any:
        return x[k]

    with pytest.raises(InstanceErrors) as failed:
        pick.batch([make(x) for x in X], [0, 1, 9, 0, 0])
    assert failed.value.errors.keys() == {2}
    assert str(failed.value.errors[2]) == "index 9 is out of bounds for axis 0 with size 4"


@every
def test_parameters_are_saved_as_arrays(make: Any, tmp_path: Any) -> None:
    acronumba.save(tmp_path / "p.safetensors", Params(make(W), make(B)))
    found = acronumba.load(tmp_path / "p.safetensors", Params(W, B))
    assert np.array_equal(found.w, W)


def test_what_lies_on_another_device_is_rejected() -> None:
    with pytest.raises(AcronumbaError, match="copy it to the CPU first"):
        project.batch(X, w=Exported(W, device=2))
    with pytest.raises(AcronumbaError, match="copy it to the CPU first"):
        project.batch(Exported(X, device=2), w=W)
    with pytest.raises(AcronumbaError, match="copy it to the CPU first"):
        project.batch([Exported(x, device=2) for x in X], w=W)


def test_floats_of_16_bits_are_rejected_with_what_to_write() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.float16):
        for x, w in ((X, _torch(W).to(dtype)), (list(_torch(X).to(dtype)), W)):
            with pytest.raises(AcronumbaError, match=r"x\.float\(\)"):
                project.batch(x, w=w)


def test_results_go_back_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    whole = project.batch(X, w=W).stack()
    assert torch.from_dlpack(whole).numpy().tobytes() == whole.tobytes()


def test_tables_are_rejected_with_their_columns() -> None:
    add = model(lambda a, b: a + b)
    with pytest.raises(AcronumbaError, match=r'd\["a"\], d\["b"\]'):
        add.batch({"a": [1], "b": [2]})
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    with pytest.raises(AcronumbaError, match=r'df\["a"\], df\["b"\]'):
        add.batch(frame)
    assert list(add.batch(frame["a"], frame["b"])) == [4, 6]


def test_rows_that_are_found_by_numbers_alone_are_rejected() -> None:
    class Dataset:
        def __getitem__(self, k: int) -> np.ndarray:
            return X[k]

        def __len__(self) -> int:
            return len(X)

    with pytest.raises(AcronumbaError, match=r"d\[k\] for k in range"):
        project.batch(Dataset(), w=W)


CASES = one_in(8, [(make, *of) for of in ZOO for make in (Tensor, _parameter, _jax)])


@pytest.mark.parametrize(("make", "module", "f"), CASES)
def test_plain_calls_of_the_zoo(make: Any, module: Any, f: Any) -> None:
    p, instance = module.params(8), module.instances(1)[0]
    f = f if isinstance(f, type(total)) else model(f)
    with np.errstate(all="ignore"):
        mine = f(copy.deepcopy(instance), p=p)
        other = f(copy.deepcopy(instance), p=rebuilt(p, lambda v: make(v) if isinstance(v, np.ndarray) else v))
    assert acronumba.Results.of([mine]) == acronumba.Results.of([other])
