"""About a hundred models in many styles: batches give what the plain calls give, failures included."""

from __future__ import annotations

import pytest

from acronumba.errors import InstanceErrors
from tests.support.all_models import CASES
from tests.support.chosen import one_in
from tests.support.plain_call import agree

COMPILED = (
    "lstm_with_state_tuple", "attention_decoder", "viterbi", "bidirectional_with_zip", "descent_parser", "evaluate",
    "methods_of_a_tree", "message_passing", "shift_reduce", "failing", "callable_layers", "program_of_functions",
)  # fmt: skip


def test_names_are_distinct():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 90


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_interpreted(case):
    agree(case.outcomes(case.model._interpret), case.plain(), close=True)


@pytest.mark.parametrize("case", one_in(4, [c for c in CASES if c.name in COMPILED]), ids=lambda case: case.name)
def test_compiled(case):
    agree(case.outcomes(case.model.batch), case.plain(), close=True)


def test_an_int_that_does_not_fit_64_bits_fails_its_instance():
    case = next(c for c in CASES if c.name == "growing")
    with pytest.raises(InstanceErrors) as caught:
        case.model._interpret([2**40, 3, 2**62])
    assert list(caught.value.errors) == [2] and type(caught.value.errors[2]) is OverflowError
    assert caught.value.results[:2] == [2**41, 6]
