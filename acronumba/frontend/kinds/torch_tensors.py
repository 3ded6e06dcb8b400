"""Tensors of PyTorch: the arrays that share their memory, with the operators, attributes and methods of tensors."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.foreign import Library, to_tensor
from acronumba.frontend.join_shapes import ErrorShape, JoinShape, PartsShape, TypeShape
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Constant, PythonClass, Turns, Val, Value
from acronumba.ir import nodes as ir
from acronumba.ir.types import Array0T, ArrayT, TensorT, TorchT, Type, members, union
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.numbers import Num
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class TorchTensor(Value):
    """A tensor of PyTorch; of rank 0, its array is one of rank 0, never a NumPy scalar."""

    inner: Tensor | ArrayRef
    detached: int = 0  # of an array that is written to: no gradient flows through what is read; where it was detached

    compound = True
    is_tensor = True
    iterable = True
    assignable = True
    immutable = True
    compares_first = 5

    @property
    def python_class(self) -> PythonClass:
        assert Library.tensor is not None
        return Library.tensor

    def example(self, w: Words) -> Constant:
        return to_tensor(np.ones((1,) * self.rank, self.dtype))

    @property
    def is_own(self) -> bool:
        return self.inner.is_own

    def shared_by_calls(self) -> Val | None:
        inner = self.inner.shared_by_calls()
        return None if inner is None else TorchTensor(inner)  # type: ignore[arg-type]

    @property
    def dtype(self) -> str:
        return self.inner.type.dtype

    @property
    def written(self) -> ArrayRef | None:
        """Its array, if that is written to."""
        return self.inner if isinstance(self.inner, ArrayRef) else None

    @property
    def unwritten(self) -> Tensor | None:
        """Its array, if that is not written to."""
        return self.inner if isinstance(self.inner, Tensor) else None

    @property
    def rank(self) -> int:
        return self.inner.type.rank

    def describe(self, w: Blocks) -> str:
        dims = ", ".join(str(d) if isinstance(d, int) else "?" for d in self.inner.dims)
        article = "an" if self.dtype.startswith("int") else "a"
        return f"{article} {self.dtype} tensor of shape ({dims})"

    def static_key(self, w: Walker, which: bool) -> object:
        return "tensor", self.inner.static_key(w, which)

    def variable(self) -> ir.Var | None:
        return self.inner.variable()

    def children(self) -> tuple[Val, ...]:
        return (self.inner,)

    def with_children(self, children: Sequence[Val]) -> Val:
        (inner,) = children
        return TorchTensor(inner, self.detached if isinstance(inner, ArrayRef) else 0)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, TorchTensor)
        return (self.dtype, self.rank, self.detached) == (other.dtype, other.rank, other.detached)

    def identity(self) -> object:
        return self.inner.identity()

    # ---- how it is joined and stored

    def word_type(self) -> Type:
        return _marked(self.inner.python_type if self.detached else self.inner.word_type())

    def stored_type(self, w: Words) -> Type:
        return self.word_type() if self.detached else _marked(self.inner.stored_type(w))

    def parts_type(self, w: Merge, parts: Sequence[JoinShape]) -> Type:
        return union(*map(_marked, members(w.template_type(parts[0]))))

    def joined_parts(self, parts: Sequence[JoinShape]) -> JoinShape:
        (inner,) = parts
        if isinstance(inner, PartsShape | ErrorShape):
            return inner
        if not isinstance(inner, TypeShape):
            return PartsShape(self, (inner,))
        return TypeShape(union(*map(_marked, members(inner.type))), inner.places)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if not isinstance(t, TorchT):
            return None
        if self.detached:
            if isinstance(t.inner, ArrayT):
                return None
            whole = w.whole(self)  # its words do not say that it is detached
            w.kept(whole)
            return whole.to_words(w, t)
        if isinstance(t.inner, ArrayT):
            return self.inner.to_words(w, t.inner)
        array = w.whole(self.inner)
        assert isinstance(array, Tensor)
        if not self.rank:
            w.tensor_var(array)
        return w.ops.as_scalar(array).to_words(w, t.inner)

    # ---- operations

    def truth(self, w: Walker) -> Num | None:
        return w.whole(self.inner).truth(w)

    def unary(self, w: Walker, op: ast.unaryop) -> Val:
        applied: Val = Library.operate(w, type(op), (self,))
        return applied

    def as_key(self, w: Walker) -> Val:
        raise w.reject("ACR309", seen=f"{w.describe(self)} as a key", rewrite="its number: `.item()`")

    def length(self, w: Walker) -> Num | None:
        return w.extent(self.inner.dims[0]) if self.rank else None

    def axis_index(self, w: Walker) -> Num | Tensor | None:
        return w.whole(self.inner).axis_index(w)

    def host_number(self, w: Walker, what: str, index: bool) -> Num | None:
        return w.whole(self.inner).host_number(w, what, index)

    def turns(self, w: Walker) -> Turns | None:
        found = self.inner.turns(w)
        if found is None:
            return None
        count, item = found
        if isinstance(self.inner, ArrayRef):
            return count, lambda k: self.get_item(w, k) or self
        return count, lambda k: as_torch(item(k))


def _marked(t: Type | None) -> Type:
    """Return the type of the tensors whose arrays have a type."""
    t = t.scalar if isinstance(t, Array0T) else t
    assert isinstance(t, TensorT | ArrayT)
    return TorchT(t)


def as_torch(val: Val) -> Val:
    """Return arrays as tensors, in tuples, lists and unions, too; other values as they are."""
    array = val.as_marked_array()
    if array is not None:
        return TorchTensor(array)
    if not val.compound or val.is_tensor:
        return val
    return val.with_children([as_torch(v) for v in val.children()])


def as_detached(val: Val, given: Sequence[TorchTensor]) -> Val:
    """Return tensors that are written to as views of the detached ones among those given, in tuples, too."""
    if isinstance(val, TorchTensor):
        ref = val.written
        if ref is None or val.detached:
            return val
        names = [v.detached for v in given if v.written is not None and v.written.place.find() is ref.place.find()]
        return TorchTensor(ref, names[0] if names else given[0].detached)
    return val.with_children([as_detached(v, given) for v in val.children()]) if val.compound else val


def as_arrays(w: Words, val: Val) -> Val:
    """Return tensors as the arrays that share their memory, in known tuples and lists, too."""
    if isinstance(val, TorchTensor):
        return val.inner
    if isinstance(val, TupleVal):
        return val.with_children([as_arrays(w, v) for v in val.items])
    return val


def unfollowed(w: Walker, val: Val) -> Val:
    """Return the result of an operation under `torch.no_grad()`: new tensors, through which no gradient flows."""
    if val.is_several:
        return w.each(val, lambda v: unfollowed(w, v))
    if isinstance(val, TupleVal):
        return val.with_children([unfollowed(w, v) for v in val.items])
    inner = val.unwritten if isinstance(val, TorchTensor) else None
    if inner is None or not inner.type.dtype.startswith("float"):
        return val
    own = inner.base is None and inner.fresh and not inner.named and not inner.aliased
    if not own:
        inner.seen()  # the result shares its elements: it is a copy unless one of them is written to
    w.following = True
    try:
        out = w.call(w.constant(Library.detach), (val,), {})
    finally:
        w.following = False
    if not own and isinstance(out, TorchTensor) and out.unwritten is not None:
        out.unwritten.seen()
    return out
