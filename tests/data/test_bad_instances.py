"""What one instance holds is no harm to the others: odd types, groups, exceptions in the data."""

from __future__ import annotations

import gc
import itertools
import pickle
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.api import dispatch, specialisations
from acronumba.data import conform
from acronumba.errors import AcronumbaError, DataError, InstanceErrors, ShapeMismatch, TypeMismatch
from acronumba.pipeline import compiled as pipeline
from tests.support.chosen import one_in

# ---- one bad instance


F32 = np.float32
GOOD = [np.full(3, k, F32) for k in range(7)]
W = np.full((3, 3), 0.1, F32)


def scaled(x):
    return x * 2


def stacked(x):
    out = []
    for k in range(2):
        out.append(x * k)
    return np.stack(out)


def carried(x, *, w):
    h = np.zeros(3, np.float32)
    for _ in range(2):
        h = np.tanh(w @ h + x)
    return h


@dataclass
class Held:
    xs: list
    ys: Any


def held(t):
    return np.stack(t.xs)


ODD = {
    "float64": np.ones(3),
    "float16": np.ones(3, np.float16),
    "complex": np.ones(3, complex),
    "strings": np.array(["a", "b", "c"]),
    "objects": np.array([1, None, 2], object),
    "int": np.ones(3, int),
    "rank": np.ones((3, 3), F32),
    "big-endian": np.ones(3, ">f4"),
    "masked": np.ma.masked_array(np.ones(3, F32)),
    "matrix": np.ones((1, 3), F32).view(np.matrix),
    "list": [1.0, 2.0, 3.0],
    "str": "abc",
    "None": None,
    "number": 3,
    "long": np.zeros((0, 2**40), F32),
    "tall": np.zeros((2**40, 0), F32),
}


MORE = ("complex", "strings", "matrix", "number", "None", "int")  # like others


@pytest.mark.parametrize("odd", one_in(3, [pytest.param(k, marks=pytest.mark.slow) if k in MORE else k for k in ODD]))
def test_one_odd_instance_is_no_harm_to_the_others(odd: str) -> None:
    """It has the plain call's result or fails; the others have theirs, with the bits that they have without it."""
    for fn in (scaled, stacked, carried, held):
        shared = {"w": W} if fn is carried else {}
        xs: list[Any] = [Held([x, x], 1) if fn is held else x for x in GOOD]
        bad: Any = Held([ODD[odd]], 1) if fn is held else ODD[odd]
        f = model(fn)
        alone = f.batch(xs, **shared)
        for _ in range(2):  # how the groups run is remembered
            try:
                results, errors = f.batch([*xs[:3], bad, *xs[3:]], **shared), {}
            except InstanceErrors as error:
                results, errors = error.results, error.errors
            assert list(errors) in ([], [3])
            assert [r.tobytes() for k, r in enumerate(results) if k != 3] == [r.tobytes() for r in alone]
            assert all(r.dtype == F32 for k, r in enumerate(results) if k != 3)
            if not errors:
                plain = fn(bad, **shared)
                assert type(results[3]) is type(plain)
                assert results[3] == plain if type(plain) is str else np.allclose(results[3], plain, rtol=1e-5)
                assert getattr(results[3], "dtype", None) == getattr(plain, "dtype", None)
            elif isinstance(errors[3], DataError):
                assert errors[3].instance == 3 and errors[3].path.startswith("[3]")
            else:
                assert getattr(errors[3], "line", None)


def test_halves_of_two_dtypes() -> None:
    wide = [x.astype(np.float64) for x in GOOD]
    for fn, shared in ((scaled, {}), (stacked, {}), (carried, {"w": W})):
        f = model(fn)
        mixed = [x for pair in zip(GOOD, wide, strict=True) for x in pair]
        results = f.batch(mixed, **shared)
        assert [r.dtype for r in results] == [fn(x, **shared).dtype for x in mixed]
        assert [r.tobytes() for r in results[::2]] == [r.tobytes() for r in f.batch(GOOD, **shared)]
        assert [r.tobytes() for r in results[1::2]] == [r.tobytes() for r in f.batch(wide, **shared)]
        assert f.check(mixed, **shared).ok and len(f.trace(mixed, **shared).results) == 14


