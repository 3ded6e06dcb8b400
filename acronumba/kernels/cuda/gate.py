"""Divides statements at a gate: those in front of it read only what no batch computes.

In: statements in a row, and the loads that are known to read what the host has written. Out: the statements that may
stand in front of the gate, and the others, both in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from acronumba.emit import tree
from acronumba.emit.tree import Expr, Load, Local


def divide(
    body: Sequence[tree.Stmt], table: str, first: int, words: set[Load]
) -> tuple[list[tree.Stmt], list[tree.Stmt]]:
    """Return the statements in front of the gate and behind it.

    Parameters
    ----------
    body
        The statements.
    table
        The name of the local with the address of the table P.
    first
        The first of its words that is the address of a shared value, which no batch computes; all others are, too.
    words
        The loads of words of nodes.
    """
    shared: set[str] = set()  # locals with addresses of shared values
    late: set[str] = set()  # what statements behind the gate assign or use: no statement moves over them
    front: list[tree.Stmt] = []
    behind: list[tree.Stmt] = []
    for one in body:
        match one:
            case tree.Comment():
                front.append(one)
                continue
            case tree.Assign(target, value) if target.name not in late:
                found = [*_all(value)]
                names = {e.name for e in found if isinstance(e, Local)}
                number = _number(value, table)
                loads = [e for e in found if isinstance(e, Load)]
                known = (e in words or _number(e, table) is not None or shared & _names(e.address) for e in loads)
                if not names & late and all(known) and not any(isinstance(e, tree.Call) for e in found):
                    front.append(one)
                    if number is not None and number >= first:
                        shared.add(target.name)
                    continue
                late |= {target.name, *names}
            case tree.Assign(target, value):
                late |= {target.name, *_names(value)}
            case _:
                return front, [*behind, *body[len(front) + len(behind) :]]
        behind.append(one)
    return front, behind


def _number(e: Expr, table: str) -> int | None:
    """Return which word of a table is loaded; None if it is something else."""
    match e:
        case Load(Local(name)) if name == table:
            return 0
        case Load(tree.Binary("+", Local(name), tree.Const(offset))) if name == table:
            return int(offset) // 8
    return None


def _names(e: Expr) -> set[str]:
    return {x.name for x in _all(e) if isinstance(x, Local)}


def _all(e: Expr) -> Iterator[Expr]:
    """Yield an expression and all that it consists of."""
    yield e
    parts: tuple[Expr, ...] = ()
    match e:
        case tree.Binary() | tree.Compare():
            parts = e.left, e.right
        case tree.Unary() | tree.Convert():
            parts = (e.arg,)
        case tree.Select():
            parts = e.cond, e.yes, e.no
        case Load():
            parts = (e.address, *([e.lanes_left] if e.lanes_left is not None else []))
        case tree.Call():
            parts = e.args
    for part in parts:
        yield from _all(part)
