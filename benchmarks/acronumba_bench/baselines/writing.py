"""The zoo's decoder, batched by hand: keys and values of all sentences in one array, padded to the longest.

The first words of all sentences are rows of one array, with attention per sentence; then all unfinished sentences take
a step together, padded. In the emulated form sentences are sorted by their end; otherwise finished ones are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program
from acronumba.zoo import decoder, encoder


def generate(t: Library, p: decoder.Params, xs: Sequence[decoder.Start]) -> Program:
    """Prepare `decoder.generate`: the words of all sentences in a step are read back together."""
    return _program(t, p, xs, emulated=False)


def generate_emulated(t: Library, p: decoder.Params, xs: Sequence[decoder.Start]) -> Program:
    """Prepare `decoder.generate_emulated`: nothing is read back."""
    return _program(t, p, xs, emulated=True)


class _Layer:
    """A layer of the decoder but for attention."""

    def __init__(self, t: Library, of: encoder.Layer, heads: int) -> None:
        self.t, self.heads = t, heads
        self.w_qkv = t.weight(np.concatenate([of.wq, of.wk, of.wv]))
        self.wo, self.w_in, self.w_out = map(t.weight, (of.wo, of.w_in, of.w_out))
        self.b_in, self.b_out, self.scale, self.shift = map(t.array, (of.b_in, of.b_out, of.scale, of.shift))
        self.scale_attention, self.shift_attention = t.array(of.scale_attention), t.array(of.shift_attention)

    def split(self, x: Array) -> Array:
        """Return queries, keys and values of words, float32[words, 3, heads, H / heads]."""
        return self.t.product(x, self.w_qkv).reshape(x.shape[0], 3, self.heads, -1)

    def rest(self, x: Array, attended: Array) -> Array:
        """Return the output of the layer, from its input and the result of attention."""
        t = self.t
        y = t.product(attended, self.wo)
        y += x
        x = t.layer_norm(y, self.scale_attention, self.shift_attention)
        y = t.affine(self.b_out, t.gelu_(t.affine(self.b_in, x, self.w_in)), self.w_out)
        y += x
        return t.layer_norm(y, self.scale, self.shift)


class _Model:
    """The decoder on sentences that begin with these words."""

    def __init__(self, t: Library, p: decoder.Params, first: Sequence[Sequence[int]], follow: int) -> None:
        self.t, self.width, self.heads = t, p.embed.shape[1], p.heads
        self.lengths = np.array([len(words) for words in first])
        self.room = int(self.lengths.max()) + follow
        ends = np.cumsum(self.lengths)
        self.sentences = [slice(end - m, end) for end, m in zip(ends.tolist(), self.lengths.tolist(), strict=True)]
        self.words, self.last = t.index(np.concatenate(first)), t.index(ends - 1)
        self.places = t.index(np.concatenate([np.arange(m) for m in self.lengths]))
        self.embed, self.position, self.b_out = map(t.array, (p.embed, p.position, p.b_out))
        self.w_out, self.layers = t.weight(p.w_out), [_Layer(t, of, p.heads) for of in p.layers]

    def looked_up(self, words: Array, places: Array) -> Array:
        """Return the vectors of words at positions."""
        x = self.t.take(self.embed, words)
        x += self.t.take(self.position, places)
        return self.t.layer_norm(x, None, None)

    def best(self, x: Array) -> tuple[Array, Array]:
        """Return the log-probability of the next word of each sentence, and the word."""
        scores, found = self.t.top(self.t.log_softmax(self.t.affine(self.b_out, x, self.w_out)), 1)
        return scores[:, 0], found[:, 0]

    def begin(self) -> tuple[Array, list[Array]]:
        """Return the last of the first words of each sentence, and for each layer all keys, then all values."""
        t, kept = self.t, []
        x = self.looked_up(self.words, self.places)
        for layer in self.layers:
            qkv, parts = layer.split(x), []
            for of in (1, 2):
                kept.append(t.empty(len(self.sentences), self.heads, self.room, self.width // self.heads))
                kept[-1][:] = 0
                for k, rows in enumerate(self.sentences):
                    kept[-1][k, :, : rows.stop - rows.start] = qkv[rows, of].swapaxes(0, 1)
            for rows in self.sentences:
                q, k, v = (qkv[rows, of].swapaxes(0, 1)[None] for of in range(3))
                parts.append(t.attention(q, k, v, causal=True)[0].swapaxes(0, 1).reshape(-1, self.width))
            x = layer.rest(x, t.concat(parts, 0))
        return t.take(x, self.last), kept

    def step(self, word: Array, kept: list[Array], at: Any) -> Array:
        """Return the new word of each sentence after all layers, and store its keys and values in each layer."""
        t = self.t
        going, where, longest = t.index(np.arange(len(at))), t.index(at), int(at.max()) + 1
        behind = np.where(np.arange(longest) <= at[:, None], np.float32(0), np.float32(-np.inf))
        unseen, x = t.array(behind[:, None, None]), self.looked_up(word, where)
        for layer, keys, values in zip(self.layers, kept[::2], kept[1::2], strict=True):
            qkv = layer.split(x)
            keys[going, :, where], values[going, :, where] = qkv[:, 1], qkv[:, 2]
            seen = t.attention(qkv[:, 0][:, :, None], keys[:, :, :longest], values[:, :, :longest], added=unseen)
            x = layer.rest(x, seen.reshape(len(at), self.width))
        return x


def _program(t: Library, p: decoder.Params, xs: Sequence[decoder.Start], *, emulated: bool) -> Program:
    follow = np.array([x.follow if emulated else decoder.LENGTH for x in xs])
    order = np.argsort(-follow, kind="stable")
    made = _Model(t, p, [xs[k].words for k in order], int(follow.max()))

    def run() -> list[tuple[Any, Array, Array]]:
        live = np.arange(len(xs))
        x, kept = made.begin()
        score, word = made.best(x)
        out = [(live, score, word)]
        for r in range(1, follow.max()):
            going = follow[order[live]] > r if emulated else t.host(word) != decoder.END
            if not going.any():
                break
            if emulated:  # unfinished sentences are in front
                live = live[: going.sum()]
                word, kept = word[: len(live)], [a[: len(live)] for a in kept]
            elif not going.all():
                live, rows = live[going], t.index(np.flatnonzero(going))
                word, kept = t.take(word, rows), [t.take(a, rows) for a in kept]
            score, word = made.best(made.step(word, kept, made.lengths[live] + r - 1))
            out.append((live, score, word))
        return out

    def results(out: list[tuple[Any, Array, Array]]) -> list[decoder.Sentence]:
        found = [decoder.Sentence([], np.float32(0)) for _ in xs]
        for live, score, word in out:
            for k, s, w in zip(order[live].tolist(), t.host(score), t.host(word), strict=True):
                found[k].words.append(w)
                found[k].score += s
        return found

    return Program(run=run, results=results)
