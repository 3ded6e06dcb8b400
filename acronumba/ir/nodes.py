"""The typed program: the IR that the front end makes of the user's functions, and all later stages read.

Structure is already resolved: a variable holds one machine word (`Word`), a tuple is several variables, a union with
a tag is its tag and its cases. Helpers without recursion are inlined; each remaining `Function` is one function of
the user for one set of argument types. Functions are control-flow graphs; a variable is assigned once, except by
`Copy`, which joins values at merges.

    program     = function* site* layout* shared* once*   functions[0] is the entry
    once        = shared k = kernel(shared*)              the last of `shared`, computed before any instance is run
    function    = name(var*) -> word*: block+             blocks[0] is the entry
    block       = instr* end
    instr       = var = const c                  Const      int, float, bool; None is the null reference
                | var = copy var                 Copy       the only way to assign a variable twice
                | var = scalar op var*           Scalar     Python arithmetic on host numbers; may fail at `site`
                | var = null var                 IsNull     reference is None
                | var = tag var                  ClassTag   number of the row's class in `program.layouts`
                | var = made var                 IsMade     the row was made by the call: a `New` that is not `given`
                | check var, site(var*)          Check      the instance fails at `site` unless the bool is true
                | var* = load var.field          Load       every word of the field of a row that is not None
                | var = new cls(var*)            New        a row: the words of all fields in order
                | store var.field = var*         Store      every word of the field of a row that `New` has made
                | var = list [var*] | len | get | set | append | pop | insert | extend | slice | reverse | sort
                  | find | put | remove | update | erase               of dicts: lists of entries
                | var = extent tensor axis       Extent     a run-time extent
                | var = shared k                 Shared     parameter number k of `program.shared`, as an ordinary value
                | var = op(var | shared | const, ...)     Op         a tensor operation of `ir.ops`, with dims
                | var* = emit kernel(var*)       Emit       one DFG node, which `plan` makes of a group of Ops
                | var* = call function(var*)     Call
                | var = read tensor              Read       the value of a tensor of one element; may wait for it
                | spawn function(var*)           Spawn      a call that runs concurrently with its caller
                | join                           Join       waits until all spawned calls of this call have returned
    end         = jump block | branch var block block | return var* | fail site(var*)

Example (the leaf of a Tree-LSTM):

    def encode(t: Tree) -> float32[256], float32[256]:
     0: left = load t.left
        v1 = null left
        branch v1 1 2
     1: word = load t.word
        v2 = take(p.embed, word)            float32[256]
        ...
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from acronumba.errors import Loc
from acronumba.ir.types import Type, Word
from acronumba.records import record


@record(eq=False)
class Var:
    """A variable of one function; identity is the object. Names are unique within the function."""

    name: str
    type: Word


Extent: TypeAlias = "int | Var"  # an extent: a constant, or an int variable


@record()
class SharedArg:
    """Operand: entry `index` of `Program.shared`, which must be a tensor, the same one for every instance."""

    index: int


@record()
class Site:
    """An error that an instance may fail with, and its source position. `Program.sites[k]` is site k."""

    error: str  # name of the exception: "ZeroDivisionError", "IndexError", "ShapeMismatch", "AssertionError", ...
    text: str  # the message, with {0} {1} for the values given
    loc: Loc


@record(kw_only=True)
class Const:
    out: Var
    value: int | float | bool | str | None
    loc: Loc


@record(kw_only=True)
class Copy:
    out: Var
    src: Var
    loc: Loc


@record(kw_only=True)
class Scalar:
    """Arithmetic on host numbers; `op` is a row of `ir.ops.SCALARS`."""

    out: Var
    op: str
    args: tuple[Var, ...]
    site: int  # where it fails (overflow, division by zero, domain); -1 if it cannot
    loc: Loc


@record(kw_only=True)
class IsNull:
    out: Var
    ref: Var
    loc: Loc


@record(kw_only=True)
class ClassTag:
    out: Var
    ref: Var  # not None
    loc: Loc


@record(kw_only=True)
class IsMade:
    """Whether an object was made in the call: it may be changed."""

    out: Var
    ref: Var  # not None
    loc: Loc


@record(kw_only=True)
class Check:
    cond: Var
    site: int
    args: tuple[Var, ...]  # int or float values for the message
    loc: Loc


@record(kw_only=True)
class Load:
    outs: tuple[Var, ...]  # one per word of the field
    ref: Var  # not None, and a row of `cls`
    cls: type
    field: str
    loc: Loc


@record(kw_only=True)
class New:
    out: Var
    cls: type
    args: tuple[Var, ...]  # the words of all fields, in the order of the layout
    loc: Loc
    given: bool = False  # it stands for an object that was not made in the call


@record(kw_only=True)
class Store:
    """Assignment to a field of a row. Input rows and fields without a `Store` never change."""

    ref: Var  # not None, and a row of `cls` that `New` has made
    cls: type
    field: str
    args: tuple[Var, ...]  # one per word of the field
    loc: Loc


@record(kw_only=True)
class ListNew:
    out: Var
    width: int  # words per element
    args: tuple[Var, ...]  # len(args) // width elements (width 0: see `count`)
    count: int  # number of elements
    loc: Loc


@record(kw_only=True)
class ListOp:
    """An operation on a list with elements of `width` words. Indices are already checked and not negative.

    op        outs            args
    len       int             list
    get       words           list, index
    set       -               list, index, words
    append    -               list, words
    pop       words           list, index
    insert    -               list, index, words              (0 <= index <= len)
    extend    -               list, other                     (the same list is allowed)
    slice     list            list, start, step, count        a new list; elements start + step * k, k < count
    fill      list            count, words                    a new list of count equal elements
    decimal   string          float, int, int                 its text, as in `ops.decimal`: a letter, places
    pattern   string          string, int                     the code of a pattern and its flags, see `ir.patterns`
    match     list            code, string, first, last, how  a new list of ints, see `ir.patterns`
    sort      -               list, keys, descending     stable, by a list of as many int, float or bool keys (width 1)

    A dict is a list of entries (a key, what lies under it), in the order in which the keys came, made empty by
    `ListNew`. These operations, `len`, and `get` and `set` that leave the keys as they are, are all that it has:

    find      int             list, words of a key            the index of its entry, -1 if there is none
    put       -               list, words                     an entry: in the place of that of its key, or a new one
    remove    -               list, index                     those behind it move up
    update    -               list, other                     `put` of each entry of another dict of the same type
    erase     -               list                            no entries are left

    A set in Python's order (the item type of its entries is `ORDER`) has these as well, and `update` by a dict:

    clone     set             set                             one of the instance data as a set made in the call
    order     list            set                             its elements, in Python's order
    next      int             set                             index of the entry that `pop` takes, -1 if there is none
    meet      -               set, one, other                 `one & other`, into an empty set
    minus     -               set, one, other                 `one - other`, into an empty set
    narrow    -               set, empty set, other           `set &= other`
    exclude   -               set, other                      `set -= other`
    toggle    -               set, other                      `set ^= other`
    """

    outs: tuple[Var, ...]
    op: str
    width: int
    args: tuple[Var, ...]
    loc: Loc


OF_NUMBERS = ("fill", "decimal", "pattern")  # operations whose first argument is no list


@record(kw_only=True)
class ExtentOf:
    out: Var
    tensor: Var  # 0 where it holds none: it is bound later, or on another path
    axis: int
    loc: Loc


@record(kw_only=True)
class Shared:
    """A shared parameter as an ordinary value: a number, a tensor, or the row of a shared struct."""

    out: Var
    index: int
    loc: Loc


@record(kw_only=True)
class Op:
    """A tensor operation; `op` is a row of `ir.ops.TENSORS`."""

    out: Var
    op: str
    args: tuple[Var | SharedArg, ...]  # tensors; int, float or bool variables where the operation takes host numbers
    attrs: tuple[object, ...]  # static arguments; Extents may appear among them (see `ir.ops`)
    shape: tuple[Extent, ...]  # of the result; constants agree with out.type
    site: int  # where it fails at run time (an index out of range); -1 if it cannot
    loc: Loc


@record(kw_only=True)
class Emit:
    """One DFG node: record a call of `Plan.kernels[kernel]`."""

    outs: tuple[Var, ...]  # one per result of the kernel
    kernel: int
    args: tuple[Var, ...]  # one per per-node operand of the kernel, in order, without shared operands
    dims: tuple[Var, ...]  # the kernel's run-time extents, int variables
    shapes: tuple[tuple[Extent, ...], ...]  # of each result
    loc: Loc


@record(kw_only=True)
class Call:
    outs: tuple[Var, ...]
    function: int
    args: tuple[Var, ...]
    loc: Loc


@record(kw_only=True)
class Read:
    """Read of a tensor's value as a host number. If it has not been computed, the fiber waits until it is."""

    out: Var  # FLOAT of a float32 or float64 tensor, INT of an integer one, BOOL of a bool one
    tensor: Var  # of rank 0, not None
    loc: Loc
    why: str = ""  # the reason, for messages: "a condition", "float()", "an index of a list"
    number: int = 0  # among the reads of the typed program; copies by passes have the same


