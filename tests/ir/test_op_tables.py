"""The table of operations is complete: each reader has a rule for each row, and for nothing else."""

from __future__ import annotations

import ast
import math
import operator
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from acronumba.emit.tree import F32, F64, I64
from acronumba.frontend.ufuncs import CALLED
from acronumba.host import numbers, texts
from acronumba.ir import op_rules, ops
from acronumba.ir.ops import MATH, SCALARS, TENSORS
from acronumba.kernels.write import element, products
from acronumba.kernels.write import math as functions
from tests import house_counts

ELEMENT = {name for name, row in TENSORS.items() if row.kind == "element"}
DOCS = Path(__file__).parent.parent.parent / "docs"
SIGNS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def test_rows_have_their_names() -> None:
    assert all(name == row.name for table in (TENSORS, SCALARS) for name, row in table.items())


def test_each_operation_has_one_rule_of_the_verifier() -> None:
    kinds = {row.kind for row in TENSORS.values()}
    assert [name for name, row in TENSORS.items() if (name in op_rules.RULES) + (row.kind in op_rules.RULES) == 0] == []
    assert op_rules.RULES.keys() <= TENSORS.keys() | kinds
    assert op_rules.TAKES.keys() == {*typing.get_args(ops.Takes)}
    assert kinds == ops.KINDS.keys()


def test_each_element_wise_operation_has_one_rule_for_kernels() -> None:
    assert element.ELEMENT.keys() == ELEMENT


def test_each_kind_is_written_by_kernels() -> None:
    """What has loops of its own is written by a rule; reductions share nests with what is element-wise."""
    assert products.SINGLES.keys() - {"check"} == {name for name, kind in ops.KINDS.items() if kind.loops} - {"reduce"}


def test_each_function_is_there_for_both_floats() -> None:
    by_name = {}
    for name in sorted(ELEMENT):
        by_name[name] = [name in functions.functions(ty) for ty in (F32, F64)]
    called = {name for name, found in by_name.items() if all(found)}
    assert all(len(set(found)) == 1 for found in by_name.values()), by_name
    listed = re.findall(r"^    (\w+) +\d\.\d\d +\d\.\d\d ", functions.__doc__ or "", re.MULTILINE)
    exact = {"sign", "maximum", "minimum", "floordiv", "mod"}
    assert called == {*listed} | exact
    assert {name for name, row in TENSORS.items() if row.called} == {*listed} - {"pow"} | {"threefry"}
    assert "threefry" in functions.functions(I64)


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_a_row_agrees_with_numpy(name: str) -> None:
    row = TENSORS[name]
    if row.ufunc is None:
        return
    assert row.kind == "element"
    assert row.ufunc.nin == row.arity
    takes, gives = set(), set()
    for dtype in ("bool", "int64", "float64"):
        try:
            *ins, out = row.ufunc.resolve_dtypes((*[np.dtype(dtype)] * row.arity, None))
        except TypeError:
            continue
        if ins[0] == dtype:
            takes.add(dtype)
            gives.add("bool" if out == "bool" and dtype != "bool" else "same" if out == dtype else "?")
    if row.takes in ("float", "logical", "integer"):
        assert takes == {"float": {"float64"}, "logical": {"bool", "int64"}, "integer": {"int64"}}[row.takes]
    else:
        assert {"int64", "float64"} <= takes
    assert row.gives in gives


@pytest.mark.parametrize("name", sorted(name for name, row in TENSORS.items() if row.sign))
def test_a_sign_is_pythons(name: str) -> None:
    row = TENSORS[name]
    dtype = "float64" if row.takes in ("any", "float") else "int64"
    x, y = np.array([[7, -3], [2, 5]]).astype(dtype), np.array([[2, 3], [2, 1]]).astype(dtype)
    expected = SIGNS[row.sign](x, y)
    assert np.array_equal(row.reference([x, y], (), x.shape, str(expected.dtype)), expected)
    assert name == "matmul" or name in SCALARS


def test_each_operation_on_numbers_has_its_rules() -> None:
    made = {*numbers._INTS, *numbers._FLOATS, *numbers._ANY, *texts.TEXTS}
    assert made | {*MATH} == SCALARS.keys()
    apart = {"copysign"}  # of a NaN
    assert all(getattr(math, name) is SCALARS[name].reference for name in MATH if name not in apart)
    assert all(row.fails for row in SCALARS.values() if row.grows or row.total)


def test_numpys_functions_are_in_the_docs() -> None:
    page = (DOCS / "language.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", page))))
    signs = {row.name for row in TENSORS.values() if row.sign}
    names = {f.__name__: name for name, f in CALLED.items() if name not in signs and name not in ("neg", "not")}
    assert not (left := {f for f, name in names.items() if not {f, name} & words}), left


# Lists of names that are no table of operations, and say so by where they stand.
OWN = {
    "analysis/grouping/rows.py": 2,  # how lengths are computed; what a row of one tensor may go through
    "api/shadow.py": 4,  # methods of Python's numbers
    "frontend/operators.py": 1,  # bits of Python's ints
    "host/numbers.py": 2, "host/texts.py": 1, "ir/op_rules.py": 1, "kernels/write/element.py": 1,  # rules
    "ir/vjp.py": 2,  # rules of derivatives
    "torch/plain.py": 3,  # methods of tensors and numbers whose values decide
    "torch/rows/elements.py": 1,  # functions that PyTorch and NumPy call alike
    "kernels/stages/bands.py": 1,  # what comparisons say of their difference
}  # fmt: skip


def lists(tree: ast.AST) -> Iterator[list[str]]:
    """Yield the strings of each list, tuple, set, table and text that is split."""
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts) | ast.Dict(keys=elts):
                yield [e.value for e in elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
            case ast.Call(func=ast.Attribute(attr="split", value=ast.Constant(value=str() as text))):
                yield text.split()


def repeated(tree: ast.AST) -> list[list[str]]:
    """Return the lists of which four and at least half are names of operations."""
    known = TENSORS.keys() | SCALARS.keys()
    return [names for names in lists(tree) if 2 * len(known & {*names}) >= max(8, len(names))]


def test_no_other_list_repeats_the_names() -> None:
    found = {path: names for path, tree in house_counts.trees().items() if (names := repeated(tree))}
    del found["ir/ops.py"]
    assert {name: len(names) for name, names in found.items()} == OWN, found


def test_a_list_that_repeats_them_is_found() -> None:
    assert repeated(ast.parse('SLOW = frozenset("exp log tanh pow".split())'))
    assert repeated(ast.parse('COST = {"exp": 20, "log": 20, "div": 5, "sqrt": 5}'))
    assert not repeated(ast.parse('NAMES = ("exp", "Tree", "left", "right", "word", "w", "b", "log")'))
