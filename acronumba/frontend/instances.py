"""Recursive functions: one instance for each set of argument types."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from acronumba.config import COPIES
from acronumba.data.schema import NODES
from acronumba.data.shared import Shared, SharedNode
from acronumba.errors import Loc
from acronumba.errors.codes import reject
from acronumba.frontend.block import FunctionCode, Point
from acronumba.frontend.boxes import open_boxes
from acronumba.frontend.cells import endless, without_end
from acronumba.frontend.draws import draws_in
from acronumba.frontend.exceptions import Abandoned, Hopeless, Rejected, Restart
from acronumba.frontend.join_shapes import (
    ArrayShape,
    ChoiceShape,
    ContainerShape,
    ErrorShape,
    JoinShape,
    Parameter,
    PartsShape,
    StaticShape,
    TensorShape,
    TypeShape,
    compatible_shapes,
)
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Func, OneOfFunctions
from acronumba.frontend.kinds.lists import StaticList
from acronumba.frontend.kinds.numbers import ALWAYS, EnumVal, NoneVal, Num, number
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.torch_tensors import TorchTensor, unfollowed
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.memos import memo_name
from acronumba.frontend.names import forget_assigned, named_iterator
from acronumba.frontend.nesting import close
from acronumba.frontend.overlay import overlays_of
from acronumba.frontend.raised import Clause, Handler
from acronumba.frontend.trying import throw
from acronumba.frontend.walker import Frame, Instance, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, MOST_LENGTHS, TEXT, BoolT, EnumT, FloatT, IntT, StrT, Type, UnionT, union, words

MOST_LEVELS = 24  # levels of nested shared data without classes over which a function recurses,
MOST_PARTS = 1024  # and parts of one level
MOST_TEXTS = 5  # constant strings of one argument, in calls within others
MOST_KINDS = 13  # sets of argument types of a function that need not be one
NEVER_RETURNS = "this call never returns"


def fails_itself(code: FunctionCode | None, sites: Mapping[ir.Site, int]) -> bool:
    """Whether a function that never returns has a failure of its own, beside calls that never return."""
    numbers = {number for site, number in sites.items() if site.text != NEVER_RETURNS}
    return code is not None and any(isinstance(end, ir.Fail) and end.site in numbers for end in code.ends)


def call_instance(w: Walker, func: Func, params: dict[str, Val]) -> Val:
    """Call a recursive function: one instance for each set of argument types."""
    if w.trying:
        raise Abandoned
    code = func.code
    captured, scopes = captured_by(w, func, params.values())
    captured |= {**draws_in(w), **overlays_of(w)}
    given = [w.whole(v) if isinstance(v, TorchTensor) and v.detached else v for v in params.values()]
    given += captured.values()
    plain, texts = w.facts.plain.setdefault(code, set()), w.facts.texts.setdefault(code, set())
    carried = w.facts.carried.get(code)
    for val in given:
        _check_shared(w, func, val, carried is not None)
    if carried is not None:
        given = [as_carried(w, v, carried) for v in given]
    given = [_of_any_length(w, _closed(w, v), (code, k)) for k, v in enumerate(given)]
    loose = code in w.facts.loose
    templates = [v.parameter_shape(w, Parameter((code, k), k in plain, loose, k in texts)) for k, v in enumerate(given)]
    guard = guarded(w)
    key = (code, tuple(template_key(w, t) for t in templates), scopes, guard)
    instance = w.instances.get(key)
    if instance is None:
        instance = _new_instance(w, func, key, templates)
        walk_instance(w, instance, [*params], captured)
    else:  # its walk may have been part of a trial that was undone
        errors, notes = instance.told
        w.errors += [e for e in errors if e not in w.errors]
        w.notes += [n for n in notes if n not in w.notes]
    flat: list[ir.Var] = []
    for shape, val in zip(instance.templates, given, strict=True):
        flat += template_words(w, shape, val)
    result = w.facts.results.get(key)
    thrown = w.facts.thrown.get(key)
    instance.relied |= instance.walking
    if result is None and thrown is None:
        w.early = True
        if w.block is not None:
            forget_assigned(w)
            w.emit(ir.Call(outs=(), function=instance.index, args=tuple(flat), loc=w.loc))
            w.fail("RecursionError", NEVER_RETURNS, ours=True)
        return ErrorValue()
    if w.block is None:
        return ErrorValue()
    name = func.source.name.rsplit(".", 1)[-1]
    outs = tuple(w.var(name, e) for e in (() if result is None else words(result)))
    flag = () if thrown is None else (w.var("raised", BOOL), *(w.var("error", e) for e in words(thrown)))
    forget_assigned(w)
    w.emit(ir.Call(outs=(*outs, *flag), function=instance.index, args=tuple(flat), loc=w.loc))
    if thrown is not None:
        raised = Num(BOOL, var=flag[0]), partial(w.from_words, thrown, flag[1:])
        w.meet_again(w.along([raised, (ALWAYS, None)], lambda exc: None if exc is None else throw(w, exc()))[0])
        if result is None:  # no return has been found yet
            w.early = True
            w.fail("RecursionError", NEVER_RETURNS, ours=True)
            return ErrorValue()
    assert result is not None
    val = w.from_words(result, outs)
    return val if w.following else unfollowed(w, val)


def _new_instance(w: Walker, func: Func, key: Any, templates: Sequence[JoinShape]) -> Instance:
    """Return a new instance of a function for new argument types, without its code."""
    code, _, scopes, guard = key
    same_code = [i for i in w.instances.values() if i.func.code == code]
    _check_constants(w, code, templates, [i for i in same_code if i.walking])
    kind = w.number((code, tuple(template_key(w, t, which=False) for t in templates), scopes, guard))
    if sum(i.kind == kind for i in same_code) >= COPIES and code not in w.facts.carried:
        w.facts.carried[code] = set()
        raise Restart
    kinds = {i.kind for i in same_code} | {kind}
    if len(kinds) > MOST_KINDS and code in w.facts.apart:
        _unlike(w, code, templates)
    if len(kinds) > 13 and code not in w.facts.loose:
        w.facts.loose.add(code)
        raise Restart
    if len(kinds) > 61:
        seen = f"{func.source.name} is called with ever new types of arguments"
        raise Hopeless(reject("ACR303", w.loc, seen, NODES))
    instance = Instance(key, kind, len(w.functions), func, tuple(templates))
    w.instances[key] = instance
    w.functions.append(None)
    return instance


def _check_constants(w: Walker, code: Any, templates: Sequence[JoinShape], walking: Sequence[Instance]) -> None:
    """Drop constants of arguments if a call within others has ever new ones: a number at once, a string at length."""
    plain, texts = w.facts.plain[code], w.facts.texts[code]
    for k, new in enumerate(templates):
        olds = [i.templates[k] for i in walking if k < len(i.templates)]
        if k not in plain and any(_is_other_number(old, new) for old in olds):
            plain.add(k)
            raise Restart
        form = _form(w, new)
        if k not in texts and len({template_key(w, old) for old in olds if _form(w, old) == form}) >= MOST_TEXTS:
            texts.add(k)
            raise Restart


def _is_other_number(a: JoinShape, b: JoinShape) -> bool:
    """Whether two shapes, or parts of them, are numbers that are not both the same constant, or of one type."""
    if isinstance(a, PartsShape) and isinstance(b, PartsShape):
        return a.val.alike(b.val) and any(map(_is_other_number, a.items, b.items))
    return _is_number(a) and _is_number(b) and not compatible_shapes(a, b)


def _form(w: Walker, shape: JoinShape) -> Any:
    """Return the key of a shape with run-time strings in place of constant ones."""
    if isinstance(shape, PartsShape):
        return shape.val.form_key(w), tuple(_form(w, item) for item in shape.items)
    return TEXT if isinstance(shape, TypeShape) and isinstance(shape.type, StrT) else template_key(w, shape)


def _unlike(w: Walker, code: Any, templates: Sequence[JoinShape]) -> None:
    """Drop the constants among the arguments of a helper that is called with many; if there are none, inline it."""
    plain = w.facts.plain[code]
    known = {k for k, shape in enumerate(templates) if isinstance(shape, StaticShape) and _is_number(shape)} - plain
    plain |= known
    if not known:
        w.facts.apart.discard(code)
        w.facts.inlined.add(code)
    raise Restart


def captured_by(w: Walker, func: Func, args: Iterable[Val]) -> tuple[dict[Any, Val], tuple[int, ...]]:
    """Return the variables captured by a function, by functions in its arguments, and by functions captured in turn.

    Their order is the same in all calls with functions defined at the same positions. Also return the numbers of the
    scopes of these functions: functions with equal numbers share a scope.
    """
    out: dict[Any, Val] = {}
    todo = [func, *(f for v in args for f in v.functions())]
    seen = set()
    scopes: dict[Any, int] = {}
    ranks = []
    for inner in todo:  # grows while it is iterated over
        ranks.append(scopes.setdefault(inner.scope, len(scopes)))
        if inner.key in seen:
            continue
        seen.add(inner.key)
        scope, outer = inner.scope, inner
        while scope is not None:
            names, outer = w.scopes[scope]
            for name in sorted(inner.source.facts.free & names):
                val = w.state.get((scope, name))
                if val is not None and not isinstance(val, ErrorValue) and (scope, name) not in out:
                    out[(scope, name)] = val
                    todo += val.functions()
                    memo = w.state.get((scope, memo_name(name)))
                    if memo is not None:
                        out[(scope, memo_name(name))] = memo
            scope = outer.scope
    return out, tuple(ranks)


def _of_any_length(w: Walker, val: Val, where: tuple[Any, ...]) -> Val:
    """Return an argument; a tuple becomes one of run-time length if the parameter takes tuples of many lengths."""
    if not isinstance(val, TupleVal):
        return val
    lengths = w.facts.lengths.setdefault(where, set())
    lengths.add(len(val.items))
    types = [v.word_type() for v in val.items]
    known = [t for t in types if t is not None]
    if len(lengths) <= MOST_LENGTHS or len(known) < len(types) or isinstance(union(*known), UnionT):
        return val
    cell = w.cell(("any length", where))
    w.make_real(cell)
    return replace(w.realise(StaticList(val.items, cell)), cls=tuple)


def _closed(w: Walker, val: Val) -> Val:
    """Return an argument; a tuple or dict that grows from call to call becomes one of a closed shape."""
    t = val.word_type() if val.compound and val.python_class in (tuple, dict) else None
    closed = None if t is None else close(w, t)
    return val if closed is None or closed == t else w.from_words(closed, w.to_words(val, closed))


def _check_shared(w: Walker, func: Func, val: Val, carried: bool) -> None:
    """Reject a tree of shared data without classes that is too deep, or too large to be passed as values."""
    if not isinstance(val, SharedVal):
        return
    parts: list[Shared] = [val.node]
    for level in range(MOST_LEVELS + 1):
        parts = [item for part in parts if isinstance(part, SharedNode) for item in part.items]
        if level == MOST_LEVELS or (carried and len(parts) > MOST_PARTS):
            seen = f"{val.node.path}, with which {func.source.name} calls itself"
            raise Hopeless(reject("ACR303", w.loc, seen, NODES))
        if not parts:
            return


def as_carried(w: Walker, val: Val, classes: set[type]) -> Val:
    """Return an argument with its shared tensors as run-time values, as one instance for each would be too many."""
    if isinstance(val, Tensor) and isinstance(val.ref, ir.SharedArg):
        return replace(w.tensor(w.tensor_var(val)), array0=val.array0)
    if isinstance(val, SharedVal) and not val.is_list:
        classes.update(val.object_classes())
        return as_carried(w, w.materialise(val), classes)
    if val.compound and not val.is_list:
        return val.with_children([as_carried(w, v, classes) for v in val.children()])
    return val


def template_key(w: Walker, shape: JoinShape, which: bool = True) -> Any:
    """Return the key of a parameter's join shape; without `which`, shared tensors count by their type alone."""

    def keys(items: Iterable[JoinShape]) -> tuple[Any, ...]:
        return tuple(template_key(w, item, which) for item in items)

    match shape:
        case StaticShape(val=val):
            return ("static", val.static_key(w, which))
        case PartsShape():
            return (shape.val.form_key(w), keys(shape.items))
        case ChoiceShape(options=options):
            return ("choice", keys(options))
        case TensorShape():
            return w.template_type(shape)
        case ArrayShape():
            return ("array", w.template_type(shape))
        case ContainerShape():
            return (shape.cls, id(shape.cell.find()), shape.cell.find().item)
        case TypeShape():
            return shape.type
    return repr(shape)


