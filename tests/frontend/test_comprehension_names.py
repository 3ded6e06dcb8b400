"""Names that several `for`s of a comprehension bind: their values are Python's, whichever `for` reads them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from acronumba import model
from acronumba.frontend import loops
from tests.support.modules import import_file
from tests.support.plain_call import interpreted

XS, YS = [[1, 2, 2], [2, 0, 1], [1], []], [[1, 4, 2, 2], [1, 1, 2], [3], [2]]
MANY = 30  # of a test


def comprehension(rng: random.Random) -> str:
    """Return a comprehension of two or three `for`s, which bind one or two names."""
    bound = [rng.choice("xy") for _ in range(rng.choice((2, 3)))]
    loops = ""
    for k, name in enumerate(bound):
        late = bound if rng.random() < 0.3 else []  # what only a later turn can read
        over = ["xs", "ys"]
        if k:
            known = rng.choice([*bound[:k], *late])
            over += [f"range({known})", f"[{known}, 3]", f"[1 if {bound[0]} == xs[0] else {known} + 1]"]
        loops += f" for {name} in {rng.choice(over)}"
        if rng.random() < 0.5:
            test = f"{rng.choice([*bound[: k + 1], *late])} {rng.choice(('<', '!=', '>'))} {rng.randrange(4)}"
            loops += f" if {rng.choice((test, f'{bound[0]} == xs[0] or {test}'))}"
    first, last = rng.choice(bound), bound[-1]
    element = f"{first} * 10 + {last}"
    forms = (
        f"[{element}{loops}]",
        f"sum({element}{loops})",
        f"{{{element}{loops}}}",
        f"{{{last}: {element}{loops}}}",
        f"[[{element} for {first} in ys if {last} > 1]{loops}]",
        f"[(lambda: {element})(){loops}]",
    )
    return rng.choice(forms)


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 20))])
def test_names_are_those_of_python(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    texts = [comprehension(rng) for _ in range(MANY)]
    path = tmp_path / f"comprehensions_{seed}.py"
    functions = [f"def f{k}(xs, ys):\n    return {text}\n" for k, text in enumerate(texts)]
    path.write_text("\n\n".join(functions), encoding="utf-8")
    module = import_file(path)
    for k, text in enumerate(texts):
        try:
            interpreted(getattr(module, f"f{k}"), XS, YS)
        except AssertionError as error:
            raise AssertionError(text) from error


def nested_eight_times(x):
    return [[[[[[[[v + 1 for v in a] for a in b] for b in c] for c in d] for d in e] for e in f] for f in g] for g in x]


def test_the_body_of_a_comprehension_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice in each of eight loops would be 256 times."""
    entered: list[int] = []
    enter = loops._enter_loop
    monkeypatch.setattr(loops, "_enter_loop", lambda *args: entered.append(1) or enter(*args))
    value = 1
    for _ in range(8):
        value = [value]
    interpreted(nested_eight_times, [value, [[[[[[[]]]]]]], value])
    sweeps = 4
    assert len(entered) <= 8 * sweeps, len(entered)
    assert model(nested_eight_times)(value) == nested_eight_times(value)
