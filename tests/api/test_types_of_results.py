"""Results have the plain call's values and types, whatever their structure, how they are read, and in what company."""

from __future__ import annotations

import dataclasses
import enum
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import AcronumbaError, model
from acronumba.api.model import Model
from acronumba.api.results import Results, equal
from acronumba.serve import Server
from tests.support.chosen import one_in
from tests.support.device_runs import Run

SIZES = (1, 2, 7, 8, 9, 50)
F32 = np.float32


class Pair(NamedTuple):
    left: Any
    right: Any


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Leaf:
    value: np.ndarray
    count: int


@dataclasses.dataclass(frozen=True)
class Fixed:
    name: str
    inner: Leaf | None


@dataclasses.dataclass
class Chain:
    value: np.ndarray
    next: Chain | None = None


# Each takes an array of one axis and a number, and returns a structure that depends on both.
STRUCTURES: dict[str, Callable[[np.ndarray, int], Any]] = {}


def structure(f: Callable[[np.ndarray, int], Any]) -> Callable[[np.ndarray, int], Any]:
    STRUCTURES[f.__name__] = f
    return f


@structure
def an_int(x, k):
    return k + 1


@structure
def a_bool(x, k):
    return k > 3


@structure
def a_float(x, k):
    return k / 3


@structure
def a_string(x, k):
    return "odd" if k % 2 else "even"


@structure
def a_built_string(x, k):
    return ("odd" if k % 2 else "even") + "!"


@structure
def none(x, k):
    return None


@structure
def a_scalar(x, k):
    return x.sum()


@structure
def a_numpy_int(x, k):
    return np.argmax(x)


@structure
def a_numpy_bool(x, k):
    return x[0] > x[1]


@structure
def an_array(x, k):
    return x * 2


@structure
def an_array_without_axes(x, k):
    return np.asarray(x.sum())


@structure
def an_array_of_other_shapes(x, k):
    return np.outer(x[: 1 + k % 3], x)


@structure
def an_empty_array(x, k):
    return x[:0]


@structure
def a_written_array(x, k):
    out = np.zeros(4, np.float32)
    out[1] = x.sum()
    return out


@structure
def dtypes(x, k):
    return x.astype(np.float64), x > 0, x.astype(np.int64), np.int32(k), np.float64(k), x.astype(np.int8)


@structure
def an_enum(x, k):
    return Colour.RED if k % 2 else Colour.BLUE


@structure
def an_empty_tuple(x, k):
    return ()


@structure
def an_empty_list(x, k):
    return []


@structure
def an_empty_dict(x, k):
    return {}


@structure
def a_tuple_of_one_array(x, k):
    return (x + 1,)


@structure
def a_list_of_one_array(x, k):
    return [x + 1]


@structure
def a_tuple_of_arrays(x, k):
    return x.sum(), x * 2, x[0] * x


@structure
def a_pair_of_arrays(x, k):
    return x.sum(), x * 2


@structure
def a_list_of_unlike_arrays(x, k):
    return [x.sum(), x * 2]


@structure
def a_list_of_like_arrays(x, k):
    return [x, x * 2]


@structure
def a_list_of_run_time_length(x, k):
    return [x * i for i in range(k % 4)]


@structure
def a_tuple_of_run_time_length(x, k):
    return tuple([x * i for i in range(k % 4)])


@structure
def a_list_of_numbers(x, k):
    return [i * 2 for i in range(k % 4)]


@structure
def a_list_of_floats(x, k):
    return [float(i) for i in range(k % 4)]


@structure
def a_list_of_bools(x, k):
    return [i > 1 for i in range(k % 4)]


@structure
def a_list_of_strings(x, k):
    return ["a" if i % 2 else "b" for i in range(k % 4)]


@structure
def a_list_of_unlike_things(x, k):
    return [1, x, "text", None, 2.5, True]


@structure
def a_tuple_of_unlike_things(x, k):
    return 1, x, "text", None, 2.5, True


@structure
def lists_in_tuples(x, k):
    return ([x, k], (x * 2, [k]), [])


@structure
def tuples_in_lists(x, k):
    return [(x, k), (x * 2, [x.sum(), x])]


@structure
def tuples_in_a_list_of_run_time_length(x, k):
    return [(x * i, i, [i]) for i in range(k % 4)]


@structure
def lists_of_lists(x, k):
    return [[x * i for i in range(j)] for j in range(k % 4)]


@structure
def a_dict_of_arrays(x, k):
    return {"a": x, "b": x.sum()}


@structure
def a_dict_of_everything(x, k):
    return {"a": [x, k], "b": (x, None), "c": {"d": x}}


