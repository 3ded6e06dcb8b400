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
import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from operator import is_
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.lib.array_utils import byte_bounds

from acronumba.data.row_grad import RowGrad
from acronumba.data.skeleton import Skeleton
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.memory import Array, DeviceTensor, Home, address, home_of, home_on, homes
from acronumba.storage import leaves

__all__ = ["SGD", "Adam", "AdamW", "Optimiser", "clip"]

_State: TypeAlias = dict[str, Any]
_DTYPES = ("float32", "float64")
_TRIES = 4  # updates without a `_Known` of use, after which only each `_RARELY`-th makes one
_RARELY = 32
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
    _misses = 0  # updates since a `_Known` was of use

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
            If a gradient has no parameter, another shape or dtype than it, a parameter cannot be written to, or what
            the state holds of it has another form. Nothing has been changed then.
        """
        known = self.__dict__.pop("_known", None)  # no other thread has it meanwhile
        if homes:
            there: _There | None = self.__dict__.pop("_there", None)
            found = None if there is None else there.read(params, grads, self.state, self._kinds())
            if found is None:
                pairs = self._checked(params, grads)
                self.state["step"] += 1
                self._apply(pairs)
                every = all(isinstance(g, DeviceTensor) for _, _, g in pairs)
                there = _There(params, pairs, self.state, self._kinds()) if every else None
            else:
                self.state["step"] += 1
                (home, groups), (rule, numbers) = found, self._rule()
                home.step(rule, groups, numbers, self._by_rows())
            self._there = there
            return
        if known is not None and known.read(params, grads, self.state, self._kinds()):
            self._misses = 0
        else:
            pairs = self._checked(params, grads)
            self._misses += 1
            often = self._misses <= _TRIES or not self._misses % _RARELY
            known = _Known(params, pairs, self.state, self._kinds()) if often else None
            if known is None or not known.read(params, grads, self.state, self._kinds()):
                self.state["step"] += 1
                self._apply(pairs)
                return
        self.state["step"] += 1
        known.step(*self._rule())
        self._known = known

    def _checked(self, params: object, grads: object) -> list[tuple[str, Array, Array]]:
        """Return name, array and gradient of each parameter that has one, of which there is a state."""
        pairs = _pairs(params, grads)
        names = [name for name, *_ in pairs]
        if not self.state:
            self.begin(params)
        wrong = [f"the state holds nothing of `{n}`: it was not there when `begin` made it"
                 for n in names for kind in self._kinds() if n not in self.state.get(kind, {})]  # fmt: skip
        for kind in self._kinds() if not wrong else ():
            for name, w, _ in pairs:
                m = self.state[kind][name]
                if why := _unfit(m):
                    wrong.append(f"the {kind} of `{name}` in the state {why}")
                elif (m.dtype, m.shape) != (w.dtype, w.shape):
                    wrong.append(f"`{name}` is {_form(w)}, the {kind} of it in the state {_form(m)}")
        if wrong:
            raise _rejected(wrong)
        return pairs

    def _apply(self, pairs: Sequence[tuple[str, Array, Array]]) -> None:
        memory = [self.state[kind] for kind in self._kinds()]
        groups: dict[Home | None, list[list[Value]]] = {None: []}
        for name, w, g in pairs:
            groups.setdefault(home_of(w), []).append([w, g, *(of[name] for of in memory)])
        rule, numbers = self._rule()
        for home, mine in groups.items():
            if home is None:
                mine = mine if self._by_rows() else list(map(_dense, mine))
                for some in [[group] for group in mine] if _overlap(w for w, *_ in mine) else [mine]:
                    _step(rule, some, numbers)
                continue
            state = [(kind, a) for _, _, *of in mine for kind, a in zip(self._kinds(), of, strict=True)]
            home.hold([(f"{type(self).__name__}.{kind}", a) for kind, a in state if not home.holds(a)])
            home.step(rule, mine, numbers, self._by_rows())

    def _by_rows(self) -> bool:
        """Whether a gradient by rows updates these rows alone; if not, the other rows have gradient zero."""
        return False

    def _kinds(self) -> tuple[str, ...]:
        return self._memory

    def _rule(self) -> tuple[str, Sequence[float]]:
        """Return the name of the rule and its numbers for the step that `state` counts."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k[0] != "_"}  # a copy has other arrays

    def __repr__(self) -> str:
        given = {k: v for k, v in self.__getstate__().items() if k != "state"}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"


