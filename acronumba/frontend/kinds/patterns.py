"""Patterns of `re`, and their flags, which exist only at compile time.

A match of one is an object of a class of `library.regex`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from acronumba.frontend.handlers import CONSTANTS, handles
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.value import PythonClass, Val
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@record(eq=False, frozen=False)
class PatternValue(Static):
    """A compiled pattern."""

    value: re.Pattern[str]

    python_class: PythonClass = re.Pattern
    is_choosable = True

    def attribute(self, w: Walker, name: str) -> Val | None:
        return w.constant(getattr(self.value, name)) if name in ("pattern", "groups") else None


@handles(CONSTANTS, re.RegexFlag)
def _flags(value: re.RegexFlag) -> Static:
    return Static(value)


@handles(CONSTANTS, re.Pattern)
def _constant(value: re.Pattern[str]) -> PatternValue:
    return PatternValue(value)
