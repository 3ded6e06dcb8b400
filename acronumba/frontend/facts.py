"""`Facts`: what is known of a program beyond one walk over it, and grows from iteration to iteration."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeVar

from acronumba.data.shared import SameObjects
from acronumba.errors import AcronumbaError, Loc
from acronumba.frontend.join_shapes import JoinShape
from acronumba.frontend.kinds.arrays import AllocationSite, ArrayRef
from acronumba.frontend.kinds.lists import ElementInfo
from acronumba.ir.shapes import Shape
from acronumba.ir.types import Type

T = TypeVar("T")


class Facts:
    """Facts of the program that persist over iterations: they only grow, until an iteration changes none.

    If `complete`, nothing is derived from earlier iterations but these facts, to verify what is; the helpers that are
    called are those of the given facts.
    """

    apart: set[Any]  # code of helpers that are called, too, as their copies would be too much code,
    inlined: set[Any]  # of those that are inlined nevertheless,
    rejected: Sequence[AcronumbaError] = ()  # and the rejections after which all are
    steps = 0  # expressions of all iterations
    changed = False  # whether a fact has changed after it was read

    def __init__(self, complete: Facts | None = None, tensors: bool = False, state: str = "written") -> None:
        self.complete = complete is not None
        self.tensors = tensors  # whether tensors of PyTorch are tensors in the code, not arrays
        self.state = state  # `Options.state`: which written attributes of what came in may be read before
        self.cells: dict[Any, ElementInfo] = {}
        self.places: dict[Any, AllocationSite] = {}  # of arrays that the call makes
        self.arrays: dict[Any, ArrayRef] = {}  # a representative of each form of arrays passed by reference
        self.given: dict[type, dict[str, Type]] = {}  # the fields of the instance data
        self.fields: dict[type, dict[str, Type]] = {}  # of every class that has rows
        self.built: dict[type, set[str]] = {}  # classes of which the program makes rows, and the fields of these rows
        self.changing: set[type] = set()  # classes with an object that is mutated, or whose identity matters
        self.rows: set[Any] = set()  # allocation sites whose mutable objects become rows,
        self.early: set[Any] = set()  # even before their `__init__` ends
        self.outside: set[type] = set()  # classes with objects that were not made in the call
        self.assigned: set[str] = set()  # names of fields that may be assigned after construction
        # Of shared objects by path, and of objects of the data by class: the attributes that the program writes, and
        # where (see `overlay`); and the classes of these objects.
        self.overlaid: dict[str | type, dict[str, Loc]] = {}
        self.overlay_classes: dict[str | type, type] = {}
        self.same = SameObjects()
        self.compared: set[type] = set()  # classes of shared objects whose identity is compared
        self.fixed: set[type] = set()  # classes of which no object that came in can be written to
        self.undecided: set[tuple[type, str]] = set()  # attributes of the data that no iteration wrote in the end,
        self.decided: set[tuple[type, str]] = set()  # and those of them that a later one did
        self.came: set[type] = set()  # classes of the data
        self.folded: set[str] = set()  # paths of shared ints that became constants
        self.recursive: set[Any] = set()  # code of functions that are called, not inlined
        self.waiting: set[Any] = set()  # names of iterators that are read at several places, and the code of functions
        self.apart, self.inlined = set() if complete is None else complete.apart, set()
        self.nested: set[Any] = set()  # pairs of classes whose comparison is recursive
        self.results: dict[Hashable, Type | None] = {}  # of called functions, by key; None: none has been found yet
        self.plain: dict[Any, set[int]] = {}  # parameters of called functions whose constants are dropped
        self.texts: dict[Any, set[int]] = {}  # ... whose constant strings are
        self.loose: set[Any] = set()  # called functions whose tensor extents are dropped
        self.tagged: set[tuple[type, int]] = set()  # classes and lengths of tuples and lists that begin with a tag
        self.nodes: frozenset[int] = frozenset()  # lengths of the lists of the instance data that are nodes, as tuples
        self.knots: set[Shape] = set()  # shapes of lists, tuples and dicts that were closed
        self.lengths: dict[Any, set[int]] = {}  # of tuples that a parameter of a recursive function was given
        self.carried: dict[
            Any, set[type]
        ] = {}  # by function that takes shared tensors as run-time values: classes passed by fields
        self.memos: dict[Any, Any] = {}  # places of the results of recursive functions under `functools.cache`, by code
        self.forgetful: set[Any] = set()  # such functions that are computed anew
        self.copied: set[Any] = set()  # places of copies of lists to which elements of other types are added
        self.keyed: set[Any] = set()  # key tuples of dict displays whose dicts are hash tables
        # By allocation site and first keys: dicts that are mutated by constant keys, and all keys that they get.
        self.records: dict[Hashable, tuple[str, ...]] = {}
        self.dicts_nest = False  # whether all dicts that are values of others are rows: they hold dicts of any depth
        self.stale = False  # whether the types found so far have dicts in forms that they no longer have
        self.hashed: set[Hashable] = set()  # allocation sites of dicts of constant keys that are hash tables
        self.ordered = False  # whether all sets made in the call have Python's order
        self.loops_kept = False  # whether a loop may stay a loop only because its iterations would be much code,
        self.written_out = False  # and whether all such loops are unrolled
        self.several_ranks = False  # whether a size that only run time knows decides the rank of an array,
        self.one_rank = False  # and whether none may, as the program was rejected so
        self.turned = False  # whether axes of a tensor are exchanged: then others may not be in the order of their rows
        self.loops: dict[Hashable, tuple[JoinShape, ...]] = {}  # of the names that a loop assigns, at its last walk
        self.thrown: dict[Hashable, Type | None] = {}  # of called functions, by key: the exceptions that they raise
        self.asked: set[str] = set()  # attributes of exceptions that are read: only these are kept

    def begin_iteration(self) -> None:
        """Forget which facts the last iteration has read."""
        self.changed = False
        if self.stale:
            self.begin_again()
            self.changed = self.stale = False
        for cell in self.cells.values():
            cell.asked.clear()

    def note_form(self, known: set[T], what: T) -> None:
        """Note that some dicts have another form from the next iteration on."""
        if what not in known:
            known.add(what)
            self.changed = self.stale = True

    def note_change(self, cell: ElementInfo, fact: str) -> None:
        """Note that a fact of lists has changed, which matters only if this iteration has read it."""
        self.changed |= self.complete or fact in cell.asked

    def with_all_inlined(self, errors: Sequence[AcronumbaError]) -> bool:
        """Begin again with all helpers inlined, if the program was rejected with some called; return whether it was."""
        again = bool(self.apart) and not self.rejected
        if again:
            self.apart, self.rejected, self.steps = set(), errors, 0
            self.begin_again()
        return again

    def again(self, errors: Sequence[AcronumbaError]) -> bool:
        """Begin again in another way, if the program was rejected and there is one; return whether there is."""
        return self.with_all_inlined(errors) or self.with_one_rank()

    def with_one_rank(self) -> bool:
        """Begin again with arrays of one rank each, if the program was rejected with several; return whether it was."""
        again = self.several_ranks and not self.one_rank
        if again:
            self.one_rank = True
            self.begin_again()
        return again

    def note_shapes(self, shapes: Iterable[Shape]) -> None:
        """Note the tuples of the instance data that differ by tags, and the lists that are nodes."""
        sized = [(shape.python, shape.size or 0, shape.tag) for shape in shapes if shape.size is not None]
        self.tagged = {(cls, size) for cls, size, tag in sized if tag is not None}
        self.nodes = frozenset(size for cls, size, _ in sized if cls is list)

    def begin_again(self) -> None:
        """Forget the types of stored and returned values: some are passed in another way from now on."""
        self.cells, self.results, self.arrays, self.built, self.loops = {}, {}, {}, {}, {}
        self.thrown = {}
        self.fields = {cls: dict(table) for cls, table in self.given.items()}
        self.changed = True
