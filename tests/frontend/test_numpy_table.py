"""What `docs/language.md` says of NumPy is true: its functions are listed, and those of the tables work."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import numpy_table
from tests.support.chosen import one_in
from tests.support.numpy_table import REASONS, Found, rows, supported, try_rows

API = rows(numpy_table.ARRAY_API)
USUAL = rows(numpy_table.USUAL, each=True)
SMALL = ("float32", "uint8")


def test_the_page_lists_what_there_is(root: Path, request: pytest.FixtureRequest) -> None:
    path = root / "docs" / "language.md"
    page = path.read_text(encoding="utf-8")
    new = re.sub(r"<!-- functions -->\n+(\|.*\n)*", lambda m: f"<!-- functions -->\n\n{supported()}", page)
    if request.config.getoption("--update-golden"):
        path.write_text(new, encoding="utf-8")
    else:
        assert new == page, "run with --update-golden, and read docs/language.md"


def bad(found: list[Found], rejected: set[str]) -> list[str]:
    return [f"{f.text}: {f.verdict}" for f in found if f.verdict != "works" and f.row.name not in rejected]


@pytest.mark.parametrize("part", one_in(4, range(4)))
def test_the_array_api(part: int, tmp_path: Path) -> None:
    """At most one dtype of each kind here; `python tests/numpy_table.py` tries all, and other ways."""
    given = API[part::4]
    matrices = [row for row in given if row.group == "linalg"]
    found = try_rows([row for row in given if row.group != "linalg"], "interpreter", tmp_path, SMALL)
    assert not bad(found + try_rows(matrices, "interpreter", tmp_path, SMALL[:1]), set(REASONS))


def test_the_reasons_are_of_what_is_rejected(tmp_path: Path) -> None:
    found = try_rows([row for row in API if row.name in REASONS], "interpreter", tmp_path, SMALL[:1])
    assert {f.row.name for f in found if f.verdict.startswith("rejected ACR202")} == set(REASONS)
    assert len(API) - len(REASONS) >= 150


REJECTED = {  # of what models usually say: why
    "np.nextafter(x, y)", "np.frexp(v)[0]",  # not written
    "np.squeeze(v[None])",  # whether there is an axis depends on an extent
    "np.linalg.lstsq(q, p)[0]",  # the shape of what is left depends on a rank
}  # fmt: skip


def by_version() -> set[str]:
    """Return the calls that the installed NumPy rejects and newer ones, as models, do not."""
    try:
        np.linalg.norm(np.zeros(0), np.inf)
    except ValueError:
        return {"np.linalg.norm(v, np.inf)"}
    return set()


@pytest.mark.parametrize(
    "part", [pytest.param(k, marks=[pytest.mark.slow] if k % 3 else [pytest.mark.long] if k else []) for k in range(9)]
)
def test_what_models_usually_say(part: int, tmp_path: Path) -> None:
    assert not bad(try_rows(USUAL[part::9], "interpreter", tmp_path, SMALL), REJECTED | by_version())


@pytest.mark.slow
@pytest.mark.parametrize("through", ["compiled", "simulator"])
def test_other_ways(through: str, tmp_path: Path) -> None:
    assert not bad(try_rows(USUAL[::5], through, tmp_path, SMALL), REJECTED)


def test_functions_of_math(tmp_path: Path) -> None:
    left = {"frexp", "fsum", "gamma", "lgamma", "nextafter", "ulp"}
    found = try_rows(rows(numpy_table.MATH), "interpreter", tmp_path, SMALL[:1])
    assert {f.row.name for f in found if f.verdict != "works"} <= left, bad(found, left)


def test_functions_of_scipy(tmp_path: Path) -> None:
    pytest.importorskip("scipy.special")
    assert "scipy" in sys.modules
    left = {"log_ndtr", "gamma", "gammaln", "digamma", "erfinv"}
    assert not bad(try_rows(rows(numpy_table.SPECIAL), "interpreter", tmp_path, SMALL[:1]), left)
