"""Sequences: recurrent cells, decoders, attention, pointer networks, Viterbi, memories."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from acronumba import nn
from tests.support.model_cases import RNG, C, H, V, case, weights

SENTENCES = [[int(i) for i in RNG.integers(0, V, n)] for n in (1, 4, 2, 6, 3)]
PAIRS = [[int(i) for i in RNG.integers(0, V, n)] for n in (2, 3, 1, 4, 2)]


class Gate(NamedTuple):
    w: np.ndarray
    u: np.ndarray
    b: np.ndarray


def gate() -> Gate:
    return Gate(weights(H, H), weights(H, H), weights(H))


@dataclass
class Attention:
    query: np.ndarray
    key: np.ndarray
    scale: float = 1.0

    def scores(self, q, keys):
        return [float(H) ** -0.5 * self.scale * ((self.query @ q) @ (self.key @ k)) for k in keys]

    @property
    def width(self):
        return self.query.shape[0]


@dataclass
class Seq:
    embed: np.ndarray
    gates: dict[str, Gate]
    attention: Attention
    out: np.ndarray
    start: np.ndarray
    transitions: np.ndarray
    steps: int = 3
    layers: list[Gate] = field(default_factory=list)


P = Seq(
    weights(V, H), {name: gate() for name in ("z", "r", "n", "i", "f", "o")}, Attention(weights(H, H), weights(H, H)),
    weights(C, H), weights(H), weights(C, C), 3, [gate(), gate(), gate()],
)  # fmt: skip


def affine(g: Gate, x, h):
    return g.w @ x + g.u @ h + g.b


@case(SENTENCES, p=P)
def gru_with_named_gates(xs, *, p):
    h = np.zeros(H, dtype=np.float32)
    for x in xs:
        e = p.embed[x]
        z = nn.sigmoid(affine(p.gates["z"], e, h))
        r = nn.sigmoid(affine(p.gates["r"], e, h))
        w, u, b = p.gates["n"]
        n = np.tanh(w @ e + u @ (r * h) + b)
        h = (1 - z) * n + z * h
    return h


@case(SENTENCES, p=P)
def lstm_with_state_tuple(xs, *, p):
    def cell(state, x):
        h, c = state
        i, f, o = (nn.sigmoid(affine(p.gates[name], x, h)) for name in ("i", "f", "o"))
        c = f * c + i * np.tanh(affine(p.gates["n"], x, h))
        return o * np.tanh(c), c

    state = (np.zeros(H, np.float32), np.zeros(H, np.float32))
    for x in xs:
        state = cell(state, p.embed[x])
    return state


@case(SENTENCES, p=P)
def stacked_rnn(xs, *, p):
    states = [np.zeros(H, np.float32) for _ in p.layers]
    for x in xs:
        below = p.embed[x]
        for k, layer in enumerate(p.layers):
            states[k] = np.tanh(affine(layer, below, states[k]))
            below = states[k]
    return states


@case(SENTENCES, p=P)
def highway(xs, *, p):
    total = p.start
    for i, x in enumerate(reversed(xs), start=1):
        t = nn.sigmoid(affine(p.gates["z"], p.embed[x], total))
        total = t * np.tanh(p.out.T @ (p.out @ total)) + (1 - t) * total / i
    return total


@case(SENTENCES, PAIRS, p=P)
def attention_decoder(source, target, *, p):
    keys = [p.embed[i] for i in source]
    h = p.start
    outputs = []
    for j in target:
        scores = p.attention.scores(h, keys)
        weights_ = nn.softmax(np.stack(scores))
        context = np.zeros(H, np.float32)
        for k, key in enumerate(keys):
            context = context + weights_[k] * key
        h = np.tanh(affine(p.gates["n"], context + p.embed[j], h))
        outputs.append(nn.log_softmax(p.out @ h))
    return outputs


@case(SENTENCES, p=P)
def decoder_of_fixed_length(xs, *, p):
    h = sum((p.embed[x] for x in xs), p.start)
    logits = []
    for _ in range(p.steps):
        y = p.out @ h
        logits.append(y)
        h = np.tanh(p.gates["n"].w @ h + p.transitions[np.argmax(y)].sum())
    return logits


@case(SENTENCES, p=P)
def pointer_network(xs, *, p):
    memory = np.stack([p.embed[x] for x in xs])
    q = p.start
    picks = []
    for _ in range(len(xs)):
        attention = nn.softmax(memory @ (p.attention.query @ q))
        picks.append(attention)
        q = np.tanh(attention @ memory + q)
    return picks, q


@case([weights(n, C) for n in (1, 3, 5)], p=P)
def viterbi(emissions, *, p):
    score = emissions[0]
    back = []
    for row in emissions[1:]:
        table = score[:, None] + p.transitions
        back.append(np.argmax(table, axis=0))
        score = np.max(table, axis=0) + row
    best = np.argmax(score)
    path = [best]
    for pointers in reversed(back):
        best = pointers[best]
        path.append(best)
    return list(reversed(path)), score.max()


@case([[[float(v) for v in row] for row in weights(n, 3).tolist()] for n in (1, 4, 2)])
def viterbi_in_python(rows):
    score = list(rows[0])
    back = []
    for row in rows[1:]:
        new = []
        pointers = []
        for j in range(len(row)):
            best, arg = -math.inf, -1
            for i, s in enumerate(score):
                t = s + 0.25 * abs(i - j)
                if t > best:
                    best, arg = t, i
            new.append(best + row[j])
            pointers.append(arg)
        score = new
        back.append(pointers)
    at = max(range(len(score)), key=lambda i: score[i])
    path = [at]
    for pointers in back[::-1]:
        at = pointers[at]
        path.insert(0, at)
    return path, max(score)


@case([weights(n, C) for n in (1, 3, 5)], p=P)
def crf_forward(emissions, *, p):
    alpha = emissions[0]
    for t in range(1, len(emissions)):
        alpha = nn.logsumexp(alpha[:, np.newaxis] + p.transitions, axis=0) + emissions[t]
    return nn.logsumexp(alpha)


@case(SENTENCES, PAIRS, p=P)
def memory_network(story, question, *, p):
    memory = [(p.embed[i], p.embed[(i * 7) % V]) for i in story]
    u = sum((p.embed[q] for q in question), np.zeros(H, np.float32))
    for _hop in range(2):
        total, read = np.float32(0), np.zeros(H, np.float32)
        for key, value in memory:
            w = np.exp(key @ u / 4)
            total = total + w
            read = read + w * value
        u = u + read / total
    return u


@case([[s, q] for s, q in zip(SENTENCES, PAIRS, strict=True)], p=P)
def hierarchical_rnn(document, *, p):
    def run(layer, vectors, h):
        for v in vectors:
            h = np.tanh(affine(layer, v, h))
        return h

    zero = np.zeros(H, np.float32)
    sentences = [run(p.layers[0], [p.embed[w] for w in s], zero) for s in document]
    return p.out @ run(p.layers[1], sentences, zero)


@case(SENTENCES, p=P)
def bidirectional_with_zip(xs, *, p):
    def scan(layer, items):
        h, hs = np.zeros(H, np.float32), []
        for item in items:
            h = np.tanh(affine(layer, p.embed[item], h))
            hs += [h]
        return hs

    ahead, behind = scan(p.layers[0], xs), scan(p.layers[1], xs[::-1])
    return [np.concatenate((a, b)) for a, b in zip(ahead, reversed(behind), strict=True)]


@case([weights(n, H) for n in (3, 5, 8)], p=P)
def convolution_by_slicing(x, *, p):
    out = x[:-2] @ p.layers[0].w + x[1:-1] @ p.layers[1].w + x[2:] @ p.layers[2].w
    return np.maximum(out, 0).max(axis=0)


@case([weights(n, 3, H) for n in (2, 4)], p=P)
def capsules(votes, *, p):
    logits = np.zeros(votes.shape[:2], np.float32)
    v = votes.sum(axis=0)
    for _ in range(3):
        c = nn.softmax(logits, axis=1)
        s = (c[:, :, None] * votes).sum(axis=0)
        n2 = (s * s).sum(axis=-1, keepdims=True)
        v = n2 / (1 + n2) * s / np.sqrt(n2 + 1e-9)
        logits = logits + (votes * v[None]).sum(-1)
    return v


@case([weights(n, H) for n in (2, 4, 7)], p=P)
def self_attention(x, *, p):
    q, k = x @ p.attention.query.T, x @ p.attention.key.T
    a = nn.softmax(q @ k.T / math.sqrt(p.attention.width), axis=-1)
    mask = np.arange(len(x))[:, None] >= np.arange(x.shape[0])
    return np.where(mask, a, np.float32(0)) @ x


@case(SENTENCES, p=P)
def early_exit(xs, *, p):
    h = p.start
    for depth, layer in enumerate(p.layers):
        for x in xs:
            if x % 5 == depth:
                return depth, np.tanh(layer.w @ h)
            h = np.tanh(affine(layer, p.embed[x], h))
    return -1, h


@case(SENTENCES, p=P)
def skip_words(xs, *, p):
    h = np.zeros(H, np.float32)
    seen = []
    for x in xs:
        if any(x == s for s in seen):
            continue
        if len(seen) == 3:
            break
        seen.append(x)
        h = np.tanh(affine(p.layers[0], p.embed[x], h))
    return seen, h


@case(SENTENCES, PAIRS, p=P)
def edit_distance_features(a, b, *, p):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (x != y)))
        row = new
    return row[-1] * p.start


@case(SENTENCES, p=P)
def fast_and_slow_weights(xs, *, p):
    a = np.zeros((H, H), np.float32)
    h = np.zeros(H, dtype=p.embed.dtype)
    for x in xs:
        a = 0.95 * a + 0.5 * np.outer(h, h)
        pre = affine(p.layers[0], p.embed[x], h)
        s = np.tanh(pre)
        for _ in range(2):
            s = np.tanh(nn.layer_norm(pre + a @ s, np.ones(H, np.float32), np.zeros(H, np.float32)))
        h = s
    return h
