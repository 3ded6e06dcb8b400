"""The checker of programs: what every pass may rely on.

In: a `Program`, with the plan's kernels if it has been planned. Out: nothing, or one `VerifyError` that lists every
mistake with its function, block and instruction. It checks that variables are assigned once (`Copy` excepted) and
before every use, that all types and shapes agree with the tables of `ir.ops`, and that layouts, sites, calls and
kernels fit each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from acronumba.errors import NOWHERE
from acronumba.ir.nodes import (
    Block,
    Branch,
    Call,
    Check,
    ClassTag,
    Const,
    Copy,
    Emit,
    End,
    ExtentOf,
    Fail,
    Function,
    Instr,
    IsNull,
    Join,
    Jump,
    ListNew,
    ListOp,
    Load,
    New,
    Op,
    Pad,
    Program,
    Read,
    Return,
    Scalar,
    Shared,
    SharedArg,
    Spawn,
    StructLayout,
    Var,
)
from acronumba.ir.ops import COMPARISONS, FALLIBLE, SCALARS, TENSORS
from acronumba.ir.printer import instr_text
from acronumba.ir.types import (
    BOOL,
    DTYPES,
    INT,
    NEVER,
    BoolT,
    DictT,
    FloatT,
    IntT,
    ListT,
    RefT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    Word,
    host_word,
    type_text,
    union_cases,
    union_word,
    words,
)
from acronumba.ir.visit import reads, writes

if TYPE_CHECKING:
    from acronumba.ir.spec import KernelSpec, Operand

FLOAT_ONLY = frozenset("exp log sqrt sin cos tanh sigmoid erf div".split())
_LETTERS: dict[str, tuple[type, ...]] = {"i": (IntT,), "f": (FloatT,), "b": (BoolT,), "a": (IntT, FloatT)}
LOGICAL = frozenset("and or xor not".split())


class VerifyError(AssertionError):
    """The program is not well formed: a mistake of the compiler, never of the user. `problems` lists all of it."""

    def __init__(self, problems: Sequence[str]) -> None:
        shown = list(problems[:20])
        if len(problems) > 20:
            shown.append(f"... and {len(problems) - 20} more")
        super().__init__("\n".join(shown))
        self.problems = tuple(problems)


class _Wrong(Exception):
    """One mistake, found by a rule."""


def _demand(condition: object, text: str) -> None:
    if not condition:
        raise _Wrong(text)


def verify(program: Program, kernels: Sequence[KernelSpec] = ()) -> None:
    """Check a program.

    Parameters
    ----------
    program
        Before planning (tensor operations are `Op`) or after it (`Emit`).
    kernels
        The plan's kernels, by number.

    Raises
    ------
    VerifyError
        Lists every mistake with its function, block and instruction.
    """
    problems = list(_layouts(program))
    problems += _signature(program)
    problems += _once(program, kernels)
    for function in program.functions:
        problems += _function(function, program, kernels)
    if problems:
        raise VerifyError(problems)


# Types that may be assigned to each other.


def fits(source: Word, target: Word) -> bool:
    """Whether a value of word `source` may be one of word `target`: an object of a class of both, known extents.

    A list that stays empty may be a list of anything.

    A variable keeps the type it was made with where a test has narrowed it, so that classes need only overlap.
    """
    match source, target:
        case RefT(), RefT():
            return source == target or not set(source.classes).isdisjoint(target.classes)
        case TensorT(), TensorT():
            return (
                source.dtype == target.dtype
                and source.rank == target.rank
                and all(n is None or m == n for m, n in zip(source.shape, target.shape, strict=True))
            )
        case ListT(), ListT():
            return source.item == NEVER or same_layout(source.item, target.item)
        case _:
            return source == target


def _refined(source: Word, target: Word) -> Word:
    """Return the type of a copied tensor where a check has proved run-time extents to be the target's constants."""
    match source, target:
        case TensorT(), TensorT() if source.dtype == target.dtype and source.rank == target.rank:
            pairs = zip(source.shape, target.shape, strict=True)
            return TensorT(source.dtype, tuple(n if m is None else m for m, n in pairs))
    return source


def same_layout(source: Type, target: Type) -> bool:
    """Whether words of a value of type `source` mean the same value when read as type `target`."""
    if source == target:
        return True
    match source, target:
        case TupleT() | DictT(), TupleT() | DictT():
            return len(source.items) == len(target.items) and all(map(same_layout, source.items, target.items))
        case UnionT(), UnionT() if union_word(source) is None and union_word(target) is None:
            a, b = union_cases(source), union_cases(target)
            return len(a) == len(b) and all(map(same_layout, a, b))
    if _tagged(source) or _tagged(target):
        return False
    a_words, b_words = words(source), words(target)
    return len(a_words) == len(b_words) and all(map(fits, a_words, b_words))


