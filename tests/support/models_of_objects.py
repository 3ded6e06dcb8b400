"""Models in the way that people write them who have classes: recurrent cells, parsers, stacks, lists, trees.

Each is a function for one instance; `CASES` has instances for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RNG = np.random.default_rng(20)


def weights(*shape: int) -> Any:
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


WXH, WHH, WHY, BH, BY = weights(5, 4), weights(5, 5), weights(3, 5), weights(5), weights(3)
SEQUENCES = [[weights(4) for _ in range(n)] for n in (3, 1, 6, 2)]
WORDS = [[int(v) for v in RNG.integers(0, 9, n)] for n in (6, 1, 12, 4)]


# ---- a character model whose `step` stores the hidden state


class CharRNN:
    """Of weights at module level."""

    def __init__(self, hidden: int) -> None:
        self.h = np.zeros(hidden, np.float32)
        self.steps = 0

    def step(self, x: Any) -> Any:
        self.h = np.tanh(WXH @ x + WHH @ self.h + BH)
        self.steps += 1
        return WHY @ self.h + BY


def char_rnn(xs):
    rnn = CharRNN(5)
    ys = []
    for x in xs:
        ys.append(rnn.step(x))
    return ys, rnn.h, rnn.steps


# ---- layers and cells as classes with weights of their own, shared by the batch


class Linear:
    def __init__(self, n_in: int, n_out: int) -> None:
        self.W = weights(n_out, n_in)
        self.b = weights(n_out)
        self.name = "linear"

    def __call__(self, x: Any) -> Any:
        return self.W @ x + self.b


class GRUCell:
    def __init__(self, n_in: int, n: int) -> None:
        self.n = n
        self.gates = [Linear(n_in + n, n), Linear(n_in + n, n)]
        self.new = Linear(n_in + n, n)
        self.cache: dict[str, Any] = {}

    def start(self) -> Any:
        return np.zeros(self.n, np.float32)

    def forward(self, x: Any, h: Any) -> Any:
        both = np.concatenate([x, h])
        z, r = (1 / (1 + np.exp(-gate(both))) for gate in self.gates)
        new = np.tanh(self.new(np.concatenate([x, r * h])))
        return (1 - z) * h + z * new


class Tagger:
    def __init__(self) -> None:
        self.cell = GRUCell(4, 5)
        self.out = Linear(5, 3)

    def forward(self, xs: Any) -> Any:
        h = self.cell.start()
        out = []
        for x in xs:
            h = self.cell.forward(x, h)
            out.append(self.out(h))
        return out


TAGGER = Tagger()


def tagger(xs, *, net=TAGGER):
    return net.forward(xs)


class Base:
    scale = 2.0

    def __init__(self, n: int) -> None:
        self.layer = Linear(n, n)

    def act(self, x: Any) -> Any:
        return np.tanh(x)

    def forward(self, x: Any) -> Any:
        return self.act(self.layer(x)) * np.float32(self.scale)

    @property
    def width(self) -> int:
        return len(self.layer.b)

    @classmethod
    def factor(cls) -> float:
        return cls.scale


class Gated(Base):
    scale = 3.0

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.gate = Linear(n, n)

    @staticmethod
    def squash(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def forward(self, x: Any) -> Any:
        return super().forward(x) * self.squash(self.gate(x)) + Base.forward(self, x)


LAYERS = [Base(4), Gated(4), Base(4)]


def inherited_layers(x):
    for layer in LAYERS:
        x = layer.forward(x)
    return x * np.float32(LAYERS[1].width + LAYERS[1].factor())


# ---- a transition parser: its configuration has lists as fields


class Configuration:
    def __init__(self, words: Any) -> None:
        self.stack: list[int] = []
        self.buffer = list(reversed(words))
        self.arcs: list[tuple[int, int]] = []

    @property
    def done(self) -> bool:
        return not self.buffer and len(self.stack) <= 1

    def shift(self) -> None:
        self.stack.append(self.buffer.pop())

    def left(self) -> None:
        dependent = self.stack.pop(-2)
        self.arcs.append((self.stack[-1], dependent))

    def right(self) -> None:
        dependent = self.stack.pop()
        self.arcs.append((self.stack[-1], dependent))


def parser(words):
    c = Configuration(words)
    steps = 0
    while not c.done:
        steps += 1
        if len(c.stack) < 2 or (c.buffer and c.stack[-1] % 2):
            c.shift()
        elif c.stack[-2] % 3 == 0:
            c.left()
        else:
            c.right()
    return c.arcs, steps


# ---- a stack machine; its stack is an object of its own


class Stack:
    __slots__ = ("items", "most")

    def __init__(self) -> None:
        self.items: list[int] = []
        self.most = 0

    def push(self, value: int) -> None:
        self.items.append(value)
        self.most = max(self.most, len(self))

    def pop(self) -> int:
        return self.items.pop()

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return len(self.items) > 1


class Machine:
    def __init__(self) -> None:
        self.stack = Stack()
        self.halted = False
        self.count = 0

    def run(self, code: Any) -> int:
        for op in code:
            if self.halted:
                break
            self.count += 1
            if op == 0:
                self.halted = True
            elif op == 1 and self.stack:
                self.stack.push(self.stack.pop() + self.stack.pop())
            elif op == 2 and self.stack:
                self.stack.push(self.stack.pop() * self.stack.pop())
            else:
                self.stack.push(op)
        return self.stack.pop() if len(self.stack) else -1


def stack_machine(code):
    m = Machine()
    return m.run(code), m.stack.most, m.count, m.halted


# ---- structures that are linked in the call


class Cell:
    def __init__(self, value: int, rest: Cell | None = None) -> None:
        self.value = value
        self.rest = rest


class LinkedList:
    def __init__(self) -> None:
        self.head: Cell | None = None
        self.size = 0

    def push(self, value: int) -> None:
        self.head = Cell(value, self.head)
        self.size += 1

    def reverse(self) -> None:
        before, cell = None, self.head
        while cell is not None:
            rest = cell.rest
            cell.rest = before
            before, cell = cell, rest
        self.head = before

    def __iter__(self) -> Any:
        out = []
        cell = self.head
        while cell is not None:
            out.append(cell.value)
            cell = cell.rest
        return iter(out)


def linked_list(words):
    xs = LinkedList()
    for w in words:
        xs.push(w)
    before = sum(xs) + 2 * sum([x for x in xs if x > 3])
    xs.reverse()
    return before, list(xs), xs.size, xs


class Node:
    def __init__(self, key: int) -> None:
        self.key = key
        self.left: Node | None = None
        self.right: Node | None = None


class SearchTree:
    """By insertion in a loop."""

    def __init__(self) -> None:
        self.root: Node | None = None

    def insert(self, key: int) -> None:
        new = Node(key)
        if self.root is None:
            self.root = new
            return
        at = self.root
        while True:
            if key < at.key:
                if at.left is None:
                    at.left = new
                    return
                at = at.left
            else:
                if at.right is None:
                    at.right = new
                    return
                at = at.right


def in_order(node, out):
    if node is None:
        return 0
    left = in_order(node.left, out)
    out.append(node.key)
    return 1 + max(left, in_order(node.right, out))


def search_tree(words):
    t = SearchTree()
    for w in words:
        t.insert(w)
    out = []
    return in_order(t.root, out), out


def insert(node, key):
    if node is None:
        return Node(key)
    if key < node.key:
        node.left = insert(node.left, key)
    else:
        node.right = insert(node.right, key)
    return node


def search_tree_by_recursion(words):
    root = None
    for w in words:
        root = insert(root, w)
    out = []
    return in_order(root, out), out, root


def encode(node, depth):
    if node is None:
        return BH * 0
    both = encode(node.left, depth + 1) + encode(node.right, depth + 1)
    return np.tanh(WHH @ both + BH * np.float32(node.key) * np.float32(0.1))


def encoded_search_tree(words):
    t = SearchTree()
    for w in words:
        t.insert(w)
    return encode(t.root, 0)


# ---- beam search over hypotheses; a hidden Markov model; a dataclass that counts


@dataclass
class Hypothesis:
    tokens: list[int]
    score: float
    state: Any
    finished: bool = False

    def extended(self, token: int, score: float, state: Any) -> Hypothesis:
        return Hypothesis([*self.tokens, token], self.score + score, state, token == 0)


def beam_search(x):
    beam = [Hypothesis([1], 0.0, BH * 0)]
    for _ in range(4):
        grown = []
        for hyp in beam:
            if hyp.finished:
                grown.append(hyp)
                continue
            state = np.tanh(WXH @ x + WHH @ hyp.state + BH * np.float32(len(hyp.tokens)))
            logits = WHY @ state + BY
            for token in range(3):
                grown.append(hyp.extended(token, float(logits[token]), state))
        grown.sort(key=lambda hyp: -hyp.score)
        beam = grown[:2]
    return [(hyp.tokens, np.float32(hyp.score)) for hyp in beam]


class HMM:
    def __init__(self, states: int) -> None:
        self.start = np.abs(weights(states)) + np.float32(0.1)
        self.move = np.abs(weights(states, states)) + np.float32(0.1)
        self.emit = np.abs(weights(states, 9)) + np.float32(0.1)

    def forward(self, words: Any) -> Any:
        alpha = self.start * self.emit[:, words[0]]
        self.check(words)
        for w in words[1:]:
            alpha = (self.move.T @ alpha) * self.emit[:, w]
        return np.log(alpha.sum())

    def check(self, words: Any) -> None:
        assert len(words) > 0, "no words"


MARKOV = HMM(4)


def hmm(words, *, model=MARKOV):
    return model.forward(words)


@dataclass
class Meter:
    total: float = 0.0
    count: int = 0
    seen: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best = self.total

    def add(self, x: float) -> None:
        self.total += x
        self.count += 1
        self.seen.append(x)
        if x > self.best:
            self.best = x

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


def meters(words):
    m, n = Meter(), Meter(1.5)
    for w in words:
        (m if w % 2 else n).add(float(w))
    return m.mean, n.mean, m.best, n.best, m.seen, n.count


# ---- memory as an object; attention that keeps keys and values


class Cache:
    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.values: list[Any] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, k: Any, v: Any) -> None:
        self.keys.append(k)
        self.values.append(v)

    def attend(self, q: Any) -> Any:
        scores = np.stack(self.keys) @ q
        e = np.exp(scores - scores.max())
        return (e / e.sum()) @ np.stack(self.values)


class Attention:
    def __init__(self, n: int) -> None:
        self.q, self.k, self.v = Linear(n, n), Linear(n, n), Linear(n, n)

    def __call__(self, x: Any, cache: Cache) -> Any:
        cache.add(self.k(x), self.v(x))
        return x + cache.attend(self.q(x))


BLOCKS = [Attention(4), Attention(4)]


def attention_with_caches(xs):
    caches = [Cache() for _ in BLOCKS]
    out = xs[0]
    for x in xs:
        for block, cache in zip(BLOCKS, caches, strict=True):
            x = block(x, cache)
        out = x
    return out, len(caches[0])


class Environment:
    """Scopes that know those around them."""

    def __init__(self, outer: Environment | None = None) -> None:
        self.outer = outer
        self.names: list[int] = []
        self.values: list[int] = []

    def find(self, name: int) -> int:
        for k in range(len(self.names)):
            if self.names[k] == name:
                return self.values[k]
        return self.outer.find(name) if self.outer is not None else -1

    def bind(self, name: int, value: int) -> None:
        self.names.append(name)
        self.values.append(value)


def environments(words):
    env = Environment()
    out = []
    for w in words:
        if w < 3:
            env = Environment(env)
        elif w == 8 and env.outer is not None:
            env = env.outer
        else:
            env.bind(w, len(out))
        out.append(env.find(4))
    return out


class Total:
    def __init__(self):
        self.count, self.sum = 0, np.zeros(2)

    def __iadd__(self, x):
        self.count += 1
        self.sum[x % 2] += x
        return self

    def __isub__(self, x):
        return Total()

    def __add__(self, x):
        return self.count + x


class Held:
    def __init__(self):
        self.total = Total()


def totals(words):
    one, held = Total(), Held()
    other = one
    for w in words:
        one += w
        held.total += w
        if w == 3:
            held.total -= w
        if w == 5:
            one -= w
    return one.count, other.sum, one.sum, held.total.count, held.total + 4


CASES: dict[Callable[..., Any], list[Any]] = {
    char_rnn: SEQUENCES,
    tagger: SEQUENCES,
    inherited_layers: [x for xs in SEQUENCES for x in xs][:5],
    parser: WORDS,
    stack_machine: WORDS,
    linked_list: [*WORDS, []],
    search_tree: WORDS,
    search_tree_by_recursion: WORDS,
    encoded_search_tree: WORDS,
    beam_search: SEQUENCES[0],
    hmm: WORDS,
    meters: WORDS,
    attention_with_caches: SEQUENCES,
    environments: WORDS,
    totals: WORDS,
}
