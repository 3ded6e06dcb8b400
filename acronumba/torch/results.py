"""`TensorResults`: the results of a mini-batch of PyTorch code, with `stack` and `ragged` that PyTorch follows back.

In: results, which hold tensors. Out: the same sequence, whose tensors are joined by functions of PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch

from acronumba.api.results import Ragged, Results, Stacked
from acronumba.data.decoder import Decoder
from acronumba.generics import T, Value

_NUMBERS = (bool, int, float)


class TensorResults(Results[T]):
    """The results of a mini-batch: a sequence that equals the list of the plain results.

    Its tensors belong to the caller. PyTorch follows those back that depend on parameters, and those that `stack` and
    `ragged` return. Arrays of NumPy in results stay arrays.
    """

    __slots__ = ()

    @classmethod
    def from_results(cls, results: Results[T]) -> TensorResults[T]:
        """Wrap results, which are decoded when they are first asked for."""
        return cls(len(results), Decoder(results.__getitem__, results.some))

    def _stacked(self, rows: bool) -> Stacked:
        return _StackedTensors(rows)


class _StackedTensors(Stacked):
    """Makes one value of values of one structure: tensors are stacked, numbers become tensors."""

    def form(self, value: Value) -> tuple[Value, ...]:
        if not isinstance(value, torch.Tensor):
            return super().form(value)
        tensor: Any = value
        shape = tensor.shape
        return torch.Tensor, tensor.dtype, (None, *shape[1:]) if self.rows and shape else shape

    def joined(self, values: list[Value]) -> Value:
        first: Any = values[0]
        if isinstance(first, torch.Tensor):
            if not self.rows or not first.ndim:
                return torch.stack(values)
            lengths = torch.tensor([0, *map(len, values)])
            return Ragged(torch.cat(values), lengths.cumsum(0))
        if type(first) in _NUMBERS:
            return torch.tensor(values)
        return super().joined(values)
