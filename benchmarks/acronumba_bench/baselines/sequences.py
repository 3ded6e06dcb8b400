"""Other models of sequences, batched by hand, step by step, sorted by length as in `by_hand.sequences`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program, spread, steps
from acronumba.bench.by_hand.sequences import by_sequence, flat
from acronumba.zoo import bilstm_tagger, encoder, moe, nested_rnn
from acronumba_bench.baselines.cells import gru_, lstm_


def tag_spelled(t: Library, p: bilstm_tagger.Params, xs: Sequence[list[bilstm_tagger.Word]]) -> Program:
    """Prepare `bilstm_tagger.tag`: first all rare words of all sentences are spelled, in both directions."""
    order = steps([len(x) for x in xs])
    all_words = [word for x in xs for word in x]
    words = [all_words[k] for k in order.at]
    ids = t.index([word.id for word in words])
    rare = [k for k, word in enumerate(words) if word.frequency < bilstm_tagger.OFTEN]
    spelling = steps([len(words[k].letters) for k in rare])
    onward = t.index(flat([words[k].letters for k in rare])[spelling.at])
    back = t.index(flat([words[k].letters[::-1] for k in rare])[spelling.at])
    places = t.index(np.array(rare, np.int64)[spelling.order])
    n, count = p.embed.shape[1], len(xs)
    spellers = [
        (letters, t.weight(r.cell.w), t.array(r.cell.b), t.weight(r.cell.u), t.array(r.h), t.array(r.c))
        for letters, r in ((onward, p.spell_forward), (back, p.spell_backward))
    ]
    readers = [
        (k * n, t.weight(r.cell.u), t.array(r.h), t.array(r.c), order.spans[::step])
        for k, r, step in ((0, p.forward, 1), (1, p.backward, -1))
    ]
    w = t.weight(np.concatenate([p.forward.cell.w, p.backward.cell.w]))
    b = t.array(np.concatenate([p.forward.cell.b, p.backward.cell.b]))
    embed, letter, w_out, b_out = t.array(p.embed), t.array(p.letter), t.weight(p.w_out), t.array(p.b_out)

    def run() -> Array:
        vectors = t.take(embed, ids)
        if rare:
            states = []
            for letters, w_letter, b_letter, u, h_first, c_first in spellers:
                gates = t.take(t.affine(b_letter, letter, w_letter), letters)
                h, c = spread(t, h_first, len(rare)), spread(t, c_first, len(rare))
                for start, stop in spelling.spans:
                    t.add_product_(gates[start:stop], h[: stop - start], u)
                    lstm_(t, gates[start:stop], h[: stop - start], c[: stop - start])
                states.append(h)
            t.put_(vectors, places, t.concat(states, 1))
        gates = t.affine(b, vectors, w)
        both = t.empty(len(words), 2 * n)
        for column, u, h_first, c_first, spans in readers:
            h, c = spread(t, h_first, count), spread(t, c_first, count)
            for start, stop in spans:
                sums, state = gates[start:stop, 4 * column : 4 * (column + n)], h[: stop - start]
                t.add_product_(sums, state, u)
                lstm_(t, sums, state, c[: stop - start])
                both[start:stop, column : column + n] = state
        return t.softmax(t.affine(b_out, both, w_out))

    return Program(run=run, results=by_sequence(t, order))


def encode_texts(t: Library, p: nested_rnn.Params, xs: Sequence[list[list[int]]]) -> Program:
    """Prepare `nested_rnn.encode`: first all sentences of all texts, then a step per sentence of the longest text."""
    sentences = [words for text in xs for words in text]
    inner, outer = steps([len(words) for words in sentences]), steps([len(text) for text in xs])
    words = flat(sentences)[inner.at]
    by_step = [t.index(words[start:stop]) for start, stop in inner.spans]
    place = np.empty(len(sentences), np.int64)
    place[inner.order] = np.arange(len(sentences))
    read = t.index(place[outer.at])
    back = np.empty(len(xs), np.int64)
    back[outer.order] = np.arange(len(xs))
    w, u, w_outer, u_outer = map(t.weight, (p.w, p.u, p.outer.w, p.outer.u))
    embed, b, first, b_outer, begin = map(t.array, (p.embed, p.b, p.first, p.outer.b, p.start))

    def run() -> Array:
        h = spread(t, first, len(sentences))
        for ids in by_step:  # products per step: those of all words do not fit into caches
            state = t.affine(b, t.take(embed, ids), w)
            t.add_product_(state, h[: len(ids)], u)
            t.tanh(state, out=h[: len(ids)])
        gates = t.affine(b_outer, t.take(h, read), w_outer)
        h = spread(t, begin, len(xs))
        for start, stop in outer.spans:
            gru_(t, gates[start:stop], u_outer, h[: stop - start])
        return h

    return Program(run=run, results=lambda out: [t.host(out)[k] for k in back])


def mix(t: Library, p: moe.Params, xs: Sequence[moe.Tokens]) -> Program:
    """Prepare `moe.mix` and `moe.route`: the decisions for all words are read back, and words grouped by expert."""
    return _experts(t, p, xs, None)


def mix_emulated(t: Library, p: moe.Params, xs: Sequence[moe.Tokens]) -> Program:
    """Prepare `moe.route_emulated`: the data assigns words to experts."""
    return _experts(t, p, xs, np.array([k for x in xs for k in x.experts], np.int64))


def _experts(t: Library, p: moe.Params, xs: Sequence[moe.Tokens], known: Array | None) -> Program:
    words = t.index([word for x in xs for word in x.words])
    embed, w_router = t.array(p.embed), t.weight(p.w_router)
    experts = [(t.weight(e.w_in), t.array(e.b_in), t.weight(e.w_out), t.array(e.b_out)) for e in p.experts]

    def sort(chosen: Array) -> tuple[Any, list[int], Any]:
        order = np.argsort(chosen, kind="stable")
        ends = np.searchsorted(chosen[order], np.arange(moe.EXPERTS + 1)).tolist()
        return t.index(order), ends, t.index(order * moe.EXPERTS + chosen[order])

    given = None if known is None else sort(known)

    def run() -> Array:
        x = t.take(embed, words)
        gates = t.softmax(t.product(x, w_router))
        order, ends, own = given or sort(t.host(t.argmax(gates)))
        sorted_x, weight = t.take(x, order), t.take(gates.reshape(-1, 1), own)
        for (w_in, b_in, w_out, b_out), start, stop in zip(experts, ends[:-1], ends[1:], strict=True):
            if start < stop:
                hidden = t.affine(b_in, sorted_x[start:stop], w_in)
                t.relu_(hidden)
                t.add_multiplied_(sorted_x[start:stop], t.affine(b_out, hidden, w_out), weight[start:stop])
        t.put_(x, order, sorted_x)
        return x

    ends = np.cumsum([len(x.words) for x in xs]).tolist()

    def results(out: Any) -> list[list[Array]]:
        rows = list(t.host(out))
        return [rows[end - len(x.words) : end] for x, end in zip(xs, ends, strict=True)]

    return Program(run=run, results=results)


def encode_sentences(t: Library, p: encoder.Params, xs: Sequence[list[int]]) -> Program:
    """Prepare `encoder.encode`: the words of all sentences are rows of one array; attention is per sentence."""
    n, heads, ends = p.embed.shape[1], p.heads, np.cumsum([len(x) for x in xs]).tolist()
    sentences = [slice(end - len(x), end) for end, x in zip(ends, xs, strict=True)]
    words, places = t.index(flat(xs)), t.index(flat([range(len(x)) for x in xs]))
    embed, position = t.array(p.embed), t.array(p.position)

    def layer(of: encoder.Layer) -> Any:
        w_qkv = t.weight(np.concatenate([of.wq, of.wk, of.wv]))
        wo, w_in, w_out = map(t.weight, (of.wo, of.w_in, of.w_out))
        b_in, b_out, scale, shift = map(t.array, (of.b_in, of.b_out, of.scale, of.shift))
        scale_attention, shift_attention = t.array(of.scale_attention), t.array(of.shift_attention)

        def apply(x: Array) -> Array:
            qkv, parts = t.product(x, w_qkv).reshape(-1, 3, heads, n // heads), []
            for rows in sentences:
                q, k, v = (qkv[rows, part].swapaxes(0, 1)[None] for part in range(3))
                parts.append(t.attention(q, k, v, causal=p.causal)[0].swapaxes(0, 1).reshape(-1, n))
            y = t.product(t.concat(parts, 0), wo)
            y += x
            x = t.layer_norm(y, scale_attention, shift_attention)
            y = t.affine(b_out, t.gelu_(t.affine(b_in, x, w_in)), w_out)
            y += x
            return t.layer_norm(y, scale, shift)

        return apply

    layers = [layer(of) for of in p.layers]

    def run() -> Array:
        x = t.take(embed, words)
        x += t.take(position, places)
        x = t.layer_norm(x, None, None)
        for apply in layers:
            x = apply(x)
        return x

    def results(out: Array) -> list[Array]:
        rows = t.host(out)
        return [rows[at] for at in sentences]

    return Program(run=run, results=results)
