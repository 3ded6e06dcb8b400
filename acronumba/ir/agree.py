"""Agreement of words, dtypes and extents, as the rules of the verifier demand it.

In: types. Out: whether one is compatible with another; `Wrong`, with a text, if not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acronumba.ir.types import (
    NEVER,
    BoolT,
    DictT,
    FloatT,
    IntT,
    ListT,
    RefT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    Word,
    type_text,
    union_cases,
    union_word,
    words,
)

if TYPE_CHECKING:
    pass


class Wrong(Exception):
    """An error in a program, found by a rule."""


def demand(condition: object, text: str) -> None:
    if not condition:
        raise Wrong(text)


def fits(source: Word, target: Word) -> bool:
    """Whether a value of word `source` may be one of word `target`: an object of a class of both, known extents.

    A list that stays empty may be a list of anything.

    A variable keeps the type it was made with where a test has narrowed it, so that classes need only overlap.
    """
    match source, target:
        case RefT(), RefT():
            return source == target or not set(source.classes).isdisjoint(target.classes)
        case TensorT(), TensorT():
            return (
                source.dtype == target.dtype
                and source.rank == target.rank
                and all(n is None or m == n for m, n in zip(source.shape, target.shape, strict=True))
            )
        case ListT(), ListT():
            return stays_empty(source.item) or same_layout(source.item, target.item)
        case _:
            return source == target


def stays_empty(item: Type) -> bool:
    """Whether a list or dict with items of a type is always empty."""
    return item == NEVER or (isinstance(item, TupleT) and any(map(stays_empty, item.items)))


def refined(source: Word, target: Word) -> Word:
    """Return the type of a copied tensor where a check has proved run-time extents to be the target's constants."""
    match source, target:
        case TensorT(), TensorT() if source.dtype == target.dtype and source.rank == target.rank:
            pairs = zip(source.shape, target.shape, strict=True)
            return TensorT(source.dtype, tuple(n if m is None else m for m, n in pairs))
    return source


def same_layout(source: Type, target: Type) -> bool:
    """Whether words of a value of type `source` mean the same value when read as type `target`."""
    if source == target:
        return True
    match source, target:
        case TupleT() | DictT(), TupleT() | DictT():
            return len(source.items) == len(target.items) and all(map(same_layout, source.items, target.items))
        case UnionT(), UnionT() if union_word(source) is None and union_word(target) is None:
            a, b = union_cases(source), union_cases(target)
            return len(a) == len(b) and all(map(same_layout, a, b))
    if _tagged(source) or _tagged(target):
        return False
    a_words, b_words = words(source), words(target)
    return len(a_words) == len(b_words) and all(map(fits, a_words, b_words))


def _tagged(t: Type) -> bool:
    return isinstance(t, UnionT) and union_word(t) is None


def dtype_of(word: Word) -> str:
    """Return the dtype of a word as an operand: host numbers are tensors of rank 0."""
    match word:
        case TensorT():
            return word.dtype
        case IntT():
            return "int64"
        case FloatT():
            return "float64"
        case BoolT():
            return "bool"
        case ListT(item=TensorT() | IntT() | FloatT() | BoolT() as item):
            return dtype_of(item)
        case _:
            raise Wrong(f"{type_text(word)} is not a tensor or number")


def shape_of(word: Word) -> tuple[int | None, ...]:
    """Return the extents of a word as an operand; a list counts as its elements stacked."""
    if isinstance(word, ListT):
        return (None, *(word.item.shape if isinstance(word.item, TensorT) else ()))
    return word.shape if isinstance(word, TensorT) else ()


def type_texts(types: Sequence[Word]) -> str:
    return f"({', '.join(map(type_text, types))})"
