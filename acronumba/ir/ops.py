"""The operations of the IR, one row each, to which calls of NumPy and `math` are reduced.

`TENSORS` are the operations of `ir.nodes.Op` and `ir.spec.KernelOp`; `SCALARS` are the operations of `ir.nodes.Scalar`.
`reference` is the operation's definition in NumPy or Python. Every backend has a rule for every operation here;
`tests/ir/test_op_tables.py` proves it.

Tensor operations, with x, y, ... tensors (rank 0 included) and c host numbers:

    element-wise   neg abs sign exp expm1 log log1p log2 log10 sqrt sin cos tan arcsin arccos arctan    x
                   sinh cosh tanh arcsinh arccosh arctanh sigmoid erf erfc floor not isnan  x
                   add sub mul div floordiv mod pow arctan2 copysign maximum minimum and or xor
                                                                                            x, y of one dtype
                   index                                                                    x, y of int64
                   lshift rshift                                                            x, y integers of one dtype
                   threefry                                                                 key, counter: uint64
                   eq ne lt le gt ge -> bool                                                x, y of one dtype
                   where                                                                    bool, x, y
                   cast                                                                     x -> dtype of the result
        index: the position of index x among y elements, both int64: x, or x + y if x is negative. Fails if x is out of
        range.
        Arguments broadcast as in NumPy. A run-time extent of an argument may turn out to be 1 and is then broadcast.
        An argument may be a host number: a tensor of rank 0 and dtype int64, float64 or bool (its variable says which).
    reductions     sum prod max min any all   x      attrs (axes,): sorted tuple; the axes vanish
                   argmax argmin              x      attrs (axis,); result int64; the first wins, NaN wins
    scans          cumsum cumprod                  x      attrs (axis,); shape and dtype of x: an element is the sum
                   cummax cummin                          (...) of all up to it along the axis, in this order; NaN
                                                          propagates
    orders         argsort                         x      attrs (axis,); result int64, of the shape of x: the index of
                                                          the element at each position in order; stable, NaN is last
    searches       searchsorted                    x, y   attrs (side,): "left" or "right"; x of rank 1; result int64 of
                                                          the shape of y: NumPy's, also if x is not sorted
    products       matmul                     x, y   NumPy's matmul, ranks 1 and up, leading axes broadcast; of int8
                                                     to int32: exactly
    addressing     reshape                    x      to the shape of the result, row-major order
                   transpose                  x      attrs (permutation,)
                   broadcast                  x      to the shape of the result
                   slice                      x      attrs (starts, steps): a tuple each, one entry per axis; start an
                                                     Extent not below 0, step an int not 0; extents from the result
                   take                       x, i   attrs (axis,); i: host int or integer tensor of any rank, not
                                                     below 0; shape x[:axis] + i.shape + x[axis+1:]. An index whose
                                                     check has failed may still arrive: it takes the nearest existing
                                                     row, or zeros if x has none
                   windows                    x      attrs (axis,): two axes replace one; element (i, j) is element
                                                     i + j of x, always inside; extents from the result
                   concat                     x...   attrs (axis,)
                   scale_gradient             x      attrs (factor,), (factor, name): x itself; its gradient is
                                                     multiplied by factor; name: a detached name of x
                   stack                      list   the elements of a run-time list (arrays of one constant shape, or
                                                     numbers) as the rows of one array; shape (length, *element)
    adjoints       fold                       x      to the shape of the result, which broadcasts to that of x: sums
                                                     over the axes that the result lacks, or has with extent 1
                   scatter                    x, i   attrs (axis,); the adjoint of `take`: x has the shape of a `take`
                                                     with i, and each of its rows is added to row i of the result (or
                                                     the nearest), in row-major order of i
    own            own                        x...   a result of a call of an operation of the user's, which may fail;
                                                     attrs (call, shape, ...): an `operations.OwnCall`, and the shape
                                                     of each result of the call
    creation       const                      -      attrs (value,); rank 0
                   iota                       -      attrs (); rank 1: 0, 1, 2, ...

Operations that may fail (`fails`) have a site. Addressing never fails, so that readers of its result can compute it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from acronumba.emit.intrinsics import OF_C
from acronumba.random import threefry
from acronumba.records import record

Array = Any  # np.ndarray or NumPy scalar
Shape = tuple[object, ...]  # of ints, and of whatever stands for run-time extents
Attrs = tuple[Any, ...]
Takes = Literal["any", "float", "logical", "integer", "int64"]
Gives = Literal["same", "bool", "int64", "any"]


@record(kw_only=True)
class OpKind:
    """Common properties of the operations of a kind: a row of `KINDS`."""

    loops: bool = False  # whether kernels compute it in loops of its own, not where an element of it is read
    stored: bool = False  # whether kernels always store its result
    folds: bool = False  # whether the work is one step for each element of the argument


KINDS: Mapping[str, OpKind] = {
    "element": OpKind(),
    "reduce": OpKind(loops=True, stored=True, folds=True),
    "arg": OpKind(loops=True, stored=True, folds=True),
    "scan": OpKind(loops=True, stored=True, folds=True),
    "order": OpKind(loops=True, stored=True, folds=True),
    "search": OpKind(loops=True, stored=True),
    "product": OpKind(loops=True, stored=True),
    "view": OpKind(),
    "concat": OpKind(loops=True),
    "stack": OpKind(loops=True, stored=True),
    "fold": OpKind(loops=True, stored=True, folds=True),
    "scatter": OpKind(loops=True, stored=True, folds=True),
    "own": OpKind(loops=True, stored=True),
    "create": OpKind(),
}


@record(kw_only=True)
class Rowwise:
    """An operation whose result has rows: axis 0 is a run-time extent. May row k be computed from row k of arguments?

    An argument is given `by` rows (its axis 0 is that extent) or is the same for all rows (the extent is not in it).
    """

    attrs: Attrs
    args: tuple[Shape, ...]
    by: tuple[bool, ...]  # per argument
    shape: Shape  # of the result


@record(kw_only=True)
class TensorOp:
    """A row of `TENSORS`: all that does not depend on a machine."""

    name: str
    kind: str  # of `KINDS`
    arity: int  # -1: any number
    reference: Callable[..., Array]  # (arrays, attrs with ints for extents, shape, dtype) -> array
    row: Callable[[Rowwise], Attrs | None]  # attrs of the operation on one row, None if rows are not independent
    ufunc: np.ufunc | None = None  # NumPy's function that it is
    takes: Takes = "any"  # dtypes of arguments; "logical": integers and bool
    gives: Gives = "same"  # dtype of the result; "same": that of the arguments
    fails: bool = False  # whether it may have a site
    called: bool = False  # whether kernels call a function of that name (`kernels.write.math`), whatever the dtype
    c: str = ""  # the function of C's library that this function is, rounded once to float32
    exact: bool = False  # whether every machine computes the same bits for floats
    sign: str = ""  # how Python writes it between two arguments
    smooth: float = 1  # an argument at which its derivative is finite
    shown_to_users: bool = True  # whether people who read about a kernel want to see it
    # Estimated cost in additions; if not element-wise, for an element that another operation reads.
    cost: int = 1

    @property
    def loops(self) -> bool:
        return KINDS[self.kind].loops

    @property
    def folds(self) -> bool:
        return KINDS[self.kind].folds

    @property
    def moves(self) -> bool:
        """Whether the result is elements of the arguments, none computed."""
        return self.kind in ("view", "concat")

    @property
    def compares(self) -> bool:
        """Whether the operation is a comparison of two tensors."""
        return bool(self.sign) and self.gives == "bool"

    @property
    def arithmetic(self) -> bool:
        """Whether the operation has an arithmetic operator, rather than one of comparison or of bits."""
        return bool(self.sign) and self.gives == "same" and self.takes in ("any", "float")


def _element(f: Callable[..., Array]) -> Callable[..., Array]:
    def reference(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(f(*args)).astype(dtype, copy=False)

    return reference


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


def _erfc(x: Array) -> Array:
    return np.vectorize(math.erfc, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


def _copysign(size: Array, sign: Array) -> Array:
    """A NaN counts as positive."""
    return np.copysign(size, np.where(np.isnan(sign), sign.dtype.type(1), sign))


def _product(x: Array, y: Array, dtype: str) -> Array:
    """Return the product; products of float32, and of int8 to int32, are summed in float64 and rounded once.

    The bits of NumPy's float32 products depend on the number of rows, and so on the batch.
    """
    if dtype == "float32" or x.dtype != dtype:
        return np.asarray(np.matmul(x.astype(np.float64), y.astype(np.float64))).astype(dtype)
    return np.asarray(np.matmul(x, y))


def _reduce(f: Callable[..., Array]) -> Callable[..., Array]:
    def reference(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
        return np.asarray(f(args[0], axis=attrs[0])).astype(dtype, copy=False)

    return reference


def _slice(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    index = tuple(start + step * np.arange(n) for start, step, n in zip(*attrs, shape, strict=True))
    return args[0][np.ix_(*index)] if index else args[0]


def _index(x: Array, n: Array) -> Array:
    if not np.all((-n <= x) & (x < n)):
        raise IndexError(f"an index is out of bounds for size {n}")
    return np.where(x < 0, x + n, x)


def _take(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    x, i, n = args[0], args[1].astype(np.int64), args[0].shape[attrs[0]]
    return np.take(x, np.clip(i, 0, n - 1), axis=attrs[0]) if n else np.zeros(shape, x.dtype)


def _windows(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    (axis,) = attrs
    many, size = shape[axis], shape[axis + 1]
    return np.take(args[0], np.arange(many)[:, None] + np.arange(size), axis=axis)


def _fold(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    x = args[0]
    skip = x.ndim - len(shape)
    gone = [k for k, (n, m) in enumerate(zip(x.shape[skip:], shape, strict=True), skip) if n != m]
    return np.asarray(np.sum(x, axis=(*range(skip), *gone)) if skip or gone else x).reshape(shape)


def _scatter(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    (x, i), (axis,) = args, attrs
    out = np.zeros(shape, dtype)
    if shape[axis]:
        rows = np.moveaxis(out, axis, 0)
        many = x.reshape(*x.shape[:axis], i.size, *x.shape[axis + i.ndim :])
        np.add.at(rows, np.clip(i.ravel().astype(np.int64), 0, shape[axis] - 1), np.moveaxis(many, axis, 0))
    return out


def _pow(x: Array, y: Array) -> Array:
    """Return the power of each element, as C's `pow`: for a scalar exponent 0.5, NumPy takes the square root instead.

    They differ for zeros and infinities.
    """
    out = np.power(x, y)
    if out.dtype.kind == "f":
        half = np.equal(y, 0.5)
        out = np.where(half & np.isneginf(x), np.inf, np.where(half & np.equal(x, 0), 0, out)).astype(out.dtype)
    return out


def _arg(f: Callable[..., Array]) -> Callable[..., Array]:
    return lambda args, attrs, shape, dtype: np.asarray(f(args[0], axis=attrs[0]), dtype)


def _searchsorted(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    return np.asarray(np.searchsorted(args[0], args[1], side=attrs[0]))


def _argsort(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    return np.argsort(args[0], axis=attrs[0], kind="stable")


def _own(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
    try:
        return attrs[0].compute(args, dtype)
    except Exception as error:
        raise ValueError(str(error)) from error


def _scan(f: np.ufunc) -> Callable[..., Array]:
    def reference(args: Sequence[Array], attrs: Attrs, shape: tuple[int, ...], dtype: str) -> Array:
        with np.errstate(all="ignore"):
            return f.accumulate(args[0], axis=attrs[0], dtype=dtype)

    return reference


# How operations act along axis 0. Rows are computed with the same bits as the whole: where a product of one row would
# be summed in another order, it has no rows.


def _no_rows(x: Rowwise) -> Attrs | None:
    return None


def _broadcast_rows(x: Rowwise) -> Attrs | None:
    rank = len(x.shape)
    good = all(
        len(shape) == rank if by else len(shape) < rank or shape[0] == 1 for shape, by in zip(x.args, x.by, strict=True)
    )
    return x.attrs if good else None


def _reduce_rows(x: Rowwise) -> Attrs | None:
    (axes,) = x.attrs
    return (tuple(a - 1 for a in axes),) if x.by[0] and 0 not in axes else None


def _axis_rows(x: Rowwise) -> Attrs | None:
    (axis,) = x.attrs
    return (axis - 1,) if all(x.by) and axis > 0 else None


def _product_rows(x: Rowwise) -> Attrs | None:
    """Rows of the left matrix (the right one is then shared, see `grouping.rows`), or of a stack of matrices."""
    (left, right), (by_left, by_right) = map(len, x.args), x.by
    if by_left and by_right:
        good = left == right and left > 2
    elif by_left:
        good = (left == 2 and right <= 2) or left > max(2, right)
    else:
        good = by_right and right > max(2, left) and left > 1
    return x.attrs if good else None


def _reshape_rows(x: Rowwise) -> Attrs | None:
    def size(shape: Shape) -> tuple[int, Counter[object]]:
        return math.prod(n for n in shape if isinstance(n, int)), Counter(n for n in shape if not isinstance(n, int))

    return x.attrs if x.by[0] and size(x.args[0]) == size(x.shape) else None


def _transpose_rows(x: Rowwise) -> Attrs | None:
    (order,) = x.attrs
    return (tuple(a - 1 for a in order[1:]),) if x.by[0] and order[0] == 0 else None


def _slice_rows(x: Rowwise) -> Attrs | None:
    starts, steps = x.attrs
    return (starts[1:], steps[1:]) if x.by[0] and (starts[0], steps[0]) == (0, 1) else None


def _take_rows(x: Rowwise) -> Attrs | None:
    (axis,) = x.attrs
    if axis == 0:
        return x.attrs if x.by == (False, True) else None
    return (axis - 1,) if x.by == (True, False) else None


def _windows_rows(x: Rowwise) -> Attrs | None:
    (axis,) = x.attrs
    return (axis - 1,) if x.by[0] and axis > 0 else None


def _view_rows(x: Rowwise) -> Attrs | None:
    return x.attrs if x.by[0] else None


def _table() -> dict[str, TensorOp]:
    out: dict[str, TensorOp] = {}

    def row(
        name: str,
        kind: str,
        arity: int,
        rule: Callable[[Rowwise], Attrs | None],
        reference: Callable[..., Array],
        cost: int = 3,
        **more: Any,
    ) -> None:
        out[name] = TensorOp(name=name, kind=kind, arity=arity, reference=reference, row=rule, cost=cost, **more)

    def element(name: str, f: Callable[..., Array], arity: int = 1, cost: int = 1, **more: Any) -> None:
        ufunc = more.pop("ufunc", f if isinstance(f, np.ufunc) else None)
        row(name, "element", arity, _broadcast_rows, _element(f), cost, ufunc=ufunc, **more)

    def function(name: str, f: Callable[..., Array], c: str = "", smooth: float = 1) -> None:
        arity = f.nin if isinstance(f, np.ufunc) else 1
        element(name, f, arity, cost=20, takes="float", called=True, c=c, smooth=smooth)

    element("neg", np.negative, exact=True)
    element("abs", np.absolute, exact=True)
    element("sign", np.sign)
    function("exp", np.exp)
    function("expm1", np.expm1)
    function("log", np.log)
    function("log1p", np.log1p)
    function("log2", np.log2, "log2")
    function("log10", np.log10, "log10")
    element("sqrt", np.sqrt, cost=5, takes="float", exact=True)
    function("sin", np.sin)
    function("cos", np.cos)
    function("tan", np.tan, "tan")
    function("arcsin", np.arcsin, "asin", smooth=0)
    function("arccos", np.arccos, "acos", smooth=0)
    function("arctan", np.arctan, "atan")
    function("sinh", np.sinh, "sinh")
    function("cosh", np.cosh, "cosh")
    function("tanh", np.tanh)
    function("arcsinh", np.arcsinh, "asinh")
    function("arccosh", np.arccosh, "acosh", smooth=2)
    function("arctanh", np.arctanh, "atanh", smooth=0)
    function("sigmoid", _sigmoid)
    function("erf", _erf)
    function("erfc", _erfc, "erfc")
    element("floor", np.floor)
    element("not", np.invert, takes="logical")
    element("isnan", np.isnan, gives="bool")
    element("add", np.add, 2, exact=True, sign="+")
    element("sub", np.subtract, 2, exact=True, sign="-")
    element("mul", np.multiply, 2, exact=True, sign="*")
    element("div", np.divide, 2, cost=5, takes="float", exact=True, sign="/")
    element("floordiv", np.floor_divide, 2, cost=8, sign="//")
    element("mod", np.remainder, 2, cost=8, sign="%")
    element("pow", _pow, 2, cost=20, ufunc=np.power, fails=True, sign="**")
    function("arctan2", np.arctan2, "atan2")
    element("copysign", _copysign, 2, takes="float", exact=True, ufunc=np.copysign)
    element("maximum", np.maximum, 2)
    element("minimum", np.minimum, 2)
    element("and", np.bitwise_and, 2, takes="logical", sign="&")
    element("or", np.bitwise_or, 2, takes="logical", sign="|")
    element("xor", np.bitwise_xor, 2, takes="logical", sign="^")
    element("lshift", np.left_shift, 2, takes="integer", sign="<<")
    element("rshift", np.right_shift, 2, takes="integer", sign=">>")
    element("threefry", threefry, 2, cost=100, called=True)
    element("eq", np.equal, 2, gives="bool", sign="==")
    element("ne", np.not_equal, 2, gives="bool", sign="!=")
    element("lt", np.less, 2, gives="bool", sign="<")
    element("le", np.less_equal, 2, gives="bool", sign="<=")
    element("gt", np.greater, 2, gives="bool", sign=">")
    element("ge", np.greater_equal, 2, gives="bool", sign=">=")
    element("where", np.where, 3)
    element("cast", lambda x: x, gives="any", exact=True)
    element("index", _index, 2, takes="int64", fails=True, shown_to_users=False)
    row("sum", "reduce", 1, _reduce_rows, _reduce(np.sum), gives="any")
    row("prod", "reduce", 1, _reduce_rows, _reduce(np.prod), gives="any")
    row("max", "reduce", 1, _reduce_rows, _reduce(np.max), fails=True)
    row("min", "reduce", 1, _reduce_rows, _reduce(np.min), fails=True)
    row("any", "reduce", 1, _reduce_rows, _reduce(np.any), gives="bool")
    row("all", "reduce", 1, _reduce_rows, _reduce(np.all), gives="bool")
    row("argmax", "arg", 1, _axis_rows, _arg(np.argmax), gives="int64", fails=True)
    row("argmin", "arg", 1, _axis_rows, _arg(np.argmin), gives="int64", fails=True)
    for name, f in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        row(f"cum{name}", "scan", 1, _axis_rows, _scan(f))
    row("argsort", "order", 1, _axis_rows, _argsort, gives="int64")
    row("searchsorted", "search", 2, _no_rows, _searchsorted, gives="int64")
    row("matmul", "product", 2, _product_rows, lambda a, t, s, d: _product(a[0], a[1], d), sign="@")
    row("reshape", "view", 1, _reshape_rows, lambda a, t, s, d: np.reshape(a[0], s), shown_to_users=False)
    row("transpose", "view", 1, _transpose_rows, lambda a, t, s, d: np.transpose(a[0], t[0]), shown_to_users=False)
    row("broadcast", "view", 1, _broadcast_rows, lambda a, t, s, d: np.broadcast_to(a[0], s), shown_to_users=False)
    row("slice", "view", 1, _slice_rows, _slice)
    row("take", "view", 2, _take_rows, _take)
    row("windows", "view", 1, _windows_rows, _windows)
    row("scale_gradient", "view", 1, _view_rows, lambda a, t, s, d: a[0], takes="float", shown_to_users=False)
    row("fold", "fold", 1, _no_rows, _fold, takes="float")
    row("scatter", "scatter", 2, _no_rows, _scatter)
    row("own", "own", -1, _no_rows, _own, gives="any", fails=True, cost=1000)
    row("concat", "concat", -1, _axis_rows, lambda a, t, s, d: np.concatenate(a, axis=t[0]))
    row("stack", "stack", 1, lambda x: x.attrs, lambda a, t, s, d: np.asarray(a[0]).reshape(s))
    row("const", "create", 0, _no_rows, lambda a, t, s, d: np.asarray(t[0], d), gives="any")
    row("iota", "create", 0, _no_rows, lambda a, t, s, d: np.arange(s[0], dtype=d), gives="any")
    return out


def shown_name(name: str, attrs: Attrs) -> str:
    """Return the name of an operation for people: the user's, if it is one of their own."""
    return str(attrs[0].operation.__name__) if name == "own" else name


