"""Reference semantics of gradients: a run of the interpreter that records each tensor operation, and its backward pass.

In: a `Program` that is not planned, its shared values, an instance. Out: a `Tape`: the operations of this run in order,
as straight-line code without loops, recursion, lists and objects. Decisions, integers and computations with Python
numbers are constants of the tape. `Tape.pullback` goes from the last operation to the first with the rules of `ir.vjp`;
adjoints of a value are added in this order.

`wide=True` does the same in float64 with the decisions of the run: operations with float results are repeated on the
values in float64. Compiled gradients are compared with both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.errors import Loc
from acronumba.ir import nodes as ir
from acronumba.ir.evaluate import apply
from acronumba.ir.interpret import Env, Interpreter
from acronumba.ir.shapes import field_of, layout_of
from acronumba.ir.types import NO_VALUE, Array0T, ListT, TensorT, TorchT, Type, UnionT, case_slices
from acronumba.ir.values import List, Memo, ObjectRow, UserValue, WordValue, flatten
from acronumba.ir.vjp import RULES, Applied, Eager, adjoints, differentiable
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.ir.ops import Array, Attrs


@record(kw_only=True)
class Noted:
    """A recorded operation of a run. Values are numbered in order of their first use."""

    op: str
    args: tuple[int | tuple[int, ...], ...]  # numbers of values; those of the elements of a list
    attrs: Attrs
    out: int
    loc: Loc


class Tape:
    """The operations of a run."""

    def __init__(self) -> None:
        self.ops: list[Noted] = []
        self.values: list[Array] = []  # arrays by number, as the run had them
        self.given: dict[int, UserValue] = {}  # shared objects of the user by the numbers of the values that they are
        self.own: dict[int, UserValue] = {}  # the same of the instance
        self._number: dict[int, int] = {}  # by the id of the array

    def number(self, array: Array) -> int:
        """Return the number of a value; a new value gets a new number."""
        found = self._number.get(id(array))
        if found is None:
            found = self._number[id(array)] = len(self.values)
            self.values.append(array)
        return found

    def note(self, op: str, args: Sequence[Array], attrs: Attrs, out: Array, loc: Loc) -> Array:
        """Record an operation; an argument is an array or a list of arrays. Returns its result, as a new object."""
        numbers = tuple(tuple(map(self.number, a)) if isinstance(a, list) else self.number(a) for a in args)
        out = out.view() if id(out) in self._number else out
        self.ops.append(Noted(op=op, args=numbers, attrs=attrs, out=self.number(out), loc=loc))
        return out

    def reached(self, wanted: Collection[int]) -> set[int]:
        """Return the float values that depend on some values by derivatives."""
        found = set(wanted)
        for op in self.ops:
            if self.values[op.out].dtype.kind != "f" or op.op not in RULES:
                continue
            if any(found.intersection(_each(a)) for k, a in enumerate(op.args) if differentiable(op.op, k, op.attrs)):
                found.add(op.out)
        return found

    def widened(self, moved: Mapping[int, Array] | None = None) -> list[Array]:
        """Return the values in float64; values that are not floats are the run's.

        `moved`: map from numbers of values to replacements. `scale_gradient` then scales the difference that the
        replacements make.
        """
        out = [v.astype(np.float64) if v.dtype == np.float32 else v for v in self.values]
        for number, value in (moved or {}).items():
            out[number] = value
        with np.errstate(all="ignore"):
            for op in self.ops:
                base = out[op.out]
                if base.dtype.kind != "f" or op.op == "const":
                    continue
                args = [_stacked(out, a, base.shape) for a in op.args]
                if op.op == "scale_gradient" and moved:
                    out[op.out] = base + op.attrs[0] * (args[0] - base)
                else:
                    out[op.out] = apply(op.op, args, op.attrs, base.shape, "float64")
        return out

    def pullback(
        self, seeds: Mapping[int, Array], wanted: Collection[int], *, wide: bool = False,
        read: dict[int, list[int] | None] | None = None,
    ) -> dict[int, Array]:  # fmt: skip
        """Return a map from requested values to their adjoints, without values that have none.

        Parameters
        ----------
        seeds
            Adjoints of values, by number.
        wanted
            Numbers of the values whose adjoints are requested.
        wide
            Whether to compute in float64.
        read
            Is filled with the rows of requested values that their adjoints come from; None if from other parts, too.
        """
        values = self.widened() if wide else self.values
        reached = self.reached(wanted)
        found: dict[int, Array] = {}

        def give(number: int, g: Array) -> None:
            if number in reached:
                found[number] = found[number] + g if number in found else g

        read = {} if read is None else read
        for number, g in seeds.items():
            give(number, np.asarray(g, values[number].dtype))
            read[number] = None
        with np.errstate(all="ignore"):
            for op in reversed(self.ops):
                if op.out not in found or op.op not in RULES:
                    continue
                g = found[op.out] if op.out in wanted else found.pop(op.out)
                places = [
                    k
                    for k, a in enumerate(op.args)
                    if reached.intersection(_each(a)) and differentiable(op.op, k, op.attrs)
                ]
                args = tuple(_stacked(values, a, values[op.out].shape) for a in op.args)
                one = Applied(op=op.op, args=args, attrs=op.attrs, result=values[op.out], adjoint=g, wanted=places)
                for k, adjoint in adjoints(Eager(), one).items():
                    a = op.args[k]
                    for number, part in zip(a, adjoint, strict=True) if isinstance(a, tuple) else [(a, adjoint)]:
                        give(number, np.asarray(part))
                        _note_rows(read, number, _rows_of(one) if k == 0 else None)
        return {number: g for number, g in found.items() if number in wanted}


# Words that stand for no object of the user.
_NO_OBJECT = (int, float, str, type(None), np.ndarray, np.generic, ObjectRow)


def _rows_of(one: Applied) -> Array:
    """Return the rows of the first argument that an operation reads, or None if it reads other parts."""
    if one.op == "slice" and np.shape(one.result) == (1, *np.shape(one.args[0])[1:]):
        return one.attrs[0][0]
    return one.args[1] if one.op == "take" and one.attrs == (0,) else None


def _note_rows(read: dict[int, list[int] | None], number: int, rows: Array) -> None:
    """Note rows of a value that an adjoint is for; None: something else is."""
    known = read.setdefault(number, [])
    if rows is None or known is None:
        read[number] = None
    else:
        known += np.ravel(rows).tolist()


def _each(arg: int | tuple[int, ...]) -> tuple[int, ...]:
    return arg if isinstance(arg, tuple) else (arg,)


def _stacked(values: Sequence[Array], arg: int | tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return an argument; the elements of a list as the rows of one array of this shape."""
    if not isinstance(arg, tuple):
        return values[arg]
    return np.asarray([values[k] for k in arg]).reshape(shape)


