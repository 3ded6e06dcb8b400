"""The front door: models, batches, results, snapshots, traces."""

from __future__ import annotations

import enum
import multiprocessing
import pickle
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import acronumba
from acronumba import (
    AcronumbaError,
    DataError,
    InstanceErrors,
    Options,
    Results,
    ShapeMismatch,
    Trace,
    TypeMismatch,
    Unsupported,
    load,
    model,
    nn,
    pack,
    save,
)
from acronumba.data.decoder import Decoder
from tests.support.api_models import Params, Tree, assert_close, classify, double, encode, params, trees

# ---- models used below


@model
def scaled(x, factor=2.0, *, offset=1.0):
    return x * factor + offset


@model
def divide(a, b):
    return a // b


@model
def several(x, n):
    return {"sum": np.sum(x), "twice": x + x, "n": n, "half": n / 2, "big": n > 2, "none": None}


# ---- the package


def test_importing_the_package_imports_no_compiler_and_no_view():
    code = "import sys, acronumba; print([m for m in ('numba', 'llvmlite', 'rich', 'networkx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    for name in acronumba.__all__:
        assert getattr(acronumba, name) is not None
    assert set(acronumba.__all__) <= set(dir(acronumba))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        acronumba.nothing  # noqa: B018


# ---- the plain call


def test_the_plain_call_is_the_users_own_function():
    assert scaled(3.0) == 7.0
    assert scaled(3.0, 3.0, offset=0.0) == 9.0
    assert classify.__wrapped__.__name__ == "classify" and classify.__doc__ == "Probabilities of a tree."
    assert repr(scaled) == f"<model {__name__}.scaled>"


def test_a_model_needs_a_function():
    with pytest.raises(TypeError, match="expects a function"):
        model(3)


def test_what_is_rejected_in_a_batch_still_works_plainly():
    @model
    def f(*xs, **more):
        return sum(xs)

    assert f(1, 2) == 3
    with pytest.raises(Unsupported) as caught:
        f.batch([1], [2])
    assert caught.value.code == "ACR208" and "def f(*xs, **more)" in str(caught.value)


def test_a_model_without_positional_parameters_is_rejected():
    @model
    def f(*, p):
        return p

    assert f(p=1) == 1
    with pytest.raises(Unsupported, match="ACR208"):
        f.batch(p=1)


def test_builtins_are_rejected_as_models():
    with pytest.raises(Unsupported, match="ACR210"):
        model(abs).batch([1])


# ---- batches


def test_a_batch_equals_the_list_of_plain_results():
    p = params()
    results = classify.batch(trees(), p=p)
    assert isinstance(results, Results)
    assert_close(results, [classify(t, p=p) for t in trees()])


def test_numbers_come_back_as_pythons_own():
    results = scaled.batch([1.0, 2.5])
    assert results == [3.0, 6.0] and all(type(r) is float for r in results)
    assert divide.batch([7, -7], [2, 2]) == [3, -4]


def test_defaults_may_be_left_out_and_given():
    assert scaled.batch([1.0, 2.0], [3.0, 4.0], offset=0.0) == [3.0, 8.0]


def test_structures_keep_types_and_dtypes():
    xs = [np.ones(2, np.float32), np.arange(2, dtype=np.float32)]
    results = several.batch(xs, [2, 3])
    for mine, theirs in zip(results, [several(x, n) for x, n in zip(xs, [2, 3], strict=True)], strict=True):
        assert list(mine) == list(theirs)
        for key, value in theirs.items():
            assert type(mine[key]) is type(value)
            assert np.array_equal(mine[key], value)
            assert getattr(mine[key], "dtype", None) == getattr(value, "dtype", None)


def test_an_array_is_a_column_of_its_rows():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)

    @model
    def total(row):
        return row + row

    assert_close(total.batch(x), list(x + x))


