"""Trees, graphs, parsers and interpreters."""

# ruff: noqa: B905, C416, RUF005 -- models in the styles that people write

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np

from acronumba import nn
from tests.support.model_cases import RNG, H, V, case, weights


@dataclass
class Weights:
    embed: np.ndarray
    w: np.ndarray
    u: np.ndarray
    b: np.ndarray
    by_kind: dict[str, np.ndarray]


W = Weights(weights(V, H), weights(H, H), weights(H, H), weights(H), {"add": weights(H, H), "mul": weights(H, H)})


class Token(IntEnum):
    NUM = 0
    PLUS = 1
    TIMES = 2
    OPEN = 3
    CLOSE = 4


def tokens(text: str) -> list[tuple[Token, int]]:
    kinds = {"+": Token.PLUS, "*": Token.TIMES, "(": Token.OPEN, ")": Token.CLOSE}
    return [(kinds.get(c, Token.NUM), int(c) if c.isdigit() else 0) for c in text]


FORMULAS = [tokens(t) for t in ("1", "1+2", "(1+2)*3", "2*(3+4*(1+1))", "1+2+3*4")]


@case(FORMULAS, p=W)
def descent_parser(stream, *, p):
    """Recursive descent with an index that is passed down and returned."""

    def factor(i):
        kind, value = stream[i]
        if kind == Token.OPEN:
            h, i = expression(i + 1)
            return h, i + 1
        return p.embed[value], i + 1

    def term(i):
        h, i = factor(i)
        while i < len(stream) and stream[i][0] == Token.TIMES:
            right, i = factor(i + 1)
            h = np.tanh(p.by_kind["mul"] @ (h * right))
        return h, i

    def expression(i):
        h, i = term(i)
        while i < len(stream) and stream[i][0] == Token.PLUS:
            right, i = term(i + 1)
            h = np.tanh(p.by_kind["add"] @ (h + right))
        return h, i

    h, end = expression(0)
    assert end == len(stream)
    return h


@case(FORMULAS)
def shunting_yard(stream):
    values, operators = [], []

    def reduce_once():
        op = operators.pop()
        b, a = values.pop(), values.pop()
        values.append(a + b if op == 1 else a * b)

    for kind, value in stream:
        match kind:
            case Token.NUM:
                values.append(value)
            case Token.OPEN:
                operators.append(3)
            case Token.CLOSE:
                while operators[-1] != 3:
                    reduce_once()
                operators.pop()
            case Token.PLUS | Token.TIMES:
                me = 1 if kind is Token.PLUS else 2
                while operators and operators[-1] != 3 and operators[-1] >= me:
                    reduce_once()
                operators.append(me)
    while operators:
        reduce_once()
    return values[0]


class Op(Enum):
    ADD = "add"
    MUL = "mul"
    NEG = "neg"


@dataclass
class Lit:
    value: float


@dataclass
class Name:
    index: int


@dataclass
class Unary:
    op: Op
    inner: Expr


@dataclass
class Binary:
    op: Op
    left: Expr
    right: Expr


Expr = Lit | Name | Unary | Binary

EXPRS: list[Expr] = [
    Lit(2.5),
    Binary(Op.ADD, Name(0), Lit(1.0)),
    Unary(Op.NEG, Binary(Op.MUL, Name(1), Binary(Op.ADD, Name(2), Lit(-0.5)))),
    Binary(Op.MUL, Unary(Op.NEG, Unary(Op.NEG, Name(3))), Lit(0.0)),
]


@case(EXPRS, p=W)
def evaluate(e: Expr, *, p):
    match e:
        case Lit(value):
            return value * p.b
        case Name(index=i):
            return p.embed[i]
        case Unary(Op.NEG, Unary(Op.NEG, inner)):
            return evaluate(inner, p=p)
        case Unary(op=Op.NEG, inner=x):
            return -evaluate(x, p=p)
        case Binary(Op.ADD, a, Lit(v)) | Binary(Op.ADD, Lit(v), a) if v > 0:
            return evaluate(a, p=p) + v
        case Binary(Op.ADD, a, b):
            return evaluate(a, p=p) + evaluate(b, p=p)
        case Binary(Op.MUL, _, Lit(value=0.0)):
            return np.zeros_like(p.b)
        case Binary(Op.MUL, a, b):
            return evaluate(a, p=p) * evaluate(b, p=p)
        case _:
            raise ValueError("no such expression")


@case(EXPRS)
def simplify(e: Expr):
    """Return a new tree."""
    if isinstance(e, Unary):
        inner = simplify(e.inner)
        if isinstance(inner, Lit):
            return Lit(-inner.value)
        return Unary(e.op, inner)
    if isinstance(e, Binary):
        left, right = simplify(e.left), simplify(e.right)
        if isinstance(right, Lit) and right.value == 0.0 and e.op is Op.MUL:
            return right
        return Binary(e.op, left, right)
    return e


