"""Optimisers, which update parameters in place from their gradients.

>>> import numpy as np
>>> from acronumba import optim
>>> params = {"w": np.ones(3)}
>>> optim.SGD(0.1).update(params, {"w": np.array([1.0, 0.0, -1.0])})
>>> params["w"]
array([0.9, 1. , 1.1])

An optimiser visits the float arrays that `acronumba.leaves` finds, each once. Its `state` is a dict that
`acronumba.save` and `acronumba.load` accept. The state is allocated at the first update; then a step is one compiled
pass over each array, by all threads. The steps are those of `torch.optim`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from acronumba.data.row_grad import RowGrad
from acronumba.errors.codes import reject
from acronumba.memory import Array
from acronumba.storage import leaves

__all__ = ["SGD", "Adam", "AdamW", "Optimiser", "clip"]

_DTYPES = ("float32", "float64")
_GRADIENT = 1  # where the gradient stands in a group


class Optimiser:
    """Base class of the optimisers.

    Attributes
    ----------
    rate : float
        The learning rate; it may be assigned at any time.
    state : dict
        The number of steps so far, `"step"`, and for each kind of memory a dict from the names of `acronumba.leaves` to
        arrays. Empty before the first update.
    """

    _memory: ClassVar[tuple[str, ...]] = ()  # names of the state arrays per parameter

    def __init__(self, rate: float) -> None:
        self.rate: float = _number("rate", rate)
        self.state: dict[str, Any] = {}

    def begin(self, params: object) -> None:
        """Initialise the state as before the first update, so that `load` can read a saved one into its structure.

        Parameters
        ----------
        params : object
            Parameters as `update` takes them.

        Examples
        --------
        >>> opt.begin(params)  # doctest: +SKIP
        >>> opt.state = load("adam.safetensors", opt.state)  # doctest: +SKIP
        """
        found = dict(leaves(params))
        self.state = {
            "step": 0,
            **{kind: {n: np.zeros(w.shape, w.dtype) for n, w in found.items()} for kind in self._kinds()},
        }

    def update(self, params: object, grads: object) -> None:
        """Change parameters in place.

        Parameters
        ----------
        params : object
            As `acronumba.save` takes them; their float arrays are changed.
        grads : object
            Gradients of the same structure, as `value_and_grad` returns them. A parameter whose gradient is None, or
            that has none in `grads`, is unchanged.

        Raises
        ------
        TypeMismatch
            If a gradient has no parameter, another shape or dtype than it, or a parameter cannot be written to.
            Nothing has been changed then.
        """
        pairs = _pairs(params, grads)
        names = [name for name, *_ in pairs]
        if not self.state:
            self.begin(params)
        missing = [n for n in names for kind in self._kinds() if n not in self.state.get(kind, {})]
        if missing:
            raise _rejected(
                [f"the state holds nothing of `{n}`: it was not there when `begin` made it" for n in missing]
            )
        self.state["step"] += 1
        memory = [[self.state[kind][name] for kind in self._kinds()] for name in names]
        for rule, numbers, dtype in ((*self._rule(), d) for d in _DTYPES):
            groups = [[w, g, *of] for (_, w, g), of in zip(pairs, memory, strict=True) if w.dtype.name == dtype]
            _step(rule, groups if self._by_rows() else map(_dense, groups), numbers)

    def _by_rows(self) -> bool:
        """Whether a gradient by rows updates these rows alone; if not, the other rows have gradient zero."""
        return False

    def _kinds(self) -> tuple[str, ...]:
        return self._memory

    def _rule(self) -> tuple[str, Sequence[float]]:
        """Return the name of the rule and its numbers for the step that `state` counts."""
        raise NotImplementedError

    def __repr__(self) -> str:
        given = {k: v for k, v in vars(self).items() if k != "state"}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"


class SGD(Optimiser):
    """Stochastic gradient descent.

    Parameters
    ----------
    rate : float
        The learning rate.
    momentum : float
        Factor of the last step's direction: 0 for none.
    nesterov : bool
        Look ahead along the momentum (Sutskever et al., ICML 2013).
    decay : float
        Factor of each parameter that is added to its gradient.
    """

    def __init__(self, rate: float, momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0) -> None:
        super().__init__(rate)
        self.momentum: float = _number("momentum", momentum)
        self.nesterov: bool = nesterov
        self.decay: float = _number("decay", decay)
        if nesterov and not momentum:
            raise ValueError("nesterov needs a momentum other than 0")

    def _kinds(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def _by_rows(self) -> bool:
        return not self.momentum and not self.decay

    def _rule(self) -> tuple[str, Sequence[float]]:
        if not self.momentum:
            return "descend", (self.rate, self.decay)
        return "nesterov" if self.nesterov else "momentum", (self.rate, self.decay, self.momentum)


class Adam(Optimiser):
    """Adam (Kingma and Ba, ICLR 2015).

    Where a gradient is a `RowGrad`, it is the lazy form, as of `torch.optim.SparseAdam`: rows that are not in it stay
    as they are, their means and squares, too.

    Parameters
    ----------
    rate : float
        The learning rate.
    betas : (float, float)
        Decay factors of the means of gradients and of their squares.
    eps : float
        Added to the root of the mean square.
    """

    _memory = ("mean", "square")

    def _by_rows(self) -> bool:
        return True

    def __init__(self, rate: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(rate)
        self.betas: tuple[float, ...] = tuple(_number("betas", b) for b in betas)
        self.eps: float = _number("eps", eps)
        if len(self.betas) != 2 or max(self.betas) >= 1:
            raise ValueError(f"betas must be two numbers in [0, 1), not {betas!r}")

    def _rule(self) -> tuple[str, Sequence[float]]:
        first, second = self.betas
        step = self.state["step"]
        root = 1 / math.sqrt(1 - second**step)
        rate = self.rate / (1 - first**step)
        return "adam", (rate, 1 - self.rate * self._decay(), first, 1 - first, second, 1 - second, root, self.eps)

    def _decay(self) -> float:
        return 0.0


class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, ICLR 2019).

    Parameters
    ----------
    rate, betas, eps
        As of `Adam`.
    decay : float
        Fraction of each parameter to subtract at each step, times the learning rate.
    """

    def __init__(
        self, rate: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.01
    ) -> None:
        super().__init__(rate, betas, eps)
        self.decay: float = _number("decay", decay)

    def _decay(self) -> float:
        return self.decay


