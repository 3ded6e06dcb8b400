"""Models with computed control flow, batched by hand: the decisions of all instances in a step are read back together.

The emulated forms, in which the data decides, are the same programs without reading back, or other programs if the data
allows larger batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program, spread, steps
from acronumba.zoo import beam_decoder, berxit, drnn, graph_rnn, stack_rnn
from acronumba_bench.baselines.cells import gru_, lstm_

# ------------------------------------------------------------------------------------------------------- growing trees


def grow(t: Library, p: drnn.Params, xs: Sequence[drnn.Start]) -> Program:
    """Prepare `drnn.generate`: all families of a level together, one sibling of each per step."""
    return _families(t, p, xs, emulated=False)


def grow_emulated(t: Library, p: drnn.Params, xs: Sequence[drnn.Start]) -> Program:
    """Prepare `drnn.generate_emulated`."""
    return _families(t, p, xs, emulated=True)


def _families(t: Library, p: drnn.Params, xs: Sequence[drnn.Start], *, emulated: bool) -> Program:
    starts = t.index([x.vector for x in xs])
    shapes = _shapes(xs) if emulated else []
    words = len(p.w)
    w_a, u_a, w_f, u_f = map(t.weight, (p.ancestral.w, p.ancestral.u, p.fraternal.w, p.fraternal.u))
    u_ancestral, u_fraternal = t.weight(p.u_ancestral), t.weight(p.u_fraternal)
    w = t.weight(np.concatenate([p.w, p.topology_a[None], p.topology_f[None]]))
    start, embed, b_a, b_f = map(t.array, (p.start, p.embed, p.ancestral.b, p.fraternal.b))
    first_h, first_x, v_a, v_f = map(t.array, (p.first_h, p.first_x, p.v_ancestral, p.v_fraternal))

    def run() -> list[list[Any]]:
        ancestral = x = t.take(start, starts)
        levels: list[list[Any]] = []
        while len(levels) < drnn.LEVELS:
            gru_(t, t.affine(b_a, x, w_a), u_a, ancestral)
            from_parent, count = t.product(ancestral, u_ancestral), ancestral.shape[0]
            live = np.arange(count)
            fraternal, x = spread(t, first_h, count), spread(t, first_x, count)
            siblings: list[Any] = []
            grown: list[tuple[Any, Any]] = []  # inputs of the next level
            more = np.ones(count, bool)
            while len(live):
                if len(siblings) and not more.all():
                    left = np.flatnonzero(more)
                    live, rows = live[left], t.index(left)
                    if not len(live):
                        break
                    fraternal, x, from_parent = (t.take(a, rows) for a in (fraternal, x, from_parent))
                gru_(t, t.affine(b_f, x, w_f), u_f, fraternal)
                h = t.product(fraternal, u_fraternal)
                h += from_parent
                t.tanh_(h)
                scores = t.product(h, w)
                if emulated:
                    parent, more = shapes[len(levels)][len(siblings)]
                else:
                    sure = t.host(t.sigmoid(scores[:, words:])) > 0.5
                    parent = sure[:, 0] & (len(levels) + 1 < drnn.LEVELS)
                    more = sure[:, 1] & (len(siblings) + 1 < drnn.SIBLINGS)
                scores = scores[:, :words]
                t.add_multiplied_(scores, t.array(parent.astype(np.float32)[:, None]), v_a)
                t.add_multiplied_(scores, t.array(more.astype(np.float32)[:, None]), v_f)
                probabilities = t.softmax(scores)
                word = t.argmax(probabilities)
                x = t.take(embed, word)
                siblings.append((live, parent, word, probabilities))
                below = np.flatnonzero(parent)
                if len(below):
                    grown.append((t.take(ancestral, t.index(live[below])), t.take(x, t.index(below))))
            levels.append(siblings)
            if not grown:
                break
            ancestral, x = (t.concat(parts, 0) for parts in zip(*grown, strict=True))
        return levels

    return Program(run=run, results=lambda levels: _grown(t, len(xs), levels))


def _grown(t: Library, count: int, levels: list[list[Any]]) -> list[list[drnn.Node]]:
    """Return the trees of `_families`."""
    families: list[list[drnn.Node]] = [[] for _ in range(count)]
    top = families
    for siblings in levels:
        below: list[list[drnn.Node]] = []
        for live, parent, word, probabilities in siblings:
            for family, has, number, row in zip(live, parent, t.host(word), t.host(probabilities), strict=True):
                children: list[drnn.Node] = []
                families[family].append(drnn.Node(number, row, children))
                if has:
                    below.append(children)
        families = below
    return top


def _shapes(xs: Sequence[drnn.Start]) -> list[list[tuple[Array, Array]]]:
    """Return for each level and sibling the masks of nodes with children, and with another sibling."""
    families = [x.shape for x in xs]
    levels = []
    while families:
        siblings, grown = [], []
        live, k = families, 0
        while live:
            parent = np.array([len(f.children[k].children) > 0 for f in live])
            siblings.append((parent, np.array([len(f.children) > k + 1 for f in live])))
            grown += [f.children[k] for f in live if f.children[k].children]
            live = [f for f in live if len(f.children) > k + 1]
            k += 1
        levels.append(siblings)
        families = grown
    return levels


# ---------------------------------------------------------------------------------------------------------- early exit


def classify(t: Library, p: berxit.Params, xs: Sequence[berxit.Sentence]) -> Program:
    """Prepare `berxit.classify`: after each layer the sentences that are sure are dropped."""
    layers, finish = _transformer(t, p, xs, emulated=False)

    def results(out: tuple[Any, Array, Any]) -> list[tuple[Array, int]]:
        rows, used, _ = finish(out)
        return [(row, int(n)) for row, n in zip(rows, used, strict=True)]

    return Program(run=layers, results=results)


def classify_emulated(t: Library, p: berxit.Params, xs: Sequence[berxit.Sentence]) -> Program:
    """Prepare `berxit.classify_emulated`: the data says after which layer each sentence is dropped."""
    layers, finish = _transformer(t, p, xs, emulated=True)

    def results(out: tuple[Any, Array, Any]) -> list[tuple[Array, Any]]:
        rows, _, certain = finish(out)
        return list(zip(rows, certain, strict=True))

    return Program(run=layers, results=results)


def _transformer(
    t: Library, p: berxit.Params, xs: Sequence[berxit.Sentence], *, emulated: bool
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    length, n, heads = len(xs[0].words), p.embed.shape[1], p.heads
    if any(len(x.words) != length for x in xs):
        raise ValueError("this program is for sentences of one length")
    words = t.index([word for x in xs for word in x.words])
    asked = np.array([x.layers for x in xs])
    w_qkv = t.weight(np.concatenate([p.wq, p.wk, p.wv]))
    wo, w_in, w_out, w_class = map(t.weight, (p.wo, p.w_in, p.w_out, p.w_class))
    w_certain, b_certain = t.weight(p.w_certain[None]), t.array(p.b_certain.reshape(1))
    embed, position, b_in, b_out, b_class = map(t.array, (p.embed, p.position, p.b_in, p.b_out, p.b_class))
    scale_attention, shift_attention, scale, shift = map(
        t.array, (p.scale_attention, p.shift_attention, p.scale, p.shift)
    )

    def layer(x: Array) -> Array:
        qkv = t.product(x, w_qkv).reshape(-1, length, 3, heads, n // heads)
        q, k, v = (qkv[:, :, part].swapaxes(1, 2) for part in range(3))
        y = t.product(t.attention(q, k, v).swapaxes(1, 2).reshape(-1, n), wo)
        y += x
        x = t.layer_norm(y, scale_attention, shift_attention)
        y = t.affine(b_out, t.gelu_tanh_(t.affine(b_in, x, w_in)), w_out)
        y += x
        return t.layer_norm(y, scale, shift)

    def run() -> tuple[Any, Array, Any]:
        x = t.take(embed, words).reshape(-1, length, n)
        x += position[:length]
        x = t.layer_norm(x, None, None).reshape(-1, n)
        live = np.arange(len(xs))
        first, certain, used = t.empty(len(xs), n), t.empty(len(xs), 1), np.zeros(len(xs), np.int64)
        for number in range(1, berxit.LAYERS + 1):
            x = layer(x)
            tokens = x.reshape(-1, length, n)
            heads_ = tokens[:, 0]
            sure = t.sigmoid(t.affine(b_certain, heads_, w_certain))
            stays = asked[live] > number if emulated else t.host(sure)[:, 0] < 0.5
            if number == berxit.LAYERS:
                stays = np.zeros(len(live), bool)
            if not stays.all():
                leaving = np.flatnonzero(~stays)
                places, rows = t.index(live[leaving]), t.index(leaving)
                t.put_(first, places, t.take(heads_, rows))
                t.put_(certain, places, t.take(sure, rows))
                used[live[leaving]] = number
                live = live[stays]
                if not len(live):
                    break
                x = t.take(tokens, t.index(np.flatnonzero(stays))).reshape(-1, n)
        return t.softmax(t.affine(b_class, first, w_class)), used, certain

    return run, lambda out: (list(t.host(out[0])), out[1], list(t.host(out[2])[:, 0]))


# --------------------------------------------------------------------------------------------------------- shift-reduce


def parse(t: Library, p: stack_rnn.Params, xs: Sequence[stack_rnn.Sentence]) -> Program:
    """Prepare `stack_rnn.parse`: every sentence takes one action per step; the scores of all are read back."""
    return _parser(t, p, xs, emulated=False)


def parse_emulated(t: Library, p: stack_rnn.Params, xs: Sequence[stack_rnn.Sentence]) -> Program:
    """Prepare `stack_rnn.parse_emulated`."""
    return _parser(t, p, xs, emulated=True)


class _Sentences:
    """Sentences side by side, sorted by length, the longest first, so that the unfinished ones are in front."""

    def __init__(self, xs: Sequence[stack_rnn.Sentence], *, emulated: bool) -> None:
        self.count = len(xs)
        self.order = steps([len(x.words) for x in xs]).order  # n words need 2n - 1 actions
        sentences = [xs[k] for k in self.order]
        self.lengths = np.array([len(x.words) for x in sentences])
        longest = int(self.lengths.max())
        by_end = steps(self.lengths.tolist())  # of the buffer's reader, which begins at the last word
        self.spans = by_end.spans
        self.backward = np.array([word for x in sentences for word in reversed(x.words)], np.int64)[by_end.at]
        self.read = np.empty((self.count, longest + 1), np.int64)  # row of the reader's state with k words left
        self.read[:, 0] = np.arange(self.count)  # the bottoms
        for k, (begin, end) in enumerate(self.spans):
            self.read[: end - begin, k + 1] = self.count + np.arange(begin, end)
        self.height = longest + 1  # entries of a stack, the bottom included
        self.bottoms = np.arange(self.count) * self.height
        self.given = np.full((self.count, 2 * longest - 1), -1)  # actions, if the data has them
        if emulated:
            for k, x in enumerate(sentences):
                self.given[k, : len(x.actions)] = x.actions
        self.in_turn = [int((2 * self.lengths - 1 > k).sum()) for k in range(self.given.shape[1])]


class _Parser:
    """The weights and steps of `stack_rnn.parse`."""

    def __init__(self, t: Library, p: stack_rnn.Params, xs: Sequence[stack_rnn.Sentence], *, emulated: bool) -> None:
        self.t, self.n, self.emulated = t, p.embed.shape[1], emulated
        self.of = _Sentences(xs, emulated=emulated)
        self.words, self.bottom_rows = t.index(self.of.backward), t.index(self.of.bottoms)
        buffer, stack, history = p.buffer, p.stack, p.history
        self.w_buffer, self.u_buffer, self.u_history, self.w, self.g, self.u = map(
            t.weight, (buffer.cell.w, buffer.cell.u, history.cell.u, p.w, p.g, p.u)
        )
        self.w_history = t.weight(history.cell.w)
        self.w_stack = t.weight(np.concatenate([stack.cell.w, stack.cell.u], axis=1))
        self.embed, self.action_vectors, self.b_buffer, self.b_stack, self.b_history = map(
            t.array, (p.embed, p.action, buffer.cell.b, stack.cell.b, history.cell.b)
        )
        self.d, self.q, self.e = t.array(p.d), t.array(p.q), t.array(p.e)
        self.starts = [t.array(a) for s in (buffer, history) for a in (s.h, s.c)]
        self.stack_starts = [t.array(a) for a in (stack.x, stack.h, stack.c)]

    def buffers(self) -> tuple[Any, Any]:
        """Return the vectors of all words, and the states of the reader: the bottoms, then one for each word."""
        t, count = self.t, self.of.count
        vectors = t.take(self.embed, self.words)
        gates = t.affine(self.b_buffer, vectors, self.w_buffer)
        states = t.empty(count + len(self.of.backward), self.n)
        states[:count] = self.starts[0]
        h, c = spread(t, self.starts[0], count), spread(t, self.starts[1], count)
        for begin, end in self.of.spans:
            t.add_product_(gates[begin:end], h[: end - begin], self.u_buffer)
            lstm_(t, gates[begin:end], h[: end - begin], c[: end - begin])
            states[count + begin : count + end] = h[: end - begin]
        return vectors, states

    def run(self) -> tuple[list[Any], Any]:
        t, of = self.t, self.of
        vectors, states = self.buffers()
        stacks = tuple(t.empty(of.count * of.height, self.n) for _ in range(3))  # x, h, c: an entry per row
        for table, row in zip(stacks, self.stack_starts, strict=True):
            t.put_(table, self.bottom_rows, spread(t, row, of.count))
        history_gates = t.affine(self.b_history, self.action_vectors, self.w_history)
        history_h, history_c = spread(t, self.starts[2], of.count), spread(t, self.starts[3], of.count)
        left, depth = of.lengths.copy(), np.zeros(of.count, np.int64)
        record = []
        for number, live in enumerate(of.in_turn):
            tops = of.bottoms[:live] + depth[:live]
            parts = [
                t.take(stacks[1], t.index(tops)),
                t.take(states, t.index(of.read[np.arange(live), left[:live]])),
                history_h[:live],
            ]
            state = t.affine(self.d, t.concat(parts, 1), self.w)
            t.relu_(state)
            y = t.affine(self.q, state, self.g)
            action = of.given[:live, number] if self.emulated else _choose(t.host(y), left[:live], depth[:live])
            record.append(y if self.emulated else action)
            shifts, reduces = np.flatnonzero(action == stack_rnn.SHIFT), np.flatnonzero(action != stack_rnn.SHIFT)
            x = t.empty(live, self.n)
            if len(shifts):
                rows = of.read[shifts, left[shifts]] - of.count
                t.put_(x, t.index(shifts), t.take(vectors, t.index(rows)))
            if len(reduces):
                t.put_(x, t.index(reduces), self.composed(stacks[0], tops[reduces], action[reduces]))
            left[shifts] -= 1
            depth[shifts] += 1
            depth[reduces] -= 1
            self.push(stacks, of.bottoms[:live] + depth[:live], x)
            gates = t.take(history_gates, t.index(action))
            t.add_product_(gates, history_h[:live], self.u_history)
            lstm_(t, gates, history_h[:live], history_c[:live])
        return record, t.take(stacks[0], self.bottom_rows + 1)

    def composed(self, stack_x: Any, upper: Array, action: Array) -> Any:
        """Return the composition of the two topmost entries of stacks, the head first."""
        t = self.t
        heads = np.where(action == stack_rnn.LEFT, upper, upper - 1)
        pairs = t.index(np.stack([heads, 2 * upper - 1 - heads], axis=1).reshape(-1))
        out = t.affine(self.e, t.take(stack_x, pairs).reshape(-1, 2 * self.n), self.u)
        t.tanh_(out)
        return out

    def push(self, stacks: tuple[Any, ...], above: Array, x: Any) -> None:
        """Put new entries on the stacks, at their rows."""
        t = self.t
        below, rows_above = t.index(above - 1), t.index(above)
        h, c = t.take(stacks[1], below), t.take(stacks[2], below)
        lstm_(t, t.affine(self.b_stack, t.concat([x, h], 1), self.w_stack), h, c)
        for table, rows in zip(stacks, (x, h, c), strict=True):
            t.put_(table, rows_above, rows)

    def results(self, out: tuple[list[Any], Any]) -> list[Any]:
        t, emulated = self.t, self.emulated
        record, top = [t.host(a) if emulated else a for a in out[0]], t.host(out[1])
        found: list[Any] = [None] * self.of.count
        for k, place in enumerate(self.of.order):
            own = [record[m][k] for m in range(2 * self.of.lengths[k] - 1)]
            found[place] = (own if emulated else [int(a) for a in own]), top[k]
        return found


def _parser(t: Library, p: stack_rnn.Params, xs: Sequence[stack_rnn.Sentence], *, emulated: bool) -> Program:
    parser = _Parser(t, p, xs, emulated=emulated)
    return Program(run=parser.run, results=parser.results)


def _choose(scores: Array, left: Array, depth: Array) -> Array:
    """Return each sentence's action: the best legal one."""
    among = np.where(left == 0, stack_rnn.LEFT + scores[:, stack_rnn.LEFT :].argmax(axis=1), scores.argmax(axis=1))
    return np.where(depth < 2, stack_rnn.SHIFT, among)


