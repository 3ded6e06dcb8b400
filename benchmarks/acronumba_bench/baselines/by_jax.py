"""JAX as a baseline on the CPU: compiled for the structure of one mini-batch, or in buckets of padded extents.

Weights are arguments of the compiled functions. XLA runs on one thread, which its flags say before it is imported.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = " ".join(
    [os.environ.get("XLA_FLAGS", ""), "--xla_cpu_multi_thread_eigen=false", "intra_op_parallelism_threads=1"]
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.program import Program
from acronumba.bench.by_hand.trees import Forest, flatten
from acronumba.zoo.encoder import HEADS
from acronumba.zoo.listops import SYMBOLS
from acronumba_bench.baselines.one_structure import OF_ONE_STRUCTURE, Computation
from acronumba_bench.baselines.trees import forest_of


class _Argument:
    """A weight, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number


class Jax:
    """The operations of JAX, see `one_structure.Operations`."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.traced: Sequence[Array] = ()  # the same, while a function is traced

    def _of(self, x: Any) -> Array:
        return self.traced[x.number] if isinstance(x, _Argument) else x

    def array(self, a: Any) -> Any:
        self.given.append(np.asarray(a))
        return _Argument(len(self.given) - 1)

    def weight(self, m: Any) -> Any:
        return self.array(np.ascontiguousarray(m.T))

    def take(self, table: Array, index: Any) -> Array:
        return jnp.take(self._of(table), np.asarray(index, np.int32), axis=0, mode="clip")

    def affine(self, x: Array, w: Array, b: Array | None = None) -> Array:
        y = x @ self._of(w)
        return y if b is None else y + self._of(b)

    def product(self, a: Array, b: Array) -> Array:
        return a @ b

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def multiply(self, a: Array, b: Array) -> Array:
        return a * b

    def sigmoid(self, x: Array) -> Array:
        return jax.nn.sigmoid(x)

    def tanh(self, x: Array) -> Array:
        return jnp.tanh(x)

    def gelu(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=False)

    def softmax(self, x: Array) -> Array:
        return jax.nn.softmax(x, axis=-1)

    def layer_norm(self, x: Array, scale: Array | None, shift: Array | None, width: int) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        y = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return y if scale is None else y * self._of(scale) + self._of(shift)

    def part(self, x: Array, start: int, stop: int, axis: int = 0) -> Array:
        return jax.lax.slice_in_dim(x, start, stop, axis=axis)

    def concat(self, parts: Sequence[Array], axis: int = 0) -> Array:
        return jnp.concatenate(parts, axis)

    def reshape(self, x: Array, *shape: int) -> Array:
        return x.reshape(shape)

    def transpose(self, x: Array, *axes: int) -> Array:
        return x.transpose(axes)

    def spread(self, row: Array, count: int) -> Array:
        row = self._of(row)
        return jnp.broadcast_to(row, (count, row.shape[0]))


def of_one_structure(workload: str) -> Callable[[Any, Any], Program]:
    """Return the maker of a program that is compiled for its instances alone."""
    prepare: Callable[..., Computation] = OF_ONE_STRUCTURE[workload]

    def make(p: Any, xs: Any) -> Program:
        o = Jax()
        compute, results = prepare(o, p, xs)

        def traced(weights: Sequence[Array]) -> Array:
            o.traced = weights
            return compute()

        weights = [jnp.asarray(a) for a in o.given]
        compiled = jax.jit(traced).lower(weights).compile()
        return Program(run=lambda: compiled(weights).block_until_ready(), results=lambda y: results(np.asarray(y)))

    return make


def _bucket(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _leaves(words: Array, embed: Array, w: Array, b: Array, room: Array) -> tuple[Array, Array]:
    i, out, u = jnp.split(embed[words] @ w + b, 3, axis=1)
    c = jax.nn.sigmoid(i) * jnp.tanh(u)
    h = jax.nn.sigmoid(out) * jnp.tanh(c)
    return jax.lax.dynamic_update_slice(room, h, (0, 0)), jax.lax.dynamic_update_slice(room, c, (0, 0))


def _level(h: Array, c: Array, children: Array, start: Array, w: Array, b: Array) -> tuple[Array, Array]:
    n = h.shape[1]
    below = h[children].reshape(-1, 2 * n)
    cl, cr = jnp.split(c[children].reshape(-1, 2 * n), 2, axis=1)
    i, fl, fr, out, u = jnp.split(below @ w + b, 5, axis=1)
    new = jax.nn.sigmoid(i) * jnp.tanh(u) + jax.nn.sigmoid(fl) * cl + jax.nn.sigmoid(fr) * cr
    state = jax.nn.sigmoid(out) * jnp.tanh(new)
    return jax.lax.dynamic_update_slice(h, state, (start, 0)), jax.lax.dynamic_update_slice(c, new, (start, 0))


def _classes(h: Array, roots: Array, w: Array, b: Array) -> Array:
    return jax.nn.softmax(h[roots] @ w + b, axis=-1)


LEAVES, LEVEL, CLASSES = jax.jit(_leaves), jax.jit(_level, donate_argnums=(0, 1)), jax.jit(_classes)


def _trees(p: Any, forest: Forest, words: Sequence[int]) -> Program:
    """Prepare Tree-LSTMs whose leaves are `words`, level by level."""
    n, leaves = p.embed.shape[1], len(words)
    room = jnp.zeros((_bucket(forest.count + 1) * 2, n), np.float32)
    padded = jnp.asarray(np.pad(np.array(words, np.int32), (0, _bucket(leaves) - leaves)))
    levels = []
    for level in forest.levels:
        children = level.children.astype(np.int32)
        more = 2 * _bucket(len(children) // 2) - len(children)
        levels.append((jnp.asarray(np.pad(children, (0, more))), jnp.int32(level.start)))
    roots = jnp.asarray(forest.roots.astype(np.int32))
    embed, b_leaf, b, b_out = map(jnp.asarray, (p.embed, p.b_leaf, p.b, p.b_out))
    w_leaf, w, w_out = map(_weight, (p.w_leaf, p.w, p.w_out))

    def run() -> Array:
        h, c = LEAVES(padded, embed, w_leaf, b_leaf, room)
        for children, start in levels:
            h, c = LEVEL(h, c, children, start, w, b)
        return CLASSES(h, roots, w_out, b_out).block_until_ready()

    return Program(run=run, results=lambda y: list(np.asarray(y)))


def _padded(xs: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Return words [sentences, length], both extents padded to powers of two, and the lengths of all rows."""
    lengths = np.zeros(_bucket(len(xs)), np.int32)
    lengths[: len(xs)] = [len(x) for x in xs]
    words = np.zeros((len(lengths), _bucket(int(lengths.max()))), np.int32)
    for row, x in zip(words, xs, strict=False):
        row[: len(x)] = x
    return jnp.asarray(words), jnp.asarray(lengths)


