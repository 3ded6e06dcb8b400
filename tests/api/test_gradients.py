"""`Model.value_and_grad`: what it gives, what it rejects."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import acronumba
from acronumba import AcronumbaError, InstanceErrors, RowGrad, leaves, model, nn, pack, random, value_and_grad, vjp

RNG = np.random.default_rng(5)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.4).astype(np.float32)


@dataclass
class Tree:
    word: int
    left: Tree | None = None
    right: Tree | None = None


class Cell(NamedTuple):
    w: np.ndarray
    b: np.ndarray


class Plain:
    def __init__(self) -> None:
        self.scale = weights(3)
        self.name = "plain"


@dataclass
class Params:
    embed: np.ndarray
    cells: list[Cell]
    out: dict[str, np.ndarray]
    plain: Plain = field(default_factory=Plain)
    steps: int = 2
    rate: float = 0.5
    ids: np.ndarray = field(default_factory=lambda: np.arange(3))
    nothing: None = None
    unused: np.ndarray = field(default_factory=lambda: weights(2, 2))


def params() -> Params:
    return Params(embed=weights(7, 4), cells=[Cell(weights(4, 8), weights(4))], out={"w": weights(3, 4)})


def encode(t: Tree, p: Params) -> np.ndarray:
    if t.left is None or t.right is None:
        return p.embed[t.word]
    x = np.concatenate([encode(t.left, p), encode(t.right, p)])
    return np.tanh(p.cells[0].w @ x + p.cells[0].b)


@model
def classify(t: Tree, label: int, *, p: Params) -> Any:
    return nn.cross_entropy((p.out["w"] @ encode(t, p)) * p.plain.scale, label)


TREES = [Tree(0, Tree(1), Tree(2)), Tree(3), Tree(0, Tree(1, Tree(4), Tree(5)), Tree(2))]
LABELS = [1, 0, 2]


def test_gradients_have_the_structure_of_the_parameters() -> None:
    p = params()
    value, grads = classify.value_and_grad.batch(TREES, LABELS, p=p)
    assert type(value) is np.float32 and type(grads) is Params and type(grads.plain) is Plain
    assert type(grads.cells[0]) is Cell and grads.cells[0].w.shape == (4, 8) and grads.out["w"].dtype == np.float32
    assert (grads.steps, grads.rate, grads.ids, grads.nothing, grads.plain.name) == (None,) * 5
    assert not grads.unused.any() and grads.unused.shape == (2, 2)
    assert not grads.embed[6].any() and grads.embed[3].any()
    assert all(g.flags.writeable and g.flags.c_contiguous for _, g in leaves(grads))
    assert [n for n, _ in leaves(grads)] == [n for n, _ in leaves(p)]
    plain = [float(classify(t, y, p=p)) for t, y in zip(TREES, LABELS, strict=True)]
    assert value == pytest.approx(np.mean(plain), rel=1e-6)


def test_a_call_is_one_instance_and_a_mini_batch_the_mean_or_sum() -> None:
    p = params()
    one = [classify.value_and_grad(t, y, p=p) for t, y in zip(TREES, LABELS, strict=True)]
    total = value_and_grad(classify, reduce="sum").batch(TREES, LABELS, p=p)
    mean = classify.value_and_grad.batch(TREES, LABELS, p=p)
    for k, (_, g) in enumerate(leaves(total.grads)):
        parts = [leaves(o.grads)[k][1] for o in one]
        np.testing.assert_allclose(g, sum(parts), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(leaves(mean.grads)[k][1], g / 3, rtol=1e-5, atol=1e-7)
    assert list(total.losses) == list(classify.batch(TREES, LABELS, p=p))
    np.testing.assert_allclose(list(total.losses), [o.value for o in one], rtol=1e-6)
    assert total.value == pytest.approx(sum(o.value for o in one))


def test_a_sum_of_more_losses_than_came_before() -> None:
    @model
    def loss(x: Any, *, w: Any) -> Any:
        return np.sum(w * x)

    f, w = value_and_grad(loss, reduce="sum"), np.ones(3, np.float32)
    for count in (2, 500, 3):
        assert f.batch([np.ones(3, np.float32)] * count, w=w).grads.tolist() == [count] * 3


def test_gradients_learn() -> None:
    p = params()
    before, _ = classify.value_and_grad.batch(TREES, LABELS, p=p)
    for _ in range(30):
        _, grads = classify.value_and_grad.batch(TREES, LABELS, p=p)
        for (_, w), (_, g) in zip(leaves(p), leaves(grads), strict=True):
            w -= 0.5 * g
    assert classify.value_and_grad.batch(TREES, LABELS, p=p).value < 0.5 * before


def test_what_gradients_are_of_can_be_named() -> None:
    p = params()
    _, whole = classify.value_and_grad.batch(TREES, LABELS, p=p)
    for path, expected in [
        ("p.embed", whole.embed), ("p.cells[0].w", whole.cells[0].w), ("p.cells.0.b", whole.cells[0].b),
        ("p.out['w']", whole.out["w"]), ("p.plain.scale", whole.plain.scale),
    ]:  # fmt: skip
        _, g = value_and_grad(classify, wrt=path).batch(TREES, LABELS, p=p)
        assert np.array_equal(g, expected)
    _, (g, cells) = value_and_grad(classify, wrt=("p.embed", "p.cells")).batch(TREES, LABELS, p=p)
    assert np.array_equal(g, whole.embed) and np.array_equal(cells[0].w, whole.cells[0].w)
    with pytest.raises(AcronumbaError, match="does not exist"):
        value_and_grad(classify, wrt="p.encoder").batch(TREES, LABELS, p=p)
    with pytest.raises(AcronumbaError, match="no float array"):
        value_and_grad(classify, wrt="p.ids").batch(TREES, LABELS, p=p)
    with pytest.raises(AcronumbaError, match="no such variable"):
        value_and_grad(classify, wrt="q").batch(TREES, LABELS, p=p)
    with pytest.raises(AcronumbaError, match="is not a path"):
        value_and_grad(classify, wrt="p..w")


def test_gradients_of_instances_are_one_structure_each() -> None:
    @model
    def loss(xs: list[np.ndarray], *, w: np.ndarray) -> Any:
        total = np.float32(0)
        for x in xs:
            total = total + w @ x
        return total

    w = weights(3)
    instances = [[weights(3)], [weights(3), weights(3)], []]
    _, (gx, gw) = value_and_grad(loss, wrt=("xs", "w"), reduce="sum").batch(instances, w=w)
    assert [len(g) for g in gx] == [1, 2, 0]
    assert all(np.array_equal(g, w) for part in gx for g in part)
    np.testing.assert_allclose(gw, sum(x for part in instances for x in part), rtol=1e-5)
    _, gx = value_and_grad(loss, wrt="xs").batch(instances, w=w)
    np.testing.assert_allclose(gx[0][0], w / 3, rtol=1e-6)
    _, gx = value_and_grad(loss, wrt="xs")(instances[1], w=w)  # of a call: that of the instance
    assert [g.tolist() for g in gx] == [w.tolist()] * 2


def test_gradients_share_no_memory() -> None:
    @model
    def loss(x: np.ndarray, y: np.ndarray, *, w: np.ndarray) -> Any:
        return np.sum(x + y + w)

    _, grads = value_and_grad(loss, wrt=("x", "y", "w"))(X, X + 1, w=W)
    arrays = [*grads]
    assert all(g.tolist() == [1, 1, 1] and g.flags.writeable for g in arrays)
    assert not any(np.shares_memory(arrays[k], arrays[j]) for k in range(3) for j in range(k))


TABLE = weights(4)


def test_globals_and_closures_are_named_like_parameters() -> None:
    inner = weights(4)

    @model
    def loss(x: np.ndarray) -> Any:
        return np.sum(TABLE * x * inner)

    x = weights(4)
    _, (a, b) = value_and_grad(loss, wrt=("TABLE", "inner"))(x)
    np.testing.assert_allclose(a, x * inner, rtol=1e-6)
    np.testing.assert_allclose(b, TABLE * x, rtol=1e-6)
    with pytest.raises(AcronumbaError, match="no keyword-only parameter holds a float array"):
        loss.value_and_grad(x)


def test_an_array_that_is_reached_twice_is_one_leaf() -> None:
    @model
    def loss(x: np.ndarray, *, p: dict[str, np.ndarray]) -> Any:
        return np.sum(p["a"] * x) + np.sum(p["b"] * p["b"])

    w, x = weights(3), weights(3)
    _, g = loss.value_and_grad(x, p={"a": w, "b": w})
    assert g["a"] is g["b"]
    np.testing.assert_allclose(g["a"], x + 2 * w, rtol=1e-5)
    _, g = loss.value_and_grad(x, p={"a": w, "b": w.copy()})
    assert g["a"] is not g["b"] and np.array_equal(g["a"], x)


def test_scalars_float64_snapshots_and_results_beside_the_loss() -> None:
    @model
    def loss(x: np.ndarray, *, p: dict[str, Any]) -> Any:
        y = p["w"] @ x * p["scale"]
        return np.sum(y * y), {"y": y, "n": len(x)}

    p = {"w": RNG.standard_normal((2, 3)), "scale": np.float64(0.5)}
    x = RNG.standard_normal(3)
    found = value_and_grad(loss, aux=True).batch([x, x + 1], p=p)
    y = p["w"] @ x * 0.5
    assert found.aux is not None and np.allclose(found.aux[0]["y"], y) and found.aux[1]["n"] == 3
    one = value_and_grad(loss, aux=True)(x, p=pack(p))
    assert one.grads["w"].dtype == np.float64 and type(one.grads["scale"]) is np.float64
    np.testing.assert_allclose(one.grads["w"], np.outer(2 * y * 0.5, x), rtol=1e-12)
    np.testing.assert_allclose(one.grads["scale"], 2 * y @ (p["w"] @ x), rtol=1e-12)


def test_arrays_of_rank_0_empty_ones_and_packed_instances() -> None:
    @model
    def loss(x: np.ndarray, *, p: dict[str, Any]) -> Any:
        return np.sum(x * p["scale"]) + np.sum(p["none"]) + np.sum(x @ p["turned"])

    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    turned.flags.writeable = False
    p = {"scale": np.array(2.0, np.float32), "none": np.zeros((0, 3), np.float32), "turned": turned}
    xs = [np.ones(3, np.float32), np.full(3, 2, np.float32)]
    for instances in (xs, pack(xs), np.stack(xs)):
        _, g = value_and_grad(loss, reduce="sum").batch(instances, p=p)
        assert type(g["scale"]) is np.ndarray and g["scale"].shape == () and g["scale"] == 9
        assert g["none"].shape == (0, 3) and g["turned"].tolist() == [[3, 3]] * 3
        assert g["turned"].flags.c_contiguous and g["turned"].flags.writeable


def test_a_number_of_python_is_a_constant() -> None:
    @model
    def loss(x: np.ndarray, *, w: np.ndarray) -> Any:
        if len(x) < 2:
            return 1.0
        return np.sum(w * x[:2])

    value, g = loss.value_and_grad.batch([np.ones(1), np.ones(2)], w=np.ones(2))
    assert value == 1.5 and g.tolist() == [0.5, 0.5]


def test_failures_are_of_their_instances() -> None:
    @model
    def loss(x: list[float], *, w: np.ndarray) -> Any:
        return np.sum(w * (1.0 / x[0]))

    w = np.ones(2)
    with pytest.raises(InstanceErrors) as caught:
        loss.value_and_grad.batch([[1.0], [], [0.0], [2.0]], w=w)
    assert {k: type(e) for k, e in caught.value.errors.items()} == {1: IndexError, 2: ZeroDivisionError}
    value, grads = caught.value.results
    assert value == 1.5 and grads.tolist() == [0.75, 0.75]
    assert list(caught.value.results.losses) == [2.0, None, None, 1.0]
    with pytest.raises(ZeroDivisionError):
        loss.value_and_grad([0.0], w=w)


def test_no_instances() -> None:
    p = params()
    value, grads = value_and_grad(classify, reduce="sum").batch([], [], p=p)
    assert value == 0 and not any(g.any() for _, g in leaves(grads))
    with pytest.raises(AcronumbaError, match="an empty mini-batch has no mean loss"):
        classify.value_and_grad.batch([], [], p=p)


def test_instances_of_several_types() -> None:
    @model
    def loss(x: Any, *, w: np.ndarray) -> Any:
        return np.sum(w * x)

    value, g = value_and_grad(loss, reduce="sum").batch([np.ones(2, np.float32), np.ones((2, 2)), 3], w=np.ones(2))
    assert value == 2 + 4 + 6 and g.tolist() == [6, 6]


def test_tables_read_by_rows_have_gradients_by_rows() -> None:
    p = params()
    _, dense = classify.value_and_grad.batch(TREES, LABELS, p=p)
    for sparse in (True, ("p.embed",)):
        _, g = value_and_grad(classify, sparse=sparse).batch(TREES, LABELS, p=p)
        assert isinstance(g.embed, RowGrad) and isinstance(g.out["w"], np.ndarray)
        assert g.embed.index.tolist() == [1, 2, 3, 4, 5] and g.embed.shape == (7, 4)
        np.testing.assert_allclose(np.asarray(g.embed), dense.embed, rtol=1e-6, atol=1e-7)
        assert dict(leaves(g))["embed"] is g.embed
    with pytest.raises(AcronumbaError, match="as a whole"):
        value_and_grad(classify, sparse="p.out['w']").batch(TREES, LABELS, p=p)


# ---- what is rejected


def rejected(code: str, f: Any, *args: Any, **shared: Any) -> AcronumbaError:
    with pytest.raises(AcronumbaError) as caught:
        value_and_grad(f)(*args, **shared) if not hasattr(f, "choices") else f(*args, **shared)
    assert caught.value.code == code, caught.value
    return caught.value


X, W = np.ones(3, np.float32), np.ones(3, np.float32)


def test_a_loss_is_a_float() -> None:
    assert "float32[3]" in str(rejected("ACR311", lambda x, *, w: w * x, X, w=W))
    rejected("ACR311", lambda x, *, w: np.argmax(w * x), X, w=W)
    rejected("ACR311", lambda x, *, w: (np.sum(w * x), 1), X, w=W)
    error = rejected("ACR311", value_and_grad(lambda x, *, w: np.sum(w * x), aux=True), X, w=W)
    assert "return loss, anything" in str(error)


class WithLoss:
    def __init__(self) -> None:
        self.w = weights(3)

    @model
    def loss(self, x: np.ndarray) -> Any:
        return np.sum(self.w * x)


def test_rejections_show_what_users_wrote() -> None:
    f = value_and_grad(
        lambda x, *, w: w * x,
        reduce="sum",
    )
    text, caret = str(rejected("ACR311", f, X, w=W)).splitlines()[2:4]
    assert [text[at.start() : at.end()] for at in re.finditer(r"\^+", caret)] == ["w * x"]
    error = rejected("ACR602", lambda x, *, w: np.sum(w * x).item(), X, w=W)
    assert "leave out .item()" in str(error)
    for w in (np.array([1, 2, 3]), [1.0, 2.0, 3.0], 0.5):
        with pytest.raises(AcronumbaError, match=r"np\.array\(w, np\.float32\)"):
            value_and_grad(lambda x, *, w: np.sum(x) * w).batch([X], w=w)
    net = WithLoss()
    with pytest.raises(AcronumbaError, match=r"model\(lambda x, \*, net: net\.loss\(x\)\)"):
        net.loss.value_and_grad.batch([X])
    assert value_and_grad(lambda x, *, net: net.loss(x)).batch([X], net=net).grads.w.tolist() == X.tolist()


@dataclass
class Held:
    value: float


def listed(x: np.ndarray, *, w: np.ndarray) -> Any:
    found = []
    for v in w:
        found.append(float(v))
    return np.sum(x * np.array(found))


def halved(x: float, n: int) -> float:
    return x if n == 0 else halved(x / 2, n - 1)


def returned(x: np.ndarray, *, w: np.ndarray) -> Any:
    return np.sum(x) * halved(float(w[0]), len(x))


def written(x: np.ndarray, *, w: np.ndarray) -> Any:
    a = np.zeros(3)
    a[0] = float(w[0])
    return np.sum(a * x)


def carried(x: np.ndarray, *, w: np.ndarray) -> Any:
    total = 0.0
    for _ in x:
        total = total + float(w @ x) * 2
    return np.sum(x) * total


LOST = [
    listed,
    returned,
    written,
    carried,
    lambda x, *, w: np.sum(x) * Held(float(w[0])).value,
    lambda x, *, w: np.full(3, float(w[0])) @ x,
    lambda x, *, w: np.sum(x) * float(w @ w),
    lambda x, *, w: np.sum(x) * (w @ w).item(),
    lambda x, *, w: np.sum(x) / math.sqrt(w @ w),
    lambda x, *, w: float(w @ x),
    lambda x, *, w: np.sum(x) * sum([float(v) for v in w]),
    lambda x, *, w: np.sum(np.array([float(w[0]), 2.0]) * np.sum(x)),
    lambda x, *, w: np.sum(x) * {"a": float(w[0])}["a"],
    lambda x, *, w: np.sum(x) * max(float(w[0]), 0.5),
]


@pytest.mark.parametrize("f", LOST)
def test_a_gradient_that_is_lost_in_a_number_is_rejected(f: Any) -> None:
    error = rejected("ACR602", f, X, w=W)
    assert error.line and "^" in str(error)


def counted(x: np.ndarray, *, w: np.ndarray) -> Any:
    best = 0
    for k, v in enumerate(w):
        if float(v) > float(w[best]):
            best = k
    return w[best] * np.sum(x) + np.sum(np.zeros(best))


KEPT = [
    counted,
    lambda x, *, w: sum([w[0], w[1] * 2]) * np.sum(x),
    lambda x, *, w: max([w[0], w[1]]) * np.sum(x),
    lambda x, *, w: max([w[0], w[1]], key=lambda v: float(v)) * np.sum(x),
    lambda x, *, w: sorted([w[0], w[1]])[0] * np.sum(x),
    lambda x, *, w: np.sum(w * x) if float(w[0]) > 0.5 else np.sum(x),
    lambda x, *, w: np.sum(w[: int(w[0] * 2)]),
    lambda x, *, w: np.sum(w * x) * float(x[0]),
    lambda x, *, w: np.sum(w * x) * float(nn.stop_gradient(w[0])),
    lambda x, *, w: np.sum(w * x) * bool(w[0] > 0),
    lambda x, *, w: np.sum(w * (x > float(w[0]))),
]


@pytest.mark.parametrize("f", KEPT)
def test_decisions_are_no_loss(f: Any) -> None:
    assert value_and_grad(f)(X, w=W).grads.shape == (3,)


def test_what_else_the_model_returns_may_be_numbers() -> None:
    f = value_and_grad(lambda x, *, w: (np.sum(w * x), float(w @ x)), aux=True)
    assert f(X, w=W).aux[0] == 3.0


def test_no_gradients_inside_of_a_model() -> None:
    inner = model(lambda x, *, w: np.sum(w * x))
    made = inner.value_and_grad
    pulled = vjp(inner)
    direct, later = model(lambda x, *, w: inner.value_and_grad(x, w=w)[0]), model(lambda x, *, w: made(x, w=w)[0])
    called = model(lambda x, *, w: value_and_grad(inner)(x, w=w)[0])
    others = model(lambda x, *, w: pulled(x, w=w)[0]), model(lambda x, *, w: vjp(inner)(x, w=w)[0])
    for f, code in ((direct, "ACR205"), *((f, "ACR201") for f in (later, called, *others))):
        with pytest.raises(AcronumbaError) as caught:
            f.batch([X], w=W)
        assert caught.value.code == code, caught.value


def test_choices_that_are_none() -> None:
    for choice, why in [
        ({"reduce": "max"}, '"mean" or "sum"'), ({"reduce": None}, '"mean" or "sum"'), ({"wrt": ()}, "`wrt` is empty"),
        ({"wrt": 3}, "`wrt` must be a path, or several"), ({"wrt": ("p", 3)}, "`wrt` must be a path, or several"),
        ({"wrt": len}, "`wrt` must be a path"), ({"sparse": 3}, "`sparse` must be"), ({"sparse": None}, "`sparse`"),
        ({"sparse": "p..w"}, "not a path"), ({"aux": "yes"}, "`aux` must be True or False"),
    ]:  # fmt: skip
        with pytest.raises(AcronumbaError, match=why) as caught:
            value_and_grad(classify, **choice)  # type: ignore[arg-type]
        assert caught.value.code == "ACR706"
    for none in (classify.value_and_grad, vjp(classify), 3):
        with pytest.raises(TypeError, match="expects a function"):
            value_and_grad(none)  # type: ignore[arg-type]


@pytest.mark.parametrize(("choice", "why"), [
    ({"wrt": "label"}, "`label` holds no float array"), ({"wrt": ("p", "t.word")}, "`t.word` holds no float array"),
    ({"wrt": "q"}, r"no parameter `q`[^$]*one of: t, label, p"), ({"sparse": "t"}, "`t` belongs to the instances"),
    ({"sparse": "p"}, "`p` in `sparse` is not a table"), ({"sparse": "p.ids"}, "`p.ids` in `sparse` is not a table"),
    ({"wrt": "p.out", "sparse": "p.embed"}, "`p.embed` in `sparse` is not a table"),
])  # fmt: skip
def test_choices_that_do_not_fit_the_call(choice: Any, why: str) -> None:
    with pytest.raises(AcronumbaError, match=why):
        value_and_grad(classify, **choice).batch(TREES, LABELS, p=params())


def test_a_path_into_instances_that_leads_nowhere_is_named() -> None:
    with pytest.raises(AcronumbaError, match=r"`t\.none` does not exist"):
        value_and_grad(classify, wrt="t.none").batch(TREES, LABELS, p=params())


# ---- against the plain call


def test_check_compares_with_differences_of_the_plain_call() -> None:
    found = classify.value_and_grad.check(TREES, LABELS, p=params())
    assert found.ok, found
    assert [s.path for s in found.slopes][:3] == ["p.embed", "p.cells[0].w", "p.cells[0].b"]
    assert str(found).startswith(f"classify: gradients of {len(found.slopes)} arrays, 0 different\n")


def test_check_says_which_arrays_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.ir import vjp

    rule = vjp.RULES["tanh"]
    monkeypatch.setitem(vjp.RULES, "tanh", lambda b, o: {0: b.element("mul", rule(b, o)[0], 1.01)})  # type: ignore[arg-type]
    alone = classify.with_options(max_steps=10**7)  # what is compiled with the wrong rule serves no other test
    found = alone.value_and_grad.check(TREES, LABELS, p=params())
    assert found.different == ("p.embed", "p.cells[0].w", "p.cells[0].b") and "different: slope" in str(found)


@model
def of_keys(x: np.ndarray, y: int, *, wk: np.ndarray, bk: np.ndarray, wq: np.ndarray) -> Any:
    k = np.tanh(x @ wk.T) + bk  # to which softmax is blind
    return nn.cross_entropy(nn.softmax((wq @ x[0]) @ k.T) @ x, y) + 20


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_check_allows_for_the_rounding_of_losses_and_of_factors(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acronumba.ir import vjp

    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, 8)).astype(np.float32) for n in (3, 5, 2)]
    wk, wq = rng.standard_normal((2, 8, 8)).astype(np.float32)
    given = {"wk": wk, "bk": np.ones(8, np.float32), "wq": wq}
    found = value_and_grad(of_keys.with_options(precision=precision)).check(xs, [0, 1, 2], **given)
    assert found.ok and abs(found.slopes[1].slope) < 1e-12, found
    rule = vjp.RULES["tanh"]
    monkeypatch.setitem(vjp.RULES, "tanh", lambda b, o: {0: b.element("mul", rule(b, o)[0], 1.01)})  # type: ignore[arg-type]
    alone = of_keys.with_options(precision=precision, max_steps=10**7)
    assert value_and_grad(alone).check(xs, [0, 1, 2], **given).different == ("wk",)


def test_check_compares_compiled_gradients_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from acronumba.runtime.backward import BackwardExecutable

    gradients = BackwardExecutable.gradients

    def wrong(*args: Any) -> Any:
        done = gradients(*args)
        return done._replace(shared={k: 1.001 * g for k, g in done.shared.items()})

    monkeypatch.setattr(BackwardExecutable, "gradients", wrong)
    found = classify.value_and_grad.check(TREES, LABELS, p=params())
    assert found.different == tuple(s.path for s in found.slopes if s.slope) and "compiled" in str(found)


def test_check_of_instances_and_of_gradients_that_stop() -> None:
    @model
    def loss(x: np.ndarray, key: random.Key, *, w: np.ndarray) -> Any:
        h = nn.dropout(nn.relu(w @ x), 0.5, key)
        return nn.cross_entropy(h, 1, 0.1) + np.sum(nn.stop_gradient(h) * h) - nn.mse(nn.scale_gradient(h, -0.5), x)

    xs, keys = [weights(4) for _ in range(3)], random.keys(3, 3)
    assert value_and_grad(loss, wrt=("x", "w")).check(xs, keys, w=weights(4, 4)).ok


AT_0 = {
    "sigmoid": 0.25, "relu": 0.0, "leaky_relu": 0.01, "elu": 1.0, "softplus": 0.5, "log_sigmoid": 0.5, "silu": 0.5,
    "gelu": 0.5, "gelu_tanh": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("name", AT_0)
def test_derivatives_of_nn_at_0_and_far_from_it(name: str) -> None:
    f = getattr(nn, name)
    loss = value_and_grad(lambda one, *, x: np.sum(f(x)) * one)
    at = np.array([0.0, -0.0, 30.0, -30.0, 1.0], np.float64)
    _, g = loss(np.float64(1), x=at)
    assert g[0] == g[1] == pytest.approx(AT_0[name])
    assert g[2] == pytest.approx(0.0 if name == "log_sigmoid" else 1.0 if name != "sigmoid" else 0.0, abs=1e-9)
    e = 1e-6
    assert g[4] == pytest.approx((f(np.float64(1 + e)) - f(np.float64(1 - e))) / (2 * e), rel=1e-8)


def test_losses_of_nn() -> None:
    z, label = np.array([1.0, -2.0, 0.5]), 2
    loss = value_and_grad(lambda y, *, z: nn.cross_entropy(z, y))
    soft = np.exp(z) / np.exp(z).sum()
    value, g = loss(label, z=z)
    assert value == pytest.approx(-np.log(soft[2])) and np.allclose(g, soft - np.eye(3)[2])
    _, g = loss(np.int64(label), z=z)
    assert np.allclose(g, soft - np.eye(3)[2])
    _, g = loss(np.array([0.2, 0.5, 0.3]), z=z)
    assert np.allclose(g, soft - [0.2, 0.5, 0.3])
    smooth = value_and_grad(lambda y, *, z: nn.cross_entropy(z, y, smoothing=0.3))
    assert np.allclose(smooth(label, z=z).grads, soft - 0.7 * np.eye(3)[2] - 0.1)
    many = value_and_grad(lambda y, *, z: np.sum(nn.cross_entropy(z, y)))
    assert np.allclose(many(np.array([2, 0]), z=np.stack([z, z])).grads, [soft - np.eye(3)[2], soft - np.eye(3)[0]])
    binary = value_and_grad(lambda y, *, z: nn.binary_cross_entropy(z, y))
    value, g = binary(1.0, z=z)
    sigmoid = 1 / (1 + np.exp(-z))
    assert value == pytest.approx(-np.log(sigmoid).mean()) and np.allclose(g, (sigmoid - 1) / 3)
    huber = value_and_grad(lambda y, *, z: nn.huber(z, y))
    assert np.allclose(huber(np.zeros(3), z=z).grads, np.array([1, -1, 0.5]) / 3)
    assert np.allclose(value_and_grad(lambda y, *, z: nn.mse(z, y))(np.zeros(3), z=z).grads, 2 * z / 3)
    assert nn.cross_entropy(z, label) == pytest.approx(-np.log(soft[2]))


def test_dropout_keeps_the_mean_and_its_mask() -> None:
    key, x = random.key(4), np.ones(2000, np.float32)
    y = nn.dropout(x, 0.25, key)
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)} and y.mean() == pytest.approx(1, abs=0.05)
    loss = value_and_grad(lambda k, *, x: np.sum(nn.dropout(x, 0.25, k)))
    assert np.array_equal(loss(key, x=x).grads, y)


def test_the_package_names_them() -> None:
    assert {"leaves", "value_and_grad", "RowGrad"} <= set(acronumba.__all__)
    assert "value and gradients of <model" in repr(classify.value_and_grad)
    assert classify.value_and_grad.on("cpu").with_options(threads=1).model.options.threads == 1


# ---- what people see


def test_stages_show_what_comes_back_from_each_kernel() -> None:
    p = params()
    stages = classify.value_and_grad.stages(TREES, LABELS, p=p)
    back = [name for name in stages if name.startswith("backward/")]
    assert len(back) == 3 and set(classify.stages(TREES, LABELS, p=p)) == set(stages) - set(back)
    text = "".join(stages[name] for name in back)
    assert "sums p_embed: rows(" in text and "outer(" in text
    assert "gives" not in stages[back[1]]  # a leaf hands nothing on
    alone = value_and_grad(classify, wrt="p.out['w']").stages(TREES, LABELS, p=p)
    assert len([name for name in alone if name.startswith("backward/")]) == 1


@model
def explained(x: np.ndarray, *, w: np.ndarray) -> Any:
    y = np.tanh(w * x)
    z = nn.stop_gradient(np.exp(y))
    if float(y[0]) > 0.5:
        z = z * 2
    return np.sum(z * np.sin(y)) + y[np.argmax(y)]


def test_explain_shows_what_is_kept_and_where_gradients_stop() -> None:
    text = str(explained.value_and_grad.explain([X], w=W))
    assert "kept: int64[], 8 bytes a node" in text and "kept: int64" not in str(explained.explain([X], w=W))
    assert "argmax: its result is an index" in text and "requested by the model" in text
    assert "returns a Python number" in text


@model
def summed(xs: list[np.ndarray], *, w: np.ndarray, b: np.ndarray) -> Any:
    h = b
    for x in xs:
        h = np.tanh(w @ h + x)
    return np.sum(h * h)


def test_a_trace_has_the_batches_of_the_backward_pass() -> None:
    rng = np.random.default_rng(0)
    xs = [[rng.standard_normal(3).astype(np.float32) for _ in range(n)] for n in (1, 4, 2)]
    w, b = rng.standard_normal((3, 3)).astype(np.float32), np.zeros(3, np.float32)
    assert len({len(summed.value_and_grad.trace(xs[:k], w=w, b=b).back) % 2 for k in (1, 3)}) == 2
    trace = summed.value_and_grad.trace(xs, w=w, b=b)
    assert trace.batches and not summed.trace(xs, w=w, b=b).back
    nodes = [t for t in trace.back if t.what == "nodes"]
    assert sum(t.size for t in nodes) == trace.nodes and len(nodes) <= len(trace.batches)
    outer = [t for t in trace.back if t.what == "sum" and t.kernel == "outer w"]
    assert [t.size for t in outer] == [7] and "Backward pass" in str(trace) and "outer w" in str(trace)
