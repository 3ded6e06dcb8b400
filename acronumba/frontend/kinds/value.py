"""`Value`: the operations that the front end applies to the values of a kind.

A kind of value is a class that derives from `Value`, in a file of its own. It overrides the operations that it
supports; every other operation is rejected with the description of the value, or answers that it does not know.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from acronumba.ir import nodes as ir
from acronumba.ir.types import Type, type_text

if TYPE_CHECKING:
    from acronumba.frontend.values import Num, Val
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words

Constant: TypeAlias = Any  # a Python value known at compile time, or NOT_CONST
Index: TypeAlias = "Val | slice"  # between `[` and `]`
NOT_CONST: Constant = type("NotConst", (), {"__repr__": lambda self: "<run time>"})()


class Value:
    """An abstract value: what is known of a Python value during the walk over the user's code."""

    __slots__ = ()

    python_class: ClassVar[type]
    immutable: ClassVar[bool] = False  # a copy of it is the value itself
    iterable: ClassVar[bool] = False  # it has `length` and `item_at`

    # ---- what it is

    def describe(self) -> str:
        """Return a description in the user's terms, for errors."""
        t = self.word_type()
        return type_text(t) if t is not None else self.python_class.__name__

    def static(self, w: Words) -> Constant:
        """Return its Python value, if that is known at compile time, else NOT_CONST."""
        return NOT_CONST

    def word_type(self) -> Type | None:
        """Return the type of the words in which it is stored; None if it exists only at compile time."""
        return None

    def variable(self) -> ir.Var | None:
        """Return the variable that it consists of, if it is one."""
        return None

    def same(self, other: Val) -> bool:
        """Whether it is known to be the same value as another one of its kind."""
        return self is other

    # ---- operations

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        """Return its words as a value of a type; None if it is none."""
        return None

    def truth(self, w: Walker) -> Num:
        """`bool(self)`."""
        raise w.reject("ACR301", seen=f"{self.describe()} as a condition")

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        """Return its items if they are known one by one, else None."""
        return None

    def length(self, w: Walker) -> Num:
        """`len(self)`."""
        raise w.reject("ACR301", seen=f"len of {self.describe()}")

    def item_at(self, w: Walker, index: Num) -> Val:
        """Return the item at an index that is known to be in range."""
        raise w.reject("ACR301", seen=f"{self.describe()} cannot be iterated over")

    def contains(self, w: Walker, element: Val) -> Num:
        """`element in self`."""
        raise w.reject("ACR301", seen=f"`in` {self.describe()}", rewrite="any(x == a for x in xs)")

    def get_item(self, w: Walker, index: Index) -> Val:
        """`self[index]`, of a value or a `slice` of bounds."""
        raise w.reject("ACR301", seen=f"{self.describe()} cannot be indexed")

    def method(self, w: Walker, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
        """`self.name(*args, **kwargs)`."""
        raise w.reject("ACR209", seen=f"the method .{name} of {self.describe()}")

    def binary(self, w: Walker, op: ast.operator, left: Val, right: Val) -> Val | None:
        """`left op right`, of which one is the value itself; None if it does not know the operator."""
        return None

    def compare(self, w: Walker, op: ast.cmpop, left: Val, right: Val) -> Num | None:
        """`left op right`, of which one is the value itself; None if it does not know the comparison."""
        return None

    def as_key(self, w: Walker) -> Val:
        """Return it as the key of a dict."""
        raise w.reject("ACR309", seen=f"a key {self.describe()}")
