"""Comprehensions, and other lists built by a loop: from iterables, by list operators, from arrays to be joined."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import numpy as np

from acronumba.frontend.advice import one_type
from acronumba.frontend.exceptions import Abandoned, Dead
from acronumba.frontend.handlers import ARRAYS, EXPRESSIONS, ITEMS, handles
from acronumba.frontend.impossible import not_iterable
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.iterators import Generator, Range
from acronumba.frontend.kinds.lists import ListVal, StaticList
from acronumba.frontend.kinds.nested import FLAT
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.lists import append, list_slice, new_list, widen_items
from acronumba.frontend.loops import fold, items_in_turn, iterate, one_iterable
from acronumba.frontend.magic import iterated
from acronumba.frontend.names import check_free, forget, nested_function, part_of
from acronumba.frontend.source import assigned_names
from acronumba.frontend.tensors import HOST
from acronumba.frontend.unrolling import note_turns, unrolled_range
from acronumba.frontend.walker import UNROLL, Walker
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import (
    FLOAT,
    NEVER,
    Array0T,
    ArrayT,
    BoolT,
    FloatT,
    IntT,
    ListT,
    NeverT,
    StructT,
    TensorT,
    UnionT,
    members,
    type_text,
    union,
)


def built(
    w: Walker, iterable: Val, value: Callable[[Val], Val], what: str = "built", several: bool = False,
    code: ast.For | None = None, carried: Sequence[tuple[Any, str]] = ()
) -> ListVal:  # fmt: skip
    """Build the list of the values of all items of an iterable by a loop at run time.

    `what` distinguishes the lists built by one expression. With `several`, each value is a list of elements; `code` and
    `carried` are as in `iterate`.
    """
    cell = w.cell((what, w.frame.path, *w.site))
    cell.real = True
    out = ListVal(cell.find(), w.var("list", ListT(cell.find().item)))
    w.emit(ir.ListNew(out=out.var, width=w.ops.width(out), args=(), count=0, loc=w.loc))

    def turn(item: Val) -> None:
        val = value(item)
        if w.block is not None:
            (extend if several else append)(w, out, val)

    iterate(w, iterable, turn, code, carried)
    return out


def go_on_where(w: Walker, conditions: Sequence[ast.expr]) -> None:
    """Continue the iteration of a loop where all conditions hold; elsewhere begin the next one."""
    for c in conditions:
        yes, no = w.branch(c)
        w.frame.loops[-1].continues += no
        w.join(yes)
        if w.block is None:
            raise Dead


def collect(w: Walker, iterable: Val, f: Callable[[Val], Val]) -> ListVal | StaticList:
    """Return the list of f(item) over an iterable."""
    items = w.items_of(iterable)
    if items is not None:
        got = new_list(w, [f(v) for v in items_in_turn(w, iterable, items)])
        assert isinstance(got, ListVal | StaticList)
        return got
    return built(w, iterable, f)


def uniform(w: Walker, val: ListVal, dtype: str | None = None) -> ListVal:
    """Return a list of arrays (and numbers, which become arrays) as a list of elements of one type.

    Arrays of several ranks are rejected at compile time. A number among arrays with axes fails at run time, as in
    NumPy.
    """
    if not isinstance(val.item, UnionT | Array0T | ArrayT):
        return val
    kinds: set[TensorT] = set()
    numbers: set[TensorT] = set()
    for m in members(val.item):
        m = m.scalar if isinstance(m, Array0T) else m.seen if isinstance(m, ArrayT) else m
        if isinstance(m, TensorT):
            kinds.add(TensorT(m.dtype, (None,) * m.rank))
        elif isinstance(m, IntT | FloatT | BoolT):
            numbers.add(TensorT(HOST[m], ()))
        elif isinstance(m, StructT) and is_shape(m.cls):
            raise w.reject("ACR303", seen=f"an array of {w.describe(val)}, some of them nested", rewrite=FLAT)
    rank = max((t.rank for t in kinds), default=0)
    if not rank:
        kinds |= numbers
    if not rank and len(kinds) > 1:
        return mixed_numbers(w, val, sorted(t.dtype for t in kinds), dtype)
    if len(kinds) != 1:
        raise w.reject("ACR303", seen=w.describe(val), rewrite=one_type(val.item))

    def one(v: Val) -> Val:
        x = w.ops.as_scalar(w.ops.as_tensor(w.whole(v)))
        if x.type.rank != rank:
            w.fail("ValueError", "all input arrays must have the same shape")
        return x if x.read_from is None else Tensor(x.type, x.ref, x.dims, aliased=True)  # a copy, as of now

    return built(w, val, lambda v: w.each(v, one), f"arrays of {type_text(val.item)}")


def mixed_numbers(w: Walker, val: ListVal, dtypes: Sequence[str], dtype: str | None) -> ListVal:
    """Return a list of numbers and scalars of several dtypes as a list of NumPy's result dtype.

    NumPy's result depends on the dtypes present: an instance whose list would give another dtype fails.
    """
    wide = dtype or np.result_type(*dtypes).name
    key = (w.frame.scope, "#dtypes")
    if key in w.state:  # an element is a list of mixed numbers itself
        raise w.reject("ACR301", seen="numbers and lists of numbers in one list")
    w.state[key] = number(0)

    def one(v: Val) -> Val:
        x = w.ops.as_scalar(w.ops.as_tensor(v))
        seen = w.state[key]
        assert isinstance(seen, Num)
        w.state[key] = w.scalar("or", seen, number(1 << dtypes.index(x.type.dtype)))
        return w.ops.as_scalar(w.ops.cast(x, wide))

    out = built(w, val, lambda v: w.each(v, one), f"numbers of {type_text(val.item)}", carried=(key,))
    seen = w.state.pop(key)
    assert isinstance(seen, Num)
    if dtype is None:
        empty = [0] if wide == "float64" else []
        good = number(False)
        for k in (*empty, *range(1, 1 << len(dtypes))):
            present = [d for n, d in enumerate(dtypes) if k >> n & 1]
            if not present or np.result_type(*present).name == wide:
                good = w.either(good, w.scalar("eq", seen, number(k)))
        text = f"the array of this list is not {wide}, as it is of others; give it a dtype"
        w.check(good, "TypeError", text, ours=True)
    return out


def stack_list(w: Walker, val: ListVal, axis: int, dtype: str | None = None, empty: bool = False) -> Tensor:
    """Stack a list whose length is known only at run time."""
    val = uniform(w, val, dtype)
    item = val.item
    if not isinstance(item, TensorT) or None not in item.shape:
        return w.ops.stack_rows(val, axis, dtype, empty)
    w.ops.some_arrays(val, "stack")
    axis = w.ops.axes_of(axis, item.rank + 1)[0]
    out = join_list(w, val, axis, lambda x: w.ops.reshape(x, (*x.dims[:axis], 1, *x.dims[axis:])))
    return out if dtype is None else w.ops.cast(out, dtype)


def concat_list(w: Walker, val: ListVal, axis: int) -> Tensor:
    """Concatenate a list whose length is known only at run time."""
    val = uniform(w, val)
    w.ops.some_arrays(val, "concatenate")
    item = val.item
    if not isinstance(item, TensorT) or None not in item.shape:
        return w.ops.concat_rows(val, axis)
    return join_list(w, val, w.ops.axes_of(axis, item.rank)[0], lambda x: x)


def join_list(w: Walker, val: ListVal, axis: int, f: Callable[[Tensor], Tensor]) -> Tensor:
    """Concatenate f(x) of all arrays of a list, one after the other, as their extents are known only at run time."""
    n = w.ops.list_lengths(val)
    first = val.item_at(w, number(0))

    def part(v: Val) -> Tensor:
        assert isinstance(v, Tensor)
        return f(v)

    def one(joined: Val, v: Val) -> Tensor:
        assert isinstance(joined, Tensor)
        return w.ops.concat([joined, part(v)], axis)

    rest = list_slice(w, val, number(1), 1, w.scalar("sub", n, number(1)))
    out = fold(w, "joined", rest, one, part(first))
    assert isinstance(out, Tensor)
    return out


def to_list(w: Walker, val: Val) -> ListVal:
    """Return an iterable as a run-time list; a run-time list is returned as it is."""
    val = as_iterable(w, val)
    out = val if isinstance(val, ListVal | StaticList) else collect(w, val, lambda v: v)
    return w.realise(out) if isinstance(out, StaticList) else out


def extend(w: Walker, base: ListVal, val: Val) -> None:
    """Append the items of an iterable to a list."""
    base.mutable(w)
    if val.is_lazy:  # an item may read the list, to which the items before it have been added
        iterate(w, val, lambda v: append(w, base, v))
        return
    items = w.items_of(val)
    if items is not None:
        for v in items:
            append(w, base, v)
        return
    other = to_list(w, val)
    if other.item == NEVER:
        return
    if other.cell.find().fixed and other.item != union(other.item, base.item):  # wider than that of a list of the data
        iterate(w, other, lambda v: append(w, base, v))
        return
    w.mix(base.cell, other.cell.pure)
    widen_items(w, base, other.item)
    if other.item != base.item:
        w.unify_cells(base.cell, other.cell)
    if w.block is not None:
        args = (base.var, other.var)
        w.emit(ir.ListOp(outs=(), op="extend", width=w.ops.width(base), args=args, loc=w.loc))


def list_concat(w: Walker, a: Val, b: Val) -> ListVal:
    """Return a new list of the elements of two."""
    x, y = to_list(w, a), to_list(w, b)
    if x.item == NEVER:
        x, y = y, x
    if y.item != NEVER:
        item = union(x.item, y.item)
        if any(part.item != item and part.cell.find().fixed for part in (x, y)):
            cell = w.cell(("joined", w.frame.path, *w.site))
            w.make_real(cell)
            out = w.realise(StaticList((), cell))
            extend(w, out, x)
            extend(w, out, y)
            return out
        for part in (x, y):
            if part.item != item:
                widen_items(w, part, item)
    out = list_slice(w, x, number(0), 1, w.ops.list_lengths(x))
    if y.item == NEVER:
        return out
    w.mix(out.cell, y.cell.pure)
    if out.item != y.item:  # the element type of the new list is wider than that of the two
        w.unify_cells(out.cell, y.cell)
    if w.block is not None:
        w.emit(ir.ListOp(outs=(), op="extend", width=w.ops.width(out), args=(out.var, y.var), loc=w.loc))
    return out


def list_repeat(w: Walker, seq: Val, times: Num) -> Val:
    """`xs * n`."""
    k, items = w.known(times), seq.sequence(w)
    if items is not None and k is not NOT_CONST and k <= UNROLL:
        return new_list(w, items * k)
    if items is None or len(items) != 1:
        part = to_list(w, seq)
        whole = list_slice(w, part, number(0), 1, number(0))
        turns = Range(number(0), times, number(1))
        iterate(w, turns, lambda _: extend(w, whole, part))
        return whole
    cell = w.cell(("repeat", w.frame.path, *w.site))
    cell.real = True
    w.widen_cell(cell, w.type_of(items[0]))
    w.put_in(cell, items[0])
    out = ListVal(cell.find(), w.var("list", ListT(cell.find().item)))
    args = (w.word(w.scalar("max", w.read(times), number(0))), *w.to_words(items[0], out.item))
    w.emit(ir.ListOp(outs=(out.var,), op="fill", width=w.ops.width(out), args=args, loc=w.loc))
    return out


@handles(EXPRESSIONS, ast.ListComp)
def _list_comprehension(w: Walker, node: ast.ListComp) -> Val:
    return comprehend(w, node, w.value(node.generators[0].iter))


def comprehend(w: Walker, node: ast.ListComp | ast.GeneratorExp, first: Val) -> Val:
    """Evaluate a comprehension over a first iterable: known items one by one, others by a loop."""
    with own_names(w, node.generators, node.elt):
        return generators(w, node, 0, first)


def all_items(w: Walker, val: Val) -> Val:
    """Return the list of the items of a lazy iterator; in the function of a generator expression by a comprehension."""
    if isinstance(val, Generator) and isinstance(val.node, ast.GeneratorExp) and val.scope == w.frame.scope:
        with w.at_node(val.node):
            return comprehend(w, val.node, val.params[FIRST])
    known = in_line(w, val, lambda v: v)
    return built(w, val, lambda v: v) if known is None else new_list(w, known)


def in_line(w: Walker, iterable: Val, value: Callable[[Val], Val]) -> list[Val] | None:
    """Return the values of all items of a lazy iterator, if they are computed in a straight line; else None."""
    if not _has_known(w, iterable):
        return None
    before, errors = w.mark(), len(w.errors)
    w.counter += 1
    count, out = (w.frame.scope, f"#count{w.counter}"), list[Val]()
    w.state[count] = number(0)

    def turn(item: Val) -> None:
        val = value(item)
        if w.static(w.state[count]) != len(out):
            raise Abandoned
        if w.block is not None:
            out.append(val)
            w.state[count] = number(len(out))

    try:
        iterate(w, iterable, turn, carried=(count,))
    except Abandoned:
        if w.trying:
            raise
        w.block = None
    if w.block is not None and len(w.errors) == errors and w.static(w.state.pop(count)) == len(out):
        return out
    w.go_back(before)
    return None


def _has_known(w: Walker, val: Val) -> bool:
    """Whether a lazy iterator is over some items that are known one by one."""
    if val.is_lazy:
        return any(_has_known(w, v) for v in val.children())
    return (val.is_list or val.python_class is tuple) and w.items_of(val) is not None


def as_iterable(w: Walker, val: Val, at_once: bool = True) -> Val:
    """Return a value that a loop can iterate over; with `at_once`, a lazy iterator becomes a list."""
    val = iterated(w, one_iterable(w, val.origin))
    if val.is_lazy:
        return all_items(w, val) if at_once else val
    if val.iterable or w.items_of(val) is not None:
        return val.plain if at_once else val
    check_free(w, val)
    raise not_iterable(w, val)


FIRST = ".0"  # Python's name for the first iterable of a generator expression


@handles(EXPRESSIONS, ast.GeneratorExp)
def _generator(w: Walker, node: ast.GeneratorExp) -> Generator:
    first = w.value(node.generators[0].iter).origin
    func = nested_function(w, generator_function(node), "<genexpr>", ast.arguments([], [], None, [], [], None, []))
    return Generator(func, {FIRST: first}, node, w.frame.scope)


@lru_cache(maxsize=1024)
def generator_function(node: ast.GeneratorExp) -> ast.FunctionDef:
    """Return the generator function that a generator expression is equivalent to."""
    out: ast.stmt = ast.Expr(ast.Yield(node.elt))
    for k, gen in reversed(list(enumerate(node.generators))):
        for test in reversed(gen.ifs):
            out = ast.If(test, [out], [])
        out = ast.For(gen.target, gen.iter if k else ast.Name(FIRST, ast.Load()), [out], [])
    given = ast.arguments([], [ast.arg(FIRST)], None, [], [], None, [])
    named = [n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]  # bound in the function around it
    made = ast.FunctionDef("<genexpr>", given, [*([ast.Nonlocal(named)] if named else []), out], [])
    return ast.fix_missing_locations(ast.copy_location(made, node))


@contextmanager
def own_names(w: Walker, generators: Sequence[ast.comprehension], *made: ast.expr) -> Iterator[None]:
    """Bind the names of a comprehension in a scope of its own, which ends with it.

    Lambdas in its elements (`made`) outlive it, and see the last values of the names.
    """
    bound = [assigned_names([ast.Assign([g.target], ast.Constant(0))]) for g in generators]
    names = frozenset().union(*bound)
    lives = any(isinstance(m, ast.Lambda) for part in made for m in ast.walk(part))
    carried = names if lives else frozenset(n for n in names if _read_before_bound(n, generators, bound))
    w.counter += 1
    scope = (*w.frame.scope, "comprehension", w.counter)
    w.scopes[scope] = (names, comprehension_func(w))
    overlays = w.frame.overlays  # of this frame: if a call inside raises, `w.frame` may be another one
    overlays.append((scope, names, carried))
    try:
        yield
    finally:
        overlays.pop()
        for name in () if lives else names:
            w.state.pop((scope, name), None)
            forget(w, scope, name)


def _read_before_bound(name: str, generators: Sequence[ast.comprehension], bound: Sequence[frozenset[str]]) -> bool:
    """Whether an iteration of a comprehension may read the value that a name has from an earlier iteration.

    It may if several `for` clauses bind the name, or if the name occurs in front of the clause that binds it.
    """
    first, *others = (k for k, names in enumerate(bound) if name in names)
    before: list[ast.AST] = [g.iter for g in generators[1 : first + 1]]
    before += [part for g in generators[:first] for part in (g.target, *g.ifs)]
    return bool(others) or any(isinstance(n, ast.Name) and n.id == name for part in before for n in ast.walk(part))


def comprehension_func(w: Walker) -> Func:
    """Return the enclosing function for functions nested in a comprehension, with its names in scope."""
    func = w.frame.func
    scope = w.frame.overlays[-1][0] if w.frame.overlays else w.frame.scope
    return Func(func.source, func.globals, func.closure, scope, func.fn)


def generators(w: Walker, node: ast.ListComp | ast.GeneratorExp, k: int, iterable: Val) -> Val:
    """Evaluate a comprehension from its k-th `for` on, over an iterable that is evaluated already."""
    gen = node.generators[k]
    if gen.is_async:
        raise w.reject("ACR104")
    last = k == len(node.generators) - 1
    iterable = iterated(w, iterable)
    items = None if iterable.is_lazy else w.items_of(iterable)
    conditions = [c for g in node.generators[k:] for c in g.ifs]
    code = ast.For(gen.target, gen.iter, [ast.Expr(e) for e in (node.elt, *conditions)], [])

    def value(tests: Sequence[ast.expr], item: Val) -> Val:
        w.assign(gen.target, item)
        go_on_where(w, tests)
        if last:
            return part_of(w, node.elt)
        return generators(w, node, k + 1, w.value(node.generators[k + 1].iter))

    if items is None and isinstance(iterable, Range):
        items = unrolled_range(w, iterable, partial(value, ()), code, indexed=True)
        if items is not None:
            with w.at_node(gen.iter):
                note_turns(w, len(items))
    if items is not None and last:
        before = w.mark()
        out = _known_elements(w, gen, node.elt, items_in_turn(w, iterable, items))
        if out is not None:
            return new_list(w, out)
        w.go_back(before)
    if last and iterable.is_lazy and (found := in_line(w, iterable, partial(value, gen.ifs))) is not None:
        return new_list(w, found)
    what = "built" if last else f"nested {k}"
    return built(w, iterable, partial(value, gen.ifs), what, several=not last, code=code)


def _known_elements(w: Walker, gen: ast.comprehension, elt: ast.expr, items: Iterable[Val]) -> list[Val] | None:
    """Return the elements of a comprehension over known items; None if a condition is not a constant."""
    out = []
    for item in items:
        w.assign(gen.target, item)
        if w.block is None:
            raise Dead
        taken: Constant = True
        for test in gen.ifs:
            with w.at_node(test):
                taken = w.static(w.expr(test))
            if taken is NOT_CONST:
                return None
            if not taken:
                break
        if taken:
            out.append(part_of(w, elt))
    return out


@handles(ITEMS, Generator)
def _items_of_generator(w: Walker, val: Generator) -> tuple[Val, ...] | None:
    before = w.mark()
    items = w.items_of(all_items(w, val))
    if items is None:
        w.go_back(before)
    return items


def row_of_list(w: Walker, val: Val, dtype: str | None) -> Tensor:
    """Return the array of an inner list."""
    assert isinstance(val, ListVal)
    return array_of_list(w, val, dtype)


@handles(ARRAYS, Range)
def array_of_range(w: Walker, val: Range, dtype: str | None) -> Tensor:
    """Return the array of a range; without a dtype it must not be empty, as NumPy makes floats of an empty range."""
    if dtype is None:
        some = w.scalar("gt", val.length(w), number(0))
        w.check(some, "TypeError", _EMPTY.format("range"), ours=True)
    elif dtype not in ("int64", "float32", "float64", "bool"):  # a dtype that may not hold all numbers
        return w.ops.as_tensor(w.call(w.constant(list), [val], {}), dtype)
    out = w.ops.arange(val.start, val.stop, val.step, None)
    return out if dtype is None else w.ops.cast(out, dtype)


_EMPTY = "np.array of an empty {0} is float64[0], not what it is of others; give it a dtype, or test `if xs:`"


@handles(ARRAYS, ListVal)
def array_of_list(w: Walker, val: ListVal, dtype: str | None) -> Tensor:
    """Return the array of a run-time list; an empty one is a float array in NumPy, and fails where that may differ."""
    item = val.item
    numbers = isinstance(item, IntT | FloatT | BoolT | NeverT) or (isinstance(item, TensorT) and not item.rank)
    if not (numbers and (dtype or item in (FLOAT, NEVER))):
        some = w.scalar("gt", w.ops.list_lengths(val), number(0))
        w.check(some, "TypeError", _EMPTY.format("list"), ours=True)
    if isinstance(item, ListT):  # an array of each inner list, then the stack of these
        what = type_text(item)
        return stack_list(w, built(w, val, lambda v: row_of_list(w, v, dtype), what), 0)
    return stack_list(w, val, 0, dtype, empty=numbers)
