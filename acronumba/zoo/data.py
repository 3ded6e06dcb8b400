"""Data and weights for the models: functions of Python's library, sentences of the Sentiment Treebank, normals.

In: a number of instances and a seed, or a file. Out: `Syntax`, nested tuples of words, which each model turns into
its own classes, and float32 arrays. Nothing is downloaded: the functions of the standard library are on every
machine that has Python.
"""

from __future__ import annotations

import ast
import random
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Syntax: TypeAlias = "str | tuple[Syntax, ...]"  # a word, or the parts of a phrase
Array: TypeAlias = Any  # np.ndarray

WORDS = (4, 64)  # functions with fewer or more words are left out


def hidden_size(size: str | int, sizes: Mapping[str, int]) -> int:
    """Return the hidden size that `size` names, or `size` itself if it is a number."""
    if isinstance(size, int):
        return size
    if size not in sizes:
        raise ValueError(f"size is {size!r}; it can be {', '.join(map(repr, sizes))} or a number")
    return sizes[size]


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Return float32 normals, divided by the square root of the last extent (the number of terms of one output)."""
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def vectors(rng: np.random.Generator, *shape: int) -> Array:
    """Return float32 normals of variance 1: rows that are looked up, so that nothing is summed over."""
    return rng.standard_normal(shape).astype(np.float32)


def word_id(word: str, vocabulary: int) -> int:
    """Return a number below `vocabulary` for a word, the same in every process (hashing, Weinberger et al. 2009)."""
    return zlib.crc32(word.encode()) % vocabulary


def words(syntax: Syntax) -> Iterator[str]:
    """Yield the words from left to right."""
    stack = [syntax]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        else:
            stack.extend(reversed(top))


def python_functions(n: int, seed: int) -> list[ast.FunctionDef]:
    """Return `n` functions and methods of Python's standard library, parsed.

    Parameters
    ----------
    n : int
    seed : int
        Which ones; equal seeds give equal functions under one version of Python.

    Returns
    -------
    list of ast.FunctionDef
        Each with 4 to 64 words (names and constants). They repeat only if the library has fewer than `n`.
    """
    modules = _library()
    random.Random(seed).shuffle(modules)
    found: list[ast.FunctionDef] = []
    for path in modules:
        if len(found) >= n:
            break
        found += _functions(path)
    if n and not found:
        raise FileNotFoundError(_NO_LIBRARY)
    return [found[k % len(found)] for k in range(n)]


def python_modules(n: int) -> dict[str, list[ast.FunctionDef]]:
    """Return the `n` modules of Python's standard library that have most functions, with them.

    The functions are those that `python_functions` may return. Equal under one version of Python.
    """
    found = {path.stem: _functions(path) for path in _library()}
    if len(found) < n:
        raise FileNotFoundError(_NO_LIBRARY)
    return dict(sorted(found.items(), key=lambda item: -len(item[1]))[:n])


def python_docstrings(kind: type[ast.Module | ast.FunctionDef]) -> list[str]:
    """Return the docstrings of all modules, or of all functions and methods, of Python's standard library."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in _library())
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, kind))
    return [text for node in nodes if (text := ast.get_docstring(node))]


_NO_LIBRARY = "this Python has no library in source form to take functions from"


def _library() -> list[Path]:
    """Return the files of the standard library, in the order of their names."""
    return sorted(Path(ast.__file__).parent.glob("*.py"))


def _functions(path: Path) -> list[ast.FunctionDef]:
    """Return the functions and methods of a file that have enough words and not too many."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [f for f in functions if WORDS[0] <= sum(1 for _ in words(function_syntax(f))) <= WORDS[1]]


def function_syntax(node: ast.AST) -> Syntax:
    """Return a syntax node as names and constants in phrases; a node without these is the name of its kind."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    parts: list[Syntax] = []
    for _, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                parts.append(item)
            elif isinstance(item, ast.AST) and not _says_nothing(item):
                parts.append(function_syntax(item))
    return tuple(parts) if len(parts) > 1 else parts[0] if parts else type(node).__name__


def _says_nothing(node: ast.AST) -> bool:
    """Whether the node is a context (load or store) or an empty list of parameters."""
    if isinstance(node, ast.arguments):
        return not any(ast.iter_child_nodes(node))
    return isinstance(node, ast.expr_context)


def read_sst_syntax(path: str | PathLike[str]) -> list[Syntax]:
    """Read a file of the Stanford Sentiment Treebank: one tree a line, as in ``(3 (2 It) (4 works))``.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    list of Syntax
        Without the sentiment labels.

    Raises
    ------
    ValueError
        Where a line is not a tree; the message has the file and the line.
    """
    with open(path, encoding="utf-8") as lines:
        return [_read_tree(line, f"{path}:{k}") for k, line in enumerate(lines, 1) if line.strip()]


def _read_tree(line: str, where: str) -> Syntax:
    stack: list[list[Syntax]] = [[]]
    for token in line.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append([])
        elif token == ")":
            parts = stack.pop()
            if not stack or len(parts) < 2 or not (isinstance(parts[0], str) and parts[0].isdigit()):
                raise ValueError(f"{where}: not a tree: a bracket must hold a label and a word or phrases")
            stack[-1].append(tuple(parts[1:]) if len(parts) > 2 else parts[1])
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"{where}: not a tree: the brackets do not match")
    return stack[0][0]


def binarised(syntax: Syntax) -> Syntax:
    """Return the syntax with two parts in every phrase: ``(a, b, c)`` becomes ``(a, (b, c))``."""
    if isinstance(syntax, str):
        return syntax
    parts = [binarised(part) for part in syntax]
    tree = parts[-1]
    for part in reversed(parts[:-1]):
        tree = (part, tree)
    return tree