class _Same:
    """Parameters and state of an update; whether another one has the same, by identity of all containers."""

    def __init__(self, params: object, state: _State, kinds: Sequence[str]) -> None:
        self._memory = [state[kind] for kind in kinds]
        self._given, self._kinds = (params, state), kinds
        self._skeletons = Skeleton(params), Skeleton(self._memory)
        self.fixed = all(s.fixed for s in self._skeletons)
        self._places, self._others = list[int](), list[int]()

    def _place(self, arrays: Sequence[Array]) -> bool:
        """Note which leaves are these arrays, and which have no gradients; return whether all arrays are leaves."""
        leaves = {id(leaf): k for k, leaf in enumerate(self._skeletons[0].leaves)}
        if not all(id(w) in leaves for w in arrays):
            return False
        self._places = [leaves.pop(id(w)) for w in arrays]
        self._others = list(leaves.values())
        return True

    def _gradients(self, params: object, grads: object, state: _State, kinds: Sequence[str]) -> list[Any] | None:
        """Return the gradients of the arrays, if parameters and state are the same and the gradients are of them."""
        mine, of_memory = self._skeletons
        same = params is self._given[0] and state is self._given[1] and "step" in state and kinds == self._kinds
        same = same and all(map(is_, map(state.get, self._kinds), self._memory))
        if not (same and mine.is_unchanged() and of_memory.is_unchanged()):
            return None
        leaves = mine.leaves_of(grads)
        if leaves is None or not all(map(is_, map(leaves.__getitem__, self._others), repeat(None))):
            return None
        return list(map(leaves.__getitem__, self._places))


class _Known(_Same):
    """Parameters and state after the checks of an update, for as long as they are the same and lie where they lay.

    `read` compares all of that: the containers by identity, the kinds of memory, then places and forms of the arrays,
    and the forms of the gradients with those of the parameters. If anything differs, the next update checks everything,
    as the first one did. So no address is used that was not compared in the same update.
    """

    def __init__(
        self, params: object, pairs: Sequence[tuple[str, Array, Array]], state: _State, kinds: Sequence[str]
    ) -> None:
        from acronumba.runtime.updates import MOST, Table
        from acronumba.runtime.watched import WatchedArrays

        super().__init__(params, state, kinds)
        memory = self._memory
        pairs = sorted(pairs, key=lambda pair: _DTYPES.index(pair[1].dtype.name))
        groups = [[w, *(of[name] for of in memory)] for name, w, _ in pairs]
        every = [w for w, *_ in groups] + [a for _, *of in groups for a in of]
        self.holds = self.fixed and all(a.flags.carray for a in every) and not _overlap(w for w, *_ in groups)
        self.holds = self.holds and self._place([w for w, *_ in groups])
        self._watched, self._found = WatchedArrays(every), list[Array]()
        rows = np.zeros((len(groups), MOST + 1), np.int64)
        ats = iter(self._watched.addresses)
        for row in rows:
            row[0] = next(ats)
        for row, group in zip(rows, groups, strict=True):
            row[2 : len(group) + 1] = [next(ats) for _ in group[1:]]
            row[MOST] = group[0].size
        self._to, self._step = address(rows) + rows.itemsize, rows.strides[0]
        numbers = [_DTYPES.index(w.dtype.name) for w, *_ in groups]
        self._tables = [Table(dtype, rows[numbers.index(k) :][: numbers.count(k)])
                        for k, dtype in enumerate(_DTYPES) if k in numbers]  # fmt: skip

    def read(self, params: object, grads: object, state: _State, kinds: Sequence[str]) -> bool:
        """Take gradients, if everything is as it was; return whether it is."""
        found = self._gradients(params, grads, state, kinds) if self.holds else None
        if found is None or not self._watched.are_unchanged():
            return False
        self._found = found
        arrays = all(map(is_, map(type, self._found), repeat(np.ndarray)))
        return arrays and self._watched.read_alike(self._found, self._to, self._step)

    def step(self, rule: str, numbers: Sequence[float]) -> None:
        """Apply a rule with the gradients that were read."""
        for table in self._tables:
            table.step(rule, numbers)
        self._found = []