def _tagged(t: Type) -> bool:
    return isinstance(t, UnionT) and union_word(t) is None


def _dtype(word: Word) -> str:
    """Return the dtype of a word as an operand: host numbers are tensors of rank 0."""
    match word:
        case TensorT():
            return word.dtype
        case IntT():
            return "int64"
        case FloatT():
            return "float64"
        case BoolT():
            return "bool"
        case ListT(item=TensorT() | IntT() | FloatT() | BoolT() as item):
            return _dtype(item)
        case _:
            raise _Wrong(f"{type_text(word)} is not a tensor or number")


def _shape(word: Word) -> tuple[int | None, ...]:
    """Return the extents of a word as an operand; a list counts as its elements stacked."""
    if isinstance(word, ListT):
        return (None, *(word.item.shape if isinstance(word.item, TensorT) else ()))
    return word.shape if isinstance(word, TensorT) else ()


# The program as a whole.


def _layouts(program: Program) -> Iterator[str]:
    seen: set[type] = set()
    for k, layout in enumerate(program.layouts):
        where = f"layout {k} ({layout.cls.__qualname__})"
        if layout.cls in seen:
            yield f"{where}: the class has two layouts"
        seen.add(layout.cls)
        offset = 1
        for f in layout.fields:
            if f.offset != offset or f.width != len(words(f.type)):
                wanted = f"{offset}, {len(words(f.type))}"
                yield f"{where}: field {f.name} is at {f.offset} with {f.width} words, not {wanted}"
            offset += len(words(f.type))
        if layout.size != offset:
            yield f"{where}: {layout.size} words, not {offset}"
        if len({f.name for f in layout.fields}) != len(layout.fields):
            yield f"{where}: two fields of one name"


def _signature(program: Program) -> Iterator[str]:
    if not program.functions:
        yield "a program without functions"
        return
    entry = program.functions[0]
    params = tuple(w for t in program.params for w in words(t))
    given = tuple(p.type for p in entry.params)
    if len(params) != len(given) or not all(map(fits, params, given)):
        yield f"entry {entry.name}: parameters {_texts(given)}, the program says {_texts(params)}"
    results = words(program.result)
    if len(results) != len(entry.results) or not all(map(fits, entry.results, results)):
        yield f"entry {entry.name}: results {_texts(entry.results)}, the program says {_texts(results)}"
    names = [f.name for f in program.functions]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"two functions of the name {name}"
    for k, param in enumerate(program.shared):
        if isinstance(param.type, TensorT) and None in param.type.shape:
            yield f"shared {k} ({param.path}): a shared tensor with a run-time extent"
        elif len(words(param.type)) > 1:
            yield f"shared {k} ({param.path}): {type_text(param.type)} takes more than one word"


def _once(program: Program, kernels: Sequence[KernelSpec]) -> Iterator[str]:
    """What is computed once per mini-batch: the last shared parameters, each of what comes before it."""
    first = len(program.shared) - len(program.once)
    for k, once in enumerate(program.once):
        if once.index != first + k or not 0 <= once.kernel < len(kernels):
            yield f"once {once.index}: not entry {first + k} of the shared, or of a kernel that does not exist"
            continue
        spec = kernels[once.kernel]
        read = [o.index for o in spec.operands if o.kind == "shared"] + list(once.numbers)
        given = sum(o.kind != "shared" for o in spec.operands)
        if not all(0 <= i < once.index for i in read) or len(once.numbers) != given:
            yield f"once {once.index}: {spec.name} reads {read}, which must come before it"
        out = spec.body[spec.results[0] - len(spec.operands)]
        if len(spec.results) != 1 or program.shared[once.index].type != TensorT(out.dtype, out.shape):  # type: ignore[arg-type]
            yield f"once {once.index}: {spec.name} does not give {type_text(program.shared[once.index].type)}"


def _texts(types: Sequence[Word]) -> str:
    return f"({', '.join(map(type_text, types))})"


# One function.


