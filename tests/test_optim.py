"""Optimisers change parameters in place, by the steps of the papers and of `torch.optim`."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import TypeMismatch, leaves, load, model, optim, pack, save
from acronumba.runtime import updates

RNG = np.random.default_rng(3)
OPTIMISERS = {
    "sgd": (lambda: optim.SGD(0.1), "SGD", {"lr": 0.1}),
    "decay": (lambda: optim.SGD(0.1, decay=0.01), "SGD", {"lr": 0.1, "weight_decay": 0.01}),
    "momentum": (lambda: optim.SGD(0.1, 0.9, decay=0.01), "SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": (lambda: optim.SGD(0.1, 0.9, nesterov=True), "SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": (lambda: optim.Adam(0.01), "Adam", {"lr": 0.01}),
    "adam_else": (lambda: optim.Adam(0.02, (0.5, 0.9), 1e-4), "Adam", {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-4}),
    "adamw": (lambda: optim.AdamW(0.01, decay=0.1), "AdamW", {"lr": 0.01, "weight_decay": 0.1}),
}


@dataclass
class Cell:
    w: np.ndarray
    b: np.ndarray
    size: int


@dataclass
class Params:
    cells: list[Cell]
    table: dict[str, np.ndarray]
    scale: float = 2.0
    name: str = "net"


def params(dtype: Any = np.float32, seed: int = 0) -> Params:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    return Params([Cell(draw(5, 3), draw(17), 3), Cell(draw(1, 40), draw(0), 1)], {"e": draw(33, 2), "s": draw()})


def gradients(step: int, dtype: Any = np.float32) -> Params:
    out = params(dtype, 100 + step)
    out.scale = None  # type: ignore[assignment]  # as `value_and_grad` has it for what is no array
    return out


def by_paper(name: str, settings: dict[str, Any], w: Any, grads: list[Any]) -> Any:
    """The steps in float64, as they are written."""
    w = w.astype(np.float64)
    m, v = np.zeros_like(w), np.zeros_like(w)
    rate, decay = settings["lr"], settings.get("weight_decay", 0.0)
    for t, g in enumerate(grads, 1):
        if name == "SGD":
            g = g + decay * w
            momentum = settings.get("momentum", 0.0)
            m = momentum * m + g
            w = w - rate * (g + momentum * m if settings.get("nesterov") else m)
        else:
            one, two = settings.get("betas", (0.9, 0.999))
            w = w - rate * decay * w
            m, v = one * m + (1 - one) * g, two * v + (1 - two) * g * g
            w = w - rate * (m / (1 - one**t)) / (np.sqrt(v / (1 - two**t)) + settings.get("eps", 1e-8))
    return w


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_the_paper(name: str, dtype: str) -> None:
    make, kind, settings = OPTIMISERS[name]
    opt, p = make(), params(dtype)
    arrays = dict(leaves(p))
    before = {n: w.copy() for n, w in arrays.items()}
    for step in range(100):
        opt.update(p, gradients(step, dtype))
    assert opt.state["step"] == 100
    for path, w in leaves(p):
        assert w is arrays[path]
        wanted = by_paper(kind, settings, before[path], [dict(leaves(gradients(k, dtype)))[path] for k in range(100)])
        np.testing.assert_allclose(w, wanted, rtol=0, atol=2e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, kind, settings = OPTIMISERS[name]
    opt, p = make(), params("float64")
    theirs = {path: torch.tensor(w.copy()) for path, w in leaves(p)}
    other = getattr(torch.optim, kind)(list(theirs.values()), **settings)
    for step in range(100):
        grads = gradients(step, "float64")
        for path, g in leaves(grads):
            theirs[path].grad = torch.tensor(g)
        opt.update(p, grads)
        other.step()
    for path, w in leaves(p):
        np.testing.assert_allclose(w, theirs[path].numpy(), rtol=0, atol=1e-12)


def test_the_rate_may_change_at_any_time() -> None:
    w = np.ones(3)
    opt = optim.SGD(1.0)
    for rate, left in ((0.5, 0.5), (0.25, 0.25), (0.0, 0.25)):
        opt.rate = rate
        opt.update({"w": w}, {"w": np.ones(3)})
        assert w.tolist() == [left] * 3


def test_an_array_in_two_places_is_updated_once() -> None:
    w = np.ones(3)
    g = np.ones(3)
    optim.SGD(0.5).update({"a": w, "b": w}, {"a": g, "b": g})
    assert w.tolist() == [0.5] * 3


@pytest.mark.parametrize("view", [lambda a: a.view(), lambda a: a.T, lambda a: a[1:]], ids=["all", "turned", "part"])
def test_views_of_one_array_are_updated_one_after_the_other(view: Any) -> None:
    """By one thread after the other, though both would pay: elements that they share change once for each view."""
    w = np.ones((600, 600), np.float32)
    p, wanted = {"w": w, "v": view(w)}, np.ones_like(w)
    g = {"w": np.full_like(p["w"], 1.0), "v": np.full(p["v"].shape, 2.0, np.float32)}
    opt = optim.SGD(0.125)
    for _ in range(6):
        opt.update(p, g)
        wanted -= 0.125
        view(wanted)[...] -= 0.25
    assert np.array_equal(w, wanted)


def test_a_momentum_that_comes_later_has_no_state() -> None:
    p, g = {"w": np.ones(4)}, {"w": np.ones(4)}
    opt = optim.SGD(0.1)
    for _ in range(3):
        opt.update(p, g)
    opt.momentum = 0.9
    with pytest.raises(TypeMismatch, match="holds nothing of `w`"):
        opt.update(p, g)
    opt.momentum = 0.0
    opt.update(p, g)
    assert np.allclose(p["w"], 0.6)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_a_state_that_was_cleared_begins_anew(make: Any) -> None:
    p, g = {"w": np.ones(4)}, {"w": np.ones(4)}
    opt = make(0.1)
    for _ in range(3):
        opt.update(p, g)
    opt.state.clear()
    opt.update(p, g)
    assert opt.state["step"] == 1


def test_what_has_no_gradient_stays() -> None:
    p = {"w": np.ones(2), "v": np.ones(2)}
    opt = optim.Adam(0.1)
    opt.update(p, {"w": np.ones(2), "v": None})
    assert p["v"].tolist() == [1, 1] and p["w"].tolist() != [1, 1]
    opt.update(p, {"v": np.ones(2)})
    assert p["v"].tolist() != [1, 1]


@pytest.mark.parametrize("name", ["nesterov", "adamw"])
def test_a_run_resumes_with_the_same_bits(name: str, tmp_path: Any) -> None:
    make = OPTIMISERS[name][0]
    whole, p = make(), params()
    for step in range(7):
        whole.update(p, gradients(step))
        if step == 3:
            save(tmp_path / "p", p)
            save(tmp_path / "opt", whole.state)
    again = make()
    q = load(tmp_path / "p", params())
    again.begin(q)
    again.state = load(tmp_path / "opt", again.state)
    for step in range(4, 7):
        again.update(q, gradients(step))
    assert [w.tobytes() for _, w in leaves(p)] == [w.tobytes() for _, w in leaves(q)]


@pytest.mark.parametrize(
    "make", [lambda a: a[::2], lambda a: a.T, lambda a: np.asfortranarray(a), lambda a: a[:, ::-1]]
)
def test_arrays_that_do_not_lie_in_one_piece(make: Any) -> None:
    base, g = RNG.standard_normal((6, 4)), RNG.standard_normal((6, 4))
    w, like = make(base.copy()), make(base.copy()).copy()
    one, other = optim.Adam(0.1), optim.Adam(0.1)
    for _ in range(3):
        one.update({"w": w}, {"w": make(g)})
        other.update({"w": like}, {"w": make(g).copy()})
    assert np.array_equal(w, like)


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 5 * updates._SHARE + 7
    start, g = RNG.standard_normal(size).astype(np.float32), RNG.standard_normal(size).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(updates, "available_threads", lambda threads=threads: threads)
        p = {"a": np.ones(3, np.float32), "w": start.copy(), "z": start[:100].copy()}
        grads = {"a": np.ones(3, np.float32), "w": g.copy(), "z": g[:100].copy()}
        norm = optim.clip(grads, 1.0)
        optim.Adam(0.1).update(p, grads)
        found.append((norm, *(w.tobytes() for w in p.values())))
    assert found[0] == found[1] == found[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updates, "available_threads", lambda: 2)
    p, g = {"w": np.zeros(4 * updates._SHARE)}, {"w": np.ones(4 * updates._SHARE)}
    optim.SGD(1.0).update(p, g)
    child = os.fork()
    if not child:
        optim.SGD(1.0).update(p, g)
        os._exit(0 if (p["w"] == -2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0 and (p["w"] == -1).all()


def test_two_threads_update_two_parameters() -> None:
    def work(k: int) -> None:
        opt = optim.SGD(1.0)
        for _ in range(50):
            opt.update({"w": ws[k]}, {"w": np.full(1 << 17, k + 1.0)})

    ws = [np.zeros(1 << 17) for _ in range(2)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (ws[0] == -50).all() and (ws[1] == -100).all()


# ---- clip


def test_clip_scales_down_to_the_norm() -> None:
    grads = {"a": np.array([3.0, 0.0], np.float32), "b": np.array([[4.0]]), "n": None}
    assert optim.clip(grads, 10.0) == 5.0
    assert grads["a"].tolist() == [3, 0]
    assert optim.clip(grads, 1.0) == 5.0
    np.testing.assert_allclose(grads["a"], [0.6, 0], rtol=1e-6)
    np.testing.assert_allclose(grads["b"], [[0.8]], rtol=1e-12)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_clip_leaves_what_is_not_finite(bad: float) -> None:
    grads = {"a": np.array([bad, 2.0])}
    norm = optim.clip(grads, 1.0)
    assert not np.isfinite(norm) and grads["a"][1] == 2


def test_clip_of_nothing() -> None:
    assert optim.clip({}, 1.0) == 0.0
    optim.SGD(0.1).update({}, {})


# ---- rejections


def read_only() -> np.ndarray:
    out = np.ones(2)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("p", "g", "why"),
    [
        ({"w": np.ones(2)}, {"v": np.ones(2)}, "there is no parameter `v`"),
        ({"w": np.ones(2)}, {"w": np.ones(3)}, "`w` is float64[2], its gradient float64[3]"),
        ({"w": np.ones(2)}, {"w": np.ones(2, np.float32)}, "its gradient float32[2]"),
        ({"w": read_only()}, {"w": np.ones(2)}, "`w` is read-only\n  instead: np.array(w) in its place"),
        (
            {"w": np.float64(2)},
            {"w": np.float64(2)},
            "in place\n  instead: np.full((), 1.0, np.float32)",
        ),
        ({"w": np.ones(2, np.float16)}, {"w": np.ones(2, np.float16)}, "float16"),
        ({"w": np.ones(2, ">f8")}, {"w": np.ones(2, ">f8")}, "is an array of >f8"),
    ],
)
def test_what_does_not_fit_is_rejected_and_nothing_has_changed(p: Any, g: Any, why: str) -> None:
    first = np.ones(2)
    opt = optim.Adam(0.1)
    with pytest.raises(TypeMismatch, match="ACR713") as error:
        opt.update({"first": first, **p}, {"first": np.ones(2), **g})
    assert why in str(error.value)
    assert first.tolist() == [1, 1] and opt.state == {}


def test_the_loss_is_no_gradient() -> None:
    @model
    def loss(x: float, *, p: dict[str, Any]) -> Any:
        return np.sum(p["w"] * x)

    p = {"w": np.ones(2)}
    both = loss.value_and_grad(2.0, p=p)
    for use in (lambda: optim.SGD(0.1).update(p, both), lambda: optim.clip(both, 1.0)):
        with pytest.raises(TypeMismatch, match=r"value, grads = f.value_and_grad.batch"):
            use()


def test_a_snapshot_does_not_change() -> None:
    with pytest.raises(TypeMismatch, match="snapshot"):
        optim.SGD(0.1).update(pack({"w": np.ones(2)}), {"w": np.ones(2)})


def test_a_parameter_that_comes_later_is_told() -> None:
    opt = optim.Adam(0.1)
    opt.update({"w": np.ones(2)}, {"w": np.ones(2)})
    with pytest.raises(TypeMismatch, match="holds nothing of `v`"):
        opt.update({"w": np.ones(2), "v": np.ones(2)}, {"v": np.ones(2)})


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.SGD(-1.0),
        lambda: optim.SGD(float("nan")),
        lambda: optim.SGD(0.1, nesterov=True),
        lambda: optim.Adam(0.1, (0.9, 1.0)),
        lambda: optim.Adam(0.1, (0.9,)),  # type: ignore[arg-type]
        lambda: optim.clip({}, -1.0),
    ],
)
def test_settings_that_make_no_sense(make: Any) -> None:
    with pytest.raises(ValueError, match=r"at least 0|momentum|betas must be"):
        make()


def test_it_prints_its_settings() -> None:
    assert repr(optim.SGD(0.1, 0.9)) == "SGD(rate=0.1, momentum=0.9, nesterov=False, decay=0.0)"
    assert repr(optim.AdamW()) == "AdamW(rate=0.001, betas=(0.9, 0.999), eps=1e-08, decay=0.01)"
