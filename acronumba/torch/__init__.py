"""PyTorch: its modules and functions as models (`model`), and models of NumPy in its modules (`layer`).

PyTorch is imported with this package, and by no other part of acronumba.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError("acronumba.torch needs PyTorch: pip install torch") from error

from acronumba.torch import library  # noqa: F401
from acronumba.torch.layers import Layer, Parameters, layer, params
from acronumba.torch.models import TorchModel, model

__all__ = ["Layer", "Parameters", "TorchModel", "layer", "model", "params"]
