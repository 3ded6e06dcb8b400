"""Conversion of other libraries' trees and graphs to objects of the user: `fold`.

In: a root, such as a node of `ast`, of a parser or of a graph, and a function that lists a node's children. Out: the
result of a function of each node and its children's results, computed bottom-up.
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
    """Convert a tree or graph bottom-up: call `make` on each node after its children, and return the root's result.

    Parameters
    ----------
    root
        Root of a tree, or of a graph without cycles.
    children : function
        Maps a node to its children, in order.
    make : function
        Maps a node and the list of its children's results to the node's result. It is called once for each node, so a
        node that is reached twice becomes one object.
    key : function
        Identity of a node: by default `id`. Nodes that are compared by value, such as the names of `networkx`, need
        ``key=lambda n: n``.

    Raises
    ------
    ValueError
        If the graph has a cycle.

    Examples
    --------
    >>> import ast
    >>> from acronumba import fold
    >>> tree = ast.parse("a + b * c", mode="eval").body
    >>> fold(tree, ast.iter_child_nodes, lambda n, kids: 1 + sum(kids))
    10
    """
    made: dict[Hashable, Made] = {}
    alive: list[Any] = []  # keeps nodes that `children` creates alive, so that ids stay unique
    open_: set[Hashable] = set()  # keys of nodes whose children are being converted
    stack: list[tuple[Node, Hashable, list[tuple[Node, Hashable]] | None]] = [(root, key(root), None)]
    while stack:
        node, name, below = stack.pop()
        if below is not None:
            open_.discard(name)
            made[name] = make(node, [made[k] for _, k in below])
        elif name in open_:
            raise ValueError(f"a cycle: {node!r} is its own descendant")
        elif name not in made:
            alive.append(node)
            below = [(child, key(child)) for child in children(node)]
            open_.add(name)
            stack.append((node, name, below))
            stack += [(child, k, None) for child, k in reversed(below)]
    return made[key(root)]