TENSORS: Mapping[str, TensorOp] = _table()


@record(kw_only=True)
class ScalarOp:
    """A row of `SCALARS`. Types: i int, f float, b bool, t string, a either number (both arguments alike), x any
    word (both alike).
    """

    name: str
    args: str  # types of the arguments, one letter each
    result: str  # type of the result; a, x: that of the arguments
    fails: bool  # whether it needs a site: int overflow, division by zero, domain, NaN to int, negative shift
    reference: Callable[..., Array]
    grows: bool = False  # whether floats fail only where the result is too large
    total: bool = False  # whether floats never fail, although the operation has a site
    divides: bool = False  # whether it fails where its second argument is zero


# Functions of `math` that are C's and give a float. `math.floor` gives an int; powers are an operator's.
MATH = tuple(name for name in OF_C if name not in ("fma", "floor", "pow"))


LAST_CHARACTER = 0x10FFFF
# True of all characters. Only of the last, "" is one, too: not for an operation.
PREDICATES = ("isalpha", "isalnum", "isdigit", "isdecimal", "isnumeric", "isspace", "isprintable")
CHARACTERS = ("isupper", "islower", "istitle", "isidentifier", "continues")  # of one character
CASES = ("upper", "lower", "title", "swapcase", "casefold")


def predicate(name: str) -> Callable[[str], bool]:
    """Return a test of characters; "continues" is that of the second character of an identifier."""
    method: Callable[[str], bool] = getattr(str, "isidentifier" if name == "continues" else name)
    return (lambda c: method("a" + c)) if name == "continues" else method