def test_an_empty_batch_compiles_nothing():
    @model
    def f(x):
        return x.anything()

    results = f.batch([])
    assert len(results) == 0 and results == []
    assert f.trace([]).nodes == 0


def test_a_batch_of_one():
    assert_close(classify.batch(trees(1), p=params()), [classify(trees(1)[0], p=params())])


def test_any_iterable_is_a_column():
    assert scaled.batch(x for x in (1.0, 2.0)) == [3.0, 5.0]
    assert scaled.batch((1.0, 2.0)) == [3.0, 5.0]


def test_fields_that_are_never_read_may_hold_anything():
    cycle = Tree(word=1)
    cycle.note = [cycle, "text", {3: cycle}]
    assert_close(classify.batch([cycle], p=params()), [classify(cycle, p=params())])


# ---- wrong calls


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scaled.batch(), "takes a column for each of: x, factor"),
        (lambda: scaled.batch([1.0], [1.0], [1.0]), "3 positional arguments"),
        (lambda: classify.batch([Tree()], params()), "pass shared values by name: `p=...`"),
        (lambda: scaled.batch([1.0], factor=[1.0]), "`def scaled(x, *, factor, offset)`, if all instances share it"),
        (lambda: scaled.batch([1.0], 2.0), "put `*` before `factor` and pass it by name"),
        (lambda: scaled.batch(x=[1.0]), "takes a column for each of"),
        (lambda: scaled.batch([1.0], nothing=1), "`nothing` is not a parameter"),
        (lambda: scaled.batch([1.0], offsett=1), "did you mean `offset`?"),
        (lambda: classify.batch([Tree()]), "`p` is missing"),
        (lambda: divide.batch([1]), "column for `b` is missing\n  seen: 1 positional argument\n"),
        (lambda: scaled.batch(3.0), "must be a sequence of instances"),
        (lambda: scaled.batch("ab"), "must be a sequence of instances"),
        (lambda: scaled.batch({"a": 1}), "is a table"),
        (lambda: classify.batch(Tree(), p=params()), "must be a sequence of instances"),
    ],
)
def test_wrong_calls_are_type_errors_with_a_code(call, words):
    with pytest.raises(TypeMismatch) as caught:
        call()
    assert caught.value.code == "ACR706" and words in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_columns_of_different_lengths():
    with pytest.raises(ShapeMismatch, match="ACR707") as caught:
        divide.batch([1, 2], [1])
    assert isinstance(caught.value, ValueError)


# ---- failures of instances


def test_failures_belong_to_their_instances():
    with pytest.raises(InstanceErrors) as caught:
        divide.batch([1, 2, 3], [1, 0, 2])
    error = caught.value
    assert list(error.errors) == [1]
    assert type(error.errors[1]) is ZeroDivisionError
    assert error.errors[1].line == divide.__wrapped__.__code__.co_firstlineno + 2
    assert list(error.results) == [1, None, 1]


def test_a_failure_of_a_batch_of_one_is_a_group_too():
    with pytest.raises(InstanceErrors):
        divide.batch([1], [0])


def test_the_users_own_exception_and_message():
    class Mine(Exception):
        pass

    @model
    def f(x):
        if x > 2:
            raise Mine(f"{x} is too much")
        return x

    with pytest.raises(InstanceErrors) as caught:
        f.batch([1, 3])
    assert type(caught.value.errors[1]) is Mine and caught.value.errors[1].args == ("3 is too much",)


def test_bad_data_names_instance_and_path():
    bad = Tree(left=Tree(word="seven"), right=Tree(word=2))
    p = params()
    with pytest.raises(InstanceErrors) as caught:
        classify.batch([Tree(word=1), bad, Tree(word=2)], p=p)
    error = caught.value.errors[1]
    assert isinstance(error, DataError) and error.instance == 1 and error.path == "[1].left.word"
    assert caught.value.results[1] is None
    assert_close([caught.value.results[k] for k in (0, 2)], [classify(Tree(word=k), p=p) for k in (1, 2)])


