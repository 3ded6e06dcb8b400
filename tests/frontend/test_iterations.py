"""How often the front end walks a program: again only if a fact has changed that was read; loops once if it can."""

from __future__ import annotations

from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model
from acronumba.errors import InternalError
from acronumba.frontend import loops, lower
from acronumba.zoo import beam_decoder, decoder, encoder
from tests.support.plain_call import interpreted

Walks = list[str]


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Walks:
    """Collect "program" for each walk of a program, "loop" for each of a loop's body."""
    made: Walks = []

    def noted(module: ModuleType, name: str, text: str) -> None:
        function = getattr(module, name)

        def call(*args: Any) -> Any:
            made.append(text)
            return function(*args)

        monkeypatch.setattr(module, name, call)

    noted(lower, "Walker", "program")
    noted(loops, "_enter_loop", "loop")
    return made


def test_a_list_of_arrays_takes_two_walks(walks: Walks) -> None:
    """The first one finds the type of its elements; the second one that such lists are mutated, which nothing reads."""
    encoder.encode.with_options()._interpret(encoder.instances(1), p=encoder.params())
    assert walks.count("program") == 2


def halved(x: np.ndarray, n: int) -> tuple[np.ndarray, list[np.ndarray]]:
    kept = []
    for _ in range(n):
        y = x * np.float32(0.5)
        x = x[:-1] if int(y[0]) else y + y
        kept.append(x)
    return x, kept


def test_a_loop_is_walked_once_if_its_last_walk_says_which_names_vary(walks: Walks) -> None:
    xs = [np.arange(5, dtype=np.float32)]
    interpreted(halved, xs, [3])
    last = len(walks) - 1 - walks[::-1].index("program")
    assert walks[last:] == ["program", "loop"]


@pytest.mark.parametrize("module", [decoder, beam_decoder])
def test_the_program_is_that_of_a_complete_walk(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    emulated = module.generate_emulated if module is decoder else module.decode_emulated
    emulated.with_options()._interpret(module.instances(1), p=module.params())


def test_another_program_of_a_complete_walk_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = count()
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    monkeypatch.setattr(lower, "_function_texts", lambda program: {next(texts)})
    with pytest.raises(InternalError, match="a complete walk gives another program"):
        model(halved)._interpret([np.arange(5, dtype=np.float32)], [3])


def test_a_global_that_only_an_earlier_walk_reaches_is_no_matter() -> None:
    """With heads of no elements, `generate` fails at its first product; before that is known, it reads `END`."""
    with pytest.raises(InstanceErrors) as failed:
        decoder.generate.batch(decoder.instances(1), p=decoder.params(4))
    assert "cannot reshape" in str(failed.value.exceptions[0])