@case(EXPRS)
def size_and_depth(e):
    def go(e, depth):
        if isinstance(e, Lit | Name):
            return 1, depth
        if isinstance(e, Unary):
            n, d = go(e.inner, depth + 1)
            return n + 1, d
        n, d = go(e.left, depth + 1)
        m, f = go(e.right, depth + 1)
        return n + m + 1, max(d, f)

    return go(e, 0)


@dataclass
class Tree:
    word: int
    kids: list[Tree] = field(default_factory=list)

    def is_leaf(self):
        return not self.kids

    @property
    def arity(self):
        return len(self.kids)

    def encode(self, p: Weights):
        if self.is_leaf():
            return p.embed[self.word]
        total = np.zeros_like(p.b)
        for k in self.kids:
            total = total + k.encode(p)
        return np.tanh(p.w @ total / self.arity + p.b)


def tree(depth: int) -> Tree:
    kids = [tree(depth - 1) for _ in range(RNG.integers(0, 3))] if depth else []
    return Tree(int(RNG.integers(V)), kids)


TREES = [tree(3) for _ in range(5)]


@case(TREES, p=W)
def methods_of_a_tree(t, *, p):
    return t.encode(p)


@case(TREES, p=W)
def top_down(t, *, p):
    """Pass a state down, collect the leaves' states in a list that is passed along."""
    leaves = []

    def visit(node, h, depth=0):
        h = np.tanh(p.u @ h + p.embed[node.word])
        if node.is_leaf():
            leaves.append((depth, h))
            return
        for k in node.kids:
            visit(k, h, depth + 1)

    visit(t, p.b)
    return leaves


@case(TREES)
def postorder_with_stack(t):
    out, todo = [], [(t, False)]
    while todo:
        node, done = todo.pop()
        if done:
            out.append(node.word)
            continue
        todo.append((node, True))
        for k in reversed(node.kids):
            todo.append((k, False))
    return out


@case(TREES, [0, 3, 5, 7, 11])
def find(t, word):
    """Return the first node with a word, or None."""
    if t.word == word:
        return t
    for k in t.kids:
        found = find(k, word)
        if found is not None:
            return found
    return None


@case(TREES)
def breadth_first(t):
    level, widths = [t], []
    while level:
        widths.append(len(level))
        level = [k for node in level for k in node.kids]
    return widths


@case(TREES, p=W)
def sibling_pairs(t, *, p):
    h = p.embed[t.word]
    for a, b in zip(t.kids, t.kids[1:]):
        h = h + sibling_pairs(a, p=p) * sibling_pairs(b, p=p)
    return h


class Edge(NamedTuple):
    source: int
    target: int
    weight: float = 1.0


@dataclass
class Graph:
    features: np.ndarray
    edges: list[Edge]
    label: str = "unused"

    def neighbours(self, i):
        return [e.source for e in self.edges if e.target == i]


GRAPHS = [
    Graph(weights(3, H), [Edge(0, 1), Edge(1, 2, 0.5), Edge(2, 0)]),
    Graph(weights(1, H), []),
    Graph(weights(4, H), [Edge(0, 3, 2.0), Edge(1, 3), Edge(3, 0)]),
]


@case(GRAPHS, p=W)
def message_passing(g, *, p, rounds=2):
    hs = list(g.features)
    for _ in range(rounds):
        inbox = [np.zeros(H, np.float32) for _ in hs]
        for source, target, weight in g.edges:
            inbox[target] = inbox[target] + weight * (p.w @ hs[source])
        hs = [np.tanh(p.u @ h + m) for h, m in zip(hs, inbox, strict=True)]
    return sum(hs, np.zeros(H, np.float32))


@case(GRAPHS, p=W)
def graph_attention(g, *, p):
    out = []
    for i, h in enumerate(g.features):
        near = g.neighbours(i)
        if not near:
            out.append(h)
            continue
        scores = nn.softmax(np.array([p.b @ np.tanh(h + g.features[j]) for j in near]))
        out.append(sum(scores[k] * g.features[j] for k, j in enumerate(near)))
    return np.stack(out).mean(axis=0)


@case(GRAPHS)
def shortest_paths(g):
    n = len(g.features)
    dist = [1e9] * n
    dist[0] = 0.0
    for _ in range(n):
        for e in g.edges:
            if dist[e.source] + e.weight < dist[e.target]:
                dist[e.target] = dist[e.source] + e.weight
    return dist


