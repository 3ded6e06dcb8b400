"""Optimisers see what users do between updates: arrays replaced, changed in place, tied, resized, of other forms."""

import copy
from dataclasses import dataclass, field

import numpy as np
import pytest

from acronumba import leaves, optim
from acronumba.data.skeleton import Skeleton
from acronumba.errors import AcronumbaError

KINDS = [
    lambda: optim.SGD(0.1), lambda: optim.SGD(0.1, momentum=0.9), lambda: optim.SGD(0.1, 0.9, nesterov=True),
    lambda: optim.Adam(0.1), lambda: optim.AdamW(0.1),
]  # fmt: skip


@dataclass
class Cell:
    w: object
    b: object
    n: int = 3


@dataclass
class Params:
    cells: list
    named: dict
    pair: tuple
    out: object = None
    extra: dict = field(default_factory=dict)


class Plain:
    def __init__(self, w):
        self.w = w


def array(rng, shape=None, dtype=None):
    shape = tuple(rng.integers(1, 4, rng.integers(0, 3))) if shape is None else shape
    return rng.standard_normal(shape).astype(dtype or rng.choice(["float32", "float64"]))


def params(rng):
    tied = array(rng)
    return Params(
        cells=[Cell(array(rng), tied), Cell(array(rng), array(rng))], named={"a": array(rng), "t": tied},
        pair=(array(rng), "text", 2), out=Plain(array(rng)),
    )  # fmt: skip


def places(p):
    """Setters and getters of places where arrays lie."""
    found = [(lambda c=c, n=n: getattr(c, n), lambda v, c=c, n=n: setattr(c, n, v))
             for c in p.cells for n in ("w", "b")]  # fmt: skip
    found += [(lambda k=k: p.named[k], lambda v, k=k: p.named.__setitem__(k, v)) for k in p.named]
    return [*found, (lambda: p.out.w, lambda v: setattr(p.out, "w", v))]


def replace_one(rng, p, opt):
    get, put = places(p)[rng.integers(len(places(p)))]
    put(array(rng, get().shape, get().dtype))


def change_in_place(rng, p, opt):
    get, _ = places(p)[rng.integers(len(places(p)))]
    if get().flags.writeable:
        get()[...] = rng.standard_normal()


def other_view(rng, p, opt):
    get, put = places(p)[rng.integers(len(places(p)))]
    if get().ndim == 2:
        put(np.asfortranarray(get()))


def reshape(rng, p, opt):
    get, _ = places(p)[rng.integers(len(places(p)))]
    a = get()
    if a.flags.owndata and a.ndim == 2 and a.flags.c_contiguous:
        a.shape = a.shape[::-1]


def resize(rng, p, opt):
    get, _ = places(p)[rng.integers(len(places(p)))]
    a = get()
    if a.flags.owndata and a.ndim:
        shape = a.shape
        a.resize((1 << 10, *shape[1:]), refcheck=False)
        a.resize(shape, refcheck=False)


def read_only(rng, p, opt):
    get, _ = places(p)[rng.integers(len(places(p)))]
    get().setflags(write=not get().flags.writeable)


def tie(rng, p, opt):
    p.cells[0].b = p.named["t"] if p.cells[0].b is not p.named["t"] else p.cells[0].b.copy()


def swap(rng, p, opt):
    p.cells.reverse()


def more(rng, p, opt):
    p.cells.append(Cell(array(rng), array(rng))) if len(p.cells) < 4 else p.cells.pop()


def remove(rng, p, opt):
    p.named.pop("a", None) if rng.random() < 0.5 else p.named.setdefault("a", array(rng))


def state_replaced(rng, p, opt):
    opt.state = copy.deepcopy(opt.state)


def state_array(rng, p, opt):
    for of in opt.state.values():
        if isinstance(of, dict) and of:
            name = list(of)[rng.integers(len(of))]
            of[name] = of[name] + 1


def begin(rng, p, opt):
    opt.begin(p)


def rate(rng, p, opt):
    opt.rate = float(rng.random())


def nothing(rng, p, opt):
    pass


ACTIONS = [
    replace_one, change_in_place, other_view, reshape, resize, read_only, tie, swap, more, remove, state_replaced,
    state_array, begin, rate, *[nothing] * 6,
]  # fmt: skip


def gradients(rng, p):
    """Gradients in the structure of the parameters; some None, some missing, some of other forms."""
    memo = {}

    def of(v):
        if isinstance(v, np.ndarray):
            if id(v) not in memo:
                g = array(rng, v.shape, v.dtype)
                memo[id(v)] = np.asfortranarray(g) if rng.random() < 0.1 else None if rng.random() < 0.05 else g
            return memo[id(v)]
        return None

    return Params(
        cells=[Cell(of(c.w), of(c.b), None) for c in p.cells], named={k: of(v) for k, v in p.named.items()},
        pair=(of(p.pair[0]), None, None), out=Plain(of(p.out.w)),
    )  # fmt: skip


def copies(p, opt):
    """Copies; the optimiser's knows nothing."""
    found = copy.deepcopy((p, opt))
    for (_, a), (_, b) in zip(leaves(p), leaves(found[0]), strict=True):
        b.setflags(write=a.flags.writeable)
    return found


def outcome(opt, p, g):
    try:
        opt.update(p, g)
    except AcronumbaError as error:
        return str(error)
    return [a.tobytes() for _, a in leaves(p)], opt.state["step"], str(opt.state)


def program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = KINDS[rng.integers(len(KINDS))]
    p, opt = params(rng), kind()
    for _ in range(10):
        action = ACTIONS[rng.integers(len(ACTIONS))]
        action(rng, p, opt)
        g = gradients(rng, p)
        other_p, other = copies(p, opt)
        if rng.random() < 0.1:
            p, opt = copies(p, opt)
        assert "_known" not in vars(other)
        other._misses = optim._TRIES
        assert outcome(opt, p, g) == outcome(other, other_p, g), (seed, action.__name__)


@pytest.mark.parametrize("seed", range(20))
def test_an_update_is_that_of_an_optimiser_that_knows_nothing(seed: int) -> None:
    program(seed)


@pytest.mark.parametrize("seed", range(4))
def test_leaves_that_are_at_several_places_are_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = [array(rng) for _ in range(6)]

    def value(depth):
        parts = [value(depth - 1) if depth and rng.random() < 0.5 else some[rng.integers(6)] for _ in range(3)]
        return [parts, tuple(parts), dict(zip("abc", parts, strict=True)), Cell(*parts)][rng.integers(4)]

    for _ in range(100):
        v = value(3)
        skeleton = Skeleton(v)
        others = [a.copy() for a in skeleton.leaves]
        for of, want in ((v, skeleton.leaves), (skeleton.rebuilt(others), others)):
            assert list(map(id, skeleton.leaves_of(of))) == list(map(id, want))
