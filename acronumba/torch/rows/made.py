"""New tensors."""

from __future__ import annotations

import numpy as np
import torch

from acronumba.torch.implements import implements


@implements(torch.tensor)
def tensor_of(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    if isinstance(data, float):
        return np.array(data, np.float32)
    return np.array(data)
