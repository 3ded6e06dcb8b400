"""Operations on tensors without Python code: they are emitted in the current block."""

from __future__ import annotations

import pytest

from acronumba.errors import NOWHERE
from acronumba.frontend.block import Facts, FunctionCode
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.merge import Merge
from acronumba.frontend.tensor_math import TensorMath
from acronumba.ir import nodes as ir
from acronumba.ir.types import TensorT


@pytest.fixture
def w() -> Merge:
    w = Merge(Facts())
    w.ops = TensorMath(w)
    w.code = FunctionCode("f", NOWHERE)
    w.block = w.new_block()
    return w


def test_a_product_of_a_reshaped_array(w: Merge) -> None:
    x = w.tensor(w.var("x", TensorT("float32", (2, 3))))
    y = w.ops.matmul(w.ops.reshape(x, (3, 2)), x)
    assert y.dims == (3, 3)
    assert [i.op for i in w.code.blocks[0] if isinstance(i, ir.Op)] == ["reshape", "matmul"]


def test_extents_that_do_not_fit_are_rejected(w: Merge) -> None:
    x = w.tensor(w.var("x", TensorT("float32", (2, 3))))
    with pytest.raises(Dead):
        w.ops.matmul(x, x)
    assert [e.code for e in w.certain] == ["ACR401"]
