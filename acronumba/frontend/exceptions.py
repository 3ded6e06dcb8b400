"""Exceptions that end the walk of an expression, a function or the program."""

from __future__ import annotations

from acronumba.errors import AcronumbaError


class Rejected(Exception):
    """An expression is rejected; caught at the statement, which is then skipped."""

    def __init__(self, error: AcronumbaError | None):
        super().__init__(error)
        self.error = error


class Hopeless(Exception):
    """The data have an infinite type, or nearly so. Ends the walk: any further error would follow from this one."""

    def __init__(self, error: AcronumbaError):
        super().__init__(error)
        self.error = error


class Dead(Exception):
    """The rest of an expression is unreachable; caught where control flow continues."""


class Abandoned(Exception):
    """A trial walk is given up, because the code needs more than a straight line; caught where the trial began."""


class Restart(Exception):
    """A fact assumed about the program proved too narrow: walk everything again."""


class TooLong(Exception):
    """A walk with all helpers inlined takes too long: the rejection with some of them called is final."""