# --------------------------------------------------------------------------------------------------------------- graphs


def draw_graphs(t: Library, p: graph_rnn.Params, xs: Sequence[graph_rnn.Start]) -> Program:
    """Prepare `graph_rnn.generate`: all graphs have equally many nodes, so decisions need not be read back."""
    starts, count = t.index([x.vector for x in xs]), len(xs)
    draws = [[t.array(np.array([x.draws[i][k] for x in xs])[:, None]) for k in range(i + 1)] for i in _rounds(xs)]
    w_node, u_node, w, u = map(t.weight, (p.node.w, p.node.u, p.w, p.u))
    w_out, b_out = t.weight(p.w_out[None]), t.array(p.b_out.reshape(1))
    start, b_node, nobody, adjacent, edge = map(t.array, (p.start, p.node.b, p.nobody, p.adjacent, p.edge))
    difference = edge[1:2] - edge[:1]

    def run() -> tuple[list[Any], Any]:
        h, x = t.take(start, starts), spread(t, nobody, count)
        edges = []
        for row in draws:
            gru_(t, t.affine(b_node, x, w_node), u_node, h)
            s, following = t.product(h, w), edge[2]
            drawn = t.empty(count, len(row))
            for k, draw in enumerate(row):
                s = t.affine(following, s, u)
                t.tanh_(s)
                drawn[:, k : k + 1] = draw < t.sigmoid(t.affine(b_out, s, w_out))
                following = edge[:1] + drawn[:, k : k + 1] * difference
            x = t.affine(nobody, drawn, adjacent[: len(row)])
            edges.append(drawn)
        gru_(t, t.affine(b_node, x, w_node), u_node, h)
        return edges, h

    def results(out: tuple[list[Any], Any]) -> list[graph_rnn.Graph]:
        edges = [t.host(drawn).astype(int).tolist() for drawn in out[0]]
        return [graph_rnn.Graph([drawn[k] for drawn in edges], state) for k, state in enumerate(t.host(out[1]))]

    return Program(run=run, results=results)


