"""Sharing (taint analysis): finds operands that are the same tensor for all instances of a mini-batch.

In: a typed `Program`, before its operations are grouped. Out: the program in which every operand that was proved to
be one shared tensor is a `SharedArg` (`share`), and the findings, as text and notes. The front end knows shared tensors
as long as they are compile-time values; it loses them in rows, lists, and results of functions. Here they are found
again, by the analysis of `facts`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from acronumba.analysis.sharing.facts import NOTHING, Context, Fact, Sharing
from acronumba.config import COPIES, Options
from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import BOOL, ListT, TensorT
from acronumba.ir.visit import Names, copied
from acronumba.records import record


def matrices(function: ir.Function) -> set[tuple[int, int]]:
    """Return the operands that are matrices of a product, directly or through views: (id of operation, position)."""
    single = definitions(function)
    out: set[tuple[int, int]] = set()
    work = [op for b in function.blocks for op in b.instrs if isinstance(op, ir.Op) and op.op == "matmul"]
    seen = {id(op) for op in work}
    while work:
        op = work.pop()
        every = op.op in ("matmul", "concat")
        for k, a in enumerate(op.args if every else op.args[:1]):
            by = single.get(a) if isinstance(a, ir.Var) else None
            if isinstance(by, ir.Op) and TENSORS[by.op].moves:
                if id(by) not in seen:
                    seen.add(id(by))
                    work.append(by)
            elif isinstance(a, ir.SharedArg) or (isinstance(a.type, TensorT) and a.type.rank > 1):
                out.add((id(op), k))
    return out


class _Copies:
    """Partitions the contexts of each function: contexts in which the same weights are shared are one function."""

    def __init__(self, sharing: Sharing, options: Options) -> None:
        self.sharing = sharing
        self.functions = sharing.program.functions
        self.group: dict[Context, int] = {}
        signatures: dict[object, int] = {}
        for number, function in enumerate(self.functions):
            weights = matrices(function)
            used = [
                a
                for b in function.blocks
                for op in b.instrs
                if isinstance(op, ir.Op)
                for k, a in enumerate(op.args)
                if isinstance(a, ir.Var) and (id(op), k) in weights
            ]
            used = list(dict.fromkeys(used)) if options.duplicate else []
            for c in sharing.contexts(number):
                facts = sharing.facts[c]
                shared = tuple(f if (f := facts.get(a, NOTHING)).kind == "shared" else None for a in used)
                self.group[c] = signatures.setdefault((number, shared), len(signatures))
        if options.duplicate:
            self._refine()
        self._bound()

    def _refine(self) -> None:
        """Split groups whose calls lead to different groups."""
        count = 0
        while count < (count := len(set(self.group.values()))):
            keys = {
                c: (g, tuple(self.group[to] for to in self.sharing.calls[c].values())) for c, g in self.group.items()
            }
            numbers = {key: n for n, key in enumerate(dict.fromkeys(keys.values()))}
            self.group = {c: numbers[key] for c, key in keys.items()}

    def _bound(self) -> None:
        """Unite the groups of functions that would have more than `COPIES`, and then the groups of their callees."""
        for number in range(len(self.functions)):
            contexts = self.sharing.contexts(number)
            if len({self.group[c] for c in contexts}) > COPIES:
                self._unite(contexts)
        changed = True
        while changed:
            changed = False
            led: dict[tuple[int, int], list[Context]] = defaultdict(list)
            for c, calls in self.sharing.calls.items():
                if c in self.group:
                    for instr, to in calls.items():
                        led[self.group[c], instr].append(to)
            for found in led.values():
                if len({self.group[c] for c in found}) > 1:
                    self._unite(found)
                    changed = True

    def _unite(self, contexts: Sequence[Context]) -> None:
        old = {self.group[c] for c in contexts}
        first = min(old)
        self.group = {c: first if g in old else g for c, g in self.group.items()}


@record(kw_only=True)
class Shares:
    """Result of `share`."""

    program: ir.Program
    sharing: Sharing | None  # the facts of the program that was given
    text: str
    notes: tuple[Note, ...]


def share(program: ir.Program, options: Options, *, check: bool = False) -> Shares:
    """Return the program with every operand that is one shared tensor as a `SharedArg`.

    A function that gets different weights in different contexts becomes several, one for each set of weights that its
    products read: a product with a shared weight reads it packed, once for all nodes of a batch. Contexts that differ
    in other operands stay one function, as do all contexts of a function that would have more than `COPIES` copies:
    these operands are then tensors like any other.

    Parameters
    ----------
    program
        Before grouping.
    options
        `reuse`: if off, shared operands become ordinary tensors; `duplicate`: if off, no function is copied.
    check
        Compare the addresses at run time: instances for which an operand is not what was proved fail.
    """
    if not options.reuse:
        return Shares(program=_as_varying(program), sharing=None, text="reuse is off: nothing is shared\n", notes=())
    sharing = Sharing(program)
    copies = _Copies(sharing, options)
    groups: dict[int, list[Context]] = defaultdict(list)
    for c, g in copies.group.items():
        groups[g].append(c)
    order = sorted(groups, key=lambda g: (groups[g][0][0], g))
    index = {g: k for k, g in enumerate(order)}
    rewrite = _Rewriter(program, sharing, check)
    functions: list[ir.Function] = []
    text: list[str] = []
    first: dict[int, int] = {}
    taken = {f.name for f in program.functions}
    for g in order:
        contexts = groups[g]
        number = contexts[0][0]
        old = program.functions[number]
        to = {instr: index[copies.group[c]] for instr, c in sharing.calls[contexts[0]].items()}
        made = rewrite.function(number, contexts, to)
        if number in first:
            name, n = f"{old.name}_2", 2
            while name in taken:
                n += 1
                name = f"{old.name}_{n}"
            made = copied(made, name)
        else:
            first[number] = len(functions)
        taken.add(made.name)
        functions.append(made)
        text.append(_text(program, sharing, contexts, made.name))
    notes = list(rewrite.notes)
    for number, old in enumerate(program.functions):
        count = len({copies.group[c] for c in sharing.contexts(number)})
        if count > 1:
            told = f"{old.name} is compiled {count} times, as its matrix products read different weights"
            notes.append(Note(loc=old.loc, kind="duplicated", text=told, option="duplicate"))
    new = replace(program, functions=tuple(functions), sites=(*program.sites, *rewrite.sites))
    return Shares(program=new, sharing=sharing, text="\n".join(text), notes=tuple(dict.fromkeys(notes)))


class _Rewriter:
    """Replaces operands of a function's operations by the proved `SharedArg`s."""

    def __init__(self, program: ir.Program, sharing: Sharing, check: bool) -> None:
        self.program, self.sharing, self.check = program, sharing, check
        self.sites: list[ir.Site] = []
        self.notes: dict[Note, None] = {}

    def function(self, number: int, contexts: Sequence[Context], to: Mapping[int, int]) -> ir.Function:
        """Return the function for some contexts; `to` maps identities of calls to the functions that they call."""
        function = self.program.functions[number]
        single = definitions(function)
        self.names = Names(function)
        blocks = []
        for block in function.blocks:
            out: list[ir.Instr] = []
            self.numbers: dict[int, ir.Var] = {}
            for instr in block.instrs:
                if isinstance(instr, ir.Call | ir.Spawn):
                    out.append(replace(instr, function=to[id(instr)]))
                elif isinstance(instr, ir.Op):
                    args = tuple(self._operand(instr, a, contexts, single, out) for a in instr.args)
                    out.append(replace(instr, args=args))
                elif isinstance(instr, ir.ExtentOf):
                    out.append(self._extent(instr, contexts))
                else:
                    out.append(instr)
            blocks.append(ir.Block(instrs=tuple(out), end=block.end))
        return replace(function, blocks=tuple(blocks))

    def _operand(
        self,
        op: ir.Op,
        a: ir.Var | ir.SharedArg,
        contexts: Sequence[Context],
        single: Mapping[ir.Var, ir.Instr],
        out: list[ir.Instr],
    ) -> ir.Var | ir.SharedArg:
        fact = Fact("shared", frozenset((a.index,))) if isinstance(a, ir.SharedArg) else self.sharing.fact(contexts, a)
        if fact.label == "varying" or (isinstance(a, ir.Var) and isinstance(a.type, ListT)):
            return a
        paths = " or ".join(f"`{self.program.shared[k].path}`" for k in sorted(fact.which)[:4])
        paths += " or another" * (len(fact.which) > 4)
        if fact.label == "row":
            what = "one of the shared tensors" if fact.kind == "choice" else "a row of the shared table"
            self._note(op, "row", f"{what} {paths}")
            if self.check and isinstance(a, ir.Var) and fact.kind == "choice":
                self._compare(op, a, sorted(fact.which), out)
            return a
        (k,) = fact.which
        if isinstance(a, ir.SharedArg):
            self._note(op, "shared", f"{paths} is the same tensor for all instances")
            return a
        if not isinstance(a.type, TensorT):
            if isinstance(single.get(a), ir.Shared):
                return a
            if k not in self.numbers:
                self.numbers[k] = self.names.var(a.name, a.type)
                out.append(ir.Shared(out=self.numbers[k], index=k, loc=op.loc))
            return self.numbers[k]
        self._note(op, "shared", f"{paths} is the same tensor for all instances, wherever it comes from")
        if self.check:
            self._compare(op, a, [k], out)
        return ir.SharedArg(k)

    def _extent(self, instr: ir.ExtentOf, contexts: Sequence[Context]) -> ir.Instr:
        """Return the extent of a shared tensor as a constant."""
        fact = self.sharing.fact(contexts, instr.tensor)
        if fact.kind != "shared":
            return instr
        (k,) = fact.which
        t = self.program.shared[k].type
        assert isinstance(t, TensorT)
        return ir.Const(out=instr.out, value=t.shape[instr.axis], loc=instr.loc)

    def _note(self, op: ir.Op, kind: str, text: str) -> None:
        self.notes.setdefault(Note(loc=op.loc, kind=kind, text=text, option="reuse"))

    def _compare(self, op: ir.Op, a: ir.Var, which: Sequence[int], out: list[ir.Instr]) -> None:
        """Write a check that fails the instance unless the operand is, by address, one of these shared tensors."""
        paths = ", ".join(self.program.shared[k].path for k in which)
        site = ir.Site("AssertionError", f"the sharing analysis is wrong: {a.name} is not {paths}", op.loc)
        found: ir.Var | None = None
        for k in which:
            tensor, same = self.names.var(a.name, a.type), self.names.var("same", BOOL)
            out.append(ir.Shared(out=tensor, index=k, loc=op.loc))
            out.append(ir.Scalar(out=same, op="same", args=(a, tensor), site=-1, loc=op.loc))
            if found is not None:
                either = self.names.var("same", BOOL)
                out.append(ir.Scalar(out=either, op="either", args=(found, same), site=-1, loc=op.loc))
                same = either
            found = same
        assert found is not None
        out.append(ir.Check(cond=found, site=len(self.program.sites) + len(self.sites), args=(), loc=op.loc))
        self.sites.append(site)