def test_indices_out_of_range():
    with pytest.raises(InstanceErrors) as caught:
        classify.batch([Tree(word=8), Tree(word=9)], p=params())
    assert list(caught.value.errors) == [1] and isinstance(caught.value.errors[1], IndexError)


def test_runaway_instances_are_stopped():
    @model
    def count(n):
        k = 0
        while k != n:
            k = k + 1
        return k

    with pytest.raises(InstanceErrors) as caught:
        count.with_options(max_steps=1000).batch([10, -1])
    error = caught.value.errors[1]
    assert isinstance(error, AcronumbaError) and error.code == "ACR702"
    assert caught.value.results[0] == 10


# ---- specialisation


@pytest.mark.parametrize("columns", [slice(None), slice(None, None, 2)])
def test_the_sign_of_a_zero_is_a_change(columns: slice) -> None:
    """Of arrays that are read where they are, and of those that are copied, as their rows are apart."""

    @model
    def over(x: np.ndarray, *, a: np.ndarray):
        return x / a

    a, x = np.zeros((3, 4))[:, columns], np.ones((3, 4))[:, columns]
    with np.errstate(divide="ignore"):
        assert (over.batch([x], a=a)[0] == np.inf).all()
        a[...] = -0.0
        assert (over.batch([x], a=a)[0] == -np.inf).all()


def test_new_weights_and_changes_in_place_are_seen():
    p = params()
    first = classify.batch(trees(), p=p)
    kept = [np.array(r) for r in first]
    p.w *= 2
    assert_close(classify.batch(trees(), p=p), [classify(t, p=p) for t in trees()])
    other = params(5)
    assert_close(classify.batch(trees(), p=other), [classify(t, p=other) for t in trees()])
    for a, b in zip(first, kept, strict=True):
        assert np.array_equal(a, b)  # results stay


def test_other_types_compile_anew_and_both_stay():
    @model
    def double(x):
        return x + x

    assert double.batch([1, 2]) == [2, 4]
    assert double.batch([1.5, 2.0]) == [3.0, 4.0]
    results = double.batch([np.float32(1.5)])
    assert type(results[0]) is np.float32 and results[0] == 3
    assert double.batch([3]) == [6] and type(double.batch([3])[0]) is int


def test_other_structure_of_shared_values():
    @model
    def f(x, *, layers, residual):
        for layer in layers:
            y = np.tanh(layer["w"] @ x + layer.get("b", 0.0)) if False else np.tanh(layer["w"] @ x)
            x = x + y if residual else y
        return x

    rng = np.random.default_rng(0)
    xs = list(rng.standard_normal((3, 4)))
    for count in (1, 3):
        for residual in (True, False):
            layers = [{"w": rng.standard_normal((4, 4))} for _ in range(count)]
            assert_close(
                f.batch(xs, layers=layers, residual=residual), [f(x, layers=layers, residual=residual) for x in xs]
            )


SCALE = 2.0


@model
def by_global(x):
    return x * SCALE


def test_globals_are_read_anew(monkeypatch):
    assert by_global.batch([1.0, 2.0]) == [2.0, 4.0]
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert by_global.batch([1.0, 2.0]) == [10.0, 20.0]
    monkeypatch.setitem(globals(), "SCALE", np.array([1.0, 2.0]))
    assert_close(by_global.batch([1.0]), [np.array([1.0, 2.0])])


def test_a_shared_int_that_decides_a_shape():
    @model
    def f(x, *, n):
        return np.ones(n) * x

    for n in (2, 5, 2):
        assert_close(f.batch([1.0, 2.0], n=n), [np.ones(n) * x for x in (1.0, 2.0)])


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    a: float
    color: Color


def test_enums_and_named_tuples():
    @model
    def f(x: Pair, *, color):
        return Pair(x.a + 1.0, Color.RED if x.color is color else Color.BLUE)

    xs = [Pair(1.0, Color.RED), Pair(2.0, Color.BLUE)]
    for color in Color:
        assert list(f.batch(xs, color=color)) == [f(x, color=color) for x in xs]