class _Origins(Memo):
    """Knows which object of the user an array stands for; `apart`: an array is another value than the object itself."""

    __slots__ = ("apart", "of")

    def __init__(self, of: dict[int, tuple[Array, UserValue]], apart: bool = False) -> None:
        super().__init__()
        self.of, self.apart = of, apart

    def put(self, value: UserValue, t: Type, word: WordValue) -> WordValue:
        word = value.copy() if self.apart and word is value else word
        self.of[id(word)] = (word, value)
        return super().put(value, t, word)


class Recorder(Interpreter):
    """Runs instances of a program that is not planned, with a tape for each.

    An array of an instance is a separate value even if it is the same object as a shared array: instances are data.

    Parameters as for `Interpreter`.
    """

    def __init__(self, program: ir.Program, shared: Sequence[object], **more: Any) -> None:
        self._origins: dict[int, tuple[Array, UserValue]] = {}  # by the id of an array: it, and the user's object
        self._own: dict[int, tuple[Array, UserValue]] | None = None  # the same of the instance that runs
        self._objects: dict[int, UserValue] = {}  # shared objects that were reached, by id
        self.tape = Tape()
        super().__init__(program, shared, **more)
        self._of_shared, self._own = self._memo, {}
        for inner, value in zip(self._shared, shared, strict=False):
            if isinstance(inner, np.ndarray):
                self._origins[id(inner)] = (inner, value)
            self._reach(inner)

    def _new_memo(self) -> Memo:
        return _Origins(self._origins) if self._own is None else _Origins(self._own, apart=True)

    def _memo_of(self, ref: WordValue) -> Memo:
        return self._of_shared if id(ref) in self._objects else super()._memo_of(ref)

    def _load(self, i: ir.Load, env: Env) -> None:
        super()._load(i, env)
        if id(env[i.ref]) in self._objects:
            for v in i.outs:
                self._reach(env[v])

    def _reach(self, word: WordValue) -> None:
        """Note the shared objects that a word is, or holds as a list."""
        todo = [word]
        while todo:
            word = todo.pop()
            if isinstance(word, List):
                todo += word.words
            elif not isinstance(word, _NO_OBJECT):
                self._objects[id(word)] = word

    def record(self, args: Sequence[object]) -> tuple[tuple[WordValue, ...], Tape]:
        """Return the words of the result for an instance, and the tape; or raise `InstanceFailure`."""
        self.tape, self._own = Tape(), {}
        out = self.words(args)
        self.note_given()
        return out, self.tape

    def note_given(self) -> None:
        """Note which values of the tape are arrays of the user."""
        for given, origins in ((self.tape.given, self._origins), (self.tape.own, self._own or {})):
            for word, value in origins.values():
                if isinstance(word, np.ndarray):
                    given[self.tape.number(word)] = value

    def fix(self, words: Iterable[WordValue]) -> None:
        """Make arrays that are values of the tape read-only, except the user's arrays."""
        given = {id(value) for _, value in self._origins.values()}
        for word in words:
            if isinstance(word, np.ndarray) and id(word) not in given:
                word.flags.writeable = False

    # ---- values that words of results refer to, see `data.tensors.References`

    def fields(self, word: WordValue, value: UserValue) -> tuple[ir.StructLayout, Sequence[WordValue]]:
        """Return the layout of the row of an object, and its words."""
        if isinstance(word, ObjectRow):
            return word.layout, word.words
        layout = layout_of(self._layouts, value)[1]
        out: list[WordValue] = [None] * (layout.size - 1)
        for f in layout.fields:
            if (part := field_of(value, layout.cls, f.name, True)) is not NO_VALUE:
                out[f.offset - 1 : f.offset - 1 + f.width] = flatten(part, f.type, self._memo_of(value))
        return layout, out

    def items(self, word: List, width: int) -> Sequence[WordValue]:
        """Return the words of all elements of a list."""
        return word.words

    def shape(self, word: WordValue, rank: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return np.shape(word)

    def _done(self, i: ir.Op, args: Sequence[WordValue], env: Env, attrs: Attrs, out: WordValue) -> WordValue:
        given = [
            list(env[a].words) if isinstance(a, ir.Var) and _holds_tensors(a.type) else x
            for a, x in zip(i.args, args, strict=True)
        ]
        return self.tape.note(i.op, given, attrs, out, i.loc)


def _holds_tensors(t: object) -> bool:
    return isinstance(t, ListT) and isinstance(t.item, TensorT)


def loss_of(values: Sequence[WordValue], t: Type) -> WordValue:
    """Return the array that the words of a loss hold; None if the loss is a Python number, which is a constant."""
    match t:
        case TensorT():
            return values[0]
        case Array0T():
            return values[-1]
        case TorchT():
            return loss_of(values, t.inner)
        case UnionT():
            case, place = case_slices(t)[values[0]]
            return loss_of(values[place], case)
    return None