class _There(_Same):
    """Parameters and state on a device after the checks of an update, for as long as these are the same.

    `read` compares the containers by identity, and what the device holds; `_Known` is the like of it for the CPU.
    """

    def __init__(
        self, params: object, pairs: Sequence[tuple[str, Array, Array]], state: _State, kinds: Sequence[str]
    ) -> None:
        super().__init__(params, state, kinds)
        found = {home_of(w) for _, w, _ in pairs}
        self.holds = len(found) == 1 and None not in found and self.fixed and self._place([w for _, w, _ in pairs])
        home = found.pop() if self.holds else None
        self._home = (lambda: None) if home is None else weakref.ref(home)
        self._regions = None if home is None else home.regions()
        self._groups = [(w, [of[name] for of in self._memory]) for name, w, _ in pairs]

    def read(
        self, params: object, grads: object, state: _State, kinds: Sequence[str]
    ) -> tuple[Home, list[list[Value]]] | None:
        """Return the home, and the groups of arrays for its `step`, if everything is as it was."""
        home = self._home() if self.holds else None
        if home is None or home not in homes or home.regions() is not self._regions:
            return None
        found = self._gradients(params, grads, state, kinds)
        if found is None:
            return None
        for (w, _), g in zip(self._groups, found, strict=True):
            if not isinstance(g, DeviceTensor) or g.shape != w.shape or g.dtype != w.dtype:
                return None
        return home, [[w, g, *of] for (w, of), g in zip(self._groups, found, strict=True)]


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
    if away := [g for g in found if isinstance(g, DeviceTensor) and g.size]:
        return _clip_there(away, [g for g in found if not isinstance(g, DeviceTensor) and g.size], most)
    there = math.sqrt(sum_of_squares([_in_one_piece(g) for g in found]))
    if most < there < math.inf:
        _step("scale", [[g] for g in found], (most / there,))
    return there


def _clip_there(grads: Sequence[DeviceTensor], here: Sequence[Array], most: float) -> float:
    """Clip gradients on a device; return the norm, which is fetched when it is read."""
    home = home_on(grads[0].device)
    if home is None or here:
        seen = "the block of `on_device` is over" if home is None else f"{len(here)} gradients are on the CPU"
        raise reject("ACR715", message="these gradients cannot be clipped together", seen=seen,
                     rewrite="clip(tree of np.asarray(g), norm)")  # fmt: skip
    norm: float = home.clip(grads, most)
    return norm


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


def _overlap(arrays: Iterable[Array]) -> bool:
    """Whether two arrays may have elements in common, as views of one array have: they are updated one by one."""
    ranges = sorted(map(byte_bounds, arrays))
    return any(high > low for (_, high), (low, _) in pairwise(ranges))


def _named(grads: object) -> list[tuple[str, Any]]:
    """Return gradients with their names."""
    if type(grads).__name__ == "Gradients":
        seen, rewrite = "the loss and its gradients together", "value, grads = f.value_and_grad.batch(...)"
        raise reject("ACR713", seen=seen, rewrite=rewrite)
    return leaves(grads)


def _unfit(w: Any) -> str:
    """Return why an array cannot be changed in place, or nothing."""
    w = w.rows if isinstance(w, RowGrad) else w
    if isinstance(w, DeviceTensor) or home_of(w) is not None:
        return ""
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
