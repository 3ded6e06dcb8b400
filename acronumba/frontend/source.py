"""Sources of functions: from a Python function to its syntax tree with exact positions.

In: a function object. Out: a `Source` (tree, file, line numbers as in the file), or `NoSource` with the reason.

The text of the file comes from `linecache`, which also has notebooks; it is valid only if compiling it gives the code
of the function. `Source.facts` has the names that a function uses, and the statements that are never supported.
"""

from __future__ import annotations
import __future__

import ast
import functools
import itertools
import linecache
import operator
import os
import types
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache

from acronumba.data.source_guard import BEGUN
from acronumba.errors import Loc
from acronumba.records import record

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class NoSource(Exception):
    """The source of a function cannot be read; the argument says why."""


@record(eq=False)
class Source:
    """A function of the user, or a nested function."""

    node: FunctionNode
    file: str
    name: str  # qualified name, for positions and messages

    def loc(self, node: ast.AST, caller: Loc | None = None) -> Loc:
        """Return the position of a node of this function, inlined in the call `caller` if it is given."""
        line = getattr(node, "lineno", getattr(self.node, "lineno", 0))
        column = getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", line) or line
        end_column = getattr(node, "end_col_offset", column + 1) or 0
        return Loc(self.file, self.name, line, column, end_line, end_column, caller)

    @property
    def body(self) -> list[ast.stmt]:
        """The statements; a lambda has a single `return`."""
        if isinstance(self.node, ast.Lambda):
            ret = ast.Return(value=self.node.body)
            return [ast.copy_location(ret, self.node.body)]
        return self.node.body

    @property
    def facts(self) -> SourceFacts:
        return _facts(self.node)


@record()
class SourceFacts:
    """Static facts of a function: its names, nested functions, yields and forbidden statements."""

    assigned: frozenset[str]  # names that its own statements may bind
    free: frozenset[str]  # free names, including those of nested functions
    outer: frozenset[str]  # names of enclosing functions that it binds: `nonlocal`
    boxed: frozenset[str]  # its names that nested functions may bind, too
    nests: bool  # whether it contains functions, or generator expressions that may outlive its call
    tries: bool  # whether it contains `try` or `with` statements
    generates: bool  # whether it yields
    forbidden: tuple[tuple[str, ast.AST], ...]  # (code, node) of constructs that are never supported, in order


@lru_cache(maxsize=4096)
def _facts(node: FunctionNode) -> SourceFacts:
    body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    inner = [n for part in body for n in ast.walk(part)]
    given = {p.arg for p in ast.walk(node.args) if isinstance(p, ast.arg)}
    outer = nonlocal_names(body)
    own = assigned_names(body) - outer
    bound = {name for n in inner if isinstance(n, ast.Nonlocal) for name in n.names}
    return SourceFacts(
        assigned=own,
        outer=outer,
        boxed=(own | given) & bound,
        free=frozenset(_free_names(node)),
        generates=isinstance(node, ast.FunctionDef) and yields(body),
        nests=any(isinstance(n, ast.FunctionDef | ast.Lambda) for n in inner) or _gives_away(inner),
        tries=any(isinstance(n, ast.Try | ast.With) for n in inner),
        forbidden=tuple(_scan(node, body)),
    )


_READERS = frozenset("all any deque dict frozenset list max min next set sorted str sum tuple".split())


def _gives_away(nodes: Sequence[ast.AST]) -> bool:
    """Whether a generator expression among the nodes of a function is not read where it is made."""
    read = set()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name), args=args) if name in _READERS:
                read.update(args)
            case ast.Call(func=ast.Attribute(attr=name), args=args) if not hasattr(itertools, name):
                read.update(args)
            case ast.For(iter=part) | ast.comprehension(iter=part) | ast.Starred(value=part):
                read.add(part)
    return any(isinstance(n, ast.GeneratorExp) and n not in read for n in nodes)


@lru_cache(maxsize=32)
def _parse(file: str, text: str) -> ast.Module:
    tree = ast.parse(text, file)
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Set):
            node.iter.iterated = True  # type: ignore[attr-defined]  # Python makes a frozenset of constants
    return tree