@case(GRAPHS)
def components(g):
    parent = [i for i in range(len(g.features))]

    def root(i):
        while parent[i] != i:
            i = parent[i]
        return i

    for e in g.edges:
        a, b = root(e.source), root(e.target)
        if a != b:
            parent[a] = b
    return sum(1 for i in range(len(parent)) if parent[i] == i), parent


@case([[0, 0, 1, 0, 1, 1], [0], [0, 0, 1], [0, 0, 0, 1, 1]], [[3, 1, 4, 1], [5], [9, 2], [6, 5, 3]], p=W)
def shift_reduce(actions, words, *, p):
    buffer = words[::-1]
    stack = []
    for a in actions:
        if a == 0:
            if not buffer:
                break
            stack.append(p.embed[buffer.pop()])
        elif len(stack) >= 2:
            right = stack.pop()
            left = stack.pop()
            stack.append(np.tanh(p.w @ left + p.u @ right + p.b))
    return stack[-1], len(stack), [w for w in buffer]


@dataclass
class Parser:
    """A parser whose state is a value."""

    position: int
    depth: int = 0
    deepest: int = 0

    def step(self, kind):
        depth = self.depth + (1 if kind == Token.OPEN else -1 if kind == Token.CLOSE else 0)
        return replace(self, position=self.position + 1, depth=depth, deepest=max(depth, self.deepest))

    @classmethod
    def start(cls):
        return cls(0)

    @staticmethod
    def balanced(state):
        return state.depth == 0


@case(FORMULAS)
def state_as_value(stream):
    state = Parser.start()
    for kind, _ in stream:
        state = state.step(kind)
    return state, Parser.balanced(state)


@dataclass
class Cons:
    head: int
    tail: Cons | None = None


def chain(n: int) -> Cons | None:
    return None if not n else Cons(n, chain(n - 1))


@case([chain(n) for n in (0, 1, 5)])
def reverse_chain(c: Cons | None):
    out = None
    while c is not None:
        out = Cons(c.head, out)
        c = c.tail
    return out


@case([chain(n) for n in (0, 1, 5)])
def chain_to_list(c):
    def go(c, acc):
        return acc if c is None else go(c.tail, acc + [c.head])

    return go(c, [])


@case([[], [1], [5, 2, 4, 1, 3], [2, 2, 1, 0]])
def quicksort(xs):
    if len(xs) <= 1:
        return xs
    pivot, *_ = [xs[0]]
    rest = xs[1:]
    small = [x for x in rest if x < pivot]
    large = [x for x in rest if x >= pivot]
    return quicksort(small) + [pivot] + quicksort(large)


@case([[1], [5, 2], [4, 1, 3], [2, 2, 1, 0, 9]], p=W)
def balanced_by_index(xs, *, p):
    def build(lo, hi):
        if hi - lo == 1:
            return p.embed[xs[lo]]
        mid = (lo + hi) // 2
        return np.tanh(p.w @ build(lo, mid) + p.u @ build(mid, hi))

    return build(0, len(xs))


@case([[1], [5, 2], [4, 1, 3], [2, 2, 1, 0, 9]], p=W)
def balanced_by_slices(xs, *, p):
    if len(xs) == 1:
        return p.embed[xs[0]]
    mid = len(xs) // 2
    return np.tanh(p.w @ balanced_by_slices(xs[:mid], p=p) + p.u @ balanced_by_slices(xs[mid:], p=p))


@case([4, 7, 0, 1], p=W)
def mutual(n, *, p):
    def ping(n, h):
        return h if n <= 0 else pong(n - 1, np.tanh(p.w @ h))

    def pong(n, h):
        return -h if n <= 0 else ping(n - 2, np.tanh(p.u @ h))

    return ping(n, p.b)


@dataclass
class Plan:
    parts: list[Plan]


@dataclass
class Grown:
    h: np.ndarray
    below: list[Grown]


PLANS = [Plan([]), Plan([Plan([])]), Plan([Plan([Plan([]), Plan([])]), Plan([]), Plan([Plan([Plan([])])])])]


@case(PLANS, p=W)
def grown_lists(plan, *, p):
    """Lists of nodes that have lists of nodes, with nothing but the recursion to say of what."""

    def grow(plan, h):
        h = np.tanh(p.w @ h)
        return [Grown(h, grow(part, h + p.b)) for part in plan.parts]

    return grow(plan, p.b)


@case(PLANS, p=W)
def grown_lists_of_parents(plan, *, p):
    def grow(plan, h):
        out = []
        for part in plan.parts:
            h = np.tanh(p.w @ h)
            out.append(Grown(h, grow(part, h) if len(part.parts) > 0 else []))
        return out

    return grow(plan, p.b)
