"""Training that stays on a device, which is the simulator: `on_device`."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import (
    AcronumbaError,
    InstanceErrors,
    RowGrad,
    TypeMismatch,
    leaves,
    model,
    nn,
    on_device,
    optim,
    pack,
    save,
    value_and_grad,
)
from acronumba.kernels.cuda.simulator import Simulator
from acronumba.memory import homes
from acronumba.runtime.devices import names
from acronumba.runtime.devices.back import BackDevice
from acronumba.runtime.devices.simulated import SimulatedDevice
from tests.support.device_runs import counted

Params = dict[str, Any]


def weights(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Any:
    return np.asarray(rng.standard_normal(shape) * 0.5, dtype)


@model
def loss(words: list[int], k: int, *, p: Params) -> Any:
    h = p["start"]
    for i in words:
        h = np.tanh(p["w"] @ np.concatenate([h, p["embed"][i]]) + p["b"])
    return nn.cross_entropy(p["out"] @ h, k)


COLUMNS: tuple[list[Any], ...] = ([[7, 4, 7], [9], [0, 7]], [0, 1, 2])
THERE = loss.on("simulator")


def params(size: int = 3, dtype: Any = np.float32) -> Params:
    rng = np.random.default_rng(7)
    shapes = {"start": (size,), "w": (size, size + 2), "embed": (10, 2), "b": (size,), "out": (3, size)}
    return {name: weights(rng, *shape, dtype=dtype) for name, shape in shapes.items()}


def copied(p: Params) -> Params:
    return {name: a.copy() for name, a in p.items()}


def block(*values: Any) -> Any:
    return on_device(*values, device="simulator")


def close(p: Params, q: Params, bound: float = 2e-6) -> None:
    for (name, a), (other, b) in zip(leaves(p), leaves(q), strict=True):
        assert name == other and a.dtype == b.dtype and a.flags.writeable
        np.testing.assert_allclose(a, b, rtol=0, atol=bound, err_msg=name)


def trained(f: Any, p: Params, opt: Any, columns: Any = COLUMNS, steps: int = 3, norm: float = 0.5) -> list[Any]:
    """Train; return losses and norms, which are not fetched."""
    out = []
    for _ in range(steps):
        value, grads = f.batch(*columns, p=p)
        out += [value, optim.clip(grads, norm)]
        opt.update(p, grads)
    return out


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.long)])
@pytest.mark.parametrize("sparse", [pytest.param((), marks=pytest.mark.long), "p.embed"])
def test_steps_are_those_of_the_processor(sparse: Any, dtype: Any) -> None:
    p = params(dtype=dtype)
    q, opt, other = copied(p), optim.Adam(0.05), optim.Adam(0.05)
    f = value_and_grad(loss, sparse=sparse)
    with block(p, opt):
        mine = trained(f.on("simulator"), p, opt)
        value, grads = f.on("simulator").batch(*COLUMNS, p=p)
        assert isinstance(grads["embed"], RowGrad) == bool(sparse)
        assert np.asarray(grads["w"]).shape == (3, 5) and grads["w"].dtype == dtype
    theirs = trained(f, q, other)
    assert value.dtype == dtype and [type(x[()]) for x in mine] == [type(np.asarray(x)[()]) for x in theirs]
    np.testing.assert_allclose([float(x) for x in mine], [float(x) for x in theirs], rtol=1e-5)
    close(p, q, 2e-6 if dtype == np.float32 else 1e-13)
    close(opt.state["square"], other.state["square"])
    theirs_ = f.batch(*COLUMNS, p=q)
    assert float(value) == pytest.approx(float(theirs_.value), rel=1e-5)


def test_a_step_copies_inputs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are the same for larger parameters, and nothing comes back until it is read."""
    monkeypatch.setattr(Simulator, "launch", lambda *args, **options: None)  # only copies are counted
    found = []
    f = value_and_grad(loss, sparse="p.embed").on("simulator")
    columns = tuple(map(pack, COLUMNS))
    for size in (4, 12):
        p, opt = params(size), optim.Adam(0.05)
        with block(p, opt):
            trained(f, p, opt, columns, steps=2)
            with counted() as copies:
                (value, norm) = trained(f, p, opt, columns, steps=1)
            assert not copies["down"]
            found.append(sum(copies["up"]))
            assert len(copies["up"]) <= 8  # of both passes, the loss, the norm and the update
            with counted() as copies:
                assert f"{value:.3f}" and f"{norm:.3f}"
            assert sorted(copies["down"]) == [8, 16] and not copies["up"]
    assert found[0] == found[1] < 12_000


