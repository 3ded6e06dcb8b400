"""`acronumba.vjp`: the results of a model, and a function from their cotangents to gradients.

In: a model with any result. Out: its results, and a `Pullback`. Compiled code keeps the state of its backward pass
until the pullback is called or dropped; where there is no compiled backward pass, the reference keeps the tapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Unpack

from acronumba.api.cotangents import matched
from acronumba.api.dispatch import bind, function_of
from acronumba.api.forward import Forward
from acronumba.api.gradients import Lossy
from acronumba.api.model import Model
from acronumba.api.results import Results
from acronumba.api.wanted import Choices, wanted_of
from acronumba.errors import InstanceErrors, one_frame
from acronumba.errors.codes import reject
from acronumba.generics import R

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.config import Changes


def vjp(f: Callable[..., R], *, wrt: str | Sequence[str] | None = None) -> Vjp[R]:
    """Return a function that computes a model's results, and a pullback from their cotangents to gradients.

    Parameters
    ----------
    f : model
        Its result is of any structure; tensors of floats in it have cotangents.
    wrt : str or sequence of str, optional
        Parameters to differentiate by, as for `value_and_grad`.

    Returns
    -------
    Vjp
        Called like the model, with one instance or by `batch`; returns results and `pullback`.

    Examples
    --------
    >>> results, pullback = acronumba.vjp(encode).batch(trees, p=p)  # doctest: +SKIP
    >>> grads = pullback([2 * r for r in results])  # doctest: +SKIP
    """
    if isinstance(f, Model) and f.tensors:
        raise reject("ACR706", message="PyTorch follows the results of this model back itself",
                     rewrite="torch.autograd.grad(f.batch(xs).stack(), params, cotangents)")  # fmt: skip
    return Vjp(f if isinstance(f, Model) else Model(f), Choices.of(wrt, "sum", False, ()))


class Vjp(Generic[R]):
    """A model with results and a pullback. Made by `vjp`."""

    __acronumba_gradients__ = True  # how the front end knows it inside a model

    def __init__(self, model: Lossy, choices: Choices) -> None:
        self.model, self.choices = model, choices

    def __repr__(self) -> str:
        return f"<results and pullback of {self.model!r}>"

    def __call__(self, *args: Any, **shared: Any) -> tuple[R, Pullback]:
        """Return the result of one instance and its pullback, computed by the reference."""
        with one_frame:
            call = bind(self.model, [[a] for a in args], shared)
            forward = self._ran(call, together=False)
            for error in forward.errors.values():
                raise error
            return forward.results[0], Pullback(forward, one=True)

    def batch(self, *columns: Any, **shared: Any) -> tuple[Results[R], Pullback]:
        """Return the results of a mini-batch, and their pullback.

        Parameters
        ----------
        *columns, **shared
            As for `Model.batch`.

        Returns
        -------
        (Results, Pullback)
            The pullback holds the state of its backward pass until it is called or dropped.

        Raises
        ------
        InstanceErrors
            If instances failed; its `results` is the pair for the others.
        """
        with one_frame:
            call = bind(self.model, columns, shared)
            forward = self._ran(call, together=True)
            done = Results.of(forward.results), Pullback(forward, one=False)
            if forward.errors:
                error = InstanceErrors(dict(sorted(forward.errors.items())), done[0])
                error.results = done
                raise error
            return done

    def on(self, device: str) -> Vjp[R]:
        """Return a copy for another device: see `Model.on`."""
        return Vjp(self.model.on(device), self.choices)

    def with_options(self, **changes: Unpack[Changes]) -> Vjp[R]:
        """Return a copy with other options: see `Model.with_options`."""
        return Vjp(self.model.with_options(**changes), self.choices)

    def _ran(self, call: Call, together: bool) -> Forward:
        return Forward(self.model, call, wanted_of(function_of(self.model), self.choices, call), together)


class Pullback:
    """Maps cotangents of results to gradients, once: the call frees the state of the backward pass.

    Parameters
    ----------
    forward
        The forward pass.
    one
        Whether the call had one instance, without `batch`.
    """

    def __init__(self, forward: Forward, one: bool) -> None:
        self._forward: Forward | None = forward
        self._one = one

    def __repr__(self) -> str:
        return "<pullback>" if self._forward is not None else "<pullback that was called>"

    def __call__(self, cotangents: Any, *, keep: bool = False) -> Any:
        """Return the gradients.

        Parameters
        ----------
        cotangents : sequence
            One for each instance, of the structure of its result: an array of the same shape and dtype for each tensor
            of floats, None for all else. None in the place of a tensor, or of a whole result, is zeros. Of a call with
            one instance: its cotangent.
        keep : bool
            Whether to keep the state, so that the pullback can be called again.

        Returns
        -------
        object
            Sums over the instances, in the structure of the parameters; for a positional parameter a list of one
            structure per instance.
        """
        with one_frame:
            forward = self._forward
            if forward is None:
                raise reject("ACR706", message="this pullback has already been called, and its memory was freed",
                             rewrite="call pullback(cotangents, keep=True) the first time")  # fmt: skip
            given = [cotangents] if self._one else cotangents
            count = len(forward.results)
            if not self._one and (not isinstance(given, Sequence) and not hasattr(given, "__array__")):
                raise reject("ACR714", message="cotangents must be a sequence with one for each instance",
                             seen=type(given).__name__)  # fmt: skip
            if len(given) != count:
                raise reject("ACR714", message=f"{count} results and {len(given)} cotangents")
            found = {k: matched(forward.results[k], given[k], k) for k in range(count)}
            grads = forward.pullback(found, self._one)
            if not keep:
                self._forward = None
            return grads