def clip(grads: object, norm: float) -> float:
    """Scale gradients in place so that all of them together have at most this norm.

    Parameters
    ----------
    grads : object
        Gradients as `value_and_grad` returns them.
    norm : float
        The largest Euclidean norm after scaling.

    Returns
    -------
    float
        The norm before. If it is infinite or NaN, the gradients stay as they are: look at it before you update.
    """
    from acronumba.runtime.updates import sum_of_squares

    most = _number("norm", norm)
    named = _named(grads)
    found = [g.rows if isinstance(g, RowGrad) else g for _, g in named]
    wrong = [f"`{name}` {why}" for name, g in named if (why := _unfit(g))]
    if wrong:
        raise _rejected(wrong)
    there = math.sqrt(sum_of_squares([_in_one_piece(g) for g in found]))
    if most < there < math.inf:
        for dtype in _DTYPES:
            _step("scale", [[g] for g in found if g.dtype.name == dtype], (most / there,))
    return there


def _number(name: str, value: float) -> float:
    """Return a setting as a float, or reject it."""
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be a number of at least 0, not {value!r}")
    return number


def _pairs(params: object, grads: object) -> list[tuple[str, Array, Array]]:
    """Return name, array and gradient of each parameter that has one."""
    if type(params).__name__ == "Snapshot":
        raise _rejected(["a snapshot does not change: update the parameters that it was made of"])
    there = dict(leaves(params))
    out, wrong = [], []
    for name, g in _named(grads):
        w = there.get(name)
        if w is None:
            wrong.append(f"there is no parameter `{name}`")
        elif isinstance(g, RowGrad) and (np.diff(g.index) <= 0).any():
            wrong.append(f"the rows of the gradient of `{name}` do not rise")
        elif (w.dtype, w.shape) != (g.dtype, g.shape):
            wrong.append(f"`{name}` is {_form(w)}, its gradient {_form(g)}")
        elif why := _unfit(w):
            wrong.append(f"`{name}` {why}")
        else:
            out.append((name, w, g))
    if wrong:
        raise _rejected(wrong)
    return out


def _named(grads: object) -> list[tuple[str, Any]]:
    """Return gradients with their names."""
    if type(grads).__name__ == "Gradients":
        seen, rewrite = "the loss and its gradients together", "value, grads = f.value_and_grad.batch(...)"
        raise reject("ACR713", seen=seen, rewrite=rewrite)
    return leaves(grads)


def _unfit(w: Any) -> str:
    """Return why an array cannot be changed in place, or nothing."""
    w = w.rows if isinstance(w, RowGrad) else w
    if not isinstance(w, np.ndarray):
        return f"is a number ({type(w).__name__}), which cannot be changed in place"
    if w.dtype.name not in _DTYPES or not w.dtype.isnative:
        return f"is an array of {w.dtype}, not float32 or float64"
    return "" if w.flags.writeable else "is read-only"


def _form(w: Any) -> str:
    return f"{w.dtype}[{', '.join(map(str, w.shape))}]"


def _in_one_piece(a: Array) -> Array:
    return a if a.flags.c_contiguous else a.copy()


_REWRITES = {  # by how all that is wrong ends
    "is read-only": "np.array(w) in its place",
    "which cannot be changed in place": "np.full((), 1.0, np.float32), an array without axes, in its place",
}


def _rejected(wrong: Sequence[str]) -> Exception:
    rewrite = next((to for why, to in _REWRITES.items() if all(w.endswith(why) for w in wrong)), "")
    return reject("ACR713", seen="; ".join(wrong), rewrite=rewrite)


def _dense(group: Sequence[Any]) -> list[Any]:
    return [np.asarray(a) for a in group]


def _step(rule: str, groups: Iterable[Sequence[Any]], numbers: Sequence[float]) -> None:
    """Update the arrays of each group by a rule, except gradients; non-contiguous arrays are updated through copies.

    A gradient by rows updates these rows alone.
    """
    from acronumba.runtime.updates import step

    groups = list(groups)
    where = [next((a.index for a in group if isinstance(a, RowGrad)), ...) for group in groups]
    whole = [
        [_in_one_piece(a.rows if isinstance(a, RowGrad) else a if rows is ... else a[rows]) for a in group]
        for group, rows in zip(groups, where, strict=True)
    ]
    step(rule, whole, numbers)
    for group, rows, done in zip(groups, where, whole, strict=True):
        for k, (a, b) in enumerate(zip(group, done, strict=True)):
            if a is not b and k != _GRADIENT:
                a[rows] = b
