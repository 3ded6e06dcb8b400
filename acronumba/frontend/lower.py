"""From a plain Python function to a typed `Program`.

In: the user's function, the types of its positional parameters and of the fields of their classes, the structure of
the shared parameters. Out: a `Program` (see `ir.nodes`), and the functions, names and values on which it depends.

The syntax tree is interpreted on abstract values (`values`). This infers types, resolves calls and attributes, folds
constants, inlines helpers that are not recursive (see `helpers`), and emits IR. A loop is walked until the types of its
loop-carried names are stable. Recursive functions are walked once for each set of argument types, and called.
Assumptions that proved too narrow (the result type of a recursion, the element type of a list) are widened in `Facts`,
and the whole program is walked again, up to a fixed point of the facts. The IR of the last iteration is the result.

Invariant: the result is the program that the last facts give, however they were found. An iteration is the last one if
no fact has changed after it was read. A loop begins with the join shapes with which its last walk ended; shared ints
that become constants are constants from the next iteration on. This relies on the growth of facts and join shapes: with
ACRONUMBA_VERIFY=2 the program is compared with that of a walk which begins each loop anew.
"""

from __future__ import annotations

import ast
import importlib
import re
import types
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations, count, starmap
from typing import Any

from acronumba.config import verify_level
from acronumba.data.layouts import make_layouts
from acronumba.data.result_wrappers import Wrap
from acronumba.data.schema import NODES, classes_of
from acronumba.data.shared import SharedConst, SharedTree, hiding, nodes_of, values_of
from acronumba.data.source_guard import Changed, SourceGuard
from acronumba.data.tables import Inherited
from acronumba.errors import NOWHERE, AcronumbaError, Loc, file_title, together
from acronumba.errors.codes import reject
from acronumba.foreign import BY_SOURCE
from acronumba.frontend import (
    assignment,
    cached,
    columns,
    comprehensions,
    conditions,
    dicts,
    expressions,
    functions,
    generators,
    loops,
    made,
    overlay,
    patterns,
    pulling,
    records,
    sequences,
    statements,
    torch_math,
    torch_writes,
    zips,
)
from acronumba.frontend.arrays import present
from acronumba.frontend.block import FunctionCode
from acronumba.frontend.boxes import open_boxes
from acronumba.frontend.draws import begin_draws, has_key
from acronumba.frontend.exceptions import Hopeless, Rejected, Restart, TooLong
from acronumba.frontend.facts import Facts
from acronumba.frontend.functions import add_defaults, parameters_of
from acronumba.frontend.instances import ENTRY, call_instance, fails_itself, finish, function_name
from acronumba.frontend.join_shapes import ContainerShape, TypeShape
from acronumba.frontend.kinds import strings
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.objects import ClassNumber, Ref
from acronumba.frontend.kinds.records import as_result
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.memos import begin_memos
from acronumba.frontend.names import behind, function_value
from acronumba.frontend.overlay import Paths, begin_overlays, check_distinct, on_all_paths
from acronumba.frontend.walker import Frame, GlobalRead, Walker
from acronumba.frontend.wrapping import ANYTHING, either, finished, unwrapped
from acronumba.generics import Value
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.printer import function_text
from acronumba.ir.shapes import STANDS_FOR, is_shape
from acronumba.ir.source import line_text
from acronumba.ir.types import INT, ListT, NoneT, StructT, Type, all_parts, nesting, words
from acronumba.ir.visit import reassigned, rename, writes
from acronumba.records import record

SWEEPS = 60  # maximal number of iterations to the fixed point,
SETTLED = 6  # and of iterations with equal rejections after which these are final,
# Or of further iterations with one and the same rejection, and expressions walked in them.
STAYED = ((3, 5_000), (1, 10_000))


