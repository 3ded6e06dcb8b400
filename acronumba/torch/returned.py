"""Values that PyTorch's functions return besides tensors: sizes, and named tuples such as `torch.return_types.max`.

In code they are tuples, and NamedTuples of the same fields; in results they are of PyTorch's classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from acronumba.data.classes import show_as
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import primitive
from acronumba.frontend.walker import Walker


class Max(NamedTuple):
    """The result of `torch.max` along a dimension."""

    values: Any
    indices: Any


class Min(NamedTuple):
    """The result of `torch.min` along a dimension."""

    values: Any
    indices: Any


class Sort(NamedTuple):
    """The result of `torch.sort`."""

    values: Any
    indices: Any


class TopK(NamedTuple):
    """The result of `torch.topk`."""

    values: Any
    indices: Any


for _cls, _shown in ((Max, "max"), (Min, "min"), (Sort, "sort"), (TopK, "topk")):
    show_as(_cls, getattr(torch.return_types, _shown))


def _size(w: Walker, a: Args) -> Val:
    return TupleVal(w.items_of(a["dims"]) or (), shown=torch.Size)


@primitive(rule=_size, rank0="any")
def size(dims: Any) -> Any:
    """Return a tuple of known length as a `torch.Size`."""
    raise NotImplementedError(dims)
