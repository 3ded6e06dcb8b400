"""Rules of the verifier for each instruction.

In: an instruction of a function. Out: nothing, or `Wrong`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from acronumba.ir import nodes as ir
from acronumba.ir.ops import SCALARS, TENSORS
from acronumba.ir.spec import FAR
from acronumba.ir.types import (
    BOOL,
    DTYPES,
    FLOAT,
    INT,
    ORDER,
    TEXT,
    BoolT,
    FloatT,
    IntT,
    ListT,
    RefT,
    TensorT,
    TextT,
    TupleT,
    Type,
    Word,
    host_word,
    type_text,
    words,
)

if TYPE_CHECKING:
    from acronumba.ir.spec import KernelSpec, Operand

from acronumba.ir.agree import Wrong, demand, dtype_of, fits, refined, shape_of, type_texts
from acronumba.ir.op_rules import RULES

_LETTERS: dict[str, tuple[type, ...]] = {
    "i": (IntT,), "f": (FloatT,), "b": (BoolT,), "t": (TextT,), "a": (IntT, FloatT),
}  # fmt: skip


class Rules:
    """The rule of each instruction."""

    def __init__(self, function: ir.Function, program: ir.Program, kernels: Sequence[KernelSpec]) -> None:
        self.function = function
        self.program = program
        self.kernels = kernels
        self.layouts: dict[type, ir.StructLayout] = {s.cls: s for s in program.layouts}

    def check(self, instr: ir.Instr | ir.End) -> None:
        match instr:
            case ir.Const():
                self._const(instr)
            case ir.Copy():
                self._assign(refined(instr.src.type, instr.out.type), instr.out)
            case ir.Scalar():
                self._scalar(instr)
            case ir.IsNull():
                kinds = RefT | ListT | TensorT | TextT
                demand(isinstance(instr.ref.type, kinds), f"{instr.ref.name} is not a reference")
                self._assign(BOOL, instr.out)
            case ir.ClassTag() | ir.IsMade():
                demand(isinstance(instr.ref.type, RefT), f"{instr.ref.name} is not an object")
                self._assign(INT if isinstance(instr, ir.ClassTag) else BOOL, instr.out)
            case ir.Check():
                demand(instr.cond.type == BOOL, f"{instr.cond.name} is not a bool")
                self._fill(instr.site, instr.args)
            case ir.Load():
                self._load(instr)
            case ir.New():
                demand(instr.cls in self.layouts, f"{instr.cls.__qualname__} has no layout")
                self._words(instr.args, [w for f in self.layouts[instr.cls].fields for w in words(f.type)])
                self._assign(RefT((instr.cls,)), instr.out)
            case ir.Store():
                self._words(instr.args, words(self._field(instr)))
            case ir.ListNew():
                self._list_new(instr)
            case ir.ListOp():
                self._list_op(instr)
            case ir.ExtentOf():
                self._extent(instr)
            case ir.Shared():
                inner = words(self._shared(instr.index))
                demand(len(inner) == 1, "not one word")
                self._assign(inner[0], instr.out)
            case ir.Op():
                _op(instr, self)
            case ir.Emit():
                self._emit(instr)
            case ir.Call():
                self._call(instr)
            case ir.Read():
                self._read(instr)
            case ir.Spawn():
                self._spawn(instr)
            case ir.Join() | ir.Jump():
                pass
            case ir.Branch():
                demand(instr.cond.type == BOOL, f"{instr.cond.name} is not a bool")
            case ir.Return():
                self._words(instr.args, self.function.results)
            case ir.Fail():
                self._fill(instr.site, instr.args)
            case _:
                assert_never(instr)

    # What several rules need.

    def _assign(self, word: Word, out: ir.Var) -> None:
        demand(fits(word, out.type), f"{type_text(word)} is assigned to {out.name}: {type_text(out.type)}")

    def _words(self, args: Sequence[ir.Var], wanted: Sequence[Word]) -> None:
        demand(len(args) == len(wanted), f"{len(args)} words where {len(wanted)} are needed: {type_texts(wanted)}")
        for arg, word in zip(args, wanted, strict=True):
            demand(fits(arg.type, word), f"{arg.name}: {type_text(arg.type)} where {type_text(word)} is needed")

    def _results(self, results: Sequence[Word], outs: Sequence[ir.Var]) -> None:
        demand(len(results) == len(outs), f"{len(outs)} variables for {len(results)} words")
        for word, out in zip(results, outs, strict=True):
            self._assign(word, out)

    def _site(self, site: int, *, needed: bool) -> None:
        demand(-1 + needed <= site < len(self.program.sites), f"no site {site}")

    def _fill(self, site: int, args: Sequence[ir.Var]) -> None:
        self._site(site, needed=True)
        for arg in args:
            demand(isinstance(arg.type, IntT | FloatT | BoolT), f"{arg.name} of a message is not a number")
        text = re.sub(r"\{\{|\}\}", "", self.program.sites[site].text)
        used = [int(k) for k in re.findall(r"\{(\d+)(?::[^{}]*)?\}", text)]
        demand(
            max(used, default=-1) < len(args), f"the message needs value {max(used, default=0)}, {len(args)} are given"
        )

    def _shared(self, index: int) -> Type:
        demand(0 <= index < len(self.program.shared), f"no shared parameter {index}")
        return self.program.shared[index].type

    def _item(self, var: ir.Var, width: int) -> Type:
        if not isinstance(var.type, ListT):
            raise Wrong(f"{var.name} is not a list")
        demand(len(words(var.type.item)) == width, f"width {width} of {type_text(var.type)}")
        return var.type.item

    # Rules that do not fit above.

    def _const(self, i: ir.Const) -> None:
        match i.out.type:
            case BoolT():
                demand(isinstance(i.value, bool), f"{i.value!r} is not a bool")
            case IntT():
                good = isinstance(i.value, int) and not isinstance(i.value, bool) and -(2**63) <= i.value < 2**63
                demand(good, f"{i.value!r} is not an int of 64 bits")
            case FloatT():
                demand(isinstance(i.value, float), f"{i.value!r} is not a float")
            case TextT():
                demand(i.value is None or isinstance(i.value, str), f"{i.value!r} is not a string")
            case _:
                demand(i.value is None, f"{i.value!r} is not a reference")

    def _scalar(self, i: ir.Scalar) -> None:
        row = SCALARS.get(i.op)
        if row is None:
            raise Wrong(f"no scalar operation {i.op}")
        self._site(i.site, needed=False)
        demand(len(i.args) == len(row.args), f"{len(i.args)} arguments for {row.args!r}")
        any_word: list[Word] = []
        for letter, arg in zip(row.args, i.args, strict=True):
            good = letter == "x" or isinstance(arg.type, _LETTERS[letter])
            demand(good, f"{arg.name}: {type_text(arg.type)} for letter {letter!r}")
            if letter in "ax":
                any_word.append(arg.type)
        if i.op == "same":
            kinds = {RefT if isinstance(w, RefT) else type(w) for w in any_word}
            demand(len(kinds) == 1, "references of different kinds")
        elif i.op != "select":
            demand(len(set(any_word)) <= 1, f"arguments differ: {type_texts(any_word)}")
        match row.result:
            case "i":
                self._assign(INT, i.out)
            case "f":
                self._assign(FloatT(), i.out)
            case "b":
                self._assign(BOOL, i.out)
            case "t":
                self._assign(TEXT, i.out)
            case _:
                for word in any_word:
                    self._assign(word, i.out)

    def _callee(self, i: ir.Call | ir.Spawn) -> ir.Function:
        """Return the function that is called; its arguments are right."""
        demand(0 <= i.function < len(self.program.functions), f"no function {i.function}")
        callee = self.program.functions[i.function]
        self._words(i.args, [p.type for p in callee.params])
        return callee

    def _call(self, i: ir.Call) -> None:
        self._results(self._callee(i).results, i.outs)

    def _spawn(self, i: ir.Spawn) -> None:
        callee = self._callee(i)
        if i.into is None:
            self._results(callee.results, i.outs)
            return
        to, index = i.into
        demand(not i.outs, "results in variables and in a list")
        demand(index.type == INT, f"{index.name} is not an int")
        item = words(self._item(to, len(callee.results)))
        good = all(map(fits, callee.results, item))
        demand(good, f"{type_texts(callee.results)} into {type_text(to.type)}")

    def _load(self, i: ir.Load) -> None:
        self._results(words(self._field(i)), i.outs)

    def _field(self, i: ir.Load | ir.Store) -> Type:
        """Return the type of the field that an instruction reads or writes."""
        if not isinstance(i.ref.type, RefT):
            raise Wrong(f"{i.ref.name} is not an object")
        demand(i.cls in i.ref.type.classes, f"{i.ref.name}: {type_text(i.ref.type)} is never a {i.cls.__qualname__}")
        demand(i.cls in self.layouts, f"{i.cls.__qualname__} has no layout")
        found = [f for f in self.layouts[i.cls].fields if f.name == i.field]
        demand(found, f"{i.cls.__qualname__} has no field {i.field} in its layout")
        return found[0].type

    def _list_new(self, i: ir.ListNew) -> None:
        item = self._item(i.out, i.width)
        demand(len(i.args) == i.count * i.width, f"{len(i.args)} words for {i.count} elements")
        self._words(i.args, words(item) * i.count)

    def _extent(self, i: ir.ExtentOf) -> None:
        demand(isinstance(i.tensor.type, TensorT), f"{i.tensor.name} is not a tensor")
        demand(0 <= i.axis < len(shape_of(i.tensor.type)), f"no axis {i.axis}")
        self._assign(INT, i.out)

    def _read(self, i: ir.Read) -> None:
        t = i.tensor.type
        if not isinstance(t, TensorT) or t.rank:
            raise Wrong(f"{i.tensor.name} is not a tensor of rank 0")
        self._assign(host_word(t.dtype), i.out)

    def _list_op(self, i: ir.ListOp) -> None:
        if i.op == "fill":
            demand(len(i.outs) == 1, "one list is made")
            item = words(self._item(i.outs[0], i.width))
            self._words(i.args, (INT, *item))
            return
        if i.op == "decimal":
            self._words(i.args, (FLOAT, INT, INT))
            self._results((TEXT,), i.outs)
            return
        if i.op == "pattern":
            self._words(i.args, (TEXT, INT))
            self._results((TEXT,), i.outs)
            return
        if i.op == "match":
            self._words(i.args, (TEXT, TEXT, INT, INT, INT))
            self._results((ListT(INT),), i.outs)
            return
        demand(i.args, "no list")
        this = i.args[0]
        t = self._item(this, i.width)
        item = words(t)
        rest = i.args[1:]
        arguments: dict[str, tuple[Word, ...]] = {
            "len": (), "get": (INT,), "set": (INT, *item), "append": item, "pop": (INT,), "insert": (INT, *item),
            "extend": (this.type,), "slice": (INT, INT, INT), "reverse": (), "find": _key(this, t), "put": item,
            "remove": (INT,), "update": (_other(this, rest),), "erase": (), "join": (), "clone": (), "order": (),
            "next": (), "exclude": (this.type,), "toggle": (this.type,),
            **dict.fromkeys(("meet", "minus", "narrow"), (this.type, this.type)),
        }  # fmt: skip
        results: dict[str, tuple[Word, ...]] = {
            "len": (INT,), "get": item, "pop": item, "slice": (this.type,), "find": (INT,), "join": (TEXT,),
            "next": (INT,), "clone": (ListT(_ordered(t)),), "order": (ListT(_ordered(t).items[0]).word,),
        }  # fmt: skip
        demand(i.op not in _OF_ORDER or t == _ordered(t), f"{i.op} of {type_text(this.type)}")
        demand(i.op != "join" or t == TEXT, f"join of {type_text(this.type)}")
        if i.op == "sort":
            demand(len(rest) == 2, "sort takes a list, keys and a bool")
            keys = rest[0].type
            demand(
                isinstance(keys, ListT) and isinstance(keys.item, IntT | FloatT | BoolT), "keys that are not numbers"
            )
            self._words(rest[1:], (BOOL,))
        else:
            demand(i.op in arguments, f"no list operation {i.op}")
            self._words(rest, arguments[i.op])
        self._results(results.get(i.op, ()), i.outs)

    def _emit(self, i: ir.Emit) -> None:
        demand(0 <= i.kernel < len(self.kernels), f"no kernel {i.kernel}")
        spec = self.kernels[i.kernel]
        per_node = [o for o in spec.operands if o.kind != "shared"]
        demand(sorted({o.index for o in per_node}) == list(range(len(i.args))), f"{spec.name} takes other arguments")
        ways = spec.rows if spec.rows is not None else ("whole",) * len(i.args)
        demand(len(ways) == len(i.args), f"{spec.name} says of {len(ways)} arguments what rows get")
        for operand in per_node:
            arg = i.args[operand.index]
            if ways[operand.index] != "whole":
                self._row(arg, operand, ways[operand.index])
                continue
            kinds: dict[str, type] = {
                "tensor": TensorT,
                "int": IntT,
                "float": FloatT,
                "bool": BoolT,
                "list": ListT,
                "numbers": ListT,
            }
            demand(isinstance(arg.type, kinds[operand.kind]), f"{arg.name} is not a {operand.kind}")
            demand(dtype_of(arg.type) == operand.dtype, f"{arg.name} has not dtype {operand.dtype}")
            _sizes(shape_of(arg.type), operand.shape, arg.name)
        for operand in spec.operands:
            if operand.kind == "shared":
                t = self._shared(operand.index)
                good = isinstance(t, TensorT) and (t.dtype, t.shape) == (operand.dtype, operand.shape)
                demand(good, f"shared {operand.name} is {type_text(t)}")
        demand(len(i.dims) == spec.dims, f"{len(i.dims)} extents, {spec.name} takes {spec.dims}")
        for var in (*i.dims, *(n for s in i.shapes for n in s if isinstance(n, ir.Var))):
            demand(var.type == INT, f"extent {var.name} is not an int")
        demand(len(i.outs) == len(spec.results) == len(i.shapes), f"{spec.name} has {len(spec.results)} results")
        for out, value, shape in zip(i.outs, spec.results, i.shapes, strict=True):
            op = spec.body[value - len(spec.operands)]
            demand(isinstance(out.type, TensorT) and out.type.dtype == op.dtype, f"{out.name} has not dtype {op.dtype}")
            skip = int(spec.rows is not None)
            demand(not skip or (shape and shape[0] is i.shapes[0][0]), f"{out.name} has other rows")
            _sizes(shape_of(out.type)[skip:], op.shape, out.name)
            _sizes(tuple(None if isinstance(n, ir.Var) else n for n in shape)[skip:], op.shape, out.name)
        for op in spec.body:
            self._site(op.site, needed=op.op == "index")
            demand(op.site < 0 or TENSORS[op.op].fails, f"{op.op} does not fail")

    @staticmethod
    def _row(arg: ir.Var, operand: Operand, way: str) -> None:
        """Check an argument of which each row of a node gets a part: a row of a tensor or an item of a list."""
        numbers: dict[str, type] = {"int": IntT, "float": FloatT, "bool": BoolT}
        match arg.type, way:
            case TensorT(dtype=dtype, shape=(_, *shape)), "row":
                good = (operand.kind, operand.dtype) == ("tensor", dtype)
            case ListT(item=TensorT(dtype=dtype, shape=shape)), "item":
                good = (operand.kind, operand.dtype) == ("tensor", dtype)
            case ListT(item=item), "item":
                good, shape = isinstance(item, numbers.get(operand.kind, TensorT)), ()
            case _:
                good, shape = False, ()
        demand(good, f"no {way} of {arg.name} is a {operand.kind}")
        _sizes(tuple(shape), operand.shape, arg.name)


_OF_ORDER = frozenset("next meet minus narrow exclude toggle".split())


def _ordered(entry: Type) -> TupleT:
    """Return the type of the entries of a set that has Python's order, with the same keys."""
    keys = entry.items[:1] if isinstance(entry, TupleT) else ()
    return TupleT((*keys, ORDER))