@lru_cache(maxsize=32)
def _compiled(file: str, text: str, flags: int, apart: bool) -> tuple[types.CodeType, ...]:
    """Return the code of every function of a file; `apart`: its statements are compiled one by one.

    Notebooks compile a cell that way, with another result: `np.tanh(x)` is compiled as a call of an attribute if the
    import of `np` is compiled with it, and else as a method call.
    """
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # allowed in cells of notebooks
    tree = _parse(file, text)
    units = [ast.Module([statement], []) for statement in tree.body] if apart else [tree]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python has issued them before
        return tuple(c for unit in units for c in _within(compile(unit, file, "exec", flags, dont_inherit=True)))


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _within(const)


@lru_cache(maxsize=512)
def _read(file: str, code: types.CodeType, rewritten: bool) -> Source:
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    if not lines:
        raise NoSource(f"{file} cannot be read")
    text = "".join(lines)
    try:
        nodes = [n for n in _functions(file, text) if _named(n, code)]
        flags, same = code.co_flags & _FUTURE, list[types.CodeType]()
        for apart in (False, True):
            same = same or [c for c in _compiled(file, text, flags, apart) if same_code(c, code)]
    except SyntaxError as error:
        raise NoSource(f"{file} is not Python: {error.msg}") from None
    if not same and rewritten and not _newer(file):
        same = [code]
    found = [(n, c) for c in same for n in nodes if _first_line(n) == c.co_firstlineno]
    if not found:
        raise NoSource("its file has changed since it was imported")
    found.sort(key=lambda pair: abs(pair[1].co_firstlineno - code.co_firstlineno))
    found = [pair for pair in found if pair[1] is found[0][1]]
    if len(found) > 1:  # several lambdas on one line: the innermost that contains an instruction's position
        spots = [(p[0], p[2]) for p in found[0][1].co_positions() if p[0] is not None and p[2] is not None]
        inner = [p for p in found if isinstance(p[0], ast.Lambda) and any(_inside(p[0].body, *s) for s in spots)]
        found = sorted(inner or found, key=lambda pair: -pair[0].lineno * 10_000 - pair[0].col_offset)
    _mangle(found[0][0], code.co_qualname)
    return Source(found[0][0], file, code.co_qualname.replace("<locals>.", ""))


def _mangle(node: ast.AST, name: str) -> None:
    """Mangle the names of private attributes in a method as Python does: `self.__x` is `self._Class__x`."""
    parts = name.split(".")
    while len(parts) > 1 and parts[-2] == "<locals>":
        parts = parts[:-2]
    cls = parts[-2].lstrip("_") if len(parts) > 1 else ""
    for inner in ast.walk(node) if cls else ():
        if isinstance(inner, ast.Attribute) and inner.attr.startswith("__") and not inner.attr.endswith("__"):
            inner.attr = f"_{cls}{inner.attr}"


_FUTURE = functools.reduce(
    int.__or__, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)
_FIELDS = operator.attrgetter(
    "co_name", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_names", "co_varnames",
    "co_freevars", "co_cellvars", "co_code", "co_exceptiontable",
)  # fmt: skip


def same_code(a: types.CodeType, b: types.CodeType) -> bool:
    """Whether two code objects are equal up to their positions in the file."""
    if _FIELDS(a) != _FIELDS(b) or len(a.co_consts) != len(b.co_consts):
        return False
    return all(
        same_code(x, y)
        if isinstance(x, types.CodeType) and isinstance(y, types.CodeType)
        else type(x) is type(y) and (x == y if isinstance(x, frozenset) else repr(x) == repr(y))
        for x, y in zip(a.co_consts, b.co_consts, strict=True)
    )


def _is_rewritten(fn: types.FunctionType) -> bool:
    """Whether the loader of a function's module may have rewritten the text of the file before compiling it.

    The loaders of pytest (for `assert`), typeguard and beartype do.
    """
    loader = getattr(fn.__globals__.get("__spec__"), "loader", None)
    return loader is not None and not type(loader).__module__.startswith(
        ("importlib", "_frozen_importlib", "zipimport")
    )


def _newer(file: str) -> bool:
    """Whether a file may have changed since this process imported acronumba."""
    try:
        status = os.stat(file)
    except OSError:
        return True
    return max(status.st_mtime, status.st_ctime) >= BEGUN


@lru_cache(maxsize=32)
def _functions(file: str, text: str) -> tuple[FunctionNode, ...]:
    return tuple(node for node in ast.walk(_parse(file, text)) if isinstance(node, FunctionNode))


def _first_line(node: FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(d.lineno for d in decorators)])