def score_graphs(t: Library, p: graph_rnn.Params, xs: Sequence[graph_rnn.Start]) -> Program:
    """Prepare `graph_rnn.generate_emulated`: edges are known, so the nodes come first, then all of their edges."""
    starts, count, n = t.index([x.vector for x in xs]), len(xs), p.nobody.shape[0]
    rounds = _rounds(xs)
    flags = [t.array(np.array([x.edges[i] for x in xs], np.float32)) for i in rounds]
    last: list[Array] = []  # by step: the previous edge of the nodes with so many edges, later nodes first
    for k in range(len(rounds)):
        before = [[2 if k == 0 else x.edges[i][k - 1] for x in xs] for i in reversed(rounds) if i >= k]
        last.append(t.index(np.concatenate(before)))
    w_node, u_node, w, u = map(t.weight, (p.node.w, p.node.u, p.w, p.u))
    w_out, b_out = t.weight(p.w_out[None]), t.array(p.b_out.reshape(1))
    start, b_node, nobody, adjacent, edge = map(t.array, (p.start, p.node.b, p.nobody, p.adjacent, p.edge))

    def run() -> tuple[list[Any], Any]:
        h, x = t.take(start, starts), spread(t, nobody, count)
        states = t.empty(len(flags) * count, n)
        for i, drawn in enumerate(flags):
            gru_(t, t.affine(b_node, x, w_node), u_node, h)
            at = (len(flags) - 1 - i) * count
            states[at : at + count] = h
            x = t.affine(nobody, drawn, adjacent[: i + 1])
        gru_(t, t.affine(b_node, x, w_node), u_node, h)
        s = t.product(states, w)
        found = []
        for before in last:
            following = t.take(edge, before)
            t.add_product_(following, s[: len(before)], u)
            t.tanh_(following)
            s = following
            found.append(t.sigmoid(t.affine(b_out, s, w_out)))
        return found, h

    def results(out: tuple[list[Any], Any]) -> list[tuple[list[list[Any]], Array]]:
        found = [t.host(a)[:, 0] for a in out[0]]
        nodes = len(flags)
        return [
            ([[found[k][(nodes - 1 - i) * count + g] for k in range(i + 1)] for i in range(nodes)], state)
            for g, state in enumerate(t.host(out[1]))
        ]

    return Program(run=run, results=results)