def test_models_call_models_plainly():
    @model
    def twice(x):
        return scaled(x, offset=0.0) + scaled(x)

    assert twice.batch([1.0, 2.0]) == [5.0, 9.0]


# ---- options, devices


def test_options_and_devices_make_other_models():
    other = scaled.with_options(schedule="agenda", blocks=False)
    assert other is not scaled and scaled.options == Options() and other.options.schedule == "agenda"
    assert other.batch([1.0]) == [3.0]
    assert scaled.on("cpu").batch([1.0]) == [3.0]
    assert other._cache is scaled._cache


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "tpu", ""])
def test_devices_that_do_not_exist(device):
    with pytest.raises(AcronumbaError, match="ACR705"):
        scaled.on(device)


def test_the_device_of_the_environment(monkeypatch):
    monkeypatch.setenv("ACRONUMBA_DEVICE", "toaster")
    with pytest.raises(AcronumbaError, match="toaster"):
        scaled.batch([1.0])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("fuse", 1), ("schedule", "best"), ("effort", 4), ("threads", 0), ("threads", True), ("max_steps", None),
        ("memory_limit", -1), ("precision", "float8"),
    ],
)  # fmt: skip
def test_options_are_validated(option, value):
    with pytest.raises(AcronumbaError, match=f"ACR705: option {option}"):
        Options(**{option: value})


def test_misspelt_options_get_a_hint():
    with pytest.raises(AcronumbaError, match="did you mean `threads`"):
        scaled.with_options(thread=2)


def test_decorating_with_options():
    @model(schedule="agenda")
    def f(x):
        return x

    assert f.options.schedule == "agenda" and f(3) == 3


@pytest.mark.parametrize("options", [{"phases": False, "schedule": "depth"}, {"blocks": False}], ids=str)
def test_an_optimisation_switched_off_makes_other_batches_of_the_same_bits(options):
    p, xs = params(), trees()
    off = classify.with_options(**options)
    assert off.batch(xs, p=p) == classify.batch(xs, p=p)
    assert len(off.trace(xs, p=p).batches) > len(classify.trace(xs, p=p).batches)


def test_the_default_schedule_is_lookahead_and_others_can_be_chosen():
    xs, p = trees(9), params()
    want = classify.batch(xs, p=p).stack()
    for options in ({"schedule": "lookahead", "effort": 3}, {"effort": 0}, {"schedule": "depth"}):
        other = classify.with_options(**options)
        np.testing.assert_array_equal(other.batch(xs, p=p).stack(), want)
        assert len(other.trace(xs, p=p).batches) == len(classify.trace(xs, p=p).batches)
    with pytest.raises(AcronumbaError, match="ACR705: option schedule: must be one of lookahead, depth, agenda"):
        classify.with_options(schedule="fsm")


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads_batch_or_order(threads):
    p, xs = params(), trees(9)
    whole = classify.batch(xs, p=p)
    f = classify.with_options(threads=threads)
    assert f.batch(xs, p=p) == whole
    assert list(reversed(f.batch(xs[::-1], p=p))) == whole
    assert [f.batch([x], p=p)[0] for x in xs] == whole


# ---- snapshots


def test_packed_instances_are_instances():
    p, xs = params(), trees(6)
    packed = pack(xs)
    whole = classify.batch(xs, p=p)
    assert len(packed) == 6
    assert classify.batch(packed, p=p) == whole
    assert classify.batch(packed[2:5], p=p) == whole[2:5]
    xs[0].word = 3  # the snapshot does not see it
    assert classify.batch(packed, p=p) == whole
    assert_close([classify(t, p=p) for t in packed], list(whole))
    assert pack(packed) is packed