DTYPES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


def of_ranks(x):
    return x * 2 + 1


@pytest.mark.parametrize(
    ("f", "column"),
    [(scaled, [np.ones(2, t) for t in DTYPES]), (of_ranks, [np.ones((1,) * k) for k in (*range(1, 13), 24)])],
)
def test_every_type_has_a_specialisation_of_its_own(f: Any, column: list[Any]) -> None:
    m = model(f)
    for _ in range(2):
        results = m.batch([*column, *column])
        assert [(r.dtype, r.tolist()) for r in results] == [(f(x).dtype, f(x).tolist()) for x in [*column, *column]]


def of_key(d):
    return d["a"] * 2


def of_absence(d):
    return d["a"] * 2, d["s"] is None


DICTS = [{"a": 1.0}, {"a": 2.0, "b": 3.0}, {"a": 4.0, "s": "x"}]
TYPED = [{"a": np.ones(2, np.float32)}, {"a": np.ones(2), "s": "x"}]


@pytest.mark.parametrize("column", [DICTS, TYPED], ids=["dicts", "typed"])
def test_a_pack_runs_in_groups_as_what_was_packed_does(column: list[Any]) -> None:
    m, column = model(of_key), [dict(d) for d in column]
    wanted, packed = [of_key(d) for d in column], pack(column)
    for _ in range(2):
        assert all(np.array_equal(a, b) for a, b in zip(m.batch(column), wanted, strict=True))
    assert [list(d) for d in packed] == [list(d) for d in column]
    column[0].clear()
    for p in (packed, pickle.loads(pickle.dumps(packed)), packed[:]):
        for _ in range(2):
            assert all(np.array_equal(a, b) for a, b in zip(m.batch(p), wanted, strict=True))
    assert np.array_equal(m.batch(packed[1:])[0], wanted[1])


@dataclass
class Keeper:
    of: Any


def of_keepers(k):
    return of_absence(k.of)


def test_what_a_pack_does_not_hold_is_rejected_and_not_none() -> None:
    column = [{"a": np.ones(2, t), "s": b"x"} for t in ("f4", "f8")]
    for f, xs in ((of_absence, column), (of_keepers, [Keeper(d) for d in column])):
        for given in (xs, pack(xs)):
            with pytest.raises(AcronumbaError, match="ACR304"):
                model(f).batch(given)
    assert [d["s"] for d in pack(column)] == [b"x", b"x"]


@dataclass(eq=False)
class Vector:
    v: np.ndarray


def of_vectors(a):
    return a.v * 2


def of_kept(k):
    return k, [k.of["a"] * 2], k.of["v"], k.of["l"]


@pytest.mark.parametrize("column", [DICTS, TYPED], ids=["dicts", "typed"])
def test_a_pack_that_runs_in_groups_returns_the_own_objects(column: list[Any]) -> None:
    m, shared = model(of_kept), Vector(np.ones(2))
    column = [Keeper({**d, "v": shared, "l": [1, k]}) for k, d in enumerate(column)]
    packed = pack(column)
    for given in (column, packed, packed[:], packed[1:]):
        for _ in range(2):
            results, own = m.batch(given), column[-len(given) :]
            assert all(r[0] is k and r[2] is shared and r[3] == k.of["l"] for r, k in zip(results, own, strict=True))
    loaded = m.batch(pickle.loads(pickle.dumps(packed)))
    assert [r[3] for r in loaded] == [k.of["l"] for k in column]


