"""Calls that only tell, such as `print` and logging: a batch leaves them out.

In: a call that is a statement of its own. Out: whether it is left out, with its arguments. The plain call makes it.
"""

from __future__ import annotations

import ast
import builtins
import io
import logging
import pdb
import pprint
import traceback
import types
import warnings
from typing import TYPE_CHECKING, Any

from acronumba.frontend.kinds.functions import Static

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

TELLERS = (logging.Logger, logging.LoggerAdapter, io.TextIOBase)  # objects whose methods tell
_LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "exception", "log")
_FUNCTIONS: dict[Any, tuple[str, ...]] = {
    logging: _LEVELS, warnings: ("warn",), traceback: ("print_exc", "print_stack"), pprint: ("pprint", "pp"),
    pdb: ("set_trace",), builtins: ("print", "breakpoint"),
}  # fmt: skip
_METHODS = frozenset((*_LEVELS, "write", "writelines", "flush"))
_NAMES = _METHODS.union(*_FUNCTIONS.values())
# What may be called in their arguments: it changes nothing.
_QUIET = frozenset((
    "len", "str", "repr", "type", "int", "float", "bool", "list", "tuple", "round", "sum", "max", "min", "abs", "id",
    "sorted", "format", "isinstance", "hasattr", "getattr", "any", "all", "enumerate", "zip", "range", "reversed",
    "size", "dim", "item", "tolist", "numpy", "detach", "cpu", "mean", "std", "var", "norm", "numel", "nelement",
    "argmax", "argmin", "join", "keys", "values", "items", "get", "time", "perf_counter", "exp", "sqrt", "long",
    "isnan", "isinf", "isfinite", "view", "reshape", "squeeze", "unsqueeze", "t", "transpose", "strip", "upper",
    "lower", "unique", "shape", "is_tensor", "softmax", "sigmoid", "log_softmax", "topk", "nonzero", "strftime",
    "center", "ljust", "rjust", "zfill", "title", "capitalize", "lstrip", "rstrip", "replace", "split", "chr", "ord",
    "hex", "bin",
))  # fmt: skip


def only_tells(w: Walker, call: ast.expr) -> bool:
    """Whether a statement is a call to be left out; reject one whose arguments may change something."""
    if not isinstance(call, ast.Call) or not _tells(w, call.func):
        return False
    for node in ast.walk(call):
        if node is not call and isinstance(node, ast.Call | ast.NamedExpr) and not is_quiet(node):
            raise w.reject(
                "ACR201", node, seen=f"{ast.unparse(node)} inside {ast.unparse(call.func)}",
                message="a batch leaves out what only prints or logs, and this call in it may change something",
                rewrite=f"call it on a line of its own: x = {ast.unparse(node)}",
            )  # fmt: skip
    w.left_out[w.loc] = None
    return True


def is_quiet(node: ast.Call | ast.NamedExpr) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
    return name in _QUIET


def _tells(w: Walker, func: ast.expr) -> bool:
    if isinstance(func, ast.Name):
        val = w.value(func) if func.id in _NAMES else None
        return isinstance(val, Static) and _is_listed(val.value)
    if not isinstance(func, ast.Attribute) or func.attr not in _NAMES or not _is_path(func.value):
        return False
    owner = w.value(func.value)
    if not isinstance(owner, Static):
        return False
    if isinstance(owner.value, TELLERS):
        return func.attr in _METHODS
    return isinstance(owner.value, types.ModuleType) and func.attr in _FUNCTIONS.get(owner.value, ())


def _is_listed(value: Any) -> bool:
    return any(value is getattr(module, name, None) for module, names in _FUNCTIONS.items() for name in names)


def _is_path(expression: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one."""
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name)