def _starts(text: str, part: str, at: int) -> bool:
    """Whether a part of a string begins at an index."""
    return at >= 0 and _some(text).startswith(_some(part), at)


def _asked(name: str) -> Callable[[str | None], bool]:
    method = predicate(name)
    return lambda text: bool(text != "" and method(_some(text)))


def _changed(name: str) -> Callable[[str | None], str]:
    method: Callable[[str], str] = getattr(str, name)
    return lambda text: method(_some(text)[:1])


def _some(text: str | None) -> str:
    """Return a string; a placeholder for None, which an operation gets that is computed early, its result unused."""
    return "\0" if text is None else text


def decimal(x: float, kind: int, places: int) -> str:
    """Return the text of a float: `kind` is the letter of a format ("e", "f", "g").

    "r" is the text of `str`, "p" that of a format with a number of digits but no letter, and "s" that of `str` of a
    NumPy float32, which has an exponent from ``10**places`` on.
    """
    match chr(kind):
        case "r":
            return repr(x)
        case "p":
            return format(x, f".{places}")
        case "s":
            scientific = not (x == 0 or 1e-4 <= abs(x) < 10**places) and math.isfinite(x)
            form = np.format_float_scientific if scientific else np.format_float_positional
            return form(np.float32(x), unique=True, trim="-" if scientific else "0")
        case letter:
            return format(x, f".{places}{letter}")


