"""Steps of training see what users do between them: a model that keeps what it knows, and one that cannot.

The second is called with copies of the parameters, which it has never seen.
"""

import copy
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import leaves, model, optim, pack, value_and_grad
from acronumba.api import kept
from acronumba.errors import AcronumbaError


class Plain:
    """An object without declared fields."""

    def __init__(self, w: Any) -> None:
        self.w = w


@dataclass
class Cell:
    w: Any
    b: Any


@dataclass
class Params:
    cells: list[Cell]
    named: dict[str, Any]
    out: Plain
    scale: float = 1.0
    turns: int = 1
    unused: Any = None


def _loss(xs: list[int], y: float, *, p: Params) -> Any:
    h = p.cells[0].b
    for x in xs:
        for c in p.cells:
            h = np.tanh(c.w @ h + c.b + p.named["table"][x])
    return np.sum((p.out.w @ h - y) ** 2) * p.scale * p.turns


known, unknown = model(_loss), model(_loss)
WAYS: list[dict[str, Any]] = [
    {},
    {},
    {},
    {"wrt": "p.cells"},
    {"wrt": ("p.out", "p.named")},
    {"sparse": ("p.named.table",)},
]
INSTANCES = [([0, 1, 2], 0.5), ([2], 1.0), ([], -1.0), ([1, 1], 0.0)]


def array(rng: np.random.Generator, *shape: int, dtype: str = "float32") -> Any:
    return (0.3 * rng.standard_normal(shape)).astype(dtype)


def params(rng: np.random.Generator, size: int = 3) -> Params:
    cells = [Cell(array(rng, size, size), array(rng, size)) for _ in range(2)]
    return Params(cells, {"table": array(rng, 4, size)}, Plain(array(rng, size)))


def places(p: Params) -> list[tuple[Any, Any]]:
    """Holders and names of arrays."""
    return [*((c, n) for c in p.cells for n in ("w", "b")), (p.named, "table"), (p.out, "w")]


def got(holder: Any, name: str) -> Any:
    return holder[name] if isinstance(holder, dict) else getattr(holder, name)


def put(holder: Any, name: str, value: Any) -> None:
    holder.__setitem__(name, value) if isinstance(holder, dict) else setattr(holder, name, value)