def template_words(w: Walker, shape: JoinShape, val: Val) -> list[ir.Var]:
    """Return the argument words of a value for a parameter."""
    match shape:
        case StaticShape() | ErrorShape():
            return []
        case PartsShape():
            return [e for s, v in zip(shape.items, val.children(), strict=True) for e in template_words(w, s, v)]
        case ChoiceShape():
            assert isinstance(val, OneOfFunctions)
            parts = zip(shape.options, val.options, strict=True)
            return [w.word(val.index), *(e for s, v in parts for e in template_words(w, s, v))]
    return list(w.to_words(val, w.template_type(shape)))


def walk_instance(w: Walker, instance: Instance, names: Sequence[str], captured: Mapping[Any, Val]) -> None:
    """Emit the code of a recursive function for one set of argument types."""
    func, guard = instance.func, instance.key[3]
    errors, notes = len(w.errors), len(w.notes)
    saved = w.code, w.block, w.state, w.source, w.here, w.loc, w.frames, w.caller, w.following, w.asked, w.unclear
    outer_loc = w.outer_loc
    compared = w.comparisons, w.compared, w.paired
    w.comparisons, w.compared, w.paired = [], 0, 0
    w.following, w.asked, w.unclear = True, [], False  # for all calls of it
    around, clause = (w.handlers, w.handling), Clause(tuple(guard))
    w.handlers, w.handling = [Handler([clause], 0, w.counter)] if guard else [], []
    w.code = FunctionCode(function_name(w, func), func.source.loc(func.source.node))
    w.here, w.loc, w.source = func.source.node, w.code.loc, func.source
    w.frames, w.caller = [], None
    w.outer_loc = w.outer_loc if func.of_library else None
    # A helper that is given a function makes other things than where it is given another one.
    given = (shape.val for shape in instance.templates if isinstance(shape, StaticShape | PartsShape))
    codes = (val.code for val in given if isinstance(val, Func))
    frame = w.push(func, (func.source.name, func.source.node.lineno, *codes))
    w.block = w.new_block()
    w.state = {}
    params: list[ir.Var] = []
    keys = [*((frame.scope, n) for n in names), *captured]
    for key, shape in zip(keys, instance.templates, strict=True):
        val, vars = w.instantiate(shape, key[1])
        params += vars
        w.state[key] = named_iterator(w, val) if val.is_iterator else val
    w.code.params = tuple(params)
    w.settle_all()
    open_boxes(w, frame)
    w.body(func.source.body)
    w.end_call(NoneVal(), frame.last)
    w.handlers, w.handling = around
    finish(w, instance.key, frame, clause, instance)
    w.functions[instance.index] = w.code
    instance.walking = False
    instance.told = w.errors[errors:], w.notes[notes:]
    w.code, w.block, w.state, w.source, w.here, w.loc, w.frames, w.caller, w.following, w.asked, w.unclear = saved
    w.comparisons, w.compared, w.paired = compared
    w.outer_loc = outer_loc