def _defined(reference: Callable[..., Array]) -> Callable[..., bool]:
    """Return whether a function of floats has a float as its result."""

    def defined(*args: float) -> bool:
        try:
            return not isinstance(reference(*args), complex)
        except (ValueError, ArithmeticError):
            return False

    return defined


def _scalars() -> dict[str, ScalarOp]:
    import operator as o

    def row(name: str, args: str, result: str, fails: bool, reference: Callable[..., Array]) -> ScalarOp:
        return ScalarOp(
            name=name, args=args, result=result, fails=fails, reference=reference, grows=name in growing,
            total=name in defined, divides=name in dividing,
        )  # fmt: skip

    growing = {"add", "sub", "mul", "neg", "abs", "exp", "expm1", "sinh", "cosh", "hypot", "pow"}
    dividing = {"div", "quotient", "floordiv", "mod"}
    defined = {"fabs", "copysign", "atan2", "erf", "erfc"}
    rows = [
        row("add", "aa", "a", True, o.add), row("sub", "aa", "a", True, o.sub), row("mul", "aa", "a", True, o.mul),
        row("div", "ff", "f", True, o.truediv),
        row("quotient", "ii", "f", True, o.truediv),  # rounded once, also where an int is no float
        row("floordiv", "aa", "a", True, o.floordiv),
        row("mod", "aa", "a", True, o.mod),
        row("pow", "aa", "a", True, o.pow),  # ints: the exponent is not negative (checked: fails otherwise)
        row("neg", "a", "a", True, o.neg), row("abs", "a", "a", True, abs),
        row("min", "aa", "a", False, min), row("max", "aa", "a", False, max),
        row("eq", "aa", "b", False, o.eq), row("ne", "aa", "b", False, o.ne), row("lt", "aa", "b", False, o.lt),
        row("le", "aa", "b", False, o.le), row("gt", "aa", "b", False, o.gt), row("ge", "aa", "b", False, o.ge),
        row("and", "ii", "i", False, o.and_), row("or", "ii", "i", False, o.or_), row("xor", "ii", "i", False, o.xor),
        row("invert", "i", "i", False, o.invert), row("lshift", "ii", "i", True, o.lshift),
        row("rshift", "ii", "i", True, o.rshift),
        row("not", "b", "b", False, o.not_), row("both", "bb", "b", False, lambda a, b: a and b),
        row("either", "bb", "b", False, lambda a, b: a or b), row("differ", "bb", "b", False, o.ne),
        row("select", "bxx", "x", False, lambda c, a, b: a if c else b),
        row("same", "xx", "b", False, o.is_),  # references
        row("rest", "i", "i", False, lambda a: a - int(float(a))),  # the rounding error of int to float
        row("int", "b", "i", False, int), row("float", "i", "f", False, float), row("bool", "a", "b", False, bool),
        row("trunc", "f", "i", True, int), row("round", "f", "i", True, round),
        row("floor", "f", "i", True, math.floor), row("ceil", "f", "i", True, math.ceil),
        row("text_eq", "tt", "b", False, o.eq), row("text_lt", "tt", "b", False, lambda s, t: _some(s) < _some(t)),
        row("text_len", "t", "i", False, lambda s: len(_some(s))),
        row("text_at", "ti", "t", False, lambda s, k: s[k] if s and 0 <= k < len(s) else "\0"),
        row("text_code", "t", "i", False, lambda s: ord(_some(s)) if len(_some(s)) == 1 else -1),
        row("text_of_code", "i", "t", False, lambda k: chr(k) if 0 <= k <= LAST_CHARACTER else "\0"),
        row("text_find", "tti", "i", False, lambda s, t, at: _some(s).find(_some(t), max(at, 0))),
        row("text_starts", "tti", "b", False, _starts),
    ]  # fmt: skip
    positive = {"copysign": lambda size, sign: math.copysign(size, 1.0 if math.isnan(sign) else sign)}
    rows += [row(k, "f" * len(OF_C[k].args), "f", True, positive.get(k) or getattr(math, k)) for k in MATH]
    partial = [r for r in rows if (r.name in MATH or r.name == "pow") and r.name not in defined]
    rows += [row(f"defined_{r.name}", "f" * len(r.args), "b", False, _defined(r.reference)) for r in partial]
    rows += [row(f"text_{k}", "t", "b", False, _asked(k)) for k in (*PREDICATES, *CHARACTERS)]
    rows += [row(f"text_{k}", "t", "t", False, _changed(k)) for k in CASES]  # of one character
    rows += [row(k, "f", "b", False, getattr(math, k)) for k in ("isnan", "isinf", "isfinite")]
    return {r.name: r for r in rows}


SCALARS: Mapping[str, ScalarOp] = _scalars()
