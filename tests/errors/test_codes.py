"""The codes of rejections: every page's wrong program is rejected with its code, every right one works."""

from __future__ import annotations

from importlib import resources

import pytest

from acronumba import AcronumbaError
from acronumba.api.check import compare
from acronumba.api.results import equal
from acronumba.errors import DataError, InstanceErrors, ShapeMismatch, TypeMismatch, Unsupported
from acronumba.errors.codes import CODES, page_text, read_page

FOLDER = resources.files("acronumba.errors") / "pages"
PAGES = {code: read_page(code) for code in CODES}
PROGRAMS = {code: tuple(programs.values()) for code, (_, programs) in PAGES.items() if programs}
PREAMBLE = """\
from dataclasses import dataclass
import numpy as np
from acronumba import model, nn

"""


@pytest.fixture
def program(module_of):
    """From the text of a program to its module, imported from a file."""
    return lambda text: module_of(PREAMBLE + text)


def arguments(module):
    return [module.xs, *getattr(module, "columns", [])], getattr(module, "shared", {})


def test_every_code_has_a_page_and_every_page_a_code():
    assert {f"{code}.md" for code in CODES} == {file.name for file in FOLDER.iterdir()}


@pytest.mark.parametrize("code", CODES)
def test_a_page_is_a_heading_an_explanation_and_both_programs_or_none(code):
    markdown = (FOLDER / f"{code}.md").read_text(encoding="utf-8")
    text, programs = PAGES[code]
    assert markdown.startswith(f"# {code}: {CODES[code].title}\n\n{text}\n")
    assert tuple(programs) in ((), ("Rejected" if code < "ACR7" else "Wrong", "Right"))
    assert text and markdown.count("```") == 2 * len(programs)  # nothing is left unread
    assert all(len(line) <= 120 and line == line.rstrip() for line in markdown.splitlines())


def test_groups_of_codes_have_their_exceptions():
    for code in CODES.values():
        if code.code[3] in "126":
            assert code.error is Unsupported, code
        if code.code[3] in "35":
            assert code.error is TypeMismatch, code
        if code.code[3] == "4":
            assert code.error is ShapeMismatch, code
    assert CODES["ACR701"].error is DataError


def test_pages_for_what_is_rejected_when_compiling_have_programs():
    without = {code for code in PAGES if code < "ACR7" and code not in PROGRAMS}
    assert without == {"ACR108"}  # every statement that Python has is named by another code


@pytest.mark.parametrize("code", CODES)
def test_pages_print(code):
    text = page_text(code)
    assert text.startswith(f"{code}: {CODES[code].title}\n") and CODES[code].rewrite
    assert all(len(line) <= 120 for line in text.splitlines())


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_wrong_program_is_rejected_with_its_code(code, program):
    wrong, _ = PROGRAMS[code]
    module = program(wrong)
    columns, shared = arguments(module)
    with pytest.raises(AcronumbaError) as caught:
        module.f.batch(*columns, **shared)
    error = caught.value
    if isinstance(error, InstanceErrors):
        error = error.errors[0]
    assert error.code == code, error
    assert isinstance(error, CODES[code].error)
    if code < "ACR7" and code not in ("ACR204",):
        assert error.file == module.__file__ and error.line and "^" in str(error), error


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_right_program_gives_what_the_plain_call_gives(code, program):
    _, right = PROGRAMS[code]
    module = program(right)
    columns, shared = arguments(module)
    results = module.f.batch(*columns, **shared)
    results, f = getattr(results, "losses", results), getattr(module.f, "model", module.f)
    plain = [f(*instance, **shared) for instance in zip(*columns, strict=True)]
    assert len(results) == len(plain)
    for mine, theirs in zip(results, plain, strict=True):
        assert equal(mine, theirs) or compare(mine, theirs, theirs)[0] == "close", (mine, theirs)