def function_name(w: Walker, func: Func) -> str:
    """Return a unique name for a function of the program."""
    base = func.source.name.rsplit(".", 1)[-1].strip("<>")
    name, k = base, 1
    while name in w.taken:
        k += 1
        name = f"{base}_{k}"
    w.taken.add(name)
    return name


ENTRY = "entry"  # the key of the model as the entry point; recursive calls of it have other keys


def guarded(w: Walker) -> frozenset[type]:
    """Return the classes of the exceptions that the clauses around a call catch, without derived ones."""
    found = {cls for handler in w.handlers for clause in handler.clauses for cls in clause.classes}
    return frozenset(c for c in found if not any(c is not d and issubclass(c, d) for d in found))


def finish(
    w: Walker, key: Any, frame: Frame, clause: Clause | None = None, instance: Instance | None = None
) -> None:  # fmt: skip
    """End a function: convert the values of all its returns to their common type.

    A function of which callers catch exceptions (`clause`) returns further words: whether it has raised one, and that.
    """
    returned: list[End] = [(point, val, loc) for point, val, loc in frame.returns]
    raised: list[End] = [(point, val, w.code.loc) for point, val in clause.raised] if clause is not None else []
    relied = instance is not None and instance.relied
    result = _common_type(w, key, w.facts.results, returned, relied)
    thrown = _common_type(w, key, w.facts.thrown, raised, relied) if clause is not None else None
    if w.facts.results.get(key) is None:
        w.facts.results.setdefault(key, None)
    layout = words(result) if result is not None else ()
    more = (BOOL, *words(thrown)) if thrown is not None else ()
    w.code.results = (*layout, *more)
    if result is not None:
        _end_with(w, returned, lambda val: (*w.to_words(val, result), *map(w.zero, more)))
    if thrown is not None:
        _end_with(w, raised, lambda val: (*map(w.zero, layout), w.word(number(True)), *w.to_words(val, thrown)))


