"""Control flow graphs of functions: their order, dominators, and simplification.

In: a `Function`. Out: the same function with jumps threaded and blocks merged (`simplify`), so that basic blocks, and
with them kernels, are large; and what other passes ask of a graph: who comes before whom, which variables are
assigned once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

from acronumba.ir.nodes import (
    Block,
    Branch,
    Call,
    Check,
    ClassTag,
    Const,
    Copy,
    Emit,
    End,
    ExtentOf,
    Fail,
    Function,
    Instr,
    IsNull,
    Join,
    Jump,
    ListNew,
    ListOp,
    Load,
    New,
    Op,
    Pad,
    Read,
    Return,
    Scalar,
    Shared,
    Spawn,
    Var,
    reads,
    writes,
)
from acronumba.ir.types import Word


def successors(end: End) -> tuple[int, ...]:
    """Return the blocks that may follow."""
    match end:
        case Jump():
            return (end.block,)
        case Branch():
            return (end.yes, end.no)
        case _:
            return ()


def predecessors(blocks: tuple[Block, ...]) -> list[list[int]]:
    """Return the predecessors of each block, one entry per edge."""
    out: list[list[int]] = [[] for _ in blocks]
    for k, block in enumerate(blocks):
        for s in successors(block.end):
            out[s].append(k)
    return out


def variables(function: Function) -> list[Var]:
    """Return all variables in order, one entry for each place."""
    made = (v for b in function.blocks for i in b.instrs for v in (*writes(i), *reads(i)))
    return [*function.params, *made]


class Names:
    """Makes variables of new names in a function."""

    def __init__(self, function: Function) -> None:
        self.taken = {v.name for v in variables(function)}

    def var(self, name: str, type: Word) -> Var:
        """Return a variable of this name, with a number if the name is taken."""
        made, n = name, 1
        while made in self.taken:
            n += 1
            made = f"{name}_{n}"
        self.taken.add(made)
        return Var(made, type)

    def temporary(self, type: Word) -> Var:
        """Return a variable that stands for no name of the user's."""
        number = len(self.taken)
        while (made := f"v_{number}") in self.taken:
            number += 1
        return self.var(made, type)


def retarget(end: End, to: Callable[[int], int]) -> End:
    """Return the end of a block with the numbers of the blocks it leads to replaced."""
    match end:
        case Jump():
            return replace(end, block=to(end.block))
        case Branch():
            yes, no = to(end.yes), to(end.no)
            return Jump(block=yes, loc=end.loc) if yes == no else replace(end, yes=yes, no=no)
        case _:
            return end


def redirect(end: End, old: int, new: int) -> End:
    """Return the end of a block that leads to `new` where it led to `old`."""
    return retarget(end, lambda k: new if k == old else k)


def simplify(function: Function) -> Function:
    """Return the function with jumps threaded, blocks merged and unreachable ones gone, in reverse postorder."""
    single = definitions(function)
    blocks = dict(enumerate(function.blocks))
    changed = True
    while changed:
        changed = False

        final = _threads(blocks)
        for k, block in list(blocks.items()):
            end = block.end
            if isinstance(end, Branch) and isinstance(c := single.get(end.cond), Const):
                end = Jump(block=end.yes if c.value else end.no, loc=end.loc)
            end = retarget(end, final.__getitem__)
            if end != block.end:
                blocks[k] = replace(block, end=end)
                changed = True
        reached = _order(blocks)
        blocks = {k: blocks[k] for k in reached}
        count = Counter(s for b in blocks.values() for s in successors(b.end))
        for k in reached:
            while k in blocks and isinstance(end := blocks[k].end, Jump) and end.block not in (0, k):
                if count[end.block] != 1:
                    break
                after = blocks.pop(end.block)
                blocks[k] = Block(instrs=blocks[k].instrs + after.instrs, end=after.end)
                changed = True
    order = _order(blocks)
    number = {k: n for n, k in enumerate(order)}
    out = tuple(replace(blocks[k], end=retarget(blocks[k].end, number.__getitem__)) for k in order)
    return replace(function, blocks=out)


def _threads(blocks: Mapping[int, Block]) -> dict[int, int]:
    """Return for each block the one that a jump to it ends up in."""
    out = {}
    for k in blocks:
        to, seen = k, {k}
        while not blocks[to].instrs and isinstance(end := blocks[to].end, Jump) and end.block not in seen:
            to = end.block
            seen.add(to)
        out[k] = to
    return out