def _function(function: Function, program: Program, kernels: Sequence[KernelSpec]) -> Iterator[str]:
    yield from _assignments(function)
    broken = False
    for number, block in enumerate(function.blocks):
        for target in _targets(block.end):
            if not 0 <= target < len(function.blocks):
                yield f"{function.name}, block {number}, {instr_text(block.end, program)!r}: no block {target}"
                broken = True
    if not function.blocks:
        yield f"{function.name}: no blocks"
        return
    if not broken:
        yield from _definitions(function, program)
        yield from _joins(function)
    rules = _Rules(function, program, kernels)
    for number, block in enumerate(function.blocks):
        for instr in (*block.instrs, block.end):
            try:
                rules.check(instr)
            except _Wrong as e:
                yield f"{_where(function, number, instr)}: {e}"


def _where(function: Function, block: int, instr: Instr | End) -> str:
    try:
        text = instr_text(instr)
    except Exception:  # the instruction may be too broken to print
        text = type(instr).__name__
    line = f" (line {instr.loc.line})" if instr.loc.line else ""
    return f"{function.name}, block {block}, {text!r}{line}"


def _assignments(function: Function) -> Iterator[str]:
    """Each variable is assigned by one instruction, or by copies only; names are unique."""
    kinds: dict[Var, list[bool]] = {p: [False] for p in function.params}
    if len(kinds) != len(function.params):
        yield f"{function.name}: a parameter appears twice"
    for block in function.blocks:
        for instr in block.instrs:
            for var in writes(instr):
                kinds.setdefault(var, []).append(isinstance(instr, Copy))
    names: dict[str, Var] = {}
    for var, copies in kinds.items():
        if len(copies) > 1 and not all(copies[var in function.params :]):
            yield f"{function.name}: {var.name} is assigned {len(copies)} times, not only by copies"
        if names.setdefault(var.name, var) is not var:
            yield f"{function.name}: two variables of the name {var.name}"


def _targets(end: End) -> tuple[int, ...]:
    match end:
        case Jump():
            return (end.block,)
        case Branch():
            return (end.yes, end.no)
        case Return() | Fail():
            return ()
        case _:
            assert_never(end)


def _definitions(function: Function, program: Program) -> Iterator[str]:
    """Every use is assigned on all paths that lead to it."""
    made = [frozenset(v for i in block.instrs for v in writes(i)) for block in function.blocks]
    before: dict[int, frozenset[Var]] = {0: frozenset(function.params)}
    work = [0]
    while work:
        k = work.pop()
        after = before[k] | made[k]
        for target in _targets(function.blocks[k].end):
            old = before.get(target)
            new = after if old is None else old & after
            if new != old:
                before[target] = new
                work.append(target)
    for k in sorted(before):  # blocks that cannot be reached are not run
        known = set(before[k])
        block: Block = function.blocks[k]
        for instr in (*block.instrs, block.end):
            missing = [v.name for v in dict.fromkeys(reads(instr)) if v not in known]
            if missing:
                yield f"{_where(function, k, instr)}: {', '.join(missing)} may be unassigned"
            if not isinstance(instr, Jump | Branch | Return | Fail):
                known.update(writes(instr))
        if block.end == Jump(block=k, loc=NOWHERE):  # what the front end writes where it has left a block open
            yield f"{function.name}, block {k}: does not end"


def _joins(function: Function) -> Iterator[str]:
    """On every path, what is spawned is joined before it is used and before the function returns."""
    none: tuple[frozenset[Spawn], frozenset[Var]] = (frozenset(), frozenset())
    before = {0: none}  # the spawns that may wait, the results that do on every path
    work = [0]
    found: dict[str, None] = {}
    while work:
        k = work.pop()
        may, must = before[k]
        block = function.blocks[k]
        for instr in (*block.instrs, block.end):
            waiting = {v for s in may for v in s.outs}
            used = [v.name for v in dict.fromkeys(reads(instr)) if v in waiting]
            if used:
                found[f"{_where(function, k, instr)}: {', '.join(used)} is used before the join"] = None
            match instr:
                case Spawn():
                    if waiting & set(instr.outs):
                        found[f"{_where(function, k, instr)}: spawned again before the join"] = None
                    may, must = may | {instr}, must | set(instr.outs)
                case Join():
                    if set(instr.outs) != waiting or waiting != must or len(set(instr.outs)) != len(instr.outs):
                        names = ", ".join(sorted(v.name for v in waiting))
                        found[f"{_where(function, k, instr)}: not what every path here has spawned: {names}"] = None
                    may, must = none
                case Return() if may:
                    found[f"{_where(function, k, instr)}: returns before the join"] = None
        for target in _targets(block.end):
            old = before.get(target)
            new = (may, must) if old is None else (old[0] | may, old[1] & must)
            if new != old:
                before[target] = new
                work.append(target)
    yield from found