@record(kw_only=True)
class Spawn:
    """A call that runs as a separate fiber: its results are available only after the next `Join`.

    A spawned call may wait; while it does, its caller goes on. Its results are words of the caller's frame (`outs`) or
    the words of an element of a list. No instruction between `Spawn` and `Join` may write data that the callee reads,
    or access data that it writes.
    """

    outs: tuple[Var, ...]  # assigned by the `Join`; () if `into` is given
    into: tuple[Var, Var] | None  # destination of the results: a list and an index below its length
    function: int
    args: tuple[Var, ...]
    loc: Loc


@record(kw_only=True)
class Join:
    """Wait until every fiber that this call has spawned since its last `Join` has returned."""

    outs: tuple[Var, ...]  # those of the spawns on every path here since the last join
    loc: Loc


@record(kw_only=True)
class Jump:
    block: int
    loc: Loc


@record(kw_only=True)
class Branch:
    cond: Var
    yes: int
    no: int
    loc: Loc


@record(kw_only=True)
class Return:
    args: tuple[Var, ...]
    loc: Loc


@record(kw_only=True)
class Fail:
    site: int
    args: tuple[Var, ...]
    loc: Loc


Instr: TypeAlias = (
    Const
    | Copy
    | Scalar
    | IsNull
    | ClassTag
    | IsMade
    | Check
    | Load
    | New
    | Store
    | ListNew
    | ListOp
    | ExtentOf
    | Shared
    | Op
    | Emit
    | Call
    | Read
    | Spawn
    | Join
)
End: TypeAlias = Jump | Branch | Return | Fail