def _weight(m: Any) -> Array:
    return jnp.asarray(np.ascontiguousarray(m.T))


def _read(inputs: Array, cell: Sequence[Array], there: Array, reverse: bool) -> Array:
    """Return the states [length, sentences, H] of one direction; a word that is not there leaves the state as it is."""
    w, u, b, start = cell

    def step(h: Array, of: tuple[Array, Array]) -> tuple[Array, Array]:
        x, here = of
        h = jnp.where(here[:, None], jnp.tanh(x + h @ u), h)
        return h, h

    first = jnp.broadcast_to(start, inputs.shape[1:])
    states: Array = jax.lax.scan(step, first, (inputs @ w + b, there), reverse=reverse)[1]
    return states


def _tags(words: Array, lengths: Array, embed: Array, cells: Any, w: Array, b: Array) -> Array:
    vectors, there = embed[words.T], jnp.arange(words.shape[1])[:, None] < lengths
    states = [_read(vectors, cell, there, reverse) for cell, reverse in zip(cells, (False, True), strict=True)]
    return jax.nn.softmax(jnp.concatenate(states, -1) @ w + b, axis=-1)


def _encoded(words: Array, lengths: Array, embed: Array, position: Array, layers: Any) -> Array:
    o, n = Jax(), embed.shape[1]
    there = (jnp.arange(words.shape[1]) < lengths[:, None])[:, None, None]  # of a score [sentence, head, word, word]
    x = o.layer_norm(embed[words] + position[: words.shape[1]], None, None, n)
    for wq, wk, wv, wo, w_in, b_in, w_out, b_out, *norms in layers:
        q, k, v = (jnp.moveaxis((x @ w).reshape(*words.shape, HEADS, -1), 2, 1) for w in (wq, wk, wv))
        scores = jax.nn.softmax(jnp.where(there, q @ jnp.swapaxes(k, 2, 3), -np.inf), axis=-1)
        attended = jnp.moveaxis(scores @ v, 1, 2).reshape(x.shape)
        x = o.layer_norm(x + attended @ wo, norms[0], norms[1], n)
        x = o.layer_norm(x + (o.gelu(x @ w_in + b_in) @ w_out + b_out), norms[2], norms[3], n)
    return x


TAGS, ENCODED = jax.jit(_tags), jax.jit(_encoded)


def trees_in_buckets(p: Any, xs: Any) -> Program:
    """Prepare `tree_lstm.sentiment`: each level is padded to a power of two, and each width is compiled once."""
    return _trees(p, *flatten(xs))


def expressions_in_buckets(p: Any, xs: Any) -> Program:
    """Prepare `listops.classify`: the few symbols are the leaves."""
    return _trees(p, forest_of(xs), range(len(SYMBOLS)))


def words_in_buckets(p: Any, xs: Any) -> Program:
    """Prepare `birnn.tag`: sentences are padded to one length, a power of two, as is their number."""
    words, lengths = _padded(xs)
    cells = [(_weight(of.w), _weight(of.u), jnp.asarray(of.b), jnp.asarray(of.start)) for of in (p.forward, p.backward)]
    given = words, lengths, jnp.asarray(p.embed), cells, _weight(p.w_out), jnp.asarray(p.b_out)
    return Program(
        run=lambda: TAGS(*given).block_until_ready(),
        results=lambda y: [list(np.asarray(y)[: len(x), k]) for k, x in enumerate(xs)],
    )


def sentences_in_buckets(p: Any, xs: Any) -> Program:
    """Prepare `encoder.encode`: the same padding, with a mask for attention."""
    words, lengths = _padded(xs)
    scale = np.float32(np.sqrt(p.embed.shape[1] // HEADS))
    layers = [
        (
            *map(_weight, (of.wq / scale, of.wk, of.wv, of.wo, of.w_in)), jnp.asarray(of.b_in), _weight(of.w_out),
            *map(jnp.asarray, (of.b_out, of.scale_attention, of.shift_attention, of.scale, of.shift)),
        )
        for of in p.layers
    ]  # fmt: skip
    given = words, lengths, jnp.asarray(p.embed), jnp.asarray(p.position), layers
    return Program(
        run=lambda: ENCODED(*given).block_until_ready(),
        results=lambda y: [np.asarray(y)[k, : len(x)] for k, x in enumerate(xs)],
    )


IN_BUCKETS: dict[str, Callable[[Any, Any], Program]] = {
    "tree_lstm": trees_in_buckets,
    "birnn": words_in_buckets,
    "listops": expressions_in_buckets,
    "encoder": sentences_in_buckets,
}