def _rounds(xs: Sequence[graph_rnn.Start]) -> range:
    if any([len(row) for row in x.draws] != list(range(1, len(xs[0].draws) + 1)) for x in xs):
        raise ValueError("this program is for graphs of one size")
    return range(len(xs[0].draws))


# ---------------------------------------------------------------------------------------------------------- beam search


def decode(t: Library, p: beam_decoder.Params, xs: Sequence[beam_decoder.Start]) -> Program:
    """Prepare `beam_decoder.decode`: all unfinished hypotheses take a step; the best words are read back and sorted."""
    return _beams(t, p, xs, emulated=False)


def decode_emulated(t: Library, p: beam_decoder.Params, xs: Sequence[beam_decoder.Start]) -> Program:
    """Prepare `beam_decoder.decode_emulated`."""
    return _beams(t, p, xs, emulated=True)


def _beams(t: Library, p: beam_decoder.Params, xs: Sequence[beam_decoder.Start], *, emulated: bool) -> Program:
    beam, count = beam_decoder.BEAM, len(xs)
    starts = t.index([x.vector for x in xs])
    w, w_out = t.weight(np.concatenate([p.cell.w, p.cell.u], axis=1)), t.weight(p.w_out)
    start, embed, begin, b, b_out = map(t.array, (p.start, p.embed, p.begin, p.cell.b, p.b_out))
    rounds = max(len(x.rounds) for x in xs) if emulated else beam_decoder.LENGTH
    given, ends = _choices(xs, rounds) if emulated else (None, None)

    def chosen(r: int, scores: Array, words: Array, there: Array, ended: Array) -> tuple[Array, Array]:
        """Return for each slot of each beam its candidate (-1: none), and whether it ends."""
        if given is None or ends is None:
            best = np.argsort(-scores, axis=1, kind="stable")[:, :beam]
            over = np.take_along_axis(np.repeat(ended, beam, axis=1), best, axis=1)
            return best, over | (np.take_along_axis(words, best, axis=1) == beam_decoder.END)
        # Candidates are counted without gaps: a hypothesis has four, one that has ended only itself.
        real = np.repeat(there & ~ended, beam, axis=1)
        real[:, ::beam] |= there
        numbered = np.argsort(~real, axis=1, kind="stable")
        return np.where(given[r] < 0, -1, np.take_along_axis(numbered, np.maximum(given[r], 0), axis=1)), ends[r]

    def run() -> tuple[list[tuple[Array, Array]], Array, Array]:
        h, c, x = t.take(start, starts), t.take(start, starts), spread(t, begin, count)  # of those that go on
        there = np.zeros((count, beam), bool)
        there[:, 0] = True
        ended, score = ~there, np.zeros((count, beam), np.float32)
        record: list[tuple[Array, Array]] = []
        for r in range(rounds):
            live = np.flatnonzero(there & ~ended)
            if not len(live):
                break
            lstm_(t, t.affine(b, t.concat([x, h], 1), w), h, c)
            found, which = t.top(t.log_softmax(t.affine(b_out, h, w_out)), beam)
            scores = np.full((count * beam, beam), -np.inf, np.float32)
            words = np.full((count * beam, beam), -1)
            scores[live] = t.host(found) + score.reshape(-1)[live, None]
            words[live] = t.host(which)
            scores[np.flatnonzero(there & ended), 0] = score[there & ended]
            scores, words = scores.reshape(count, -1), words.reshape(count, -1)
            best, over = chosen(r, scores, words, there, ended)
            row_of = np.zeros(count * beam, np.int64)  # of each place: its row in `h`
            row_of[live] = np.arange(len(live))
            taken = np.maximum(best, 0)
            parent = taken // beam
            word = np.take_along_axis(words, taken, axis=1)
            score = np.where(best < 0, np.float32(0), np.take_along_axis(scores, taken, axis=1))
            there, ended = best >= 0, over
            record.append((parent, word))
            going = np.flatnonzero(there & ~ended)
            if len(going):
                from_rows = row_of[(np.arange(count)[:, None] * beam + parent).reshape(-1)[going]]
                from_rows, picked = t.index(from_rows), t.index(word.reshape(-1)[going])
                h, c, x = t.take(h, from_rows), t.take(c, from_rows), t.take(embed, picked)
        return record, there, score

    return Program(run=run, results=lambda out: [_decoded(out, k) for k in range(count)])


def _choices(xs: Sequence[beam_decoder.Start], rounds: int) -> tuple[Array, Array]:
    """Return for each round and each slot of each beam its candidate (-1: none), and whether it ends."""
    given = np.full((rounds, len(xs), beam_decoder.BEAM), -1)
    ends = np.ones(given.shape, bool)
    for k, x in enumerate(xs):
        for r, choices in enumerate(x.rounds):
            given[r, k, : len(choices)] = [choice.candidate for choice in choices]
            ends[r, k, : len(choices)] = [choice.ends for choice in choices]
        last = len(x.rounds[-1])
        given[len(x.rounds) :, k, :last] = np.arange(last)  # all have ended, and stay
    return given, ends


def _decoded(out: tuple[list[tuple[Array, Array]], Array, Array], k: int) -> list[beam_decoder.Sentence]:
    """Return the sentences of one beam, the words of each followed back from its end."""
    record, there, score = out
    sentences = []
    for place in np.flatnonzero(there[k]):
        words, at = [], place
        for parents, chosen in reversed(record):
            if chosen[k, at] >= 0:
                words.append(chosen[k, at])
            at = parents[k, at]
        sentences.append(beam_decoder.Sentence(words[::-1], score[k, place]))
    return sentences