def _other(this: ir.Var, rest: Sequence[ir.Var]) -> Word:
    """Return the type of the dict or set that another is updated by: any dict of the same keys, for a set in order."""
    mine, other = this.type, rest[0].type if rest else this.type
    if isinstance(mine, ListT) and isinstance(other, ListT) and mine.item == _ordered(other.item):
        return other
    return this.type


def _key(this: ir.Var, entry: Type) -> tuple[Word, ...]:
    """Return the words of a key of a dict; none for a list that is none."""
    is_dict = isinstance(this.type, ListT) and isinstance(entry, TupleT) and len(entry.items) == 2
    return words(entry.items[0]) if is_dict and isinstance(entry, TupleT) else (this.type,)


def _sizes(shape: tuple[int | None, ...], sizes: Sequence[Any], name: str) -> None:
    """Check that extents of a variable's type and sizes of a kernel agree: if both are constant they are equal."""
    demand(len(shape) == len(sizes), f"{name} has rank {len(shape)}, not {len(sizes)}")
    for n, m in zip(shape, sizes, strict=True):
        demand(n is None or not isinstance(m, int) or m in (n, FAR), f"{name} has an extent {n}, not {m}")


def _op(i: ir.Op, rules: Rules) -> None:
    row = TENSORS.get(i.op)
    if row is None:
        raise Wrong(f"no tensor operation {i.op}")
    args: list[Word] = []
    for a in i.args:
        if isinstance(a, ir.SharedArg):
            t = rules._shared(a.index)
            if not isinstance(t, TensorT):
                raise Wrong(f"shared {a.index} is not a tensor")
            args.append(t)
        else:
            args.append(a.type)
    demand(len(args) == row.arity if row.arity >= 0 else args, f"{len(args)} arguments")
    rules._site(i.site, needed=i.op == "index")
    demand(i.site < 0 or TENSORS[i.op].fails, f"{i.op} does not fail")
    out = i.out.type
    if not isinstance(out, TensorT):
        raise Wrong(f"{i.out.name} is not a tensor")
    demand(out.dtype in DTYPES, f"no dtype {out.dtype}")
    demand(len(i.shape) == out.rank, f"{len(i.shape)} extents for {type_text(out)}")
    for n, m in zip(i.shape, out.shape, strict=True):
        if isinstance(n, ir.Var):
            demand(n.type == INT, f"extent {n.name} is not an int")
            demand(m is None, f"the run-time extent {n.name} for {type_text(out)}")
        else:
            demand(n >= 0 and m in (None, n), f"extent {n} for {type_text(out)}")
    for x in (x for a in i.attrs for x in (a if isinstance(a, tuple) else (a,)) if isinstance(x, ir.Var)):
        demand(x.type == INT, f"{x.name} among the static arguments is not an int")
    shape = tuple(None if isinstance(n, ir.Var) else n for n in i.shape)
    dtypes = [dtype_of(a) for a in args]
    shapes = [shape_of(a) for a in args]
    rule = RULES.get(i.op, RULES.get(row.kind))
    if rule is None:
        raise Wrong(f"no rule for {i.op}")
    rule(i, dtypes, shapes, out.dtype, shape)