@structure
def a_dict_with_keys_of_run_time(x, k):
    return {i: x * i for i in range(k % 4)}


@structure
def a_dict_of_lists(x, k):
    out = {}
    for i in range(k % 4):
        out[i] = [x.sum(), x]
    return out


@structure
def a_set(x, k):
    return {i % 3 for i in range(k % 4)}


@structure
def a_named_tuple(x, k):
    return Pair(x, k)


@structure
def a_named_tuple_of_arrays(x, k):
    return Pair(x, x.sum())


@structure
def nested_named_tuples(x, k):
    return Pair([Pair(x, k)], (Pair(k, x),))


@structure
def an_object(x, k):
    return Leaf(x * 2, k)


@structure
def a_frozen_object(x, k):
    return Fixed("a", Leaf(x, k) if k % 2 else None)


@structure
def a_chain(x, k):
    out = Chain(x)
    for _ in range(k % 4):
        out = Chain(x + 1, out)
    return out


@structure
def objects_in_lists(x, k):
    return [Leaf(x * i, i) for i in range(k % 4)]


@structure
def an_optional_array(x, k):
    return x if k % 2 else None


@structure
def an_optional_number(x, k):
    return k if k % 2 else None


@structure
def an_optional_list(x, k):
    return [x.sum(), x] if k % 2 else None


@structure
def an_optional_string(x, k):
    return "odd" if k % 2 else None


@structure
def a_union_of_numbers(x, k):
    return k if k % 3 == 0 else k / 2 if k % 3 == 1 else k > 2


@structure
def a_union_of_arrays(x, k):
    return x if k % 2 else x.astype(np.float64)


@structure
def a_union_of_list_and_tuple(x, k):
    return [x.sum(), x] if k % 2 else (x.sum(), x)


@structure
def a_union_of_structures(x, k):
    if k % 4 == 0:
        return x
    if k % 4 == 1:
        return (x, k)
    if k % 4 == 2:
        return Leaf(x, k)
    return "text"


@structure
def a_scalar_or_an_array(x, k):
    return x.sum() if k % 2 else np.asarray(x.sum())


@structure
def the_same_list_twice(x, k):
    found = [x * i for i in range(k % 4)]
    return found, found


@structure
def what_was_given(x, k):
    return [x, (x, x)]


@structure
def a_counter(x, k):
    return Counter([i % 2 for i in range(k % 4)])


@structure
def a_deque(x, k):
    return deque([x * i for i in range(k % 4)], 3), k


@structure
def an_ordered_dict(x, k):
    out: OrderedDict[int, Any] = OrderedDict()
    for i in range(k % 4):
        out[i] = x
    return out


@structure
def a_default_dict(x, k):
    out: defaultdict[int, int] = defaultdict(int)
    for i in range(k % 4):
        out[i % 2] += i
    return out


MODELS: dict[str, Model[..., Any]] = {}


def made(name: str) -> Model[..., Any]:
    if name not in MODELS:
        MODELS[name] = model(STRUCTURES[name])
    return MODELS[name]


def instances(count: int) -> tuple[list[np.ndarray], list[int]]:
    r = np.random.default_rng(count)
    return [r.integers(-8, 8, 5).astype(F32) for _ in range(count)], list(range(count))


def differs(mine: Any, wanted: Any, path: str = "") -> str:
    """Return where two values are not of one type and value, at any depth; nothing, if they are."""
    if type(mine) is not type(wanted):
        return f"{path}: {type(mine).__name__}, not {type(wanted).__name__}"
    if isinstance(mine, list | tuple | deque):
        if len(mine) != len(wanted) or getattr(mine, "maxlen", None) != getattr(wanted, "maxlen", None):
            return f"{path}: {mine!r}, not {wanted!r}"
        pairs = [(f"{path}[{k}]", a, b) for k, (a, b) in enumerate(zip(mine, wanted, strict=True))]
    elif isinstance(mine, dict):
        if list(mine) != list(wanted) or list(map(type, mine)) != list(map(type, wanted)):
            return f"{path}: keys {list(mine)}, not {list(wanted)}"
        pairs = [(f"{path}[{k!r}]", mine[k], wanted[k]) for k in mine]
        if isinstance(mine, defaultdict):
            pairs.append((f"{path}.default_factory", mine.default_factory, wanted.default_factory))
    elif dataclasses.is_dataclass(mine):
        names = [f.name for f in dataclasses.fields(mine)]
        pairs = [(f"{path}.{n}", getattr(mine, n), getattr(wanted, n)) for n in names]
    elif isinstance(mine, np.ndarray | np.generic):
        same = mine.dtype == wanted.dtype and mine.shape == wanted.shape and mine.tobytes() == wanted.tobytes()
        return "" if same else f"{path}: {mine!r}, not {wanted!r}"
    else:
        return "" if mine == wanted else f"{path}: {mine!r}, not {wanted!r}"
    return next(filter(None, (differs(a, b, where) for where, a, b in pairs)), "")