@record(kw_only=True)
class Lowered:
    """Result of the front end: the program, and everything on which it depends."""

    program: ir.Program
    reads: Mapping[type, frozenset[str]]  # fields of instance data that the program reads
    inherited: Inherited
    demanded: frozenset[str]  # paths of shared ints that became constants
    globals: tuple[GlobalRead, ...]
    source_guard: SourceGuard  # the functions and names that were read
    fields: Mapping[type, Mapping[str, Type]]  # types of the fields of all rows
    notes: tuple[Note, ...] = ()  # decisions, for `Model.explain`
    apart: Mapping[tuple[str, ...], Loc] = field(default_factory=dict)  # shared values that reach no object twice
    # Of each class of shared objects with written attributes, for each object: the paths that must lead to it.
    distinct: tuple[Paths, ...] = ()
    # The written attributes of shared objects by path, and of objects of the data by class, and where: see `overlay`.
    overlaid: Mapping[str | type, Mapping[str, Loc]] = field(default_factory=dict)
    begin_shared: bool = False  # whether those of shared objects may be read as they were before the batch
    wrap: Wrap = None  # the Python form of the results, not part of their words
    unread: frozenset[tuple[str, Value]] = frozenset()  # paths of shared objects, with attributes that nothing reads


@record(kw_only=True)
class Read:
    """Functions, names and values read of a rejected function: the rejection is valid while they do not change."""

    source_guards: tuple[SourceGuard, ...]
    globals: tuple[GlobalRead, ...]
    demanded: frozenset[str]  # paths of shared ints whose values were used


class Settling:
    """The rejections of successive iterations that change facts."""

    def __init__(self) -> None:
        self.told: frozenset[Hashable] = frozenset()  # the rejections of the last iteration,
        self.equal = 0  # and how many before it had the same
        self.stay: frozenset[Hashable] = frozenset()  # the rejections of the last iterations,
        self.count = self.steps = 0  # which are so many, and had so many expressions

    def ends(self, sweep: Walker) -> bool:
        """Note an iteration; return whether its rejections are final."""
        told = sweep.told
        self.equal = self.equal + 1 if told and told == self.told else 0
        self.told = told
        stay = told & self.stay
        self.count, self.steps = (self.count + 1, self.steps + sweep.steps) if stay else (0, 0)
        self.stay = stay or told
        stayed = any(self.count >= count and self.steps > steps for count, steps in STAYED)
        ends = self.equal >= SETTLED or stayed
        if ends:
            self.equal = self.count = self.steps = 0
        return ends


# Modules that register handlers (see `handlers`).
TOPICS = (
    assignment, cached, columns, comprehensions, conditions, dicts, expressions, functions, generators, loops,
    made, overlay, patterns, pulling, records, sequences, statements, strings, torch_math, torch_writes, zips,
)  # fmt: skip


def lower(
    fn: types.FunctionType,
    params: Sequence[Type],
    fields: Mapping[type, Mapping[str, Type]],
    shared: SharedTree,
    values: Mapping[str, Value],
    rejected: list[Read] | None = None,
    tensors: bool = False,
    state: str = "written",
) -> Lowered:
    """Compile a function to a typed program.

    Parameters
    ----------
    fn : function
        The model's plain function.
    params : sequence of Type
        Types of the positional parameters that are given.
    fields : mapping of class to mapping of field name to Type
        Fields of the classes of the instances.
    shared : SharedTree
        Structure of the keyword-only parameters.
    values : mapping
        The keyword-only parameters. Paths of ints in them that the program needs at compile time are in
        `Lowered.demanded`.
    rejected : list, optional
        If the function is rejected, the `Read` of it is appended to this list.
    tensors : bool
        Whether tensors of PyTorch are tensors in the code, not arrays.
    state : str
        Which written attributes of objects that came in may be read before they are written, see `Options.state`.

    Raises
    ------
    AcronumbaError
        All rejections at once.
    Changed
        If the code changed during compilation.
    """
    if tensors:
        importlib.import_module("acronumba.torch.rows")  # adds the rows of PyTorch's functions
    facts, sweeps = Facts(tensors=tensors, state=state), list[Walker]()
    try:
        lowered = _lower(fn, params, fields, shared, values, sweeps, facts)
    except Exception as error:
        if not _agree(sweeps):
            raise Changed from None
        if isinstance(error, AcronumbaError):
            _note(error, sweeps, rejected)
        raise
    if not _agree(sweeps):
        raise Changed
    if any(sweep.by_source for sweep in sweeps):
        BY_SOURCE.add(fn)
    lowered = replace(lowered, unread=_unread(lowered, shared, sweeps))
    if verify_level() > 1:
        complete = _lower(fn, params, fields, shared, values, [], Facts(facts, tensors, state))
        same = _function_texts(lowered.program) <= _function_texts(complete.program)
        assert same or lowered.demanded != complete.demanded, f"{fn.__name__}: a complete walk gives another program"
    return lowered


