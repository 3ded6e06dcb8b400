"""The bidirectional RNN batched by hand, step by step: sorted by length, so that unfinished sequences are in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program, Steps, spread, steps
from acronumba.zoo import birnn


def flat(lists: Sequence[Sequence[int]]) -> Array:
    return np.array([x for part in lists for x in part], np.int64)


def by_sequence(t: Library, order: Steps) -> Any:
    return lambda out: order.of_each(t.host(out))


def tag_words(t: Library, p: birnn.Params, xs: Sequence[list[int]]) -> Program:
    """Prepare `birnn.tag`: words are multiplied for both directions at once, and states replace the products."""
    order = steps([len(x) for x in xs])
    words = t.index(flat(xs)[order.at])
    n, count = p.embed.shape[1], len(xs)
    w = t.weight(np.concatenate([p.forward.w, p.backward.w]))
    b = t.array(np.concatenate([p.forward.b, p.backward.b]))
    directions = [
        (d, t.weight(cell.u), t.array(cell.start), order.spans[::step])
        for d, cell, step in ((0, p.forward, 1), (n, p.backward, -1))
    ]
    embed, w_out, b_out = t.array(p.embed), t.weight(p.w_out), t.array(p.b_out)

    def run() -> Array:
        both = t.affine(b, t.take(embed, words), w)
        for column, u, first, spans in directions:
            h = spread(t, first, count)
            for start, stop in spans:
                state = both[start:stop, column : column + n]
                t.add_product_(state, h[: stop - start], u)
                t.tanh_(state)
                h[: stop - start] = state
        return t.softmax(t.affine(b_out, both, w_out))

    return Program(run=run, results=by_sequence(t, order))
