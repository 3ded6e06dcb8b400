"""Shapes and indices of tensors: each function against PyTorch, in values, shapes and dtypes."""

# ruff: noqa: E501, RUF005, C416, B905

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import ShapeMismatch  # noqa: E402
from tests.support.torch_checks import check  # noqa: E402

x = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
m = torch.tensor([[3.0, 1.0, 2.0, 1.0], [0.5, -1.0, 4.0, 0.5], [7.0, 7.0, -2.0, 0.0]])
v = torch.tensor([3.0, 1.0, 2.0, 1.0, 5.0])
i = torch.tensor([[0, 2, 1, 0], [1, 1, 2, 2], [2, 0, 0, 1]])

ONE = {
    "view": lambda x: x.view(6, 4),
    "view_minus": lambda x: x.view(-1, 4),
    "view_tuple": lambda x: x.view((3, 8)),
    "view_size": lambda x: x.view(x.size()),
    "view_sizes": lambda x: x.view(x.size(0), -1),
    "view_shape": lambda x: x.view(x.shape[:-1] + (2, 2)),
    "reshape": lambda x: (torch.reshape(x, (4, 6)), x.reshape(-1), x.reshape([8, 3])),
    "view_as": lambda x: x.view_as(x.reshape(2, 12)),
    "reshape_as": lambda x: x.reshape_as(x.reshape(24)),
    "flatten": lambda x: (x.flatten(), torch.flatten(x, 1), x.flatten(0, 1), torch.flatten(x, start_dim=-2)),
    "unflatten": lambda x: (x.unflatten(2, (2, 2)), torch.unflatten(x, 1, (-1, 3)), x.unflatten(-1, [4, 1])),
    "squeeze": lambda x: (x.unsqueeze(0).squeeze(), x[:1].squeeze(0), x.unsqueeze(1).squeeze(0 + 1), torch.squeeze(x[:, :1], 1), x[:1, :1].squeeze((0, 1))),
    "unsqueeze": lambda x: (x.unsqueeze(0), torch.unsqueeze(x, -1), x.unsqueeze(1), x.unsqueeze(dim=-2)),
    "transpose": lambda x: (x.transpose(0, 1), torch.transpose(x, -1, 0), x.swapaxes(1, 2), torch.swapdims(x, 0, 2)),
    "t": lambda x: (x[0].t(), torch.t(x[0]), x[0, 0].t(), x[0].T, x.mT),
    "permute": lambda x: (x.permute(2, 0, 1), torch.permute(x, (1, 0, 2)), x.permute([0, 2, 1]), x.permute(-1, 0, 1)),
    "movedim": lambda x: (torch.movedim(x, 0, 2), x.movedim((0, 1), (1, 2)), torch.moveaxis(x, -1, 0)),
    "expand": lambda x: (x[:, :1].expand(2, 5, 4), x.expand(3, -1, -1, -1), x[0].expand((6, 3, 4)), x.expand(-1, 3, 4)),
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "broadcast_to": lambda x: (torch.broadcast_to(x[0, 0], (5, 4)), x.broadcast_to(1, 2, 3, 4)),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[0], x[0, 0]),
    "repeat": lambda x: (x.repeat(2, 1, 1), x[0, 0].repeat(3, 2), x.repeat((1, 2, 2))),
    "tile": lambda x: (x.tile(2), torch.tile(x, (2, 1)), x[0, 0].tile((2, 2))),
    "repeat_interleave": lambda x: (torch.repeat_interleave(x, 2), x.repeat_interleave(3, 1), x.repeat_interleave(2, dim=0)),
    "repeats": lambda x: x[0].repeat_interleave(torch.tensor([1, 0, 2]), dim=0),
    "cat": lambda x: (torch.cat([x, x]), torch.cat((x, x[:, :1]), 1), torch.cat([x, x[..., :2]], dim=-1), torch.concat([x])),
    "stack": lambda x: (torch.stack([x, x]), torch.stack((x[0], x[1]), 1), torch.stack([x[0, 0, 0], x[0, 0, 1]]), torch.stack([x, x], dim=-1)),
    "stack_comprehension": lambda x: torch.stack([row * 2 for row in x]),
    "hstack": lambda x: (torch.hstack([x, x]), torch.hstack([x[0, 0], x[0, 1]]), torch.vstack([x[0, 0], x[0, 1]]), torch.vstack((x, x)), torch.dstack([x[0], x[0]])),
    "column_stack": lambda x: torch.column_stack([x[0, 0], x[0, 1]]),
    "split": lambda x: (x.split(1), torch.split(x, 2, 1), x.split([1, 2], dim=1), torch.split(x, (3, 1), -1), x.split(3, 2)),
    "chunk": lambda x: (x.chunk(2), torch.chunk(x, 2, 1), x.chunk(3, -1), x.chunk(4, dim=2), torch.chunk(x, 5, 1)),
    "chunk_unpacked": lambda x: [y * 2 for y in x.chunk(4, -1)],
    "tensor_split": lambda x: torch.tensor_split(x, 3, -1),
    "unbind": lambda x: (x.unbind(), torch.unbind(x, 1), x.unbind(dim=-1)),
    "narrow": lambda x: (x.narrow(0, 1, 1), torch.narrow(x, 1, 0, 2), x.narrow(-1, -3, 2), x.narrow(2, 1, 0)),
    "select": lambda x: (x.select(0, 1), torch.select(x, 1, -1), x.select(2, 0), x.select(dim=-1, index=3)),
    "flip": lambda x: (x.flip(0), torch.flip(x, (0, 2)), x.flip(1, 2), x.flip([-1]), torch.fliplr(x), x.flipud()),
    "roll": lambda x: (torch.roll(x, 1), x.roll(2, 1), torch.roll(x, (1, -1), (0, 2)), x.roll(shifts=-1, dims=-1)),
    "rot90": lambda x: torch.rot90(x, 1, (0, 1)),
    "tril": lambda x: (torch.tril(x), x.triu(), torch.triu(x, diagonal=1), x.tril(-1), x[0].triu(1)),
    "diag": lambda x: (torch.diag(x[0, 0]), torch.diag(x[0]), x[0].diag(1), torch.diag(x[0, 0], -1)),
    "diagonal": lambda x: (torch.diagonal(x), x.diagonal(0, 1, 2), x.diagonal(1, dim1=-2, dim2=-1)),
    "pad": lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0), value=3.0), F.pad(x, [1, 1], "constant", -1), F.pad(x, (0, 1, 2, 0, 1, 1))),
    "pad_modes": lambda x: (F.pad(x, (1, 2), "reflect"), F.pad(x, (2, 1), mode="replicate"), F.pad(x, (1, 1), mode="circular")),
    "sizes": lambda x: (x.size(), x.size(0), x.size(-1), x.size(dim=1), x.shape, x.dim(), x.ndim, x.numel(), len(x), x.nelement()),
    "names": lambda x: [n for n in x.shape],
    "contiguous": lambda x: x.transpose(0, 1).contiguous().view(3, 8),
    "meshgrid": lambda x: (torch.meshgrid(x[0, 0], x[0, 1], indexing="ij"), torch.meshgrid([x[0, 0], x[0, 1, :2]], indexing="xy")),
    "unpacked": lambda x: [y for pair in [tuple(x)] for y in pair],
    "items": lambda x: (x[0], x[-1], x[:, None], x[..., 0], x[None], x[1:, :2], x[..., None, 1:3], x[0, 1, 2], x[:, ::2], x[[0, 1, 1]]),
    "mask": lambda x: (x[x > 5], x[x[:, 0, 0] > 5], x[0][x[0] > 100]),
    "by_tensors": lambda x: (x[torch.tensor([1, 0])], x[:, torch.tensor([0, 2, 2])], x[torch.tensor([0, 1]), torch.tensor([2, 0])], x[..., torch.tensor([[0], [3]])]),
    "by_0dim": lambda x: x[torch.tensor(1)],
    "columns": lambda x: [(a, b) for a, b in zip(x[0], x[1])],
}  # fmt: skip

