"""The zoo's decoder, batched by hand: keys and values of all sentences in one array, as long as the longest needs.

The first words of all sentences are rows of one array, with attention one by one; then all that go on take a step
together, padded. The sentences stand in the order in which the data ends them, else those that have ended are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.bench.yardsticks.arrays import Array, Library
from acronumba.bench.yardsticks.program import Program
from acronumba.zoo import decoder, encoder


def generate(t: Library, p: decoder.Params, xs: Sequence[decoder.Start]) -> Program:
    """Prepare `decoder.generate`: everyone's words of a step are read back together."""
    return _writer(t, p, xs, emulated=False)


def generate_emulated(t: Library, p: decoder.Params, xs: Sequence[decoder.Start]) -> Program:
    """Prepare `decoder.generate_emulated`: nothing is read back."""
    return _writer(t, p, xs, emulated=True)


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
        """Return words after the layer, from those before it and what they have attended to."""
        t = self.t
        y = t.product(attended, self.wo)
        y += x
        x = t.layer_norm(y, self.scale_attention, self.shift_attention)
        y = t.affine(self.b_out, t.gelu_(t.affine(self.b_in, x, self.w_in)), self.w_out)
        y += x
        return t.layer_norm(y, self.scale, self.shift)


def _writer(t: Library, p: decoder.Params, xs: Sequence[decoder.Start], *, emulated: bool) -> Program:
    n, count = p.embed.shape[1], len(xs)
    follow = np.array([x.follow if emulated else decoder.LENGTH for x in xs])
    order = np.argsort(-follow, kind="stable")
    first = [xs[k].words for k in order]
    lengths = np.array([len(words) for words in first])
    ends = np.cumsum(lengths)
    sentences = [slice(end - m, end) for end, m in zip(ends.tolist(), lengths.tolist(), strict=True)]
    words, places = t.index(np.concatenate(first)), t.index(np.concatenate([np.arange(m) for m in lengths]))
    last, room = t.index(ends - 1), int(lengths.max() + follow.max())
    embed, position, b_out, w_out = *map(t.array, (p.embed, p.position, p.b_out)), t.weight(p.w_out)
    layers = [_Layer(t, of, p.heads) for of in p.layers]

    def best(x: Array) -> tuple[Array, Array]:
        """Return the log-probability of the next word of each sentence, and the word."""
        scores, found = t.top(t.log_softmax(t.affine(b_out, x, w_out)), 1)
        return scores[:, 0], found[:, 0]

    def begin() -> tuple[Array, list[Array]]:
        """Return the last of the first words of each sentence, and for each layer all keys, then all values."""
        x, kept = t.take(embed, words), []
        x += t.take(position, places)
        x = t.layer_norm(x, None, None)
        for layer in layers:
            qkv, parts = layer.split(x), []
            for of in (1, 2):
                kept.append(t.empty(count, p.heads, room, n // p.heads))
                kept[-1][:] = 0
                for k, rows in enumerate(sentences):
                    kept[-1][k, :, : rows.stop - rows.start] = qkv[rows, of].swapaxes(0, 1)
            for rows in sentences:
                q, k, v = (qkv[rows, of].swapaxes(0, 1)[None] for of in range(3))
                parts.append(t.attention(q, k, v, causal=True)[0].swapaxes(0, 1).reshape(-1, n))
            x = layer.rest(x, t.concat(parts, 0))
        return t.take(x, last), kept

    def step(word: Array, kept: list[Array], at: Any) -> Array:
        """Return the new word of each sentence after all layers; it has a place of its own in each."""
        going, where, longest = t.index(np.arange(len(at))), t.index(at), int(at.max()) + 1
        behind = np.where(np.arange(longest) <= at[:, None], np.float32(0), np.float32(-np.inf))
        unseen = t.array(behind[:, None, None])
        x = t.take(embed, word)
        x += t.take(position, where)
        x = t.layer_norm(x, None, None)
        for layer, keys, values in zip(layers, kept[::2], kept[1::2], strict=True):
            qkv = layer.split(x)
            keys[going, :, where], values[going, :, where] = qkv[:, 1], qkv[:, 2]
            seen = t.attention(qkv[:, 0][:, :, None], keys[:, :, :longest], values[:, :, :longest], added=unseen)
            x = layer.rest(x, seen.reshape(len(at), n))
        return x

    def run() -> list[tuple[Any, Array, Array]]:
        live = np.arange(count)
        x, kept = begin()
        score, word = best(x)
        out = [(live, score, word)]
        for r in range(1, follow.max()):
            going = follow[order[live]] > r if emulated else t.host(word) != decoder.END
            if not going.any():
                break
            if emulated:  # those that go on stand in front
                live = live[: going.sum()]
                word, kept = word[: len(live)], [a[: len(live)] for a in kept]
            elif not going.all():
                live, rows = live[going], t.index(np.flatnonzero(going))
                word, kept = t.take(word, rows), [t.take(a, rows) for a in kept]
            score, word = best(step(word, kept, lengths[live] + r - 1))
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