class _Rules:
    """The rule of each instruction."""

    def __init__(self, function: Function, program: Program, kernels: Sequence[KernelSpec]) -> None:
        self.function = function
        self.program = program
        self.kernels = kernels
        self.layouts: dict[type, StructLayout] = {s.cls: s for s in program.layouts}

    def check(self, instr: Instr | End) -> None:
        match instr:
            case Const():
                self._const(instr)
            case Copy():
                self._assign(_refined(instr.src.type, instr.out.type), instr.out)
            case Scalar():
                self._scalar(instr)
            case IsNull():
                _demand(isinstance(instr.ref.type, RefT | ListT | TensorT), f"{instr.ref.name} is not a reference")
                self._assign(BOOL, instr.out)
            case ClassTag():
                _demand(isinstance(instr.ref.type, RefT), f"{instr.ref.name} is not an object")
                self._assign(INT, instr.out)
            case Check():
                _demand(instr.cond.type == BOOL, f"{instr.cond.name} is not a bool")
                self._fill(instr.site, instr.args)
            case Load():
                self._load(instr)
            case New():
                _demand(instr.cls in self.layouts, f"{instr.cls.__qualname__} has no layout")
                self._words(instr.args, [w for f in self.layouts[instr.cls].fields for w in words(f.type)])
                self._assign(RefT((instr.cls,)), instr.out)
            case ListNew():
                item = self._item(instr.out, instr.width)
                _demand(
                    len(instr.args) == instr.count * instr.width, f"{len(instr.args)} words for {instr.count} elements"
                )
                self._words(instr.args, words(item) * instr.count)
            case ListOp():
                self._list_op(instr)
            case ExtentOf():
                _demand(isinstance(instr.tensor.type, TensorT), f"{instr.tensor.name} is not a tensor")
                _demand(0 <= instr.axis < len(_shape(instr.tensor.type)), f"no axis {instr.axis}")
                self._assign(INT, instr.out)
            case Shared():
                inner = words(self._shared(instr.index))
                _demand(len(inner) == 1, "not one word")
                self._assign(inner[0], instr.out)
            case Op():
                _op(instr, self)
            case Emit():
                self._emit(instr)
            case Pad():
                _demand(isinstance(instr.src.type, TensorT), f"{instr.src.name} is not a tensor")
                self._assign(instr.src.type, instr.out)
                _demand(instr.levels > 0, f"{instr.levels} levels")
            case Call():
                _demand(0 <= instr.function < len(self.program.functions), f"no function {instr.function}")
                callee = self.program.functions[instr.function]
                self._words(instr.args, [p.type for p in callee.params])
                self._results(callee.results, instr.outs)
            case Read():
                t = instr.tensor.type
                if not isinstance(t, TensorT) or t.rank:
                    raise _Wrong(f"{instr.tensor.name} is not a tensor of rank 0")
                self._assign(host_word(t.dtype), instr.out)
            case Spawn():
                self._spawn(instr)
            case Join():
                pass
            case Jump():
                pass
            case Branch():
                _demand(instr.cond.type == BOOL, f"{instr.cond.name} is not a bool")
            case Return():
                self._words(instr.args, self.function.results)
            case Fail():
                self._fill(instr.site, instr.args)
            case _:
                assert_never(instr)

    # What several rules need.

    def _assign(self, word: Word, out: Var) -> None:
        _demand(fits(word, out.type), f"{type_text(word)} is assigned to {out.name}: {type_text(out.type)}")

    def _words(self, args: Sequence[Var], wanted: Sequence[Word]) -> None:
        _demand(len(args) == len(wanted), f"{len(args)} words where {len(wanted)} are needed: {_texts(wanted)}")
        for arg, word in zip(args, wanted, strict=True):
            _demand(fits(arg.type, word), f"{arg.name}: {type_text(arg.type)} where {type_text(word)} is needed")

    def _results(self, results: Sequence[Word], outs: Sequence[Var]) -> None:
        _demand(len(results) == len(outs), f"{len(outs)} variables for {len(results)} words")
        for word, out in zip(results, outs, strict=True):
            self._assign(word, out)

    def _site(self, site: int, *, needed: bool) -> None:
        _demand(-1 + needed <= site < len(self.program.sites), f"no site {site}")

    def _fill(self, site: int, args: Sequence[Var]) -> None:
        self._site(site, needed=True)
        for arg in args:
            _demand(isinstance(arg.type, IntT | FloatT | BoolT), f"{arg.name} of a message is not a number")
        used = [int(k) for k in re.findall(r"\{(\d+)\}", self.program.sites[site].text)]
        _demand(
            max(used, default=-1) < len(args), f"the message needs value {max(used, default=0)}, {len(args)} are given"
        )

    def _shared(self, index: int) -> Type:
        _demand(0 <= index < len(self.program.shared), f"no shared parameter {index}")
        return self.program.shared[index].type

    def _item(self, var: Var, width: int) -> Type:
        if not isinstance(var.type, ListT):
            raise _Wrong(f"{var.name} is not a list")
        _demand(len(words(var.type.item)) == width, f"width {width} of {type_text(var.type)}")
        return var.type.item

    # Rules that do not fit above.

    def _const(self, i: Const) -> None:
        match i.out.type:
            case BoolT():
                _demand(isinstance(i.value, bool), f"{i.value!r} is not a bool")
            case IntT():
                good = isinstance(i.value, int) and not isinstance(i.value, bool) and -(2**63) <= i.value < 2**63
                _demand(good, f"{i.value!r} is not an int of 64 bits")
            case FloatT():
                _demand(isinstance(i.value, float), f"{i.value!r} is not a float")
            case _:
                _demand(i.value is None, f"{i.value!r} is not a reference")

    def _scalar(self, i: Scalar) -> None:
        row = SCALARS.get(i.op)
        if row is None:
            raise _Wrong(f"no scalar operation {i.op}")
        self._site(i.site, needed=False)
        _demand(len(i.args) == len(row.args), f"{len(i.args)} arguments for {row.args!r}")
        any_word: list[Word] = []
        for letter, arg in zip(row.args, i.args, strict=True):
            good = letter == "x" or isinstance(arg.type, _LETTERS[letter])
            _demand(good, f"{arg.name}: {type_text(arg.type)} for letter {letter!r}")
            if letter in "ax":
                any_word.append(arg.type)
        if i.op == "same":
            kinds = {RefT if isinstance(w, RefT) else type(w) for w in any_word}
            _demand(len(kinds) == 1, "references of different kinds")
        elif i.op != "select":
            _demand(len(set(any_word)) <= 1, f"arguments differ: {_texts(any_word)}")
        match row.result:
            case "i":
                self._assign(INT, i.out)
            case "f":
                self._assign(FloatT(), i.out)
            case "b":
                self._assign(BOOL, i.out)
            case _:
                for word in any_word:
                    self._assign(word, i.out)

    def _spawn(self, i: Spawn) -> None:
        _demand(0 <= i.function < len(self.program.functions), f"no function {i.function}")
        callee = self.program.functions[i.function]
        self._words(i.args, [p.type for p in callee.params])
        if i.into is None:
            self._results(callee.results, i.outs)
            return
        to, index = i.into
        _demand(not i.outs, "results in variables and in a list")
        _demand(index.type == INT, f"{index.name} is not an int")
        item = words(self._item(to, len(callee.results)))
        good = all(map(fits, callee.results, item))
        _demand(good, f"{_texts(callee.results)} into {type_text(to.type)}")

    def _load(self, i: Load) -> None:
        if not isinstance(i.ref.type, RefT):
            raise _Wrong(f"{i.ref.name} is not an object")
        _demand(i.cls in i.ref.type.classes, f"{i.ref.name}: {type_text(i.ref.type)} is never a {i.cls.__qualname__}")
        _demand(i.cls in self.layouts, f"{i.cls.__qualname__} has no layout")
        found = [f for f in self.layouts[i.cls].fields if f.name == i.field]
        _demand(found, f"{i.cls.__qualname__} has no field {i.field} in its layout")
        self._results(words(found[0].type), i.outs)

    def _list_op(self, i: ListOp) -> None:
        if i.op == "fill":
            _demand(len(i.outs) == 1, "one list is made")
            item = words(self._item(i.outs[0], i.width))
            self._words(i.args, (INT, *item))
            return
        _demand(i.args, "no list")
        this = i.args[0]
        t = self._item(this, i.width)
        item = words(t)
        rest = i.args[1:]
        arguments: dict[str, tuple[Word, ...]] = {
            "len": (), "get": (INT,), "set": (INT, *item), "append": item, "pop": (INT,), "insert": (INT, *item),
            "extend": (this.type,), "slice": (INT, INT, INT),
        }  # fmt: skip
        results: dict[str, tuple[Word, ...]] = {"len": (INT,), "get": item, "pop": item, "slice": (this.type,)}
        if i.op == "sort":
            _demand(len(rest) == 2, "sort takes a list, keys and a bool")
            keys = rest[0].type
            _demand(
                isinstance(keys, ListT) and isinstance(keys.item, IntT | FloatT | BoolT), "keys that are not numbers"
            )
            self._words(rest[1:], (BOOL,))
        else:
            _demand(i.op in arguments, f"no list operation {i.op}")
            self._words(rest, arguments[i.op])
        self._results(results.get(i.op, ()), i.outs)

    def _emit(self, i: Emit) -> None:
        _demand(0 <= i.kernel < len(self.kernels), f"no kernel {i.kernel}")
        spec = self.kernels[i.kernel]
        per_node = [o for o in spec.operands if o.kind != "shared"]
        _demand(sorted({o.index for o in per_node}) == list(range(len(i.args))), f"{spec.name} takes other arguments")
        ways = spec.rows if spec.rows is not None else ("whole",) * len(i.args)
        _demand(len(ways) == len(i.args), f"{spec.name} says of {len(ways)} arguments what rows get")
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
            _demand(isinstance(arg.type, kinds[operand.kind]), f"{arg.name} is not a {operand.kind}")
            _demand(_dtype(arg.type) == operand.dtype, f"{arg.name} has not dtype {operand.dtype}")
            _sizes(_shape(arg.type), operand.shape, arg.name)
        for operand in spec.operands:
            if operand.kind == "shared":
                t = self._shared(operand.index)
                good = isinstance(t, TensorT) and (t.dtype, t.shape) == (operand.dtype, operand.shape)
                _demand(good, f"shared {operand.name} is {type_text(t)}")
        _demand(len(i.dims) == spec.dims, f"{len(i.dims)} extents, {spec.name} takes {spec.dims}")
        for var in (*i.dims, *(n for s in i.shapes for n in s if isinstance(n, Var))):
            _demand(var.type == INT, f"extent {var.name} is not an int")
        _demand(len(i.outs) == len(spec.results) == len(i.shapes), f"{spec.name} has {len(spec.results)} results")
        for out, value, shape in zip(i.outs, spec.results, i.shapes, strict=True):
            op = spec.body[value - len(spec.operands)]
            _demand(
                isinstance(out.type, TensorT) and out.type.dtype == op.dtype, f"{out.name} has not dtype {op.dtype}"
            )
            skip = int(spec.rows is not None)
            _demand(not skip or (shape and shape[0] is i.shapes[0][0]), f"{out.name} has other rows")
            _sizes(_shape(out.type)[skip:], op.shape, out.name)
            _sizes(tuple(None if isinstance(n, Var) else n for n in shape)[skip:], op.shape, out.name)
        for op in spec.body:
            self._site(op.site, needed=op.op == "index")
            _demand(op.site < 0 or op.op in FALLIBLE, f"{op.op} does not fail")

    @staticmethod
    def _row(arg: Var, operand: Operand, way: str) -> None:
        """Check an argument of which each row of a node gets its own part."""
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
        _demand(good, f"no {way} of {arg.name} is a {operand.kind}")
        _sizes(tuple(shape), operand.shape, arg.name)