def by_index(f: Any, xs: Any, ks: Any) -> list[Any]:
    found = f.batch(xs, ks)
    return [found[k] for k in range(len(xs))]


def by_negative_index(f: Any, xs: Any, ks: Any) -> list[Any]:
    found = f.batch(xs, ks)
    return [found[k - len(xs)] for k in reversed(range(len(xs)))][::-1]


def by_slices(f: Any, xs: Any, ks: Any) -> list[Any]:
    found = f.batch(xs, ks)
    return [*found[: len(xs) // 2], *found[len(xs) // 2 :][::-1][::-1]]


def by_index_of_slices(f: Any, xs: Any, ks: Any) -> list[Any]:
    found = f.batch(xs, ks)
    return [found[k : k + 1][0] for k in range(len(xs))]


def by_iteration(f: Any, xs: Any, ks: Any) -> list[Any]:
    return [value for value in f.batch(xs, ks)]  # noqa: C416


def by_list(f: Any, xs: Any, ks: Any) -> list[Any]:
    return list(f.batch(xs, ks))


def by_list_after_one(f: Any, xs: Any, ks: Any) -> list[Any]:
    found = f.batch(xs, ks)
    return [found[0], *list(found)[1:]]


def of_what_stays_there(f: Any, xs: Any, ks: Any) -> list[Any]:
    return list(f.batch(xs, ks).device)


def by_pickle(f: Any, xs: Any, ks: Any) -> list[Any]:
    return list(pickle.loads(pickle.dumps(f.batch(xs, ks))))


def of_a_limit(f: Any, xs: Any, ks: Any) -> list[Any]:
    return list(f.with_options(parts=False, memory_limit=1 << 22).batch(xs, ks))


NAMES = sorted(STRUCTURES, key=lambda name: name.startswith("a_list"), reverse=True)
WAYS = (
    by_index, by_negative_index, by_slices, by_index_of_slices, by_iteration, by_list, by_list_after_one,
    of_what_stays_there, by_pickle, of_a_limit,
)  # fmt: skip


@pytest.mark.parametrize("name", one_in(3, NAMES))
def test_results_are_those_of_the_plain_call(name: str) -> None:
    f = made(name)
    for size in SIZES:
        xs, ks = instances(size)
        wanted = list(map(f, xs, ks))
        for way in WAYS:
            found = [differs(a, b) for a, b in zip(way(f, xs, ks), wanted, strict=True)]
            assert not any(found), f"{way.__name__} of {size}: {found}"


@pytest.mark.parametrize("name", one_in(6, NAMES))
def test_stacked_results_are_those_of_the_plain_calls(name: str) -> None:
    """What is stacked of results is what is stacked of the plain results, or is rejected alike."""

    def stacked(results: Any) -> Any:
        try:
            return results.stack()
        except AcronumbaError as error:
            return error.code, str(error)

    f = made(name)
    for size in SIZES:
        xs, ks = instances(size)
        mine, wanted = stacked(f.batch(xs, ks)), stacked(Results.of(map(f, xs, ks)))
        assert not differs(mine, wanted), size


@pytest.mark.parametrize("name", one_in(6, NAMES))
def test_results_of_a_server_are_those_of_the_plain_call(name: str) -> None:
    f = made(name)
    with Server(f, max_batch=64) as server:
        for size in SIZES:
            xs, ks = instances(size)
            futures = [server.submit(x, k) for x, k in zip(xs, ks, strict=True)]
            found = [differs(future.result(), f(x, k)) for future, x, k in zip(futures, xs, ks, strict=True)]
            assert not any(found), f"{size}: {found}"


@pytest.mark.parametrize("name", one_in(2, one_in(3, NAMES, mark="slow")))
def test_results_of_a_device_are_those_of_the_plain_call(name: str) -> None:
    f = made(name)
    for size in (1, 9):
        xs, ks = instances(size)
        found = [differs(a, f(x, k)) for a, x, k in zip(Run(f, xs, ks).results, xs, ks, strict=True)]
        assert not any(found), f"{size}: {found}"


def test_equal_results_are_of_one_type() -> None:
    assert not equal([1, 2], (1, 2)) and not equal(Pair(1, 2), (1, 2)) and equal([F32(1), (2,)], [F32(1), (2,)])
