"""`acronumba.value_and_grad`: gradients of a loss, with choices.

In: a model, or a function. Out: a `ValueAndGrad` (see `api.gradients`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

from acronumba.api.gradients import ValueAndGrad
from acronumba.api.model import Model
from acronumba.api.wanted import DEFAULT, Choices
from acronumba.errors.codes import reject
from acronumba.generics import Value

if TYPE_CHECKING:
    from acronumba.generics import Whole


@overload
def value_and_grad(f: Callable[..., Value], *, reduce: str = "mean", aux: bool = False) -> ValueAndGrad[Whole]: ...
@overload
def value_and_grad(
    f: Callable[..., Value],
    *,
    wrt: str | Sequence[str] | None = None,
    reduce: str = "mean",
    aux: bool = False,
    sparse: bool | Sequence[str] = (),
) -> ValueAndGrad[None]: ...
def value_and_grad(
    f: Callable[..., Value],
    *,
    wrt: str | Sequence[str] | None = None,
    reduce: str = "mean",
    aux: bool = False,
    sparse: bool | Sequence[str] = (),
) -> ValueAndGrad[Value]:
    """Return a function that computes the loss of a mini-batch and its gradients.

    Parameters
    ----------
    f : model
        Its result is a loss: a float scalar of one instance.
    wrt : str or sequence of str, optional
        Names of parameters, or paths such as ``"p.encoder"``; by default all keyword-only parameters that hold float
        arrays. One name gives gradients of its structure, several a tuple of them. A positional parameter gives a
        structure for each instance, in a list. Globals and variables of enclosing functions are named like parameters.
    reduce : str
        "mean" or "sum" of the losses.
    aux : bool
        Whether `f` returns a pair of the loss and another value, which is in `Gradients.aux`.
    sparse : bool or sequence of str
        Paths of tables with gradients of class `RowGrad`; True: all tables of which only rows are read.

    Returns
    -------
    ValueAndGrad
        Called like the model: with one instance, or by `batch`.
    """
    choices = Choices.of(wrt, reduce, aux, sparse)
    if isinstance(f, Model) and f.tensors:
        if choices != DEFAULT:
            raise reject("ACR706", message="gradients of code of PyTorch are those of what requires them",
                         rewrite="p.requires_grad_(False) for the others, or loss.backward()")  # fmt: skip
        return f.value_and_grad
    return ValueAndGrad(f if isinstance(f, Model) else Model(f), choices)