def _named(node: FunctionNode, code: types.CodeType) -> bool:
    """Whether a definition has the name and the parameters of a code object."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    args = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    return name == code.co_name and args == list(code.co_varnames[:count])


def _inside(node: ast.AST, line: int, column: int) -> bool:
    start = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    end = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
    return start <= (line, column) < end


def read_source(fn: types.FunctionType, code: types.CodeType) -> Source:
    """Return the source of a function that has this code.

    Raises
    ------
    NoSource
        If there is no file, as for `exec` and the interactive prompt, or if compiling its text does not give the code
        of the function, because it has changed.
    """
    # Its own code: `__wrapped__`, set by `functools.wraps`, is another function.
    return _read(code.co_filename, code, _is_rewritten(fn))


def assigned_names(body: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that statements may bind or delete, except in nested functions."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
                return
            case ast.Lambda():
                return
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                for inner in ast.walk(node):
                    if isinstance(inner, ast.NamedExpr):
                        names.add(inner.target.id)
                return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for stmt in body:
        visit(stmt)
    return frozenset(names)


def nonlocal_names(body: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that a function declares as `nonlocal`."""
    found: set[str] = set()
    todo = [*body]
    for node in todo:  # it grows
        if isinstance(node, ast.Nonlocal):
            found.update(node.names)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return frozenset(found)


def _free_names(node: ast.AST) -> set[str]:
    """Return the free names of a syntax tree: names not bound by a function or comprehension in it."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.FunctionDef(args=a) | ast.AsyncFunctionDef(args=a) | ast.Lambda(args=a):
            body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
            around = [*a.defaults, *(d for d in a.kw_defaults if d is not None)]
            bound = assigned_names(body) | {p.arg for p in ast.walk(a) if isinstance(p, ast.arg)}
            bound -= nonlocal_names(body)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first = node.generators[0].iter
            body = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.comprehension)]
            body += [n for g in node.generators for n in (g.target, g.iter, *g.ifs) if n is not first]
            around, bound = [first], assigned_names([ast.Assign([g.target], ast.Constant(0)) for g in node.generators])
        case _:
            body, around, bound = list(ast.iter_child_nodes(node)), [], frozenset()
    return set().union(*map(_free_names, body)) - bound | set().union(*map(_free_names, around))


_FORBIDDEN: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], str], ...] = (
    (ast.TryStar, "ACR101"),
    (ast.AsyncWith, "ACR102"),
    (ast.Global, "ACR103"),
    ((ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFunctionDef, ast.AsyncFor), "ACR104"),
    (ast.ClassDef, "ACR107"),
)


def spot(node: ast.AST | None) -> tuple[int | str, ...]:
    """Return a key of a node that is unique in its function, and the same in every walk."""
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return (type(node).__name__, getattr(node, "id", ""), *(getattr(node, n, 0) or 0 for n in names))


def is_forbidden(node: ast.AST) -> bool:
    """Whether a node is of a kind that is never supported."""
    return any(isinstance(node, kinds) for kinds, _ in _FORBIDDEN)


def yields(body: Sequence[ast.AST]) -> bool:
    """Whether a part of a function contains a `yield`, except in nested functions."""
    todo = [*body]
    for node in todo:  # it grows
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)
    return False


def _scan(function: FunctionNode, body: Sequence[ast.AST]) -> list[tuple[str, ast.AST]]:
    """Return (code, node) for each construct that is never supported, in order of position."""
    found: list[tuple[str, ast.AST]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            node = node.value.value or ast.Constant(None)
        for kinds, code in _FORBIDDEN:
            if isinstance(node, kinds):
                found.append((code, node))
                return
        for child in ast.iter_child_nodes(node):
            visit(child)

    if isinstance(function, ast.AsyncFunctionDef):
        found.append(("ACR104", function))
    for stmt in body:
        visit(stmt)
    return sorted(found, key=lambda f: (getattr(f[1], "lineno", 0), getattr(f[1], "col_offset", 0)))


# Methods by which lists, dicts and sets are mutated.
MUTATORS = frozenset("append pop extend insert sort reverse clear remove setdefault popitem update add discard".split())


def changed(body: Sequence[ast.stmt]) -> set[str]:
    """Return the sources of expressions that statements mutate by a method, an index or `+=` of a list."""
    found: set[str] = set()
    for node in (n for stmt in body for n in ast.walk(stmt)):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in MUTATORS:
                found.add(ast.unparse(owner))
            case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
                found.add(ast.unparse(owner))
            case ast.AugAssign(target=target, value=ast.List() | ast.ListComp()):
                found.add(ast.unparse(target))
    return found