def _as_varying(program: ir.Program) -> ir.Program:
    """Return the program in which operations read shared tensors like any other."""
    functions = []
    for function in program.functions:
        names = Names(function)
        blocks = []
        for block in function.blocks:
            made: dict[int, ir.Var] = {}
            out: list[ir.Instr] = []
            for instr in block.instrs:
                if isinstance(instr, ir.Op):
                    for a in instr.args:
                        if isinstance(a, ir.SharedArg) and a.index not in made:
                            param = program.shared[a.index]
                            assert isinstance(param.type, TensorT)
                            made[a.index] = names.var(re.sub(r"\W+", "_", param.path).strip("_"), param.type)
                            out.append(ir.Shared(out=made[a.index], index=a.index, loc=instr.loc))
                    instr = replace(
                        instr, args=tuple(made[a.index] if isinstance(a, ir.SharedArg) else a for a in instr.args)
                    )
                out.append(instr)
            blocks.append(replace(block, instrs=tuple(out)))
        functions.append(replace(function, blocks=tuple(blocks)))
    return replace(program, functions=tuple(functions))


def _text(program: ir.Program, sharing: Sharing, contexts: Sequence[Context], name: str) -> str:
    """Return the facts about the operands of one function as text: a line per source line and operation."""

    def fact_text(f: Fact) -> str:
        paths = ", ".join(program.shared[k].path for k in sorted(f.which)) if f.kind != "objects" else ""
        match f.kind:
            case "shared":
                return f"shared {paths}"
            case "row":
                return f"row of {paths}"
            case "choice":
                return f"one of {paths}" + ("" if f.listed else " (varying)")
        return "varying"

    function = program.functions[contexts[0][0]]
    plural = "contexts" if len(contexts) > 1 else "context"
    lines = [f"{name}: {len(contexts)} {plural}"]
    given = [(v, sharing.fact(contexts, v)) for v in function.params]
    lines += [
        f"    given {v.name}: {fact_text(f)}" for v, f in given if f.kind not in ("objects", "varying", "nothing")
    ]
    for block in function.blocks:
        for op in block.instrs:
            if isinstance(op, ir.Op):
                parts = []
                for a in op.args:
                    fact = sharing.fact(contexts, a) if isinstance(a, ir.Var) else sharing.operand({}, a)
                    if isinstance(a, ir.Var) and (fact.label == "varying" or not isinstance(a.type, TensorT)):
                        if isinstance(a.type, TensorT):
                            parts.append(f"{a.name} {fact_text(fact)}")
                    else:
                        parts.append(fact_text(fact) if isinstance(a, ir.SharedArg) else f"{a.name} {fact_text(fact)}")
                if any(not p.endswith(" varying") for p in parts):
                    lines.append(f"    line {op.loc.line}: {op.out.name} = {op.op}: {'; '.join(parts)}")
    return "\n".join(dict.fromkeys(lines)) + "\n"
