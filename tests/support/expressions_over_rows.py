"""What models say over axes whose extent is known only at run time: a name and an expression a line.

x is float32 [n, 4], i are three places in it (none where n is 0), w is [4, 4], k is [5, 4, 3] and b [5].
"""

from __future__ import annotations

LISTED = """
cumsum: np.cumsum(x, axis=0)
cumsum of columns: np.cumsum(x @ x.T, axis=1)
cumprod: np.cumprod(x, axis=0)
largest so far: np.maximum.accumulate(x, axis=0)
add.accumulate: np.add.accumulate(x, axis=0)
diff: np.diff(x, axis=0)
differences by slices: x[1:] - x[:-1]
tril: np.tril(x @ x.T)
triu: np.triu(x @ x.T, k=1)
tri: np.tri(x.shape[0], dtype=bool)
a causal mask: np.arange(x.shape[0])[:, None] >= np.arange(x.shape[0])
attention with a mask: nn.attention(x, x, x, np.arange(x.shape[0])[:, None] >= np.arange(x.shape[0]))
attention row by row: np.stack([nn.softmax(x[: i + 1] @ x[i]) @ x[: i + 1] for i in range(x.shape[0])])
pad: np.pad(x, ((1, 1), (0, 0)))
pad by concatenate: np.concatenate([np.zeros((1, 4), np.float32), x, np.zeros((1, 4), np.float32)])
pad with the edge: np.pad(x, ((2, 1), (0, 0)), mode="edge")
pad by reflection: np.pad(x, ((1, 2), (0, 0)), mode="reflect")
roll: np.roll(x, 1, axis=0)
repeat: np.repeat(x, 2, axis=0)
tile: np.tile(x, (2, 1))
sort: np.sort(x, axis=0)
argsort: np.argsort(x[:, 0])
stable argsort: np.argsort(x[:, 0], kind="stable")
partition: np.partition(x[:, 0], 0)
searchsorted: np.searchsorted(np.cumsum(x[:, 0]), 0.5)
searchsorted of many: np.searchsorted(x[:, 0], x)
windows: np.lib.stride_tricks.sliding_window_view(x, 1, axis=0)
windows of both axes: np.lib.stride_tricks.sliding_window_view(x, (2, 3)).sum(axis=(2, 3))
the whole as a window: np.lib.stride_tricks.sliding_window_view(x, x.shape[0], axis=0) @ x
convolution by slices: x[2:] @ w + x[1:-1] @ w + x[:-2] @ w
windows by concatenate: np.concatenate([x[:-2], x[1:-1], x[2:]], axis=1)
convolve: np.convolve(x[:, 0], x[0])
einsum of rows: np.einsum("ij,kj->ik", x, x)
einsum of heads: np.einsum("hid,hjd->hij", x.reshape(-1, 2, 2).swapaxes(0, 1), x.reshape(-1, 2, 2).swapaxes(0, 1))
einsum of a diagonal: np.einsum("ii->i", x @ x.T)
einsum of a trace: np.einsum("ii", x @ x.T)
tensordot: np.tensordot(x, x, axes=([1], [1]))
take_along_axis: np.take_along_axis(x, np.argmax(x, axis=0)[None], axis=0)
two arrays of places: x[i, i % 4]
rows by places: x[i]
a mask: x[x[:, 0] > 0]
where: np.where(x[:, :1] > 0, x, 0)
nonzero: np.nonzero(x[:, 0] > 0)[0]
unique: np.unique(i)
repeat by counts: np.repeat(x[: len(i)], i, axis=0)
bincount: np.bincount(i, minlength=3)
bincount with weights: np.bincount(i, weights=x[: len(i), 0])
segment_sum: nn.segment_sum(x, np.arange(x.shape[0]) % 3, 3)
segment_sum of more: nn.segment_sum(x > 0, np.arange(x.shape[0]) // 2, x.shape[0])
segment_sum, no such segment: nn.segment_sum(x, np.arange(x.shape[0]), 5)
scatter by one_hot: nn.one_hot(i, x.shape[0]).T @ nn.one_hot(i, x.shape[0])
diag: np.diag(x @ x.T)
diagonal: np.diagonal(x @ x.T)
trace: np.trace(x @ x.T)
logaddexp: np.logaddexp(x, 0)
log1p: np.log1p(np.abs(x))
expm1: np.expm1(x)
median: np.median(x, axis=0)
ptp: np.ptp(x, axis=0)
count_nonzero: np.count_nonzero(x > 0, axis=0)
average: np.average(x, axis=0)
average by weights: np.average(x, axis=0, weights=np.abs(x[:, 0]))
nansum: np.nansum(x, axis=0)
nanmax: np.nanmax(x, axis=0)
ceil: np.ceil(x)
round: np.round(x)
isfinite: np.isfinite(x)
arctan2: np.arctan2(x, 1)
hypot: np.hypot(x, x)
power: np.power(np.abs(x), 2.5)
norm: np.linalg.norm(x, axis=1)
distances: ((x[:, None] - x[None]) ** 2).sum(-1)
nearest: ((x[:, None] - x[None]) ** 2).sum(-1).min(axis=1)
max: x.max(axis=0)
argmax: x.argmax(axis=0)
mean: x.mean(axis=0)
softmax: nn.softmax(x, axis=0)
sum: x.sum()
flip: np.flip(x, axis=0)
reversed: x[::-1]
every second: x[::2]
swapaxes: np.swapaxes(x, 0, 1)
outer: np.outer(x[:, 0], x[:, 1])
meshgrid: np.meshgrid(x[:, 0], x[:, 1])[0]
indices: np.indices((x.shape[0], 2))[0]
split: np.split(x, [x.shape[0] // 2])[0]
array_split: np.array_split(x, 2)[0]
hsplit: np.hsplit(x, 2)[0]
kron: np.kron(x[:, 0], x[0])
cross: np.cross(x[:, :3], x[:, 1:])
inner: np.inner(x, x)
linspace: np.linspace(0, 1, x.shape[0])
add.reduceat: np.add.reduceat(x, [0])
add.reduceat in any order: np.add.reduceat(x, i)
maximum.reduceat: np.maximum.reduceat(x, [0, 1])
digitize: np.digitize(x[:, 0], np.array([0.0, 1.0]))
interp: np.interp(x[:, 0], np.array([0.0, 1.0]), np.array([1.0, 2.0]))
clip: np.clip(x, -1, 1)
isin: np.isin(i, i[:1])
delete: np.delete(x, 0, axis=0)
insert: np.insert(x, 0, x[0], axis=0)
append: np.append(x, x[:1], axis=0)
column_stack: np.column_stack([x[:, 0], x[:, 1]])
triu_indices: np.triu_indices(x.shape[0])[0]
argwhere: np.argwhere(x[:, 0] > 0)
lexsort: np.lexsort((x[:, 0], x[:, 1]))
rows sorted by a number: np.stack(sorted([r for r in x], key=lambda r: float(r[0])))
rows kept by a number: np.stack([r for r in x if float(r[0]) > -9.0])
causal attention: nn.attention(x, x @ w, x, causal=True)
attention in a window: nn.attention(x, x @ w, x, window=2)
causal attention in a window: nn.attention(x, x @ w, x, causal=True, window=2)
attention of the last row: nn.attention(x[-1:], x, x, causal=True, window=3)
attention of more rows than keys: nn.attention(x, x[1:], x[1:], causal=True)
causal heads: nn.multi_head_attention(x, x, w, w, w, w, 2, causal=True)
heads in a window: nn.multi_head_attention(x, x, w, w, w, w, 2, x[:, 0] > 0, window=2)
conv1d: nn.conv1d(x, k)
conv1d with borders: nn.conv1d(x, k, b, padding=1)
causal conv1d: nn.conv1d(x, k, padding=(4, 0), dilation=2)
conv1d by steps: nn.conv1d(x, k, b, stride=2, padding=2)
max_pool1d: nn.max_pool1d(x, 2)
max_pool1d with borders: nn.max_pool1d(x, 3, 1, 1)
avg_pool1d: nn.avg_pool1d(x, 2)
avg_pool1d with borders: nn.avg_pool1d(x, 3, 2, 1)
"""

EXPRESSIONS = dict(line.split(": ", 1) for line in LISTED.strip().splitlines())
# Its results are places or numbers of elements, or jump: a slope of them says nothing.
NO_SLOPE = {
    "tri", "a causal mask", "argsort", "stable argsort", "searchsorted", "searchsorted of many", "nonzero", "unique",
    "bincount", "argmax", "scatter by one_hot", "count_nonzero", "isfinite", "indices", "linspace", "digitize", "isin",
    "triu_indices", "argwhere", "lexsort", "segment_sum of more",
}  # fmt: skip


def source() -> str:
    """Return a module of models, one for each expression: `f0`, `f1`, ..."""
    lines = ["import numpy as np", "from acronumba import model, nn"]
    for number, text in enumerate(EXPRESSIONS.values()):
        lines += ["", "", "@model", f"def f{number}(x, i, *, w, k, b):", "    x = x * w[0]", f"    return {text}"]
    return "\n".join(lines) + "\n"