def _agree(sweeps: Sequence[Walker]) -> bool:
    """Whether all iterations have read the same code."""
    return all(starmap(SourceGuard.agrees, combinations([sweep.source_guard for sweep in sweeps], 2)))


def _unread(lowered: Lowered, shared: SharedTree, sweeps: Sequence[Walker]) -> frozenset[tuple[str, Value]]:
    """Return the attributes of shared objects that no iteration has read; functions count as read."""
    used: set[tuple[str, Value]] = set()
    every: set[tuple[str, Value]] = set()
    for sweep in sweeps:
        for root in (*shared.roots.values(), *(g.shared for g in sweep.globals.values())):
            for node in nodes_of(root):
                for name, item in zip(node.names, node.items, strict=True):
                    every.add((node.path, name))
                    if id(item) in sweep.used or (isinstance(item, SharedConst) and callable(item.value)):
                        used.add((node.path, name))
    return frozenset(every - used)


def _function_texts(program: ir.Program) -> set[str]:
    """Return the functions as text, without what undone walks leave: names, and numbers of sites and functions."""
    return {_without_names(function_text(f, program)) for f in program.functions}


def _without_names(text: str) -> str:
    """Return the text of a function with numbers for names of variables, and without comments."""
    text = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
    names: dict[str, str] = {}
    for found in re.findall(r"^ *(?:\d+: *)?([A-Za-z_][\w, ]*) = ", text, re.MULTILINE):
        for name in found.split(", "):
            names.setdefault(name, f"${len(names)}")
    text = re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda name: names.get(name[0], name[0]), text)
    return re.sub(r"(?<=#)\w+|(?<=site )\d+|_\d+(?=\()| +", "", text)


def _note(error: AcronumbaError, sweeps: Sequence[Walker], rejected: list[Read] | None) -> None:
    """Note how long it took to reject a function, and what was read."""
    error.steps = sum(sweep.steps for sweep in sweeps)
    if rejected is not None:
        rejected.append(_read_by(sweeps))


def _read_by(sweeps: Sequence[Walker]) -> Read:
    """Return everything read in all iterations, as a rejection may depend on facts of an earlier iteration."""
    return Read(
        source_guards=tuple(sweep.source_guard for sweep in sweeps),
        globals=tuple({key: found for sweep in sweeps for key, found in sweep.globals.items()}.values()),
        demanded=frozenset().union(*(sweep.demanded for sweep in sweeps)),
    )


def _lower(
    fn: types.FunctionType, params: Sequence[Type], fields: Mapping[type, Mapping[str, Type]], shared: SharedTree,
    values: Mapping[str, Value], sweeps: list[Walker], facts: Facts
) -> Lowered:  # fmt: skip
    """Implement `lower`; append each iteration's walker to `sweeps`."""
    facts.given = {cls: dict(table) for cls, table in fields.items()}
    facts.begin_again()
    given = (*params, *(t for table in fields.values() for t in table.values()), *(leaf.type for leaf in shared.leaves))
    facts.outside = {*fields, *(c for leaf in shared.leaves for c in classes_of(leaf.type))}
    facts.came = {*facts.outside}
    facts.note_shapes(cls.shape for cls in fields if is_shape(cls))
    constants: dict[str, Any] = {}
    for name, root in shared.roots.items():
        facts.same.add(root, values[name])
        constants |= {leaf.path: v for leaf, v in values_of(root, values[name]) if leaf.type == INT}
    settling = Settling()
    for _ in range(SWEEPS):
        facts.begin_iteration()
        facts.steps += sweeps[-1].steps if sweeps else 0
        sweep = Walker(facts)
        sweeps.append(sweep)
        sweep.constants = dict(constants)
        sweep.roots = frozenset(shared.roots)
        sweep.shared_roots = [*shared.roots.values()]
        sweep.data_lists = {t for t in all_parts(*given) if isinstance(t, ListT)}
        try:
            result = _sweep(sweep, fn, params, shared)
        except Restart:
            if settling.ends(sweep) and not facts.again(sweep.errors):
                raise together(sweep.errors) from None
            continue
        except Hopeless as error:
            if facts.again([error.error, *sweep.errors]):
                continue
            raise together([error.error, *sweep.errors]) from None
        except Rejected as error:
            result = None
            sweep.note_rejection(error)
        except TooLong:
            raise together(facts.rejected) from None
        if result is not None and facts.changed:
            continue
        if not sweep.errors and sweep.silent:  # the cause of an `ErrorValue` was rejected in a walk that was undone
            sweep.errors += sweep.undone
            assert result is None or sweep.errors, f"{sweep.silent[0]}: left out, and nothing says why"
        if result is not None and not sweep.errors and _fold(sweep):
            continue
        if result is not None and not sweep.errors:
            return result
        if facts.again(sweep.errors):
            continue
        if facts.written_out or not facts.loops_kept:
            raise together(sweep.errors)
        facts.written_out = True
        facts.begin_again()
    seen = f"{fn.__name__}: types that change however often it is looked at"
    raise together(sweep.errors or [reject("ACR303", sweep.loc, seen, NODES)])