def test_packed_instances_can_be_pickled():
    p, xs = params(), trees(6)
    copy = pickle.loads(pickle.dumps(pack(xs)))
    assert classify.batch(copy, p=p) == classify.batch(xs, p=p)


def test_packed_parameters_are_parameters():
    p = params()
    snapshot = pack(p)
    whole = classify.batch(trees(), p=p)
    assert classify.batch(trees(), p=snapshot) == whole
    assert_close([classify(t, p=snapshot) for t in trees()], list(whole))
    p.w[:] = 0
    assert classify.batch(trees(), p=snapshot) == whole
    assert pack(snapshot) is snapshot


def test_packing_keeps_one_object_one_object():
    w = np.ones(2)
    snapshot = pack({"a": w, "b": [w, (w, 3)]}).value
    assert snapshot["a"] is snapshot["b"][0] is snapshot["b"][1][0]
    assert not snapshot["a"].flags.writeable


def test_what_cannot_be_packed():
    for value in (3, "text", np.float32(1)):
        with pytest.raises(TypeMismatch, match="ACR706"):
            pack(value)


# ---- results


def test_results_are_sequences():
    results = Results.of([1, 2.0, None])
    assert results == [1, 2.0, None] and results != [1, 2.0] and results != [1, 2, None]
    assert results[-1] is None and results[1:] == [2.0, None]
    assert 2.0 in results and results.index(2.0) == 1 and list(reversed(results)) == [None, 2.0, 1]
    assert pickle.loads(pickle.dumps(results)) == results
    with pytest.raises(IndexError):
        results[3]
    with pytest.raises(TypeError):
        hash(results)
    assert repr(Results.of(range(5))) == "Results([0, 1, 2, ...]) of 5"


def test_results_are_decoded_once():
    seen = []
    results = Results(3, Decoder.of(lambda k: seen.append(k) or [k]))
    assert results[2] is results[2] and results[-1] is results[2] and seen == [2]


def test_equality_of_results_is_exact_and_knows_dtypes():
    a = Results.of([np.array([1.0, np.nan], np.float32)])
    assert a == [np.array([1.0, np.nan], np.float32)]
    assert a != [np.array([1.0, np.nan])] and a != [np.array([1.0, 2.0], np.float32)]
    assert Results.of([Pair(1.0, Color.RED)]) == [Pair(1.0, Color.RED)]
    assert Results.of([Tree(1, Tree(2))]) != [Tree(1, Tree(3))]
    assert Results.of([True]) != [1]


def test_stack_keeps_the_structure():
    one = lambda k: {"x": np.full(2, k), "pair": Pair(float(k), Color.RED), "tree": Tree(k), "list": [k, (k > 0,)]}
    stacked = Results.of([one(k) for k in range(3)]).stack()
    assert np.array_equal(stacked["x"], [[0, 0], [1, 1], [2, 2]])
    assert np.array_equal(stacked["pair"].a, [0.0, 1.0, 2.0]) and stacked["pair"].color is Color.RED
    assert np.array_equal(stacked["tree"].word, [0, 1, 2]) and stacked["tree"].left is None
    assert np.array_equal(stacked["list"][1][0], [False, True, True])
    assert not stacked["x"].flags.writeable


def test_stack_is_a_view_where_the_arrays_are_evenly_spaced():
    base = np.arange(12.0).reshape(4, 3)
    stacked = Results.of([base[k] for k in range(4)]).stack()
    assert np.shares_memory(stacked, base) and np.array_equal(stacked, base)
    swapped = Results.of([base[k] for k in (1, 0, 3)]).stack()
    assert not np.shares_memory(swapped, base) and np.array_equal(swapped, base[[1, 0, 3]])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([np.ones(2), np.ones(3)], "instances 0 and 1"),
        ([{"a": 1}, {"a": 1}, {"b": 1}], "instances 0 and 2"),
        ([{"a": np.ones(2)}, {"a": np.ones(2, np.float32)}], r"result\['a'\]"),
        ([[1], [1, 2]], "list of 1"),
        ([1, None], "None"),
        ([], "no results"),
    ],
)
def test_what_cannot_be_stacked(values, words):
    with pytest.raises(ShapeMismatch, match=words) as caught:
        Results.of(values).stack()
    assert caught.value.code == "ACR703"


