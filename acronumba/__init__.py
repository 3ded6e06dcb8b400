"""Automatic batching of dynamic deep learning models, in Python.

Write the computation of one instance in plain Python and NumPy, with recursion, loops and branches; `model` makes of
it a model that also runs for many instances at once, batched by a compiler.

>>> import numpy as np
>>> from acronumba import model
>>> @model
... def score(x, *, w):
...     return np.tanh(w @ x)
>>> score(x, w=w)  # doctest: +SKIP
>>> score.batch(xs, w=w)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from acronumba.api.model import Model, model
from acronumba.api.results import Ragged, Results
from acronumba.api.snapshot import Snapshot, pack
from acronumba.api.trace import Trace
from acronumba.config import VERSION, Options
from acronumba.data.classes import register
from acronumba.data.fold import fold
from acronumba.errors import (
    AcronumbaError,
    DataError,
    InstanceErrors,
    InternalError,
    ScheduleError,
    ShapeMismatch,
    TypeMismatch,
    Unsupported,
)
from acronumba.operations import Operation, operation

if TYPE_CHECKING:
    from acronumba import compression as compression
    from acronumba import init as init
    from acronumba import learn as learn
    from acronumba import nn as nn
    from acronumba import optim as optim
    from acronumba import random as random
    from acronumba import serve as serve
    from acronumba import training as training
    from acronumba.api.check import Check
    from acronumba.api.explanation import Explanation
    from acronumba.api.exploration import Exploration
    from acronumba.api.gradients import Gradients, ValueAndGrad
    from acronumba.api.loss import value_and_grad
    from acronumba.api.stages import Stages
    from acronumba.api.summary import summary
    from acronumba.api.vjp import vjp
    from acronumba.compressed import Compressed
    from acronumba.compression import compress
    from acronumba.data.pack import Packed
    from acronumba.data.row_grad import RowGrad
    from acronumba.residence import on_device
    from acronumba.storage import leaves, load, save

__version__ = VERSION

_LATER = {  # imported when first used
    "nn": "acronumba.nn", "random": "acronumba.random", "save": "acronumba.storage", "load": "acronumba.storage",
    "leaves": "acronumba.storage", "summary": "acronumba.api.summary", "value_and_grad": "acronumba.api.loss",
    "vjp": "acronumba.api.vjp", "torch": "acronumba.torch", "ray": "acronumba.ray",
    "RowGrad": "acronumba.data.row_grad", "init": "acronumba.init", "optim": "acronumba.optim",
    "training": "acronumba.training", "serve": "acronumba.serve", "learn": "acronumba.learn",
    "compress": "acronumba.compression", "compression": "acronumba.compression",
    "Compressed": "acronumba.compressed", "Check": "acronumba.api.check", "Explanation": "acronumba.api.explanation",
    "Exploration": "acronumba.api.exploration", "Gradients": "acronumba.api.gradients",
    "on_device": "acronumba.residence",
    "Packed": "acronumba.data.pack", "Stages": "acronumba.api.stages", "ValueAndGrad": "acronumba.api.gradients",
}  # fmt: skip

__all__ = [
    "AcronumbaError",
    "Check",
    "Compressed",
    "DataError",
    "Explanation",
    "Exploration",
    "Gradients",
    "InstanceErrors",
    "InternalError",
    "Model",
    "Operation",
    "Options",
    "Packed",
    "Ragged",
    "Results",
    "RowGrad",
    "ScheduleError",
    "ShapeMismatch",
    "Snapshot",
    "Stages",
    "Trace",
    "TypeMismatch",
    "Unsupported",
    "ValueAndGrad",
    "compress",
    "compression",
    "fold",
    "init",
    "learn",
    "leaves",
    "load",
    "model",
    "nn",
    "on_device",
    "operation",
    "optim",
    "pack",
    "random",
    "register",
    "save",
    "serve",
    "summary",
    "training",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        module = importlib.import_module(_LATER[name])
        return module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