def _fold(sweep: Walker) -> bool:
    """Make shared ints constant in all uses if they are in one; return whether one has another use."""
    found = not sweep.demanded.isdisjoint(sweep.shared_index)
    if found:
        sweep.facts.folded |= sweep.demanded
    return found


def _check_entry(sweep: Walker, func: Func, loc: Loc) -> None:
    """Reject a function that cannot be a model: a generator, or one with `**kwargs` or no parameter."""
    a = func.source.node.args
    if func.source.facts.generates:
        first = next(n for n in ast.walk(func.source.node) if isinstance(n, ast.Yield | ast.YieldFrom))
        seen = f"{func.source.name} yields"
        raise sweep.reject("ACR104", func.source.loc(first), seen=seen, rewrite="append to a list and return it")
    if a.kwarg or not (a.posonlyargs or a.args or a.vararg):
        raise sweep.reject("ACR208", loc, seen=f"{func.source.name}({ast.unparse(a)})")


def _nests(sweep: Walker) -> bool:
    """Whether a parameter of a recursive function has a nested type, such as a list of lists."""
    used = [t for instance in sweep.instances.values() for t in instance.templates]
    lists = (t for t in used if isinstance(t, ContainerShape) and t.is_sequence)
    data = [*(t.type for t in used if isinstance(t, TypeShape)), *(t.cell.item for t in lists)]
    return any(nesting(t) > 1 for t in data)


def _sweep(sweep: Walker, fn: types.FunctionType, params: Sequence[Type], shared: SharedTree) -> Lowered:
    func = function_value(sweep, fn)
    assert isinstance(func, Func)
    loc = func.source.loc(func.source.node)
    a = func.source.node.args
    _check_entry(sweep, func, loc)
    sweep.functions.append(None)
    code = sweep.code = FunctionCode(function_name(sweep, func), loc)
    sweep.here, sweep.loc, sweep.source = func.source.node, loc, func.source
    frame = sweep.push(func, ())
    sweep.block = sweep.new_block()
    given = _bind_entry(sweep, frame, params, shared)
    begin_overlays(sweep)
    begin_memos(sweep)
    key = ENTRY
    if func.code in sweep.facts.recursive:
        given = {name: given[name] for name in parameters_of(a)}
        val = call_instance(sweep, func, given)
        sweep.end_call(val, loc)
    else:
        open_boxes(sweep, frame)
        sweep.body(func.source.body)
        sweep.end_call(NoneVal(), loc)
    wrap = _read_results(sweep, frame)
    finish(sweep, key, frame)
    if not frame.returns:  # all instances fail
        sweep.errors += sweep.certain
    sweep.functions[0] = code
    result = sweep.facts.results.get(key) or NoneT()
    _check_classes(sweep, result, loc)
    distinct: tuple[Paths, ...] = ()
    if not sweep.facts.changed and not sweep.errors:
        _check_visible(sweep, shared)
        _check_returns(sweep)
        roots = (*shared.roots.values(), *(g.shared for g in sweep.globals.values()))
        distinct = check_distinct(sweep, roots, result)
    if sweep.facts.changed:
        if not sweep.errors and not sweep.facts.complete:
            _fold(sweep)
        raise Restart
    program = _program(sweep, code.name, params, result)
    reads = {cls: frozenset(names) for cls, names in sweep.reads.items()}
    inherited = {cls: frozenset(name for c, name in sweep.inherited if c is cls) for cls, _ in sweep.inherited}
    return Lowered(
        program=program,
        reads=reads,
        inherited=inherited,
        # A global that an earlier sweep read may be out of reach now, behind a line that always fails.
        demanded=frozenset((sweep.demanded | sweep.facts.folded) & sweep.constants.keys()),
        globals=tuple(sweep.globals.values()),
        source_guard=sweep.source_guard,
        fields={cls: dict(table) for cls, table in sweep.facts.fields.items()},
        notes=tuple(dict.fromkeys(sweep.notes)),
        apart=sweep.apart,
        distinct=distinct,
        overlaid=on_all_paths(sweep),
        begin_shared=sweep.facts.state == "initial",
        wrap=wrap,
    )


