"""A layer of the zoo's encoder over sentences of different lengths in PyTorch, by each common method.

In: weights of one layer, sentences as float32[n, H]. Out: `WAYS`, which prepare a `Program` each; a method with several
forms counts with the fastest, which depends on the sentences. Data that depends on the lengths alone (order, masks,
indices, padded or nested arrays of the sentences themselves) is prepared before and not timed.

    padded   one array as long as the longest sentence, with a mask
    nested   PyTorch's own nested tensors: with strides of their own, or jagged
    sorted   whole layers of a few sentences of like lengths, padded
    packed   rows of all sentences side by side; attention per sentence, or of a few of like lengths, padded
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.program import Program
from acronumba.zoo import encoder

Way = Callable[[encoder.Params, Sequence[Any]], Program]


class _Weights:
    """The weights of the layer as tensors, and the parts of the layer that act on each word alone."""

    def __init__(self, p: encoder.Params) -> None:
        (of,) = p.layers
        self.width, self.heads = of.wq.shape[0], p.heads
        self.w_qkv = torch.from_numpy(np.concatenate([of.wq, of.wk, of.wv]))
        self.wo, self.w_in, self.b_in, self.w_out, self.b_out = map(
            torch.from_numpy, (of.wo, of.w_in, of.b_in, of.w_out, of.b_out)
        )
        norms = [(of.scale_attention, of.shift_attention), (of.scale, of.shift)]
        self.first, self.second = ((torch.from_numpy(a), torch.from_numpy(b)) for a, b in norms)

    def rest(self, x: Array, attended: Array) -> Array:
        """Return the output of the layer, from its input and the result of attention."""
        x = F.layer_norm(x + F.linear(attended, self.wo), (self.width,), *self.first)
        hidden = F.gelu(F.linear(x, self.w_in, self.b_in))
        return F.layer_norm(x + F.linear(hidden, self.w_out, self.b_out), (self.width,), *self.second)

    def attended(self, qkv: Array, seen: Array | None) -> Array:
        """Return the result of attention in padded sentences, from `qkv`, float32[sentences, n, 3H]."""
        b, n, _ = qkv.shape
        q, k, v = qkv.view(b, n, 3, self.heads, self.width // self.heads).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(b, n, self.width)

    def padded(self, x: Array, seen: Array | None) -> Array:
        """Return padded sentences after the layer."""
        return self.rest(x, self.attended(F.linear(x, self.w_qkv), seen))

    def module(self) -> torch.nn.TransformerEncoderLayer:
        """Return PyTorch's own layer with these weights."""
        out = torch.nn.TransformerEncoderLayer(
            self.width, self.heads, 4 * self.width, dropout=0.0, activation="gelu", batch_first=True
        )
        attention = out.self_attn
        values = {
            attention.in_proj_weight: self.w_qkv,
            attention.in_proj_bias: torch.zeros(3 * self.width),
            attention.out_proj.weight: self.wo,
            attention.out_proj.bias: torch.zeros(self.width),
            out.linear1.weight: self.w_in,
            out.linear1.bias: self.b_in,
            out.linear2.weight: self.w_out,
            out.linear2.bias: self.b_out,
            out.norm1.weight: self.first[0],
            out.norm1.bias: self.first[1],
            out.norm2.weight: self.second[0],
            out.norm2.bias: self.second[1],
        }
        for parameter, value in values.items():
            parameter.requires_grad_(False).copy_(value)
        return out.eval()


def _together(xs: Sequence[Array]) -> tuple[Array, Array | None]:
    """Return padded sentences, and the mask of words, bool[sentences, n]: None if there is no padding."""
    lengths = torch.tensor([len(x) for x in xs])
    x = torch.nn.utils.rnn.pad_sequence(list(xs), batch_first=True)
    words = torch.arange(x.shape[1])[None] < lengths[:, None]
    return x, None if bool(words.all()) else words


def _for_all(words: Array | None) -> Array | None:
    """Return a mask of words as a mask of attention: all queries of all heads see the same keys."""
    return None if words is None else words[:, None, None, :]


def _cut(xs: Sequence[Array]) -> Callable[[Any], list[Any]]:
    """Return a function that takes the words of each sentence out of a padded or nested array."""
    return lambda out: [row[: len(x)].numpy() for row, x in zip(out, xs, strict=True)]


def _padded(p: encoder.Params, arrays: Sequence[Any], *, module: bool) -> Program:
    w, xs = _Weights(p), [torch.from_numpy(a) for a in arrays]
    x, words = _together(xs)
    if module:
        layer, padding = w.module(), None if words is None else ~words
        return Program(run=lambda: layer(x, src_key_padding_mask=padding), results=_cut(xs))
    seen = _for_all(words)
    return Program(run=lambda: w.padded(x, seen), results=_cut(xs))