def _sizes(shape: tuple[int | None, ...], sizes: Sequence[Any], name: str) -> None:
    """Extents of a variable's type and the sizes of a kernel agree: where both are constant they are equal."""
    _demand(len(shape) == len(sizes), f"{name} has rank {len(shape)}, not {len(sizes)}")
    for n, m in zip(shape, sizes, strict=True):
        _demand(n is None or not isinstance(m, int) or n == m, f"{name} has an extent {n}, not {m}")


# Tensor operations: one rule per kind.


def _op(i: Op, rules: _Rules) -> None:
    row = TENSORS.get(i.op)
    if row is None:
        raise _Wrong(f"no tensor operation {i.op}")
    args: list[Word] = []
    for a in i.args:
        if isinstance(a, SharedArg):
            t = rules._shared(a.index)
            if not isinstance(t, TensorT):
                raise _Wrong(f"shared {a.index} is not a tensor")
            args.append(t)
        else:
            args.append(a.type)
    _demand(len(args) == row.arity if row.arity >= 0 else args, f"{len(args)} arguments")
    rules._site(i.site, needed=i.op == "index")
    _demand(i.site < 0 or i.op in FALLIBLE, f"{i.op} does not fail")
    out = i.out.type
    if not isinstance(out, TensorT):
        raise _Wrong(f"{i.out.name} is not a tensor")
    _demand(out.dtype in DTYPES, f"no dtype {out.dtype}")
    _demand(len(i.shape) == out.rank, f"{len(i.shape)} extents for {type_text(out)}")
    for n, m in zip(i.shape, out.shape, strict=True):
        if isinstance(n, Var):
            _demand(n.type == INT, f"extent {n.name} is not an int")
            _demand(m is None, f"the run-time extent {n.name} for {type_text(out)}")
        else:
            _demand(n >= 0 and m in (None, n), f"extent {n} for {type_text(out)}")
    for x in (x for a in i.attrs for x in (a if isinstance(a, tuple) else (a,)) if isinstance(x, Var)):
        _demand(x.type == INT, f"{x.name} among the static arguments is not an int")
    shape = tuple(None if isinstance(n, Var) else n for n in i.shape)
    dtypes = [_dtype(a) for a in args]
    shapes = [_shape(a) for a in args]
    _KINDS.get(i.op, _KINDS.get(row.kind, _none))(i, dtypes, shapes, out.dtype, shape)


