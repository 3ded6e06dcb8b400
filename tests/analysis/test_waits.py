"""Values that Python needs: models whose conditions, numbers, indices and orders depend on what was computed."""

# ruff: noqa: C416 -- the models say things in the ways that are to be compiled

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from acronumba import model
from acronumba.analysis.waits import waiting_functions, waits_text
from acronumba.api.dispatch import bind, specialise
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError, InstanceErrors
from acronumba.ir.nodes import Emit, Read
from tests.support.chosen import one_in, quarter, squares
from tests.support.model_cases import Case
from tests.support.models_that_wait import CASES, H, U, W, rounded, shrink, to_int, unsigned, vectors
from tests.support.plain_call import agree

BEYOND = [  # Python's ints have no end, those of a batch have 64 bits
    (to_int, [np.float32(1e30), np.float32(5)]),
    (rounded, [np.float64(-1e300), np.float64(5)]),
    (unsigned, [np.uint64(2**63), np.uint64(5)]),
]


@pytest.mark.parametrize(("fn", "column"), BEYOND, ids=lambda v: getattr(v, "__name__", ""))
def test_an_int_beyond_64_bits_fails_its_instance(fn, column):
    with pytest.raises(InstanceErrors) as caught:
        model(fn)._interpret(column)
    assert [type(e) for e in caught.value.errors.values()] == [OverflowError]
    assert equal(caught.value.results[1], fn(column[1]))


def test_there_are_models_of_each_kind():
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lowered(case):
    got = case.outcomes(lambda *a, **k: case.model._interpret(*a, planned=False, **k))
    agree(got, case.plain(), close=True, single=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planned(case):
    agree(case.outcomes(case.model._interpret), case.plain(), close=True, single=True)


OTHERWISE: list[dict[str, Any]] = [
    {"hoist": False}, {"blocks": False}, {"reuse": False}, {"duplicate": False},
    {"hoist": False, "blocks": False, "reuse": False}, {"schedule": "depth"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "options"), one_in(2, squares(CASES, OTHERWISE)), ids=lambda x: x.name if isinstance(x, Case) else str(x)
)
def test_planned_otherwise(case, options):
    agree(case.outcomes(case.model.with_options(**options)._interpret), case.plain(), close=True, single=True)


@pytest.mark.parametrize("case", one_in(4, quarter(CASES)), ids=lambda case: case.name)
def test_compiled(case):
    agree(case.outcomes(case.model.batch), case.plain(), close=True, single=True)


def planned(case_: Case, **options: Any) -> Any:
    m = case_.model.with_options(**options) if options else case_.model
    compiled, _, _ = specialise(m, bind(m, case_.columns, case_.shared), packed=False)
    return compiled.plan


def named(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


def shape_of(name: str) -> str:
    """Return the order of records and reads in the entry of a planned model, e for a record and r for a read."""
    function = planned(named(name)).program.functions[0]
    kinds = {Emit: "e", Read: "r"}
    return "".join(kinds.get(type(i), "") for b in function.blocks for i in b.instrs)


def test_what_is_read_together_is_recorded_before_any_of_it_is_read():
    assert shape_of("several_reads_at_once") == "errre"  # the last one makes the result


def test_a_product_of_a_step_that_waits_is_computed_with_the_step():
    @model
    def steps(xs, *, w, u):
        h = np.zeros(H, np.float32)
        for x in xs:
            h = np.tanh(w @ h + u @ x)
            if h[0] > 0.9:
                break
        return h

    @model
    def others(xs, *, w, u):
        h = np.zeros(H, np.float32)
        for x in xs:
            h = np.tanh(w @ h + u @ x)
        return h

    columns = ([vectors(4), vectors(2)],)
    shared = {"w": W, "u": U}
    counts = [
        sum(
            "matmul" in {op.op for op in spec.body}
            for spec in planned(Case(name="", model=m, columns=columns, shared=shared)).kernels
        )
        for m in (steps, others)
    ]
    assert counts == [1, 2]


def test_arithmetic_with_python_numbers_does_not_wait():
    @model
    def f(x):
        s = np.sum(x)
        return (s + 1) * 2 > 3, np.where(s > 0, x, -x), x[np.argmax(x)]

    m = Case(name="f", model=f, columns=([np.ones(3)],), shared={})
    assert not waiting_functions(planned(m).program)
    assert planned(m).texts["waits"] == "nothing waits\n"


def test_what_nobody_uses_is_not_read():
    assert not waiting_functions(planned(named("unused")).program)


def test_the_value_of_shared_tensors_alone_is_computed_once():
    plan = planned(named("decides_by_shared_values"))
    assert len(plan.program.once) >= 2


def test_functions_that_wait_are_known_through_calls():
    plan = planned(named("recursion_that_stops_by_prediction"))
    names = {plan.program.functions[k].name for k in waiting_functions(plan.program)}
    assert names == {"recursion_that_stops_by_prediction", "shrink"}
    line = shrink.__code__.co_firstlineno + 1
    text = waits_text(plan.program)
    assert f"line {line}: bool for a condition" in text
    assert "calls shrink" in text


def test_a_wait_is_said_on_its_line():
    case_ = named("to_int")
    (note,) = [n for n in planned(case_).notes if n.kind == "wait"]
    assert note.text.startswith("waits for the value of a float32") and "int()" in note.text
    assert note.loc.line == to_int.__code__.co_firstlineno + 2


REJECTED = []


def rejected(code: str, *column: Any, **shared: Any) -> Callable[[Any], Any]:
    def register(fn: Any) -> Any:
        REJECTED.append((code, fn, column, shared))
        return fn

    return register


@rejected("ACR601", [1.0], w=np.ones(3))
def condition_on_an_array(x, *, w):
    return x if w > 0 else -x


@rejected("ACR601", [1.0], w=np.ones((2, 2)))
def float_of_an_array(x, *, w):
    return float(w[0])


@rejected("ACR601", [1.0], w=np.ones(2, np.int64))
def index_by_an_array(x, *, w):
    return [1, 2, 3][w]


@rejected("ACR601", [np.ones(3)])
def float_of_a_vector(x):
    return float(x)


@rejected("ACR301", [1.0], w=np.float32(1))
def index_by_a_float(x, *, w):
    return [1, 2, 3][w]


@rejected("ACR301", [1.0], w=np.bool_(True))
def range_of_a_bool(x, *, w):
    return [k for k in range(w)]


@rejected("ACR202", [np.ones((2, 3))])
def tolist_of_a_matrix(x):
    return x.tolist()


@pytest.mark.parametrize("entry", REJECTED, ids=lambda entry: entry[1].__name__)
def test_rejected(entry):
    code, fn, columns, shared = entry
    with pytest.raises(AcronumbaError) as caught:
        model(fn)._interpret(*columns, **shared)
    assert not isinstance(caught.value, InstanceErrors) and caught.value.code == code