class Program:
    """A user, and what happens between steps."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.p, self.q = params(rng), params(rng)
        self.opts = {}
        self.packed = pack([x for x, _ in INSTANCES]), pack([y for _, y in INSTANCES])

    def place(self) -> tuple[Any, str, Any]:
        found = places(self.p)
        holder, name = found[self.rng.integers(len(found))]
        return holder, name, got(holder, name)

    def replace_array(self) -> None:
        holder, name, a = self.place()
        put(holder, name, array(self.rng, *a.shape))

    def change_elements(self) -> None:
        _, _, a = self.place()
        if a.flags.writeable:
            a += np.float32(0.1)

    def other_order(self) -> None:
        holder, name, a = self.place()
        put(holder, name, np.asfortranarray(a) if a.flags.c_contiguous else np.ascontiguousarray(a))

    def part_of_another(self) -> None:
        holder, name, a = self.place()
        put(holder, name, np.repeat(a, 2, axis=-1)[..., ::2])

    def other_axes(self) -> None:
        _, _, a = self.place()
        if a.ndim == 2 and a.flags.owndata and a.flags.c_contiguous:
            a.shape = a.shape[::-1]

    def moved(self) -> None:
        _, _, a = self.place()
        if a.flags.owndata and a.flags.c_contiguous and a.flags.writeable:
            shape = a.shape
            a.resize((1 << 12, *shape[1:]), refcheck=False)
            a.resize(shape, refcheck=False)

    def other_dtype(self) -> None:
        holder, name, a = self.place()
        put(holder, name, a.astype("float64" if a.dtype == "float32" else "float32"))

    def read_only(self) -> None:
        _, _, a = self.place()
        if a.base is None:
            a.setflags(write=not a.flags.writeable)

    def tie(self) -> None:
        a, b = self.p.cells[0], self.p.cells[-1]
        b.b = b.b.copy() if a.b is b.b else a.b

    def same_cell(self) -> None:
        self.p.cells[1:] = [
            self.p.cells[0] if self.p.cells[-1] is not self.p.cells[0] else copy.deepcopy(self.p.cells[0])
        ]

    def reverse(self) -> None:
        self.p.cells.reverse()

    def new_list(self) -> None:
        self.p.cells = [Cell(c.w, c.b) for c in self.p.cells]

    def new_dict(self) -> None:
        self.p.named = dict(self.p.named)

    def more_in_dict(self) -> None:
        self.p.named["more"] = array(self.rng, 2) if "more" not in self.p.named else self.p.named.pop("more")

    def fewer_in_dict(self) -> None:
        self.p.named.pop("more", None)

    def more_cells(self) -> None:
        self.p.cells.append(copy.deepcopy(self.p.cells[0])) if len(self.p.cells) < 3 else self.p.cells.pop()

    def scaled(self) -> None:
        self.p.scale = float(self.rng.integers(1, 4))

    def turned(self) -> None:
        self.p.turns = int(self.rng.integers(1, 3))

    def unused(self) -> None:
        self.p.unused = [None, "text", 3, array(self.rng, 2), {1, 2}][self.rng.integers(5)]

    def attribute(self) -> None:
        self.p.out.more = array(self.rng, 2) if not hasattr(self.p.out, "more") else None

    def gone(self) -> None:
        if hasattr(self.p.out, "more"):
            del self.p.out.more

    def swap(self) -> None:
        self.p, self.q = self.q, self.p

    def exchange(self) -> None:
        self.p.cells, self.q.cells = self.q.cells, self.p.cells

    def in_place(self) -> None:
        for mine, other in zip(self.p.cells, self.q.cells, strict=False):
            a, b = mine.w, other.w
            if a.shape == b.shape and a.flags.writeable:
                a[...] = b

    def nothing(self) -> None:
        pass

    def step(self) -> None:
        """A step of a user who knows, compared with one who knows nothing."""
        how = WAYS[self.rng.integers(len(WAYS))]
        columns = self.packed if self.rng.random() < 0.7 else tuple(map(list, zip(*INSTANCES, strict=True)))
        p, other = self.p, copies(self.p)
        mine, theirs = outcome(known, how, columns, p), outcome(unknown, how, columns, other)
        assert mine[:-1] == theirs[:-1], how
        if mine[-1] is not None and not how and self.rng.random() < 0.8:
            opt = self.opts.setdefault(id(p), optim.SGD(0.1))
            assert updated(opt, p, mine[-1]) == updated(copy.deepcopy(opt), other, theirs[-1])
        elif mine[-1] is None:
            self.p = params(self.rng)


def copies(p: Params) -> Params:
    found = copy.deepcopy(p)
    for (holder, name), (other, _) in zip(places(p), places(found), strict=True):
        got(other, name).setflags(write=got(holder, name).flags.writeable)
    return found


def outcome(f: Any, how: dict[str, Any], columns: Any, p: Params) -> tuple[Any, ...]:
    """The loss and its gradients as bytes, which of them are one array, and the gradients themselves; or an error."""
    try:
        done = (value_and_grad(f, **how) if how else f.value_and_grad).batch(*columns, p=p)
    except AcronumbaError as error:
        return str(error), None
    names = leaves(list(done.grads) if isinstance(done.grads, tuple) else done.grads)
    found = [(name, str(np.asarray(g).dtype), np.asarray(g).shape, np.asarray(g).tobytes()) for name, g in names]
    return done.value.tobytes(), found, repr(type(done.grads)), repr(done.losses), done.grads


def arrays(p: Params) -> list[bytes]:
    return [got(*place).tobytes() for place in places(p)]


def updated(opt: Any, p: Params, grads: Any) -> Any:
    try:
        opt.update(p, grads)
    except AcronumbaError as error:
        return str(error)
    return arrays(p)


RARE = ("turned", "more_cells", "other_dtype", "other_axes", "unused")  # they compile
ACTIONS = [name for name in vars(Program) if name[0] != "_" and name not in ("place", "step", *RARE)]


def run(seed: int, steps: int = 12) -> Program:
    program = Program(seed)
    for _ in range(steps):
        for _ in range(program.rng.integers(0, 3)):
            names = RARE if program.rng.random() < 0.05 else (*ACTIONS, *["nothing"] * 8)
            getattr(program, names[program.rng.integers(len(names))])()
        program.step()
    return program


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "TRIES", 1 << 30)


@pytest.mark.parametrize("seed", range(8))
def test_a_step_is_that_of_a_model_that_knows_nothing(seed: int) -> None:
    run(seed)


def test_two_threads_train_two_models_at_once() -> None:
    found: dict[int, Any] = {}

    def work(seed: int) -> None:
        found[seed] = arrays(run(seed, 40).p)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (100, 101)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [found[seed] for seed in (100, 101)] == [arrays(run(seed, 40).p) for seed in (100, 101)]


def test_an_array_that_has_moved_is_read_where_it_is() -> None:
    p = params(np.random.default_rng(0))
    for f in (known.batch, known.value_and_grad.batch):
        before = f([x for x, _ in INSTANCES], [y for _, y in INSTANCES], p=p)
        for holder, name in places(p):
            a, shape = got(holder, name), got(holder, name).shape
            a.resize((1 << 12, *shape[1:]), refcheck=False)
            a.resize(shape, refcheck=False)
        held = [np.full(a.shape, np.nan) for _, a in leaves(p)]  # where they lay
        after = f([x for x, _ in INSTANCES], [y for _, y in INSTANCES], p=p)
        assert repr(before) == repr(after) and len(held) == 6


TURNS = 2


def test_a_global_number_that_changes_between_steps_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @model
    def loss(x: Any, *, p: Any) -> Any:
        for k in range(TURNS):
            x = p["ws"][k] @ x
        return np.sum(x)

    rng = np.random.default_rng(0)
    p = {"ws": tuple(rng.standard_normal((3, 3)).astype(np.float32) for _ in range(3))}
    x = np.ones(3, np.float32)
    for turns in (2, 2, 2, 3, 3, 1, 1, 2, 2):
        monkeypatch.setitem(globals(), "TURNS", turns)
        value, grads = loss.value_and_grad.batch([x, x], p=p)
        assert np.allclose(value, loss(x, p=p), rtol=1e-5)
        assert [bool(np.any(g)) for g in grads["ws"]] == [k < turns for k in range(3)]