@pytest.mark.parametrize(
    ("values", "instead"),
    [
        ([np.ones(2), np.ones(3)], "`results.ragged()` joins"),
        ([np.ones(2), np.ones(3, np.float32)], "compute one dtype on every path"),
        ([np.ones((2, 3)), np.ones((2, 4))], "stack the leaves of equal shape"),
        ([np.ones(2), None], "stack the leaves of equal shape"),
    ],
)
def test_what_to_do_about_results_that_are_not_alike(values, instead):
    with pytest.raises(ShapeMismatch) as caught:
        Results.of(values).stack()
    assert str(caught.value).splitlines()[-1].startswith(f"  instead: {instead}")


def test_results_are_read_only_and_valid_for_ever():
    p = params()
    results = classify.batch(trees(), p=p)
    with pytest.raises(ValueError, match="read-only"):
        results[0][0] = 1
    kept = np.array(results[0])
    for _ in range(3):
        classify.batch(trees(20, seed=9), p=p)
    assert np.array_equal(results[0], kept)
    assert results.stack().shape == (7, 6)


# ---- threads and processes


def test_threads_may_call_one_model_at_once():
    p = params()

    @model
    def fresh(t: Tree, *, p: Params):
        return encode(t, p)

    plain = [fresh(t, p=p) for t in trees()]
    out = [None] * 4

    def work(k):
        for _ in range(3):
            out[k] = fresh.batch(trees(), p=p)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for results in out:
        assert_close(results, plain)


def test_models_can_be_pickled_by_name(monkeypatch):
    assert pickle.loads(pickle.dumps(classify)) is classify
    other = pickle.loads(pickle.dumps(classify.with_options(threads=1)))
    assert other.options.threads == 1 and other.__wrapped__ is classify.__wrapped__ and other._cache is classify._cache

    @model
    def local(x):
        return x

    monkeypatch.setattr("acronumba.api.pickling._has_cloudpickle", lambda: False)
    with pytest.raises(pickle.PicklingError, match="not importable"):
        pickle.dumps(local)


def _in_child(f, xs, p):
    return f.batch(xs, p=p)


@pytest.mark.skipif(not hasattr(multiprocessing, "get_context") or sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_works():
    p = params()
    whole = classify.batch(trees(), p=p)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_in_child, (classify, trees(), p)) == list(whole)


# ---- looking inside


def test_trace():
    p = params()
    trace = classify.trace(trees(), p=p)
    assert isinstance(trace, Trace)
    assert trace.results == classify.batch(trees(), p=p)
    assert trace.nodes == sum(b.size for b in trace.batches) > 0
    assert 0 < trace.lower_bound <= len(trace.batches)
    assert trace.optimal == (len(trace.batches) == trace.lower_bound)
    assert set(trace.seconds) == {"compile", "pack", "record", "schedule", "layout", "execute", "total"}
    taken = [b.seconds for b in trace.batches]
    assert all(seconds is not None and seconds > 0 for seconds in taken)
    assert sum(taken) == pytest.approx(trace.seconds["execute"])
    assert trace.peak_bytes > 0 and trace.rounds >= 0
    assert trace.graph.number_of_nodes() == trace.nodes
    assert "classify" in str(trace) and "classify" in repr(trace)