def _order(blocks: Mapping[int, Block]) -> list[int]:
    """Return the reachable blocks in reverse postorder; the "yes" side of a branch comes first."""
    out: list[int] = []
    seen = {0}
    stack = [(0, list(successors(blocks[0].end)))]
    while stack:
        k, rest = stack[-1]
        if rest:
            s = rest.pop()
            if s not in seen:
                seen.add(s)
                stack.append((s, list(successors(blocks[s].end))))
        else:
            out.append(k)
            stack.pop()
    return out[::-1]


def definitions(function: Function) -> dict[Var, Instr]:
    """Return the instruction that assigns each variable that is assigned once (parameters have none)."""
    out: dict[Var, Instr] = {}
    twice: set[Var] = set(function.params)
    for block in function.blocks:
        for instr in block.instrs:
            for v in writes(instr):
                if v in out:
                    twice.add(v)
                out[v] = instr
    return {v: i for v, i in out.items() if v not in twice}


def fixed_variables(function: Function) -> set[Var]:
    """Return the variables that have one value for the whole call: parameters included."""
    assigned = Counter(function.params)
    assigned.update(v for b in function.blocks for i in b.instrs for v in writes(i))
    return {v for v, count in assigned.items() if count == 1}


def dominators(blocks: tuple[Block, ...]) -> list[set[int]]:
    """Return the blocks that dominate each block, itself included."""
    before = predecessors(blocks)
    out = [set(range(len(blocks))) for _ in blocks]
    out[0] = {0}
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            new = set.intersection(*(out[p] for p in before[k])) | {k}
            if new != out[k]:
                out[k], changed = new, True
    return out


def live_at_start(blocks: tuple[Block, ...]) -> list[set[Var]]:
    """Return the variables that are read after the start of each block before they are assigned."""
    out: list[set[Var]] = [set() for _ in blocks]
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(blocks))):
            b = blocks[k]
            live = {v for s in successors(b.end) for v in out[s]} | set(reads(b.end))
            for i in reversed(b.instrs):
                live -= set(writes(i))
                live |= set(reads(i))
            if live != out[k]:
                out[k], changed = live, True
    return out


def loops(blocks: tuple[Block, ...]) -> dict[int, set[int]]:
    """Return the blocks of each natural loop, by its head."""
    before = predecessors(blocks)
    out: dict[int, set[int]] = defaultdict(set)
    for k, over in enumerate(dominators(blocks)):
        for head in successors(blocks[k].end):
            if head in over:
                body = out[head]
                body.add(head)
                work = [k]
                while work:
                    b = work.pop()
                    if b not in body:
                        body.add(b)
                        work += before[b]
    return out


def rename(node: Instr | End, to: Mapping[Var, Var]) -> Instr | End:
    """Return the node with the variables it reads replaced."""

    def v(x: Var) -> Var:
        return to.get(x, x)

    def vs(xs: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(to.get(x, x) for x in xs)

    def any_(x: object) -> object:
        if isinstance(x, tuple):
            return tuple(any_(y) for y in x)
        return to.get(x, x) if isinstance(x, Var) else x

    match node:
        case Const() | Shared() | Jump() | Join():
            return node
        case Copy() | Pad():
            return replace(node, src=v(node.src))
        case Scalar() | ListOp() | ListNew() | New() | Call() | Return() | Fail():
            return replace(node, args=vs(node.args))
        case IsNull() | ClassTag() | Load():
            return replace(node, ref=v(node.ref))
        case Check():
            return replace(node, cond=v(node.cond), args=vs(node.args))
        case ExtentOf() | Read():
            return replace(node, tensor=v(node.tensor))
        case Spawn():
            into = None if node.into is None else (v(node.into[0]), v(node.into[1]))
            return replace(node, into=into, args=vs(node.args))
        case Branch():
            return replace(node, cond=v(node.cond))
        case Op():
            args, attrs, shape = any_(node.args), any_(node.attrs), any_(node.shape)
            return replace(node, args=args, attrs=attrs, shape=shape)  # type: ignore[arg-type]
        case Emit():
            return replace(
                node,
                args=vs(node.args),
                dims=vs(node.dims),
                shapes=any_(node.shapes),  # type: ignore[arg-type]
            )


def reassigned(instr: Instr, to: Mapping[Var, Var]) -> Instr:
    """Return an instruction with all its variables replaced."""
    made = rename(instr, to)
    assert not isinstance(made, End)
    match made:
        case ListOp() | Load() | Emit() | Call() | Join():
            return replace(made, outs=tuple(to.get(v, v) for v in made.outs))
        case Check() | Spawn():
            return made
        case _:
            return replace(made, out=to.get(made.out, made.out))