End = tuple[Point, Val, Loc]


def _common_type(
    w: Walker, key: Hashable, known: dict[Hashable, Type | None], ends: Sequence[End], relied: bool
) -> Type | None:  # fmt: skip
    """Return the common type of values, and note it for the callers of a function; None if there are none.

    `relied`: whether a caller has read what was known of it before.
    """
    old: Type | None = known.get(key)
    types_ = []
    for point, val, w.loc in ends:
        w.enter([point])
        try:
            types_.append(w.type_of(val))
        except Rejected as error:
            w.note_rejection(error)
    if not types_ and old is None:
        return None
    # Without any, it is the result of an earlier iteration, with fewer facts, among them the shapes that are closed.
    result = close(w, union(*types_, *(() if old is None else (old,))))
    if endless(result):
        w.errors.append(w.reject("ACR303", w.code.loc, seen=without_end(result)).error)  # type: ignore[arg-type]
        return None
    if result != old:
        known[key] = result
        w.facts.changed |= relied
    return result


def _end_with(w: Walker, ends: Sequence[End], words_of: Callable[[Val], tuple[ir.Var, ...]]) -> None:
    """Return the words of values from a function."""
    for point, val, w.loc in ends:
        w.enter([point])
        w.sealed = {}  # no object is mutated through local names from here on
        try:
            args = words_of(val)
            if w.block is not None:
                w.end(ir.Return(args=args, loc=w.loc))
        except Rejected as error:
            w.note_rejection(error)
        finally:
            w.sealed = None


def _is_number(shape: JoinShape) -> bool:
    if isinstance(shape, StaticShape):
        return isinstance(shape.val, Num | EnumVal)
    return isinstance(shape, TypeShape) and isinstance(shape.type, IntT | FloatT | BoolT | EnumT)
