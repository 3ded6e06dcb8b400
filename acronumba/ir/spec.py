"""Specifications of kernels: the contract between the plan and every code generator.

A `KernelSpec` is straight-line tensor code for *one* DFG node; a generator makes a function over the nodes of a batch
of it. If a node is several rows, it is the code of one row, and at run time each row comes with argument words like a
node's: generators do not see `rows`. Values are numbered: operands first, then the operations in order. Generators see
nothing else of the model.

The compiled form (see `kernels.cpu`) is these functions of i64 parameters:

    plan(D, OUT)             of nodes whose run-time extents (int64 each) are at D:
                             OUT[0] = bytes of scratch needed, OUT[1 + k] = bytes of result k of a node,
                             OUT[1 + results] = bytes of the largest tensor of a node, stored or not,
                             OUT[2 + results] = estimated nanoseconds of a node
    run(P, lo, hi, S)        nodes lo..hi; S: scratch, aligned to 64 bytes, enough for each of them; P: address of an
                             int64 table
                             P[0] .. P[3]      words of PARAMETERS
                             P[FIXED + k]      address of result k of all nodes: contiguous rows, in their order. Of a
                                               kernel with run-time extents: where the address of a node's result k is,
                                               in bytes from its argument words
                             P[FIXED + results + j]  address of entry j of `KernelCode.shared`: the array or its packing
    begin(P, lo, hi, S)      of kernels with stages, which `run` consists of: prepare S for a block of nodes from lo on;
                             returns the end of the block, at most hi. S begins with the words of BLOCK, then a row of
                             UNITS of each stage
    stage_0(S, u0, u1, T)    units u0..u1 of stage 0 of the block; then stage_1, ... once all of the stage before is
                             done. Threads may share a stage: each has scratch T of the same size; S is one of them

The extents of a kernel with run-time extents differ from node to node.

An argument word of a node is, by the operand's kind: "tensor": the address of a value record, whose word 0 is the
address of the contiguous data; "int", "bool": the number; "float": the bits of a double; "list" (of tensors) and
"numbers": the address of the list's header, whose word 0 is the address of its elements: value records, or numbers, a
word each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from acronumba.emit.words import RecordLayout
from acronumba.errors import NOWHERE, Loc
from acronumba.records import record

CHUNK = 256  # terms of a matrix product that are summed before they are added to the sum of those before them


@record()
class Dim:
    """Run-time extent number `index` of a node."""

    index: int


# The first words of P, which every kernel has.
PARAMETERS = RecordLayout("""
nodes       address of int64[batch]: address of each node's argument words
fails       address of int64[batch]: a failure (1 + site) is written here
extents     where the run-time extents of a node are, in bytes from its argument words
begun       how many batches of the kernel have begun: parity decides on the way through its weights
""")
FIXED = PARAMETERS.count

# What the scratch of a block begins with.
BLOCK = RecordLayout("""
table       address of P
first       first node of the block
last        ... and where it ends
own         bytes from the beginning of a thread's scratch to what it needs for itself
finer       how often tiles of rows are halved, 0 to 2: written before `begin` is called
""")
# The units of a stage of a block.
UNITS = RecordLayout("""
count       how many there are
time        nanoseconds that they take, about
times       address of int64[nodes + 1]: nanoseconds before those of each node; 0: all units take the same time
starts      address of int64[nodes + 1]: units before those of each node; 0: a unit is a node
""")


def plan_words(results: int) -> int:
    """Return the number of words that `plan` writes for a kernel of so many results."""
    return 3 + results


Size: TypeAlias = "int | Dim"  # extents are known when code is generated, or run-time extents of the nodes

# The first extent of a tensor of which a node reads elements that numbers name, and nothing else: how many elements
# there are is an argument of the node, so that tensors of all lengths are one batch.
FAR = 1 << 40


@record()
class Operand:
    kind: str  # "tensor" | "list" | "numbers" | "int" | "float" | "bool": an argument of each node; "shared": of all
    name: str  # the user's name, for the generated text
    dtype: str  # of tensors and shared; "int64", "float64", "bool" for the others
    shape: tuple[
        Size, ...
    ]  # () for numbers; shared tensors have constant extents; a list counts as its elements stacked
    index: int  # which argument of the node; which shared parameter of the program
    pool: int = 0  # of shared tensors, as `ir.nodes.SharedParam` has it


@record()
class KernelOp:
    """One operation of `ir.ops.TENSORS`; `attrs` are its static arguments, with `Size` in place of IR extents, and
    `("value", k)` in place of IR variables of host numbers that are operands.
    """

    op: str
    args: tuple[int, ...]  # numbers of values
    attrs: tuple[object, ...]
    dtype: str
    shape: tuple[Size, ...]
    name: str
    site: int  # failure reported by the kernel; -1 if it cannot fail
    loc: Loc


@record()
class Use:
    """A source position at which nodes of a kernel are recorded, and the operations that became the kernel there."""

    loc: Loc
    operations: tuple[tuple[Loc, str], ...]  # (source position, name)


def distinct(uses: Iterable[Use]) -> tuple[Use, ...]:
    """Return uses without duplicates: of equal source positions, reached by the same calls."""
    return tuple({use.loc.path: use for use in reversed(list(uses))}.values())[::-1]


@record()
class KernelSpec:
    name: str  # user's function and line: "encode_15"
    operands: tuple[Operand, ...]
    dims: int  # number of run-time extents
    body: tuple[KernelOp, ...]
    results: tuple[int, ...]  # numbers of values; always operations of the body
    # If a node is several rows, one entry per argument of the node: what row i gets of it. "row": row i of the tensor,
    # "item": element i of the list, "whole": the argument. Results have the rows as their first axis.
    rows: tuple[str, ...] | None = None


def same_but_shared(spec: KernelSpec, lines: bool) -> str:
    """Return a key that is equal for kernels that differ only in which shared tensors they read.

    Parameters
    ----------
    lines
        Whether they must also come from the same lines of the source.
    """
    operands = tuple(replace(o, name="", index=-1 if o.kind == "shared" else o.index) for o in spec.operands)
    body = tuple(replace(op, name="", loc=op.loc if lines else NOWHERE) for op in spec.body)
    return repr((operands, spec.dims, body, spec.results))  # as text: 1, 1.0 and True are not the same constant