def _check_classes(sweep: Walker, result: Type, loc: Loc) -> None:
    """Reject exceptions and matches of patterns in the result."""
    within = list(classes_within(sweep.facts, result))
    if found := next((cls for cls in within if cls in STANDS_FOR), None):
        seen = f"a {STANDS_FOR[found].__name__.lower()} of `re` in the result"
        raise sweep.reject("ACR308", loc, seen=seen, rewrite="return its text: m.group(), p.pattern")
    if any(issubclass(cls, BaseException) for cls in within):
        raise sweep.reject("ACR101", loc, seen="an exception in the result", rewrite="return its class or its text")


def classes_within(facts: Facts, result: Type) -> Iterator[type]:
    """Yield the classes of the objects that a result may hold, at any depth."""
    todo, seen = [result], set[type]()
    for t in todo:  # it grows
        for cls in {m.cls for m in all_parts(t) if isinstance(m, StructT)} - seen:
            seen.add(cls)
            todo += facts.fields.get(cls, {}).values()
            yield cls


def _check_returns(sweep: Walker) -> None:
    """Reject a recursive function that never returns, whatever the types of its arguments."""
    returns = {i.func.code for i in sweep.instances.values() if sweep.facts.results.get(i.key) is not None}
    returns |= sweep.facts.apart
    never = [i for i in sweep.instances.values() if i.func.code not in returns]
    never = [i for i in never if i.key not in sweep.facts.thrown]
    for i in (i for i in never if not fails_itself(sweep.functions[i.index], sweep.sites)):
        where, seen = i.func.source.loc(i.func.source.node), f"{i.func.source.name} always calls itself again"
        raise sweep.reject("ACR207", where, seen=seen, rewrite=NODES if _nests(sweep) else "")


def _read_results(sweep: Walker, frame: Frame) -> Wrap:
    """Replace returned arrays that are written to by their final elements.

    Return the wrapper that makes Python results of the words of results.
    """
    wrap: Any = ANYTHING
    returns, frame.returns = frame.returns, []
    for point, val, loc in returns:
        sweep.enter([point])
        read, mine = unwrapped(sweep, present(sweep, as_result(sweep, val)))
        wrap = either(sweep, wrap, mine)
        sweep.end_call(read, loc)
    return finished(wrap)


def _bind_entry(sweep: Walker, frame: Frame, params: Sequence[Type], shared: SharedTree) -> dict[str, Val]:
    """Bind the parameters of the model; positional ones become parameters of the program's entry function."""
    func, a = frame.func, frame.func.source.node.args
    positional = [p.arg for p in (*a.posonlyargs, *a.args) if p.arg not in shared.roots]
    count = len(params) - has_key(params)
    rest = [f"{a.vararg.arg}{k}" for k in range(count - len(positional))] if a.vararg else []
    flat: list[ir.Var] = []
    for name, t in zip((*(*positional, *rest)[:count], "key"), params, strict=False):
        vars = tuple(sweep.var(name, w) for w in words(t))
        flat += vars
        val = sweep.from_words(t, vars)
        if t is params[-1] and count < len(params):
            begin_draws(sweep, val)
            continue
        sweep.state[(frame.scope, name)] = replace(val, own=False) if isinstance(val, Ref) else val
    sweep.code.params = tuple(flat)
    sweep.came_in.update(flat)
    given = {name: sweep.state[(frame.scope, name)] for name in positional[:count]}
    if a.vararg:
        given[a.vararg.arg] = TupleVal(tuple(sweep.state.pop((frame.scope, name)) for name in rest))
    for p in (*a.posonlyargs, *a.args, *a.kwonlyargs):
        root = shared.roots.get(p.arg)
        if root is not None:
            function = behind(sweep, root.value) if isinstance(root, SharedConst) else None
            given[p.arg] = function_value(sweep, function) if function else sweep.shared_value(root)
    add_defaults(sweep, func, given)
    sweep.state |= {(frame.scope, name): val for name, val in given.items()}
    return given