@pytest.mark.parametrize("bad", [False, True])
def test_instances_that_ran_in_groups_are_not_kept(bad: bool) -> None:
    m = model(of_vectors)
    column = [Vector(np.ones(2, t)) for t in DTYPES[:8]]
    if bad:
        column.append(Vector(np.array(["a"])))
    held = [weakref.ref(x) for x in column]
    for _ in range(2):
        assert list(m.trace(column).errors) == ([8] if bad else [])
    del column
    gc.collect()
    assert not any(ref() for ref in held)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """But never less than what the last mini-batch did."""
    monkeypatch.setattr(specialisations, "REMEMBERED", 4)
    m = model(scaled)
    for k in range(6):
        column = [np.ones(2, t) for t in DTYPES if t != DTYPES[k]]
        m.batch(column)
        assert len(m._cache._rejected) == min(k + 1, 4)
        assert len(m._cache._ways) == len(column)


def test_one_type_is_found_at_once_after_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are its types inferred once more, nor is it looked for what of it does not have other types."""
    m, columns = model(of_vectors), [[Vector(np.ones(2, t))] * 3 for t in DTYPES[:8]]
    m.batch([x for column in columns for x in column])

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(dispatch, "groups", never)
    monkeypatch.setattr(specialisations.Cache, "key", never)
    monkeypatch.setattr(dispatch, "fitting", never)
    monkeypatch.setattr(conform, "Conformance", never)
    for column in columns:
        assert m.batch(column)[2].dtype == column[0].v.dtype


def test_groups_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    m, column = model(scaled), [np.ones(2, t) for t in DTYPES[:8]]
    wanted = [r.dtype for r in m.batch(column)]

    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(pipeline, "Compiled", never)
    assert [r.dtype for r in m.batch(column)] == wanted


def down(d: Any, n: int) -> Any:
    return d["a"] if n == 0 else down(d, n - 1) + 1


def of_a_dict(d: Any) -> Any:
    t = 0
    for _ in range(d["a"]):
        t += d["a"]
    other = d if t > 1 else {"a": 5, "s": "z"}
    return t, len(d), "a" in d, down(d, 2), other["a"]


def of_a_tuple(t: Any) -> Any:
    a, _ = t
    return a, t[0], t[-2], len(t), [u[0] for u in [t, t]]


def of_dicts(ds: Any) -> Any:
    return [d["a"] for d in ds], sum(d["a"] for d in ds)


@pytest.mark.parametrize(
    ("f", "column"),
    [
        (of_a_dict, [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}]),
        (of_a_dict, [{"a": 1, "s": [("x", 1)]}, {"a": 2, "s": []}]),
        (of_a_tuple, [(1, "x"), (2, "y")]),
        (of_dicts, [[{"a": 1, "s": "x"}], [], [{"a": 1, "s": "x"}, {"a": 3, "s": "y"}]]),
    ],
)
def test_an_entry_that_is_never_read_may_hold_anything(f: Any, column: list[Any]) -> None:
    m, wanted = model(f), [f(x) for x in column]
    assert m.batch(column) == m._interpret(column) == m.batch(pack(column)) == wanted


@pytest.mark.parametrize(
    ("f", "column", "caret"),
    [
        (lambda d: d["s"], [{"a": 1, "s": b"x"}], 'd["s"]'),
        (lambda d: d.get("s"), [{"a": 1, "s": b"x"}], 'd.get("s")'),
        (lambda t: t[1], [(1, b"x")], "t[1]"),
        (lambda t: t, [(1, b"x")], "t"),
        (lambda ts: [s for _, s in ts], [[(1, b"x")]], "s"),
    ],
)
def test_an_entry_that_cannot_be_stored_is_rejected_where_it_is_read(f: Any, column: list[Any], caret: str) -> None:
    with pytest.raises(AcronumbaError, match=r"ACR304") as caught:
        model(f).batch(column)
    lines = str(caught.value).splitlines()
    at = lines[3].index("^")
    assert lines[2][at : at + lines[3].count("^")] == caret


def test_what_is_rejected_for_all_is_rejected() -> None:
    with pytest.raises(AcronumbaError, match="ACR304"):
        model(scaled).batch([1j, b"b"])


class Stop(BaseException):
    pass


def ended(x):
    if x > 3:
        raise SystemExit(x)
    if x > 2:
        raise KeyboardInterrupt
    if x > 1:
        raise GeneratorExit("out")
    if x > 0:
        raise Stop("stop")
    return x


def test_exceptions_that_end_a_program_end_an_instance() -> None:
    with pytest.raises(InstanceErrors) as caught:
        model(ended).batch([0, 1, 2, 3, 4, -1])
    errors = caught.value.errors
    assert list(map(type, errors.values())) == [Stop, GeneratorExit, KeyboardInterrupt, SystemExit]
    assert errors[4].args == (4,) and errors[4].line and str(errors[1]) == "stop"  # type: ignore[attr-defined]
    assert list(caught.value.results) == [0, None, None, None, None, -1]
    assert all(isinstance(e, Exception) for e in caught.value.exceptions)
    assert caught.value.exceptions[3].__cause__ is errors[4]
    assert list(caught.value.subgroup(lambda e: e.__cause__ is errors[4]).errors) == [4]  # type: ignore[union-attr]
    assert "SystemExit" in str(caught.value)
    assert model(ended).check([0, 4]).ok


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit, Stop])
def test_data_whose_attributes_raise(kind: type) -> None:
    @dataclass
    class Own:
        a: int
        b: int = 0

    class Bad(Own):
        @property
        def b(self) -> int:  # type: ignore[override]
            raise kind("no b")

        @b.setter
        def b(self, value: int) -> None:
            pass

    @model
    def total(t):
        return t.a + t.b

    with pytest.raises(InstanceErrors) as caught:
        total.batch([Own(1, 2), Bad(1), Own(3, 4)])
    assert list(caught.value.errors) == [1] and list(caught.value.results) == [3, None, 7]

    class Interrupted(Own):
        @property
        def b(self) -> int:  # type: ignore[override]
            raise KeyboardInterrupt

        @b.setter
        def b(self, value: int) -> None:
            pass

    with pytest.raises(KeyboardInterrupt):
        total.batch([Own(1, 2), Interrupted(1)])


class Table:
    """What data frames have in common."""

    def __init__(self) -> None:
        self.columns = ["a", "b"]

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter(self.columns)

    def __getitem__(self, name: str) -> list[float]:
        return [1.0, 2.0, 3.0]


def add(x, y):
    return x + y


def test_tables_are_rejected_their_columns_are_not() -> None:
    table: Any = Table()
    for call in (lambda: model(scaled).batch(table), lambda: pack(table)):
        with pytest.raises(TypeMismatch, match="ACR706") as caught:
            call()
        assert caught.value.rewrite == 'df["a"], df["b"]'
    assert model(add).batch(table["a"], table["b"]) == [2.0, 4.0, 6.0]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    with pytest.raises(TypeMismatch, match="ACR706"):
        model(scaled).batch(frame)
    assert model(add).batch(frame["a"], frame["b"]) == [4.0, 6.0]


def test_columns_without_an_end() -> None:
    assert model(add).batch(iter([1, 2]), (k for k in (3, 4))) == [4, 6]
    with pytest.raises(ShapeMismatch, match="ACR707"):
        model(add).batch([1, 2], itertools.count())
    for endless in (itertools.count(), itertools.cycle([1]), itertools.repeat(1)):
        with pytest.raises(TypeMismatch, match="is infinite"):
            model(scaled).batch(endless)
    assert model(scaled).batch(itertools.repeat(1, 2)) == [2, 2]
    assert model(scaled).batch(v for v in {1: 2}) == [2]


def test_gradients_of_the_others_where_one_type_is_rejected() -> None:
    def loss(x: Any, *, w: Any) -> Any:
        rows = [w @ row for row in x]
        return np.sum(rows[0] * x[0][:3])

    xs = [np.ones((2, 3), F32), np.ones((2, 3, 3), F32)[0], "abc", np.full((1, 3), 2, F32)]
    with pytest.raises(InstanceErrors) as caught:
        model(loss).value_and_grad.batch(xs, w=W)
    assert list(caught.value.errors) == [2]
    with pytest.raises(InstanceErrors) as caught:
        model(loss).batch(xs, w=W)
    assert list(caught.value.errors) == [2]