def test_the_first_trace_tells_what_compiling_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only what is named here moves: compiling is in a row of its own, and in no other."""
    from acronumba.pipeline import compiled, link

    now = [0.0]

    def takes(owner: object, name: str, seconds: float) -> None:
        do = getattr(owner, name)

        def slow(*args: Any, **named: Any) -> Any:
            now[0] += seconds
            return do(*args, **named)

        monkeypatch.setattr(owner, name, slow)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    takes(compiled.Compiled, "pack", 10.0)
    takes(compiled, "Compiled", 100.0)
    takes(link, "link", 1000.0)
    again = model(classify.__wrapped__)
    first, second = (again.trace(trees(), p=params()) for _ in range(2))
    assert (first.seconds["compile"], first.seconds["pack"], first.seconds["total"]) == (1100.0, 10.0, 1110.0)
    assert (second.seconds["compile"], second.seconds["pack"], second.seconds["total"]) == (0.0, 10.0, 10.0)
    assert re.search(r"^ compile +1100", str(first), re.M) and "compile" not in str(second)


def test_a_trace_of_failures_raises_nothing():
    trace = divide.trace([1, 1], [1, 0])
    assert list(trace.errors) == [1] and trace.results[1] is None and trace.results[0] == 1


def test_traces_can_be_written(tmp_path):
    trace = classify.trace(trees(3), p=params())
    for write, name in ((trace.html, "t.html"), (trace.to_dot, "t.dot"), (trace.to_perfetto, "t.json")):
        path = write(tmp_path / name)
        assert path.stat().st_size > 100


def test_explain_tells_shared_from_varying():
    text = str(classify.explain(trees(), p=params()))
    assert "t: Tree" in text and "p.w: float32[6, 12]" in text and "p.embed: float32[9, 6]" in text
    assert "np.tanh(p.w @ both + p.b)" in text and "encode" in text


def test_explain_warns_where_float32_becomes_float64():
    @model
    def f(x):
        return x * np.float64(2.0)

    note = f.explain([np.ones(3, np.float32)])
    assert any("float32 becomes float64" in w and "np.float64(2.0)" in w for w in note.warnings)


def test_explain_warns_of_shared_float64_and_not_of_what_was_asked_for():
    @model
    def f(x, *, w):
        asked = x.astype(np.float64) + x.sum(dtype=np.float64)
        below = x < w[0]
        product = w @ x
        joined = np.concatenate([w[0], x])
        normal = nn.layer_norm(x, w[0], w[1])
        return asked, below, product, joined, normal, x * 2.0

    note = f.explain([np.ones(3, np.float32)], w=np.ones((3, 3)))
    assert [w.rpartition(": ")[2].split(" =")[0] for w in note.warnings] == ["product", "joined", "normal"]


def test_stages_come_in_order():
    stages = classify.stages(trees(), p=params())
    names = list(stages)
    assert names[:3] == ["source", "schema", "ir"]
    at = names.index("plan")
    assert {"sharing", "rows", "hoist", "phases"} <= set(names[3:at])
    assert names[at + 1] == "host"
    *kernels, tiles, last = names[at + 2 :]
    assert (tiles, last) == ("tiles/cuda", "persistent/cuda")
    assert kernels and all(n.startswith("kernels/") for n in kernels)
    assert all(a.endswith("/cpu") and b == a[:-4] + "/cuda" for a, b in zip(kernels[::2], kernels[1::2], strict=True))
    assert "def encode(t: Tree, p: Params):" in stages["source"] and "def classify" in stages["source"]
    for name in names:
        assert stages[name].strip(), name
    again = classify.stages(trees(), p=params())
    assert dict(again) == dict(stages)


def test_looking_inside_needs_an_instance():
    with pytest.raises(TypeMismatch, match="cannot be inferred from an empty mini-batch"):
        classify.stages([], p=params())


def test_check_says_close_or_equal():
    p = params()
    check = classify.check(trees(), p=p)
    assert check.ok and {v.verdict for v in check.verdicts} <= {"equal", "close"}
    assert "7 instances" in str(check)
    failing = divide.check([1, 1], [1, 0])
    assert failing.ok and failing.verdicts[1].verdict == "equal"


def test_the_interpreter_gives_the_same():
    p = params()
    assert_close(classify._interpret(trees(), p=p), [classify(t, p=p) for t in trees()])
    assert_close(classify._interpret(trees(), p=p, planned=False), [classify(t, p=p) for t in trees()])


# ---- weights


def test_save_and_load(tmp_path):
    p = {
        "a": params(),
        "layers": [np.ones(2), (np.zeros((2, 3), np.float32),)],
        "n": 3,
        "name": "x",
        "s": np.float32(2),
    }
    save(tmp_path / "p.safetensors", p)
    back = load(tmp_path / "p.safetensors", like=p)
    assert isinstance(back["a"], Params) and np.array_equal(back["a"].w, p["a"].w)
    assert back["layers"][1][0].shape == (2, 3) and back["n"] == 3 and back["name"] == "x"
    assert type(back["s"]) is np.float32
    from safetensors.numpy import load_file

    assert "a.embed" in load_file(tmp_path / "p.safetensors")


@pytest.mark.parametrize(
    ("like", "error", "words"),
    [
        ({"a": np.ones(2), "b": np.ones(1)}, TypeMismatch, "`b` is missing"),
        ({}, TypeMismatch, "`a` is not expected"),
        ({"a": np.ones(2, np.float32)}, TypeMismatch, "float64.*, expected float32"),
        ({"a": np.ones(3)}, ShapeMismatch, "expected"),
    ],
)
def test_loading_is_strict(tmp_path, like, error, words):
    save(tmp_path / "p.safetensors", {"a": np.ones(2)})
    with pytest.raises(error, match=words):
        load(tmp_path / "p.safetensors", like=like)


# ---- inference and conversion


def test_what_is_inferred_is_never_converted():
    fresh = double.with_options()
    for xs in ([1.5], [2], [True], [np.float32(2)], [np.int32(3)], [2, 2.5], [3], [4.5, 1], [True, 1]):
        results = fresh.batch(xs)
        plain = [double(x) for x in xs]
        assert results == plain and [type(r) for r in results] == [type(r) for r in plain], xs


def test_annotated_fields_convert_as_they_say():
    assert scaled_point.batch([Point(1, 2)]) == [3.0] and type(scaled_point.batch([Point(1, 2)])[0]) is float
    with pytest.raises(InstanceErrors) as caught:
        scaled_point.batch([Point(1.0, 2), Point("1", 2), Point(1.0, 2.5)])
    assert [e.path for e in caught.value.errors.values()] == ["[1].x", "[2].n"]
    assert caught.value.results[0] == 3.0


@dataclass
class Point:
    x: float
    n: int
    free: object = None


@model
def scaled_point(p: Point):
    return p.x + p.n


@model
def freely(p: Point):
    return p.free + p.free


def test_fields_without_a_type_are_inferred():
    for values in ([1, 2], [1.5], [np.ones(2)], [1, 2]):
        points = [Point(0.0, 0, v) for v in values]
        results = freely.batch(points)
        plain = [freely(p) for p in points]
        assert results == plain and [type(r) for r in results] == [type(r) for r in plain]


# ---- shared values that are data


def test_a_long_shared_list_of_numbers():
    @model
    def f(i, *, table):
        return table[i] * 2

    table = list(range(100, 150))
    assert f.batch([0, 49, -1], table=table) == [200, 298, 298]
    table[0] = 7
    assert f.batch([0], table=table) == [14]
    assert f.batch([0], table=[*table, 3]) == [14]
    with pytest.raises(InstanceErrors) as caught:
        f.batch([0, 50], table=table)
    assert type(caught.value.errors[1]) is IndexError


def test_a_shared_object_of_a_recursive_class():
    @model
    def f(x, *, t: Tree):
        total = x
        while t.left is not None:
            total = total + t.word
            t = t.left
        return total

    chain = Tree(5, Tree(6, Tree(7)))
    assert f.batch([0, 1], t=chain) == [11, 12]
    chain.word = 10
    assert f.batch([0, 1], t=chain) == [16, 17]