def _nested_by_mask(p: encoder.Params, arrays: Sequence[Any]) -> Program:
    """Make PyTorch's encoder convert padded sentences to nested tensors, and its result back."""
    xs = [torch.from_numpy(a) for a in arrays]
    made = torch.nn.TransformerEncoder(_Weights(p).module(), 1, enable_nested_tensor=True).eval()
    x, words = _together(xs)
    padding = None if words is None else ~words
    return Program(run=lambda: made(x, src_key_padding_mask=padding), results=_cut(xs))


def _nested(p: encoder.Params, arrays: Sequence[Any]) -> Program:
    xs = [torch.from_numpy(a) for a in arrays]
    layer, x = _Weights(p).module(), torch.nested.nested_tensor(xs)
    return Program(run=lambda: layer(x), results=lambda out: _cut(xs)(out.unbind()))


def _jagged(p: encoder.Params, arrays: Sequence[Any]) -> Program:
    """Multiply by three matrices, since jagged tensors cannot use a slice of one product as queries."""
    w, xs = _Weights(p), [torch.from_numpy(a) for a in arrays]
    x = torch.nested.nested_tensor(xs, layout=torch.jagged)
    matrices = [m.contiguous() for m in w.w_qkv.chunk(3)]

    def run() -> Array:
        q, k, v = (F.linear(x, m).unflatten(-1, (w.heads, w.width // w.heads)).transpose(1, 2) for m in matrices)
        return w.rest(x, F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))

    return Program(run=run, results=lambda out: _cut(xs)(out.unbind()))


def _groups(arrays: Sequence[Any], size: int) -> Iterator[list[int]]:
    """Yield the sentences in groups of like lengths, the shortest first."""
    order = sorted(range(len(arrays)), key=lambda k: len(arrays[k]))
    for first in range(0, len(order), size):
        yield order[first : first + size]


def _sorted(p: encoder.Params, arrays: Sequence[Any], *, size: int, module: bool) -> Program:
    programs = [(group, _padded(p, [arrays[k] for k in group], module=module)) for group in _groups(arrays, size)]

    def results(outs: Any) -> list[Any]:
        found: dict[int, Any] = {}
        for (group, program), out in zip(programs, outs, strict=True):
            found |= dict(zip(group, program.results(out), strict=True))
        return [found[k] for k in range(len(arrays))]

    return Program(run=lambda: [program.run() for _, program in programs], results=results)


def _packed(p: encoder.Params, arrays: Sequence[Any], *, size: int) -> Program:
    w, order, places, at = _Weights(p), [], [], 0
    for group in _groups(arrays, size):
        _, words = _together([torch.from_numpy(arrays[k]) for k in group])
        rows = slice(at, at := at + sum(len(arrays[k]) for k in group))
        index = None if words is None else words.flatten().nonzero()[:, 0]
        places.append((rows, len(group), max(len(arrays[k]) for k in group), index, _for_all(words)))
        order += group
    x = torch.from_numpy(np.concatenate([arrays[k] for k in order]))

    def run() -> Array:
        qkv, y = F.linear(x, w.w_qkv), torch.empty_like(x)
        for rows, count, longest, index, seen in places:
            part = qkv[rows]
            if index is not None:
                part = part.new_zeros(count * longest, part.shape[1]).index_copy_(0, index, part)
            attended = w.attended(part.view(count, longest, -1), seen).view(count * longest, -1)
            y[rows] = attended if index is None else attended[index]
        return w.rest(x, y)

    def results(out: Array) -> list[Any]:
        parts = out.split([len(arrays[k]) for k in order])
        return [part.numpy() for _, part in sorted(zip(order, parts, strict=True), key=lambda pair: pair[0])]

    return Program(run=run, results=results)


WAYS: Mapping[str, Mapping[str, Way]] = {
    "padded": {"its layer": partial(_padded, module=True), "by hand": partial(_padded, module=False)},
    "nested": {"its encoder": _nested_by_mask, "its layer": _nested, "jagged": _jagged},
    "sorted": {
        f"{name} of {size}": partial(_sorted, size=size, module=module)
        for size in (2, 4, 8)
        for name, module in (("its layer", True), ("by hand", False))
    },
    "packed": {f"attention of {size}": partial(_packed, size=size) for size in (1, 2, 4, 8, 16)},
}


def ways() -> Iterator[tuple[str, Way]]:
    """Yield all forms of all ways by their names."""
    for way, forms in WAYS.items():
        for form, make in forms.items():
            yield f"{way}, {form}", make


def attention(q: Sequence[Any], k: Sequence[Any], v: Sequence[Any], *, heads: int, causal: bool) -> Program:
    """Prepare attention of sentences of one length, as one product of four axes."""

    def split(rows: Sequence[Any]) -> Array:
        x = torch.from_numpy(np.stack(rows))
        return x.view(*x.shape[:2], heads, -1).transpose(1, 2)

    queries, keys, values = (split(rows) for rows in (q, k, v))
    return Program(
        run=lambda: F.scaled_dot_product_attention(queries, keys, values, is_causal=causal),
        results=lambda out: [y.transpose(0, 1).reshape(y.shape[1], -1).numpy() for y in out],
    )
