"""Functions of `operator` in the compiled language."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from acronumba.frontend.library.decorators import implements

CODE: dict[Callable[..., Any], Callable[..., Any]] = {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    operator.truediv: lambda a, b: a / b,
    operator.floordiv: lambda a, b: a // b,
    operator.mod: lambda a, b: a % b,
    operator.pow: lambda a, b: a**b,
    operator.matmul: lambda a, b: a @ b,
    operator.and_: lambda a, b: a & b,
    operator.or_: lambda a, b: a | b,
    operator.xor: lambda a, b: a ^ b,
    operator.lshift: lambda a, b: a << b,
    operator.rshift: lambda a, b: a >> b,
    operator.concat: lambda a, b: a + b,
    operator.neg: lambda a: -a,
    operator.pos: lambda a: +a,
    operator.inv: lambda a: ~a,
    operator.not_: lambda a: not a,
    operator.truth: lambda a: bool(a),
    operator.lt: lambda a, b: a < b,
    operator.le: lambda a, b: a <= b,
    operator.eq: lambda a, b: a == b,
    operator.ne: lambda a, b: a != b,
    operator.ge: lambda a, b: a >= b,
    operator.gt: lambda a, b: a > b,
    operator.is_: lambda a, b: a is b,
    operator.is_not: lambda a, b: a is not b,
    operator.contains: lambda a, b: b in a,
    operator.getitem: lambda a, b: a[b],
}
for _function, _code in CODE.items():
    implements(_function)(_code)
