"""What is None in all instances of a mini-batch fails where it is used, as it does beside instances that have it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from acronumba import model
from tests.support.plain_call import agree, outcomes, plain


@dataclass
class Options:
    n: int
    biased: bool = False
    bias: np.ndarray | None = None
    nested: Options | None = None


def attribute(o: Options):
    return o.nested.n if o.biased else o.n


def method(o: Options):
    return o.bias.sum() if o.biased else o.n


def operator(o: Options):
    return o.n + o.bias if o.biased else o.n * 1.0


def item(o: Options):
    if o.biased:
        return o.bias[0]
    return 0.0


@pytest.mark.parametrize("f", [attribute, method, operator, item], ids=lambda f: f.__name__)
def test_an_optional_field_that_nobody_has(f):
    options = [Options(1), Options(2, biased=True), Options(3)]
    agree(outcomes(model(f).batch, options), plain(f, options))


@dataclass
class Node:
    x: float = 0.0
    leaf: bool = True
    flag: bool = False
    left: Node | None = None


def encode(t: Node):
    if t.leaf:
        h = t.x
    else:
        if not t.left.flag:
            below, _ = encode(t.left)
        h = below + 1
    return h, 0.0


def test_a_name_that_only_a_recursion_gives_a_value():
    deep = Node(1.0, False, False, Node(2.0, False, False, Node(3.0)))
    nodes = [deep, Node(5.0), Node(1.0, False, False, Node(2.0, True, True))]
    agree(outcomes(model(encode).batch, nodes), plain(encode, nodes))
