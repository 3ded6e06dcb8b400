"""Sets of lengths of sentences, as data for ragged models.

In: a folder, or nothing. Out: lengths by the name of their set. Docstrings of Python's library are on every machine;
their lengths differ as those of texts and of sentences do.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable
from functools import cache
from os import PathLike
from pathlib import Path

from acronumba.zoo.data import python_docstrings

DOCSTRINGS = {"modules": ast.Module, "functions": ast.FunctionDef}  # set -> whose
LONGEST = 512  # words; longer docstrings are cut


def of_docstrings(name: str, seed: int = 0) -> list[int]:
    """Return the numbers of words of docstrings, in random order.

    Parameters
    ----------
    name : str
        A key of `DOCSTRINGS`.
    seed : int
        Seed of the order; equal seeds give equal lengths under one version of Python.
    """
    out = [*_in_order(name)]
    random.Random(seed).shuffle(out)
    return out


@cache  # to read the library takes seconds
def _in_order(name: str) -> tuple[int, ...]:
    return tuple(min(len(text.split()), LONGEST) for text in python_docstrings(DOCSTRINGS[name]))


def read(path: str | PathLike[str]) -> list[int]:
    """Return the lengths in a file: whole numbers with white space between them.

    Raises
    ------
    ValueError
        If the file is empty, or has other words.
    """
    words = Path(path).read_text(encoding="utf-8").split()
    out = [int(word) for word in words if word.isdecimal()]
    if not words or len(out) < len(words):
        raise ValueError(f"{path} has something else than lengths of sentences")
    return out


def sets(folder: str | None) -> dict[str, Path | None]:
    """Return the names of the sets of lengths, with their files: those of a folder, else the sets of docstrings."""
    if folder is None:
        return dict.fromkeys(DOCSTRINGS)
    return {path.stem: path for path in sorted(Path(folder).glob("*.txt"))}


def load(folder: str | None, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the lengths of some sets."""
    files = sets(folder)
    return {name: of_docstrings(name) if (path := files[name]) is None else read(path) for name in names}