TWO = {
    "index_select": lambda m, i: (torch.index_select(m, 0, i[0]), m.index_select(1, i[1]), m.index_select(-1, index=i[0])),
    "gather": lambda m, i: (m.gather(0, i), torch.gather(m, 1, i), m.gather(1, i[:, :1]), m.gather(1, i[:2]), m.gather(0, i[:1, :2]), m[0].gather(0, i[0])),
    "take": lambda m, i: (torch.take(m, i), m.take(i[0])),
    "take_along_dim": lambda m, i: (torch.take_along_dim(m, i, 1), m.take_along_dim(i, dim=0), torch.take_along_dim(m, i)),
    "masked_select": lambda m, i: (torch.masked_select(m, i > 0), m.masked_select(i[0] == 0)),
    "masked_fill": lambda m, i: (m.masked_fill(i > 1, 0), torch.masked_fill(m, i == 0, -1e9), m.masked_fill(i[0] > 0, float("-inf")), i.masked_fill(m > 1, 7), m.masked_fill(i > 1, m[0, 0])),
    "where": lambda m, i: (torch.where(m > 1, m, 0.0), torch.where(i > 0, i, m), torch.where(m > 0, 1.0, 0.0), m.where(i > 0, m * 2), torch.where(m > 0, i, 0), torch.where(m > 0, 1, 2), torch.where(i > 0, 1.5, i)),
    "where_one": lambda m, i: (torch.where(m > 1), torch.where(i[0] > 0)),
    "nonzero": lambda m, i: (m.nonzero(), torch.nonzero(i > 1), torch.nonzero(i, as_tuple=True), torch.argwhere(i[0])),
    "one_hot": lambda m, i: (F.one_hot(i, 5), F.one_hot(i[0], num_classes=3), F.one_hot(i), F.one_hot(i[0, 0], 4)),
    "scatter": lambda m, i: (m.scatter(0, i, m * 2), m.scatter(1, i[:, :1], 5.0), torch.scatter(m, 1, i[:2, :2], 1), m.scatter(-1, i, value=2.0), m[0].scatter(0, i[0], m[1])),
    "scatter_add": lambda m, i: (m.scatter_add(1, i, m), torch.scatter_add(m, 0, i, m * 2), m[0].scatter_add(0, i[0], m[1])),
    "index_add": lambda m, i: (m.index_add(0, i[0], torch.cat([m, m[:1]])), m.index_add(1, i[:, 0], m[:, :3], alpha=2), i.index_add(0, i[0, :2], i[:2])),
    "index_copy": lambda m, i: (m.index_copy(0, i[0, :2], m[1:] * 3), torch.index_copy(m, 1, i[1:, 0], m[:, :2])),
    "index_fill": lambda m, i: (m.index_fill(0, i[0], 2.5), torch.index_fill(m, 1, i[2, :2], -1), i.index_fill(1, i[0, :1], 9)),
    "sort": lambda m, i: (m.sort(), torch.sort(m, 0), m.sort(dim=1, descending=True), i.sort(-1).indices, torch.sort(i, descending=True)[1]),
    "argsort": lambda m, i: (m.argsort(), torch.argsort(i, 0), i.argsort(descending=True), torch.argsort(m, dim=1, descending=True, stable=True)),
    "topk": lambda m, i: (m[:, 1:].topk(1), torch.topk(m[1], 1), m.topk(2, 0, largest=False).values, torch.topk(i[:, :1], 2, dim=0)[0]),
    "searchsorted": lambda m, i: (torch.searchsorted(m[0].sort()[0], m[1]), torch.searchsorted(m[0].sort().values, m[1], right=True), torch.bucketize(m[0], torch.tensor([0.0, 2.0]))),
    "bincount": lambda m, i: (torch.bincount(i[0]), i.flatten().bincount(minlength=6), torch.bincount(i[0], m[0])),
    "unique": lambda m, i: (torch.unique(i), m.unique(), torch.unique(i, return_inverse=True), torch.unique(i[0], return_counts=True)),
    "index_by": lambda m, i: (m[i[:, 0]], m[:, i[0]], m[i[0], i[1]], m[i[:, :1], i[:1]], m[i > 1], m[i[0] - 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_function_of_one_tensor(name):
    check(ONE[name], x)


@pytest.mark.parametrize("name", TWO)
def test_function_of_a_tensor_and_indices(name):
    check(TWO[name], m, i)


def power_of_unlike_shapes(x):
    return torch.ones(3) ** (torch.ones(2) * x[0, 0, 0])


def test_a_power_of_unlike_shapes_is_rejected():
    with pytest.raises(ShapeMismatch, match="do not broadcast"):
        acronumba.torch.model(power_of_unlike_shapes).batch([x])
