"""About a hundred models in many styles: batches give what the plain calls give, failures included."""

from __future__ import annotations

import pytest

from acronumba.check import compare
from acronumba.errors import InstanceErrors
from acronumba.results import equal
from tests.support import models_of_choices, models_of_python, models_of_sequences, models_of_trees
from tests.support.model_cases import CASES, Case

MODULES = (models_of_sequences, models_of_trees, models_of_python, models_of_choices)
COMPILED = (
    "lstm_with_state_tuple", "attention_decoder", "viterbi", "bidirectional_with_zip", "descent_parser", "evaluate",
    "methods_of_a_tree", "message_passing", "shift_reduce", "failing", "callable_layers", "program_of_functions",
)  # fmt: skip


def plain(case: Case) -> list[object]:
    """Return the results of the plain calls, or the exceptions that they raise."""
    out: list[object] = []
    for instance in zip(*case.columns, strict=True):
        try:
            out.append(case.model(*instance, **case.shared))
        except Exception as error:
            out.append(error)
    return out


def agree(got: list[object], expected: list[object], *, single: bool = False) -> None:
    assert len(got) == len(expected)
    for k, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        if isinstance(theirs, Exception):
            assert type(mine) is type(theirs) and str(mine) == str(theirs), (k, mine, theirs)
        else:
            assert equal(mine, theirs) or compare(mine, theirs, theirs, single=single)[0] == "close", (k, mine, theirs)


def outcome(run, case: Case) -> list[object]:
    try:
        return list(run(*case.columns, **case.shared))
    except InstanceErrors as error:
        return [error.errors.get(k, result) for k, result in enumerate(error.results)]


def test_names_are_distinct():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 90


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpreted(case):
    agree(outcome(case.model._interpret, case), plain(case))


@pytest.mark.parametrize("case", [c for c in CASES if c.name in COMPILED], ids=lambda case: case.name)
def test_compiled(case):
    agree(outcome(case.model.batch, case), plain(case))


def test_an_int_that_does_not_fit_64_bits_fails_its_instance():
    case = next(c for c in CASES if c.name == "growing")
    with pytest.raises(InstanceErrors) as caught:
        case.model._interpret([2**40, 3, 2**62])
    assert list(caught.value.errors) == [2] and type(caught.value.errors[2]) is OverflowError
    assert caught.value.results[:2] == [2**41, 6]