@record(kw_only=True)
class Block:
    instrs: tuple[Instr, ...]
    end: End


@record(kw_only=True)
class Function:
    name: str  # unique in the program: the user's name, numbered if there are several
    params: tuple[Var, ...]
    results: tuple[Word, ...]
    blocks: tuple[Block, ...]
    loc: Loc


@record(kw_only=True)
class FieldLayout:
    name: str
    type: Type
    offset: int  # of the first word in the row; word 0 of a row is the class tag
    width: int  # words


@record(kw_only=True)
class StructLayout:
    """Memory layout of the rows of a class. `Program.layouts[k]` has tag k."""

    cls: type
    fields: tuple[FieldLayout, ...]  # in the order of the class; fields that the model never reads may be missing
    size: int  # words, tag included


@record(kw_only=True)
class SharedParam:
    """A leaf of the shared parameters that the program uses."""

    path: str  # "p.cells[0].w"
    type: Type  # TensorT with constant extents, IntT, FloatT, BoolT or a StructT, ListT (its packed row)
    pool: int = 0  # of a computed one: rows of the given tensor of which its rows are, by given bytes; 0 if not so


@record(kw_only=True)
class Once:
    """A shared tensor computed once per mini-batch, before any instance runs."""

    index: int  # entry of `Program.shared`: behind those that are given
    kernel: int  # `Plan.kernels`; its shared operands are entries before `index`, its result is the tensor
    numbers: tuple[int, ...]  # its arguments, host numbers: entries of `Program.shared`


WIDENED = "float32 becomes float64"  # in the warning of a line


@record(kw_only=True)
class Program:
    name: str
    functions: tuple[Function, ...]
    sites: tuple[Site, ...]
    layouts: tuple[StructLayout, ...]
    shared: tuple[SharedParam, ...]
    params: tuple[Type, ...]  # of the positional parameters
    result: Type  # of the entry
    warnings: tuple[str, ...] = field(default=())
    once: tuple[Once, ...] = field(default=())  # the last entries of `shared`, in order
    kept: frozenset[tuple[Loc, str]] = frozenset()  # operations, by position and name, whose results are stored
