"""The results of rejected expressions, and values that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba.frontend.join_shapes import ErrorShape, JoinShape
from acronumba.frontend.kinds.value import Value
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.merge import Merge


@record(eq=False, frozen=False)
class ErrorValue(Value):
    """The result of a rejected expression; or an unusable value, for the reason `why`: merged without a common type."""

    why: str = ""
    code: str = ""  # of the rejection where it is used
    for_now: bool = False  # rejected while the result type of a recursive function was not known yet

    immutable = True

    def describe(self, w: Blocks) -> str:
        w.check_poison(self)  # rejected where it was made, or now: its use is no further error
        return "errorvalue"

    def shared_by_calls(self) -> Value:
        return self

    def join_shape(self, w: Merge) -> JoinShape:
        return ErrorShape(self.why, self.code)