RULES: dict[str, tuple[Callable[[], Any], Callable[[Any, int], None]]] = {
    "sgd": (lambda: optim.SGD(0.1), lambda opt, k: None),
    "decay": (lambda: optim.SGD(0.1, decay=0.1), lambda opt, k: None),
    "momentum": (lambda: optim.SGD(0.1, momentum=0.9, decay=0.01), lambda opt, k: None),
    "nesterov": (lambda: optim.SGD(0.1, momentum=0.9, nesterov=True), lambda opt, k: None),
    "adam": (lambda: optim.Adam(0.1), lambda opt, k: None),
    "adamw": (lambda: optim.AdamW(0.1, decay=0.1), lambda opt, k: None),
    "schedule": (lambda: optim.Adam(0.1), lambda opt, k: setattr(opt, "rate", 0.1 * 0.9**k)),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_after_20_steps(name: str) -> None:
    """Dense and row gradients, float32 and float64, clipped; what has no axes, and more than one piece."""
    make, before = RULES[name]
    found = []
    for there in (True, False):
        rng = np.random.default_rng(1)
        shapes = {"a": (3, 7), "b": (), "c": (300,), "rows": (6, 40)}
        p = {n: weights(rng, *s, dtype=np.float64 if n == "c" else np.float32) for n, s in shapes.items()}
        opt = make()
        home = block(p, opt) if there else None
        if home is not None:
            home.__enter__()
        for k in range(20):
            grads = {n: weights(rng, *s, dtype=p[n].dtype) for n, s in shapes.items()}
            index = np.unique(rng.integers(0, 6, 3))
            grads["rows"] = RowGrad(index, weights(rng, len(index), 40), (6, 40))
            before(opt, k)
            optim.clip(grads, 3.0)
            opt.update(p, grads)
        if home is not None:
            home.__exit__(None, None, None)
        found.append((p, opt.state))
    close(found[0][0], found[1][0], 1e-6)
    for kind in found[1][1].keys() - {"step"}:
        close(found[0][1][kind], found[1][1][kind], 1e-6)
    assert found[0][1]["step"] == 20


def test_bits_depend_on_no_thread_no_number_of_blocks_and_no_company(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed, processors in ((0, 1), (1, 3)):
        device = SimulatedDevice(seed)
        monkeypatch.setattr(SimulatedDevice, "processors", processors)
        monkeypatch.setattr(names, "open_device", lambda name, device=device: device)
        monkeypatch.setattr("acronumba.residence.open_device", lambda name, device=device: device)
        p, opt = params(), optim.Adam(0.05)
        with block(p, opt):
            trained(model(loss.__wrapped__).on("simulator").value_and_grad, p, opt, steps=2)
        found.append([a.tobytes() for _, a in leaves(p)])
    assert found[0] == found[1]


def test_values_come_back_at_a_fetch_and_at_an_exception() -> None:
    p, opt = params(), optim.SGD(0.1)
    q, before = copied(p), copied(p)
    f = THERE.value_and_grad
    with pytest.raises(KeyError, match="mine"), block(p) as there:  # noqa: PT012 - the block is what is tested
        trained(f, p, opt, steps=1)
        assert np.array_equal(p["w"], before["w"]) and not p["w"].flags.writeable
        there.fetch()
        trained(loss.value_and_grad, q, optim.SGD(0.1), steps=1)
        np.testing.assert_allclose(p["w"], q["w"], atol=2e-6)
        assert not p["w"].flags.writeable and "open" in repr(there)
        trained(f, p, opt, steps=1)
        raise KeyError("mine")
    trained(loss.value_and_grad, q, optim.SGD(0.1), steps=1)
    close(p, q)
    assert not homes and "closed" in repr(there)
    with pytest.raises(TypeMismatch, match="the block is over"):
        there.fetch()
    trained(loss.value_and_grad, p, opt, steps=1)  # as before


def test_stale_arrays_are_not_read(tmp_path: Any) -> None:
    p, opt = params(), optim.SGD(0.1)
    with block(p, opt) as there:
        assert loss.value_and_grad.batch(*COLUMNS, p=p).value > 0  # nothing has changed yet
        trained(THERE.value_and_grad, p, opt, steps=1)
        first = [c[0] for c in COLUMNS]
        for read in (
            lambda: loss.batch(*COLUMNS, p=p),
            lambda: loss.value_and_grad.batch(*COLUMNS, p=p),
            lambda: THERE.value_and_grad(*first, p=p),
            lambda: loss(*first, p=p),
            lambda: THERE.check(*COLUMNS, p=p),
            lambda: save(tmp_path / "p", p),
            lambda: pack(p),
        ):
            with pytest.raises(TypeMismatch, match="ACR715"):
                read()
        mine = THERE.batch(*COLUMNS, p=p)  # there it is current
        there.fetch()
        np.testing.assert_allclose(list(mine), list(loss.batch(*COLUMNS, p=p)), rtol=1e-5)
        save(tmp_path / "p", p)


def test_what_is_written_meanwhile_is_reported() -> None:
    p = params()
    other = p["w"].view()
    with pytest.raises(TypeMismatch, match=r"`w`"), block(p):  # noqa: PT012 - the block is what is tested
        with pytest.raises(ValueError, match="read-only"):
            p["w"][0] = 1
        with pytest.raises(ValueError, match="read-only"):
            p["w"] += 1
        other[0] = 7
    assert p["w"].flags.writeable and not homes and p["w"][0, 0] != 7


def test_blocks_do_not_share_arrays() -> None:
    p, q = params(), params(4)
    with block(p):
        for values in ((p,), (q, {"part": p["w"]})):
            with pytest.raises(TypeMismatch, match=r"on a device already|shares memory"), block(*values):
                pass
        with block(q):  # others
            pass
    for wrong in (np.zeros(3, np.float16), np.zeros((4, 4), np.float32).T[:2], np.frombuffer(b"1234", np.float32)):
        with pytest.raises(TypeMismatch, match="ACR715"), block({"w": wrong}):
            pass
    whole = np.zeros(8, np.float32)
    with pytest.raises(TypeMismatch, match="shares memory"), block({"a": whole, "b": whole[4:]}):
        pass
    assert whole.flags.writeable and not homes


def test_a_device_that_is_missing() -> None:
    p = params()
    for device in ("cpu", "cuda:97", "gpu"):
        with pytest.raises(AcronumbaError, match="ACR705"), on_device(p, device=device):
            pass
    assert p["w"].flags.writeable


def test_an_instance_that_fails_leaves_a_step_of_the_others() -> None:
    p, opt = params(), optim.Adam(0.05)
    q, other = copied(p), optim.Adam(0.05)
    columns = [*COLUMNS[0], [12]], [*COLUMNS[1], 0]
    with block(p, opt):
        with pytest.raises(InstanceErrors) as raised:
            THERE.value_and_grad.batch(*columns, p=p)
        assert set(raised.value.errors) == {3}
        opt.update(p, raised.value.results.grads)  # type: ignore[attr-defined]
        losses = raised.value.results.losses  # type: ignore[attr-defined]
        assert losses[3] is None and losses[0].dtype == np.float32
        with pytest.raises(InstanceErrors) as again:  # the plain call, which finds the exception, reads what is there
            THERE.value_and_grad.batch(*columns, p=p)
        assert isinstance(again.value.errors[3], IndexError)
        assert trained(THERE.value_and_grad, p, opt, steps=1)[0] > 0
    other.update(q, loss.value_and_grad.batch(*COLUMNS, p=q).grads)
    trained(loss.value_and_grad, q, other, steps=1)
    close(p, q)


@model
def mixed(x: np.ndarray, *, w: np.ndarray, table: np.ndarray, u: np.ndarray) -> Any:
    """The device computes `w @ table`; the CPU reads a number of the parameters, and computes a sum of them."""
    scale = 2 if float(u[0]) > 0 else 3
    made = w @ table
    return np.sum(np.tanh(made @ x)) * scale + np.sum(u), u


def test_what_the_processor_computes_of_parameters_is_current() -> None:
    rng = np.random.default_rng(3)
    p = {"w": weights(rng, 3, 4), "table": weights(rng, 4, 5), "u": np.array([0.15, 1.0], np.float32)}
    q, xs = copied(p), [weights(rng, 5) for _ in range(3)]
    found = []
    for at, device in ((p, "simulator"), (q, "cpu")):
        f = value_and_grad(mixed.on(device), aux=True)
        opt, home = optim.SGD(0.1), block(p) if device == "simulator" else None
        if home is not None:
            home.__enter__()
        values = []
        for _ in range(3):
            done = f.batch(xs, **at)
            values += [float(done.value), float(done.aux[0][0])]
            opt.update(at, dict(zip(("w", "table", "u"), done.grads, strict=True)))
        if home is not None:
            home.__exit__(None, None, None)
        found.append(values)
    np.testing.assert_allclose(*found, rtol=1e-5)
    close(p, q)


@dataclass
class Node:
    w: np.ndarray
    left: Node | None = None
    right: Node | None = None


def walk(x: np.ndarray, k: int, n: Node) -> np.ndarray:
    x = np.tanh(n.w * x)
    if k > 0 and n.left is not None and n.right is not None:
        return walk(x, k // 2, n.left if k % 2 else n.right)
    return x


@model
def weight(n: Node) -> Any:
    return np.sum(n.w)


@model
def down(x: np.ndarray, k: int, *, root: Node) -> Any:
    return np.sum(walk(x, k, root) ** 2)


def test_shared_objects_that_are_packed_and_arrays_as_instances_are_current() -> None:
    found = []
    for device in ("simulator", "cpu"):
        rng = np.random.default_rng(5)
        root = Node(weights(rng, 3), Node(weights(rng, 3)), Node(weights(rng, 3)))
        xs, opt = [weights(rng, 3) for _ in range(3)], optim.SGD(0.5)
        home = block(root) if device == "simulator" else None
        if home is not None:
            home.__enter__()
        for _ in range(2):
            value, grads = down.on(device).value_and_grad.batch(xs, [1, 0, 2], root=root)
            opt.update(root, grads)
        held = list(map(float, weight.on(device).batch([root, Node(root.w)])))
        found.append([float(value), *held, *map(float, down.on(device).batch([root.w, xs[0]], [0, 1], root=root))])
        if home is not None:
            home.__exit__(None, None, None)
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_a_number_that_is_fetched_is_a_scalar_of_numpy() -> None:
    p = params()
    with block(p):
        value, grads = THERE.value_and_grad.batch(*COLUMNS, p=p)
        assert value + 1 == 1 + value and np.isfinite(value) and bool(value) and round(value, 2) > 0
        assert type(value + np.float32(1)) is np.float32 and repr(value).startswith("np.float32(")
        assert pickle.loads(pickle.dumps(value)) == value == value.item() and int(value) == 1
        norm = optim.clip(grads, 1e9)
    assert float(norm) > 0
    with pytest.raises(TypeMismatch, match="ACR715"):
        optim.clip(grads, 1.0)


def test_a_step_that_has_failed_is_reported_when_values_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    turn = BackDevice.turn
    monkeypatch.setattr(BackDevice, "turn", lambda self: (made.append(self), turn(self))[1])
    p, opt = params(), optim.SGD(0.1)
    f = model(loss.__wrapped__).with_options(persistent=True).on("simulator").value_and_grad
    q, other = copied(p), optim.SGD(0.1)
    with pytest.raises(RuntimeError, match="in vain"), block(p, opt):  # noqa: PT012 - the block is what is tested
        trained(f, p, opt, steps=1)
        _, grads = f.batch(*COLUMNS, p=p)  # nobody waits
        made[0]._words_of_runs[-1][0] = 1  # as its blocks do
        with pytest.raises(RuntimeError, match="in vain"):
            np.asarray(grads["w"])
        opt.update(p, grads)
    with block(q, other):
        with pytest.raises(RuntimeError, match="in vain"):
            f.batch(*COLUMNS, p=q)
        trained(f, q, other, steps=1)
    assert not homes
