"""Structures of other libraries as objects of the user: `fold`.

In: a root, and how its children are found: a tree of `ast`, of a parser, a graph. Out: what a function makes of each
node and of what was made of its children, from the leaves up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

Node = TypeVar("Node")
Made = TypeVar("Made")


def fold(
    root: Node,
    children: Callable[[Node], Iterable[Node]],
    make: Callable[[Node, list[Made]], Made],
    key: Callable[[Node], Hashable] = id,
) -> Made:
    """Return what `make` gives for a root; it is called from the leaves up, on each node after its children.

    Parameters
    ----------
    root
        Of a tree, or of a graph without cycles.
    children : function
        From a node to those below it, in order.
    make : function
        From a node, and the list of what was made of its children, to what stands for it. It is called once for each
        node: what is reached twice is one object.
    key : function
        What tells nodes apart: by default which object they are. Nodes that are equal values, such as the names of
        `networkx`, need ``key=lambda n: n``.

    Raises
    ------
    ValueError
        If a node is below itself.

    Examples
    --------
    >>> import ast
    >>> from acronumba import fold
    >>> tree = ast.parse("a + b * c", mode="eval").body
    >>> fold(tree, ast.iter_child_nodes, lambda n, kids: 1 + sum(kids))
    8
    """
    made: dict[Hashable, Made] = {}
    alive: list[Any] = []  # nodes that were made on the way keep their ids as long as this
    open_: set[Hashable] = set()  # those whose children are being made
    stack: list[tuple[Node, Hashable, list[tuple[Node, Hashable]] | None]] = [(root, key(root), None)]
    while stack:
        node, name, below = stack.pop()
        if below is not None:
            open_.discard(name)
            made[name] = make(node, [made[k] for _, k in below])
        elif name in open_:
            raise ValueError(f"a cycle: {node!r} is below itself")
        elif name not in made:
            alive.append(node)
            below = [(child, key(child)) for child in children(node)]
            open_.add(name)
            stack.append((node, name, below))
            stack += [(child, k, None) for child, k in reversed(below)]
    return made[key(root)]
