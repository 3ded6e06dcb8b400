"""An explanation as plain data: source lines, blocks, and the effect of each option."""

from __future__ import annotations

from dataclasses import dataclass

from acronumba.errors import Loc


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A decision about an expression."""

    kind: str  # a key of `ir.notes.KINDS`
    text: str  # decision and reason
    option: str  # the option that switches it off; "" if none does
    expression: str  # the user's text; "" if it is more than one line
    column: int  # where it begins


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of the user's source."""

    number: int
    text: str  # without its line break
    blocks: tuple[str, ...]  # letters of the blocks that compute it
    phases: tuple[int, ...]  # of those blocks
    remarks: tuple[Remark, ...]  # from left to right


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFunction:
    """A function of the user that is compiled."""

    file: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Operations that are computed together: a kernel."""

    letter: str  # A, B, ... in order of execution
    name: str  # of the kernel
    expression: str  # what it computes, in a few words: "tanh(w @ x)"
    calls: tuple[str, ...]  # where it is recorded: "lstm, called from tag line 98"; () if that is one function alone
    places: tuple[Loc, ...]  # where it is recorded
    operations: tuple[str, ...]
    stages: tuple[str, ...]  # the stages of the kernel in order, each with its fused operations
    shared: tuple[str, ...]  # operands that are the same for all nodes
    varying: tuple[str, ...]  # operands of each node
    results: tuple[str, ...]
    phases: tuple[int, ...]  # components of the kernel graph that it is in; none if it was not recorded
    nodes: int  # in the mini-batch that was explained
    batches: int
    once: bool  # whether it computes a per-batch constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Counts of a mini-batch under one schedule."""

    schedule: str
    nodes: int
    batches: int
    lower_bound: int  # no schedule of these nodes has fewer batches
    optimal: bool  # proved: there are no fewer
    launches: int  # kernel stages of all batches
    bytes: int  # that the stages read and write, caches not counted
    product_flops: int  # of all products: two for each term
    rounds: int = 1  # 1 + number of times that all fibers waited for values


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A mini-batch recorded with one option changed."""

    option: str  # its name
    value: bool | str  # the other value
    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The decisions of the compiler about a model and a mini-batch."""

    model: str
    instances: int  # of the mini-batch
    parameters: tuple[str, ...]  # names and types of the positional parameters
    shared: tuple[str, ...]  # shared values that are used: path and type
    constants: tuple[str, ...]  # shared ints that became constants of the program
    recursive: tuple[str, ...]  # functions that are called; all others are inlined
    functions: tuple[SourceFunction, ...]
    blocks: tuple[Block, ...]  # in order of their phases
    effects: tuple[Effect, ...]  # of each option
    warnings: tuple[str, ...]  # a line each: where float32 becomes float64
    count: Count  # of the mini-batch
    tuned: tuple[str, ...] = ()  # the choice of `acronumba tune` for so many instances, and a line for each trial