def _check_visible(sweep: Walker, shared: SharedTree) -> None:
    """Reject a shared object with an attribute of its own that hides one read from its class."""
    for root in (*shared.roots.values(), *(g.shared for g in sweep.globals.values())):
        for found in nodes_of(root):
            for (cls, name), where in sweep.inherited.items():
                if found.cls is cls and name in found.extra:
                    seen, rewrite = hiding(cls, name)
                    raise sweep.reject("ACR501", where, f"{found.path}: {seen}", rewrite)


def _name_variables(code: FunctionCode) -> None:
    """Rename variables to the user's names for their values."""
    made = [v for instrs in code.blocks for i in instrs for v in writes(i)]
    taken = {v.name for v in (*code.params, *made)}
    computed = [i for instrs in code.blocks for i in instrs if isinstance(i, ir.Op | ir.Scalar | ir.Call | ir.ListOp)]
    to: dict[ir.Var, ir.Var] = {}
    last: dict[str, int] = {}  # the last suffix used for a name
    for var in dict.fromkeys(v for i in computed for v in writes(i) if v in code.given):
        name = given = code.given[var]
        k = last.get(given, 0)
        while name in taken:
            k += 1
            name = f"{given}_{k}"
        last[given] = k
        taken.add(name)
        to[var] = ir.Var(name, var.type)

    code.blocks = [[reassigned(i, to) for i in instrs] for instrs in code.blocks]
    code.ends = [None if end is None else rename(end, to) for end in code.ends]  # type: ignore[misc]


def _program(sweep: Walker, name: str, params: Sequence[Type], result: Type) -> ir.Program:
    without: dict[type, dict[str, Type]] = {cls: {} for cls in sweep.stored}  # includes classes without fields
    layouts = make_layouts(
        {
            cls: {n: t for n, t in row.items() if n in sweep.reads.get(cls, ()) or n in sweep.stored.get(cls, ())}
            for cls, row in (without | sweep.facts.fields).items()
        }
    )
    tags = {layout.cls: k for k, layout in enumerate(layouts)}
    numbers = count()  # numbers of `Read` instructions

    def settle(instr: ir.Instr) -> ir.Instr:
        if isinstance(instr, ir.Const) and isinstance(instr.value, ClassNumber):
            return replace(instr, value=tags.get(instr.value.cls, -1))
        return replace(instr, number=next(numbers)) if isinstance(instr, ir.Read) else instr

    functions = []
    for code in sweep.functions:
        assert code is not None
        _name_variables(code)
        blocks = tuple(
            ir.Block(
                instrs=tuple(map(settle, instrs)),
                end=end if end is not None else ir.Jump(block=k, loc=NOWHERE),
            )
            for k, (instrs, end) in enumerate(zip(code.blocks, code.ends, strict=True))
        )
        functions.append(
            ir.Function(name=code.name, params=code.params, results=code.results, blocks=blocks, loc=code.loc)
        )
    return ir.Program(
        name=name, functions=tuple(functions), sites=tuple(sweep.sites), layouts=layouts,
        shared=tuple(sweep.shared_params), params=tuple(params), result=result,
        warnings=(*_warnings(sweep.widenings), *_left_out(sweep.left_out)),
    )  # fmt: skip


def _left_out(calls: Iterable[Loc]) -> tuple[str, ...]:
    """Return a remark for each call that only tells."""
    lines = {(loc.file, loc.line): line_text(loc) for loc in calls}
    return tuple(f"{file_title(f)}:{n}: not run in a batch: {text}" for (f, n), text in sorted(lines.items()))


def _warnings(widenings: Iterable[Loc]) -> tuple[str, ...]:
    """Return a warning for each line of user code in which an operation promotes float32 to float64."""
    lines = {(loc.file, loc.line): line_text(loc) for loc in widenings}
    return tuple(f"{file_title(file)}:{line}: {ir.WIDENED}: {text}" for (file, line), text in sorted(lines.items()))
