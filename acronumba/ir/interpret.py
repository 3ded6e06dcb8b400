"""The reference interpreter: defines the semantics of programs, one instance at a time.

In: a `Program`, the instance's arguments and the shared values. Out: the result as a Python object, or
`InstanceFailure`. It works on real Python objects and NumPy arrays and takes the semantics of operations from the
tables of `ir.ops`; the batched engine must give the same results. Its stack is a list, so that recursion may be as deep
as memory allows. A planned program (`Emit`) is run through `ir.reference`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from acronumba.errors import NOWHERE, Loc
from acronumba.foreign import is_tensor
from acronumba.ir import nodes as ir
from acronumba.ir import ordered
from acronumba.ir.evaluate import OperationFailed, WrongResult, apply
from acronumba.ir.ops import SCALARS, Attrs, decimal
from acronumba.ir.patterns import code_at_run_time, marks_of
from acronumba.ir.shapes import field_of, layout_of
from acronumba.ir.types import INT, UNSET, BoolT, FloatT, IntT, ListT, TensorT, TorchT, members
from acronumba.ir.values import (
    INT_MAX,
    INT_MIN,
    List,
    Memo,
    Misfit,
    ObjectRow,
    UserValue,
    WordValue,
    contents,
    flatten,
    unflatten,
)

if TYPE_CHECKING:
    from acronumba.ir.spec import KernelSpec

Env: TypeAlias = dict[ir.Var, WordValue]

MAX_DEPTH = 1_500_000  # calls inside each other; about 1 GB


class InstanceFailure(Exception):
    """The instance fails.

    Attributes
    ----------
    site
        Number in `program.sites`; -1 if the failure has none (steps exceeded, data that does not conform).
    values
        Values for the placeholders in the site's message.
    chain
        Source positions of the calls that led there, outermost first.
    error, text, loc
        Name of the exception, its message and its source position.
    """

    def __init__(
        self, site: int, values: tuple[WordValue, ...], chain: tuple[Loc, ...], error: str, text: str, loc: Loc
    ) -> None:
        super().__init__(f"{error}: {text} ({loc})" if loc != NOWHERE else f"{error}: {text}")
        self.site = site
        self.values = values
        self.chain = chain
        self.error = error
        self.text = text
        self.loc = loc


def message(text: str, values: Sequence[WordValue]) -> str:
    """Return the text of a site with {0}, {1}, ... replaced by the values."""
    return re.sub(r"\{(\d+)\}", lambda m: str(values[int(m[1])]) if int(m[1]) < len(values) else m[0], text)


class _Stop(Exception):
    """A failure on its way to the loop, which knows the chain of calls."""

    def __init__(self, site: int, values: tuple[WordValue, ...] = (), error: str = "", text: str = "") -> None:
        super().__init__(text)
        self.site = site
        self.values = values
        self.error = error
        self.text = text


class _Spawned:
    """A spawned call: its arguments, and its results until the next join."""

    __slots__ = ("args", "into", "loc", "results", "spawn")

    def __init__(self, spawn: ir.Spawn, env: Mapping[ir.Var, WordValue]) -> None:
        self.spawn = spawn
        self.loc = spawn.loc
        self.args = [env[a] for a in spawn.args]
        self.into = None if spawn.into is None else (env[spawn.into[0]], env[spawn.into[1]])
        self.results: tuple[WordValue, ...] | None = None


class _Frame:
    """A call in progress: its variables and its next instruction."""

    __slots__ = ("block", "call", "env", "function", "next", "spawned")

    def __init__(self, function: ir.Function, env: Env, call: _Spawned | ir.Call | None) -> None:
        self.function = function
        self.env = env
        self.call = call  # the caller's instruction
        self.spawned: list[_Spawned] = []  # since the last join
        self.block: ir.Block = function.blocks[0]
        self.next = 0  # index of the next instruction in `block`


class Interpreter:
    """A program with its shared values, ready to run instances.

    Parameters
    ----------
    program
        Before or after planning.
    shared
        A value per entry of `program.shared`, by index; entries of `program.once` are computed here.
    kernels
        The plan's kernels, for a program with `Emit`.
    max_steps
        Blocks that an instance may run.
    late
        Run spawned calls when they are joined, the last one first, instead of where they are spawned. The results are
        the same.
    """

    def __init__(
        self,
        program: ir.Program,
        shared: Sequence[object] | Mapping[int, object] = (),
        *,
        kernels: Sequence[KernelSpec] = (),
        max_steps: int = 10**8,
        late: bool = False,
    ) -> None:
        self.program = program
        self.kernels = tuple(kernels)
        self.max_steps = max_steps
        self.late = late
        self._memo = self._new_memo()
        self._shared: list[WordValue] = []
        given = len(program.shared) - len(program.once)
        for k, param in enumerate(program.shared[:given]):
            value = shared[k]
            if isinstance(value, np.ndarray) and not value.ndim:
                value = value[()]  # a variable holds the scalar of an array of rank 0
            t = TorchT(param.type) if is_tensor(value) and isinstance(param.type, TensorT) else param.type
            inner = flatten(value, t, self._memo, param.path)
            self._shared.append(inner[0] if inner else None)
        for once in program.once:
            self._shared.append(self._once(once))
        self._layouts: dict[type, tuple[int, ir.StructLayout]] = {s.cls: (k, s) for k, s in enumerate(program.layouts)}
        self._fields: dict[tuple[type, str], ir.FieldLayout] = {
            (s.cls, f.name): f for s in program.layouts for f in s.fields
        }
        self._rules: dict[type, Callable[[Any, Env], None]] = {
            ir.Const: self._const,
            ir.Copy: self._copy,
            ir.Scalar: self._scalar,
            ir.IsNull: self._is_null,
            ir.ClassTag: self._class_tag,
            ir.IsMade: self._is_made,
            ir.Check: self._check,
            ir.Load: self._load,
            ir.New: self._new,
            ir.Store: self._store,
            ir.ListNew: self._list_new,
            ir.ListOp: self._list_op,
            ir.ExtentOf: self._extent_of,
            ir.Shared: self._shared_value,
            ir.Op: self._op,
            ir.Emit: self._emit,
            ir.Read: self._read,
        }

    def _new_memo(self) -> Memo:
        return Memo()

    def _memo_of(self, ref: WordValue) -> Memo:
        """Return the memo for the arrays and lists of an object."""
        return self._memo

    def run(self, args: Sequence[object]) -> UserValue:
        """Return the result for one instance, or raise `InstanceFailure`."""
        return unflatten(self.words(args), self.program.result)

    def words(self, args: Sequence[object]) -> tuple[WordValue, ...]:
        """Return the words of the result for one instance, or raise `InstanceFailure`."""
        self._memo = self._new_memo()
        entry = self.program.functions[0]
        inner: list[WordValue] = []
        try:
            for value, t in zip(args, self.program.params, strict=True):
                inner += flatten(value, t, self._memo)
        except Misfit as e:
            raise InstanceFailure(-1, (), (), "DataError", str(e), NOWHERE) from e
        with np.errstate(all="ignore"):
            return self._loop([_Frame(entry, dict(zip(entry.params, inner, strict=True)), None)])

    def _loop(self, stack: list[_Frame]) -> tuple[WordValue, ...]:
        steps = 0
        rules = self._rules
        while True:
            frame = stack[-1]
            env = frame.env
            instrs = frame.block.instrs
            loc = frame.block.end.loc
            callee: _Frame | None = None
            try:
                while frame.next < len(instrs):
                    instr = instrs[frame.next]
                    frame.next += 1
                    loc = instr.loc
                    if isinstance(instr, ir.Call):
                        callee = self._called(instr, [env[a] for a in instr.args], instr)
                    elif isinstance(instr, ir.Spawn):
                        frame.spawned.append(_Spawned(instr, env))
                        if not self.late:
                            callee = self._called(instr, frame.spawned[-1].args, frame.spawned[-1])
                    elif isinstance(instr, ir.Join):
                        waiting = [s for s in frame.spawned if s.results is None]
                        if waiting:
                            frame.next -= 1
                            callee = self._called(waiting[-1].spawn, waiting[-1].args, waiting[-1])
                        else:
                            _deliver(frame, instr)
                    else:
                        rules[type(instr)](instr, env)
                    if callee is not None:
                        if len(stack) >= MAX_DEPTH:
                            raise _Stop(-1, (), "RecursionError", f"more than {MAX_DEPTH} calls deep")
                        break
                else:
                    loc = frame.block.end.loc
                    steps += 1
                    if steps > self.max_steps:
                        raise _Stop(-1, (), "RuntimeError", f"more than {self.max_steps} steps")
                    results = self._end(stack)
                    if results is not None:
                        return results
            except _Stop as stop:
                raise self._failure(stop, stack, loc) from stop.__cause__
            except WrongResult as e:
                e.add_note(f"in {frame.function.name}, {loc}")
                raise
            if callee is not None:
                stack.append(callee)

    @staticmethod
    def _end(stack: list[_Frame]) -> tuple[WordValue, ...] | None:
        """Execute the end of a block; return the results if that ends the entry function."""
        frame = stack[-1]
        match frame.block.end:
            case ir.Jump() as end:
                frame.block, frame.next = frame.function.blocks[end.block], 0
            case ir.Branch() as end:
                target = end.yes if frame.env[end.cond] else end.no
                frame.block, frame.next = frame.function.blocks[target], 0
            case ir.Fail() as end:
                raise _Stop(end.site, tuple(frame.env[a] for a in end.args))
            case ir.Return() as end:
                results = tuple(frame.env[a] for a in end.args)
                assert not frame.spawned, f"{frame.function.name} returns without a join"
                stack.pop()
                if frame.call is None:
                    return results
                if isinstance(frame.call, _Spawned):
                    frame.call.results = results
                else:
                    stack[-1].env.update(zip(frame.call.outs, results, strict=True))
        return None

    def _called(self, instr: ir.Call | ir.Spawn, args: Sequence[WordValue], call: ir.Call | _Spawned) -> _Frame:
        function = self.program.functions[instr.function]
        return _Frame(function, dict(zip(function.params, args, strict=True)), call)

    def _failure(self, stop: _Stop, stack: list[_Frame], loc: Loc) -> InstanceFailure:
        chain = tuple(f.call.loc for f in stack if f.call is not None)
        if stop.site < 0:
            if not stop.error:
                raise AssertionError(f"an operation without a site fails: {stop.__cause__} ({loc})")
            return InstanceFailure(-1, stop.values, chain, stop.error, stop.text, loc)
        site = self.program.sites[stop.site]
        return InstanceFailure(stop.site, stop.values, chain, site.error, message(site.text, stop.values), site.loc)

    # One rule per instruction.

    def _const(self, i: ir.Const, env: Env) -> None:
        env[i.out] = float(i.value) if isinstance(i.out.type, FloatT) and i.value is not None else i.value

    def _copy(self, i: ir.Copy, env: Env) -> None:
        env[i.out] = env[i.src]

    def _scalar(self, i: ir.Scalar, env: Env) -> None:
        args = tuple(env[a] for a in i.args)
        try:
            if _explodes(i.op, args):
                raise OverflowError("int too large")
            value = SCALARS[i.op].reference(*args)
        except (ArithmeticError, ValueError) as e:
            raise _Stop(i.site, args) from e
        if isinstance(i.out.type, IntT):
            good = isinstance(value, int) and INT_MIN <= value <= INT_MAX
        else:
            good = not isinstance(value, complex)
        if not good:
            raise _Stop(i.site, args)
        env[i.out] = value

    def _is_null(self, i: ir.IsNull, env: Env) -> None:
        env[i.out] = env[i.ref] is None

    def _class_tag(self, i: ir.ClassTag, env: Env) -> None:
        ref = env[i.ref]
        if isinstance(ref, ObjectRow):
            env[i.out] = self._layouts[ref.layout.cls][0]
        else:
            env[i.out] = layout_of(self._layouts, ref)[0]

    def _is_made(self, i: ir.IsMade, env: Env) -> None:
        ref = env[i.ref]
        env[i.out] = isinstance(ref, ObjectRow) and not ref.given

    def _check(self, i: ir.Check, env: Env) -> None:
        if not env[i.cond]:
            raise _Stop(i.site, tuple(env[a] for a in i.args))

    def _load(self, i: ir.Load, env: Env) -> None:
        ref = env[i.ref]
        f = self._fields[i.cls, i.field]
        if isinstance(ref, ObjectRow):
            inner: Sequence[WordValue] = ref.words[f.offset - 1 : f.offset - 1 + f.width]
        else:
            try:
                value = field_of(ref, i.cls, i.field, UNSET in members(f.type))
                inner = flatten(value, f.type, self._memo_of(ref), f".{i.field}")
            except (Misfit, AttributeError) as e:
                raise _Stop(-1, (), "DataError", str(e)) from e
        env.update(zip(i.outs, inner, strict=True))

    def _new(self, i: ir.New, env: Env) -> None:
        env[i.out] = ObjectRow(self._layouts[i.cls][1], tuple(env[a] for a in i.args), i.given)

    def _store(self, i: ir.Store, env: Env) -> None:
        ref, f = env[i.ref], self._fields[i.cls, i.field]
        assert isinstance(ref, ObjectRow) and not ref.given, "a row that was given changes"
        ref.words[f.offset - 1 : f.offset - 1 + f.width] = [env[a] for a in i.args]

    def _list_new(self, i: ir.ListNew, env: Env) -> None:
        assert isinstance(i.out.type, ListT)
        item = i.out.type.item
        new = ordered.new(item) if ordered.is_ordered(item) else List(item, [env[a] for a in i.args], i.count)
        env[i.out] = new

    def _list_op(self, i: ir.ListOp, env: Env) -> None:
        args = [env[a] for a in i.args]
        own = ordered.is_own(i.op, *args[:1])
        outs = ordered.operate(i.op, args, [v.type for v in i.outs]) if own else _list_rule(i, args)
        env.update(zip(i.outs, outs, strict=True))

    def _extent_of(self, i: ir.ExtentOf, env: Env) -> None:
        value = env[i.tensor]
        env[i.out] = 0 if value is None else int(np.shape(value)[i.axis])  # None: bound later, or not on this path

    def _shared_value(self, i: ir.Shared, env: Env) -> None:
        env[i.out] = self._shared[i.index]

    def _read(self, i: ir.Read, env: Env) -> None:
        env[i.out] = np.asarray(env[i.tensor]).item()

    def _op(self, i: ir.Op, env: Env) -> None:
        assert isinstance(i.out.type, TensorT)

        def static(attr: object) -> Any:
            if isinstance(attr, ir.Var):
                return env[attr]
            return tuple(map(static, attr)) if isinstance(attr, tuple) else attr

        args = [self._shared[a.index] if isinstance(a, ir.SharedArg) else self._tensor(a, env[a]) for a in i.args]
        shape, attrs = _extents(i.shape, env), static(i.attrs)
        if min(shape, default=0) < 0:
            raise WrongResult(f"{i.op}: a negative extent in {shape}")
        try:
            out = apply(i.op, args, attrs, shape, i.out.type.dtype)
        except OperationFailed as e:
            raise _Stop(i.site) from e
        env[i.out] = self._done(i, args, env, attrs, out)

    def _done(self, i: ir.Op, args: Sequence[WordValue], env: Env, attrs: Attrs, out: WordValue) -> WordValue:
        """Return the result of an operation; a subclass may record it."""
        return out

    def _tensor(self, var: ir.Var, value: WordValue) -> WordValue:
        """Return an argument as an array: host numbers are tensors of rank 0."""
        match var.type:
            case IntT():
                return np.asarray(value, np.int64)
            case FloatT():
                return np.asarray(value, np.float64)
            case BoolT():
                return np.asarray(value, np.bool_)
            case ListT():
                return self._stacked(var.type, value)
            case _:
                return value

    def _stacked(self, t: ListT, value: List) -> WordValue:
        """Return the elements of a list, arrays of one shape or numbers, as the rows of one array."""
        if isinstance(t.item, TensorT):
            rows = np.asarray(value.words, t.item.dtype)
            return rows if value.count else rows.reshape(0, *(n or 0 for n in t.item.shape))
        dtype = {IntT: "int64", FloatT: "float64", BoolT: "bool"}[type(t.item)]
        return np.asarray(value.words, dtype)

    def _once(self, once: ir.Once) -> WordValue:
        """Return a shared tensor that is computed."""
        from acronumba.ir.reference import evaluate

        spec = self.kernels[once.kernel]
        operands = [self._shared[o.index if o.kind == "shared" else once.numbers[o.index]] for o in spec.operands]
        (out,) = evaluate(spec, operands, ())
        return out

    def _operand(self, var: ir.Var, env: Env) -> WordValue:
        return self._stacked(var.type, env[var]) if isinstance(var.type, ListT) else env[var]

    def _emit(self, i: ir.Emit, env: Env) -> None:
        from acronumba.ir.reference import KernelFailure, evaluate, evaluate_rows

        spec = self.kernels[i.kernel]
        operands = [
            self._shared[o.index] if o.kind == "shared" else self._operand(i.args[o.index], env) for o in spec.operands
        ]
        dims = [env[d] for d in i.dims]
        try:
            if spec.rows is None:
                outs = evaluate(spec, operands, dims)
            else:
                outs = evaluate_rows(spec, operands, dims, [_extents(s, env) for s in i.shapes])
        except KernelFailure as e:
            raise _Stop(e.site) from e
        for out, shape, value in zip(i.outs, i.shapes, outs, strict=True):
            if value.shape != _extents(shape, env):
                raise WrongResult(
                    f"{spec.name} gives shape {value.shape}, the program announces {_extents(shape, env)}"
                )
            env[out] = value


def _deliver(frame: _Frame, join: ir.Join) -> None:
    """Store the results of spawned calls in the variables and lists that wait for them."""
    given: Env = {}
    for s in frame.spawned:
        assert s.results is not None
        if s.into is None:
            given.update(zip(s.spawn.outs, s.results, strict=True))
        else:
            (to, k), w = s.into, len(s.results)
            assert 0 <= k < to.count, f"list index {k} of {to.count}"
            to.words[k * w : k * w + w] = s.results
    assert given.keys() == set(join.outs), f"{frame.function.name}: a join of other results than were spawned"
    frame.env.update(given)
    frame.spawned = []


def _extents(shape: tuple[ir.Extent, ...], env: Env) -> tuple[int, ...]:
    return tuple(env[n] if isinstance(n, ir.Var) else n for n in shape)


def _explodes(op: str, args: tuple[WordValue, ...]) -> bool:
    """Whether an integer power or shift is certainly beyond 64 bits, so that Python need not build it."""
    if op not in ("pow", "lshift") or isinstance(args[0], float):
        return False
    base, by = args
    return bool(by > 63 and (base != 0 if op == "lshift" else abs(base) > 1))


def _list_rule(i: ir.ListOp, args: list[WordValue]) -> tuple[WordValue, ...]:
    """Execute an operation on lists and return the words of its results."""
    if i.op == "fill":
        assert isinstance(i.outs[0].type, ListT)
        return (List(i.outs[0].type.item, args[1:] * max(args[0], 0), max(args[0], 0)),)
    if i.op == "decimal":
        return (decimal(*args),)
    if i.op == "pattern":
        return (code_at_run_time(*args),)
    if i.op == "match":
        marks = marks_of(*args)
        return (List(INT, list[WordValue](marks), len(marks)),)
    this, w = args[0], i.width
    match i.op:
        case "len":
            return (this.count,)
        case "get":
            assert 0 <= args[1] < this.count, f"list index {args[1]} of {this.count}"
            return tuple(this.words[args[1] * w : args[1] * w + w])
        case "set":
            assert 0 <= args[1] < this.count, f"list index {args[1]} of {this.count}"
            this.words[args[1] * w : args[1] * w + w] = args[2:]
        case "append":
            this.words += args[1:]
            this.count += 1
        case "pop":
            assert 0 <= args[1] < this.count, f"list index {args[1]} of {this.count}"
            out = tuple(this.words[args[1] * w : args[1] * w + w])
            del this.words[args[1] * w : args[1] * w + w]
            this.count -= 1
            return out
        case "insert":
            assert 0 <= args[1] <= this.count, f"list index {args[1]} of {this.count}"
            this.words[args[1] * w : args[1] * w] = args[2:]
            this.count += 1
        case "extend":
            this.words += list(args[1].words)
            this.count += args[1].count
        case "slice":
            start, step, count = args[1:]
            picked = [start + step * k for k in range(count)]
            assert all(0 <= k < this.count for k in picked), f"list slice {picked} of {this.count}"
            return (List(this.item, [x for k in picked for x in this.words[k * w : k * w + w]], len(picked)),)
        case "reverse":
            this.words[:] = [x for k in reversed(range(this.count)) for x in this.words[k * w : k * w + w]]
        case "find":
            return (this.places().get(contents(args[1:]), -1),)
        case "put" | "remove" | "update":
            _change_dict(i.op, this, args[1:], w)
        case "join":
            return ("".join(this.words),)
        case "erase":
            this.words, this.count, this.index = [], 0, None
        case "sort":
            keys = args[1].words
            order = sorted(range(this.count), key=keys.__getitem__, reverse=bool(args[2]))
            this.words[:] = [x for k in order for x in this.words[k * w : k * w + w]]
        case _:
            raise AssertionError(f"no list operation {i.op}")
    return ()


def _change_dict(op: str, this: List, args: list[WordValue], w: int) -> None:
    """Carry out an operation that changes a dict."""
    match op:
        case "put":
            this.put(args)
        case "remove":
            assert 0 <= args[0] < this.count, f"entry {args[0]} of {this.count}"
            del this.words[args[0] * w : args[0] * w + w]
            this.count -= 1
            this.index = None
        case "update":
            for k in range(args[0].count):
                this.put(args[0].words[k * w : k * w + w])


def interpret(
    program: ir.Program,
    args: Sequence[object],
    shared: Sequence[object] | Mapping[int, object] = (),
    *,
    kernels: Sequence[KernelSpec] = (),
    max_steps: int = 10**8,
) -> UserValue:
    """Return the result of the program for one instance; see `Interpreter`.

    Raises
    ------
    InstanceFailure
        The instance fails, as the plain call would.
    """
    return Interpreter(program, shared, kernels=kernels, max_steps=max_steps).run(args)