_Shape = tuple[int | None, ...]


def _none(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    raise _Wrong(f"no rule for {i.op}")


def _agree(shape: _Shape, wanted: _Shape, what: str = "the result") -> None:
    text = f"{what} has shape {list(shape)}, not {list(wanted)}".replace("None", "?")
    _demand(len(shape) == len(wanted), text)
    _demand(all(n is None or m is None or n == m for n, m in zip(shape, wanted, strict=True)), text)


def _attrs(i: Op, count: int) -> tuple[Any, ...]:
    _demand(len(i.attrs) == count, f"{len(i.attrs)} static arguments, not {count}")
    return i.attrs


def _axis(i: Op, axis: object, rank: int) -> int:
    if not isinstance(axis, int) or not 0 <= axis < rank:
        raise _Wrong(f"no axis {axis!r} of {rank}")
    return axis


def _broadcast(shapes: Sequence[_Shape], shape: _Shape) -> None:
    """The shapes may broadcast to `shape`. A run-time extent may turn out to be 1."""
    _demand(
        max(map(len, shapes), default=0) == len(shape), f"shapes of ranks {[*map(len, shapes)]} to rank {len(shape)}"
    )
    for axis in range(-len(shape), 0):
        extents = [s[axis] for s in shapes if len(s) >= -axis]
        fixed = {n for n in extents if n not in (None, 1)}
        _demand(len(fixed) <= 1, f"extents {sorted(map(str, fixed))} do not broadcast")
        n = shape[axis]
        if fixed:
            _demand(n is None or n in fixed, f"extents {extents} to {n}".replace("None", "?"))
        elif None not in extents:
            _demand(n in (None, 1), f"extents {extents} to {n}")


def _element(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _broadcast(shapes, shape)
    if i.op == "cast":
        return
    if i.op == "where":
        _demand(dtypes[0] == "bool", f"a condition of dtype {dtypes[0]}")
        dtypes = dtypes[1:]
    _demand(len(set(dtypes)) == 1, f"dtypes {', '.join(dtypes)} in one operation")
    if i.op in FLOAT_ONLY:
        _demand(dtypes[0].startswith("float"), f"{i.op} of {dtypes[0]}")
    if i.op == "index":
        _demand(dtypes[0] == "int64", f"an index of dtype {dtypes[0]}")
    if i.op in LOGICAL:
        _demand(not dtypes[0].startswith("float"), f"{i.op} of {dtypes[0]}")
    wanted = "bool" if i.op in COMPARISONS else dtypes[0]
    _demand(dtype == wanted, f"the result is {dtype}, not {wanted}")


def _reduce(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axes,) = _attrs(i, 1)
    _demand(isinstance(axes, tuple) and list(axes) == sorted(set(axes)), f"axes {axes!r} are not a sorted tuple")
    for axis in axes:
        _axis(i, axis, len(shapes[0]))
    _agree(shape, tuple(n for k, n in enumerate(shapes[0]) if k not in axes))
    if i.op in ("max", "min"):
        _demand(dtype == dtypes[0], f"{i.op} of {dtypes[0]} to {dtype}")
    if i.op in ("any", "all"):
        _demand(dtype == "bool", f"{i.op} to {dtype}")


def _arg(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _axis(i, axis, len(shapes[0]))
    _agree(shape, tuple(n for k, n in enumerate(shapes[0]) if k != axis))
    _demand(dtype == "int64", f"{i.op} to {dtype}")


def _matmul(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    x, y = shapes
    _demand(x and y, "a matrix product of a number")
    _demand(dtypes[0] == dtypes[1] == dtype, f"{' @ '.join(dtypes)} to {dtype}")
    inner = y[-2] if len(y) > 1 else y[-1]
    _demand(x[-1] is None or inner is None or x[-1] == inner, f"inner extents {x[-1]} and {inner}")
    tail = (*x[-2:-1], *(y[-1:] if len(y) > 1 else ()))
    lead = [s[:-2] for s in (x, y)]
    rank = max(map(len, lead))
    _demand(len(shape) == rank + len(tail), f"rank {len(shape)}, not {rank + len(tail)}")
    _agree(shape[rank:], tail)
    _broadcast(lead, shape[:rank])


def _same_dtype(dtypes: Sequence[str], dtype: str) -> None:
    _demand(set(dtypes) == {dtype}, f"{', '.join(dtypes)} to {dtype}")


def _reshape(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    if None not in shape and None not in shapes[0]:
        sizes = [_product(shapes[0]), _product(shape)]
        _demand(sizes[0] == sizes[1], f"{sizes[0]} elements to {sizes[1]}")


def _product(shape: _Shape) -> int:
    out = 1
    for n in shape:
        out *= n or 0
    return out


def _transpose(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (order,) = _attrs(i, 1)
    _same_dtype(dtypes, dtype)
    _demand(isinstance(order, tuple) and sorted(order) == list(range(len(shapes[0]))), f"{order!r} is no permutation")
    _agree(shape, tuple(shapes[0][k] for k in order))


def _broadcast_to(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    x = shapes[0]
    _demand(len(x) <= len(shape), f"rank {len(x)} to rank {len(shape)}")
    for n, m in zip(x, shape[len(shape) - len(x) :], strict=True):
        _demand(n in (None, 1) or m is None or n == m, f"an extent {n} to {m}")


def _slice(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    starts, steps = _attrs(i, 2)
    _same_dtype(dtypes, dtype)
    x = shapes[0]
    _demand(len(starts) == len(steps) == len(x) == len(shape), "not one start, step and extent per axis")
    for start, step, n, count in zip(starts, steps, x, shape, strict=True):
        _demand(isinstance(step, int) and step != 0, f"step {step!r}")
        if isinstance(start, Var) or count == 0:
            continue
        _demand(start >= 0 and (n is None or start < n or count is None), f"start {start} of {n}")
        if n is not None and count is not None:
            _demand(0 <= start + step * (count - 1) < n, f"elements {start} + {step} * {count - 1} of {n}")


def _take(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _same_dtype(dtypes[:1], dtype)
    _demand(dtypes[1].startswith(("int", "uint")), f"an index of dtype {dtypes[1]}")
    x = shapes[0]
    axis = _axis(i, axis, len(x))
    _agree(shape, (*x[:axis], *shapes[1], *x[axis + 1 :]))


def _concat(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _same_dtype(dtypes, dtype)
    axis = _axis(i, axis, len(shape))
    for s in shapes:
        _demand(len(s) == len(shape), f"ranks {[len(s) for s in shapes]} to {len(shape)}")
        _agree((*s[:axis], None, *s[axis + 1 :]), shape, "an argument")
    along = [s[axis] for s in shapes]
    total = None if None in along else sum(n or 0 for n in along)
    _agree(shape[axis : axis + 1], (total,))


def _stack(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    _demand(isinstance(i.args[0], Var) and isinstance(i.args[0].type, ListT), "stack of something that is not a list")
    _demand(None not in shapes[0][1:], "stack of arrays of run-time extents")
    _agree(shape, shapes[0])


def _const(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (value,) = _attrs(i, 1)
    _demand(isinstance(value, bool | int | float), f"the constant {value!r} is not a number")
    _agree(shape, ())


def _iota(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _demand(len(shape) == 1 and dtype != "bool", f"iota of rank {len(shape)}, {dtype}")


_Rule = Callable[[Op, list[str], list[_Shape], str, _Shape], None]
_KINDS: dict[str, _Rule] = {
    "element": _element,
    "reduce": _reduce,
    "arg": _arg,
    "matmul": _matmul,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast_to,
    "slice": _slice,
    "take": _take,
    "concat": _concat,
    "stack": _stack,
    "const": _const,
    "iota": _iota,
}
