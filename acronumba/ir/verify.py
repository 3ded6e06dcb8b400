"""The verifier of programs: invariants that every pass may rely on.

In: a `Program`, with the plan's kernels if it has been planned. Out: nothing, or one `VerifyError` that lists every
error with its function, block and instruction. Checked are: variables are assigned once (`Copy` excepted) and before
every use; all types and shapes agree with the tables of `ir.ops`; layouts, sites, calls and kernels match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from acronumba.errors import NOWHERE
from acronumba.ir import nodes as ir
from acronumba.ir.agree import Wrong, fits, type_texts
from acronumba.ir.graph import successors
from acronumba.ir.printer import instr_text
from acronumba.ir.rules import Rules
from acronumba.ir.types import TensorT, type_text, words
from acronumba.ir.visit import reads, writes

if TYPE_CHECKING:
    from acronumba.ir.spec import KernelSpec


class VerifyError(AssertionError):
    """The program is not well formed, which is a bug in the compiler. `problems` lists all violations."""

    def __init__(self, problems: Sequence[str]) -> None:
        shown = list(problems[:20])
        if len(problems) > 20:
            shown.append(f"... and {len(problems) - 20} more")
        super().__init__("\n".join(shown))
        self.problems = tuple(problems)


def verify(program: ir.Program, kernels: Sequence[KernelSpec] = ()) -> None:
    """Check a program.

    Parameters
    ----------
    program
        Before planning (tensor operations are `Op`) or after it (`Emit`).
    kernels
        The plan's kernels, by number.

    Raises
    ------
    VerifyError
        Lists every mistake with its function, block and instruction.
    """
    problems = list(_layouts(program))
    problems += _signature(program)
    problems += _once(program, kernels)
    for function in program.functions:
        problems += _function(function, program, kernels)
    if problems:
        raise VerifyError(problems)


# The program as a whole.


def _layouts(program: ir.Program) -> Iterator[str]:
    seen: set[type] = set()
    for k, layout in enumerate(program.layouts):
        where = f"layout {k} ({layout.cls.__qualname__})"
        if layout.cls in seen:
            yield f"{where}: the class has two layouts"
        seen.add(layout.cls)
        offset = 1
        for f in layout.fields:
            if f.offset != offset or f.width != len(words(f.type)):
                wanted = f"{offset}, {len(words(f.type))}"
                yield f"{where}: field {f.name} is at {f.offset} with {f.width} words, not {wanted}"
            offset += len(words(f.type))
        if layout.size != offset:
            yield f"{where}: {layout.size} words, not {offset}"
        if len({f.name for f in layout.fields}) != len(layout.fields):
            yield f"{where}: two fields of one name"


def _signature(program: ir.Program) -> Iterator[str]:
    if not program.functions:
        yield "a program without functions"
        return
    entry = program.functions[0]
    params = tuple(w for t in program.params for w in words(t))
    given = tuple(p.type for p in entry.params)
    if len(params) != len(given) or not all(map(fits, params, given)):
        yield f"entry {entry.name}: parameters {type_texts(given)}, the program says {type_texts(params)}"
    results = words(program.result)
    if len(results) != len(entry.results) or not all(map(fits, entry.results, results)):
        yield f"entry {entry.name}: results {type_texts(entry.results)}, the program says {type_texts(results)}"
    names = [f.name for f in program.functions]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"two functions of the name {name}"
    for k, param in enumerate(program.shared):
        if isinstance(param.type, TensorT) and None in param.type.shape:
            yield f"shared {k} ({param.path}): a shared tensor with a run-time extent"
        elif len(words(param.type)) > 1:
            yield f"shared {k} ({param.path}): {type_text(param.type)} takes more than one word"


def _once(program: ir.Program, kernels: Sequence[KernelSpec]) -> Iterator[str]:
    """Yield errors of per-batch constants: they are the last shared entries, each computed from earlier ones."""
    first = len(program.shared) - len(program.once)
    for k, once in enumerate(program.once):
        if once.index != first + k or not 0 <= once.kernel < len(kernels):
            yield f"once {once.index}: not entry {first + k} of the shared, or of a kernel that does not exist"
            continue
        spec = kernels[once.kernel]
        read = [o.index for o in spec.operands if o.kind == "shared"] + list(once.numbers)
        given = sum(o.kind != "shared" for o in spec.operands)
        if not all(0 <= i < once.index for i in read) or len(once.numbers) != given:
            yield f"once {once.index}: {spec.name} reads {read}, which must come before it"
        out = spec.body[spec.results[0] - len(spec.operands)]
        if len(spec.results) != 1 or program.shared[once.index].type != TensorT(out.dtype, out.shape):  # type: ignore[arg-type]
            yield f"once {once.index}: {spec.name} does not give {type_text(program.shared[once.index].type)}"


# One function.


def _function(function: ir.Function, program: ir.Program, kernels: Sequence[KernelSpec]) -> Iterator[str]:
    yield from _assignments(function)
    broken = False
    for number, block in enumerate(function.blocks):
        for target in successors(block.end):
            if not 0 <= target < len(function.blocks):
                yield f"{function.name}, block {number}, {instr_text(block.end, program)!r}: no block {target}"
                broken = True
    if not function.blocks:
        yield f"{function.name}: no blocks"
        return
    if not broken:
        yield from _definitions(function, program)
        yield from _joins(function)
    rules = Rules(function, program, kernels)
    for number, block in enumerate(function.blocks):
        for instr in (*block.instrs, block.end):
            try:
                rules.check(instr)
            except Wrong as e:
                yield f"{_where(function, number, instr)}: {e}"


def _where(function: ir.Function, block: int, instr: ir.Instr | ir.End) -> str:
    try:
        text = instr_text(instr)
    except Exception:  # the instruction may be too broken to print
        text = type(instr).__name__
    line = f" (line {instr.loc.line})" if instr.loc.line else ""
    return f"{function.name}, block {block}, {text!r}{line}"


def _assignments(function: ir.Function) -> Iterator[str]:
    """Each variable is assigned by one instruction, or by copies only; names are unique."""
    kinds: dict[ir.Var, list[bool]] = {p: [False] for p in function.params}
    if len(kinds) != len(function.params):
        yield f"{function.name}: a parameter appears twice"
    for block in function.blocks:
        for instr in block.instrs:
            for var in writes(instr):
                kinds.setdefault(var, []).append(isinstance(instr, ir.Copy))
    names: dict[str, ir.Var] = {}
    for var, copies in kinds.items():
        if len(copies) > 1 and not all(copies[var in function.params :]):
            yield f"{function.name}: {var.name} is assigned {len(copies)} times, not only by copies"
        if names.setdefault(var.name, var) is not var:
            yield f"{function.name}: two variables of the name {var.name}"


def _definitions(function: ir.Function, program: ir.Program) -> Iterator[str]:
    """Yield errors of definitions: every variable is assigned on all paths to each use."""
    made = [frozenset(v for i in block.instrs for v in writes(i)) for block in function.blocks]
    before: dict[int, frozenset[ir.Var]] = {0: frozenset(function.params)}
    work = [0]
    while work:
        k = work.pop()
        after = before[k] | made[k]
        for target in successors(function.blocks[k].end):
            old = before.get(target)
            new = after if old is None else old & after
            if new != old:
                before[target] = new
                work.append(target)
    for k in sorted(before):  # blocks that cannot be reached are not run
        known = set(before[k])
        block: ir.Block = function.blocks[k]
        for instr in (*block.instrs, block.end):
            missing = [v.name for v in dict.fromkeys(reads(instr)) if v not in known]
            if missing:
                yield f"{_where(function, k, instr)}: {', '.join(missing)} may be unassigned"
            if not isinstance(instr, ir.Jump | ir.Branch | ir.Return | ir.Fail):
                known.update(writes(instr))
        if block.end == ir.Jump(block=k, loc=NOWHERE):  # the front end's end of an open block
            yield f"{function.name}, block {k}: does not end"


def _joins(function: ir.Function) -> Iterator[str]:
    """Yield errors of spawns: on every path, a spawned call is joined before its results are used and before the
    function returns.
    """
    none: tuple[frozenset[ir.Spawn], frozenset[ir.Var]] = (frozenset(), frozenset())
    before = {0: none}  # the spawns that may wait, the results that do on every path
    work = [0]
    found: dict[str, None] = {}
    while work:
        k = work.pop()
        may, must = before[k]
        block = function.blocks[k]
        for instr in (*block.instrs, block.end):
            waiting = {v for s in may for v in s.outs}
            used = [v.name for v in dict.fromkeys(reads(instr)) if v in waiting]
            if used:
                found[f"{_where(function, k, instr)}: {', '.join(used)} is used before the join"] = None
            match instr:
                case ir.Spawn():
                    if waiting & set(instr.outs):
                        found[f"{_where(function, k, instr)}: spawned again before the join"] = None
                    may, must = may | {instr}, must | set(instr.outs)
                case ir.Join():
                    if set(instr.outs) != waiting or waiting != must or len(set(instr.outs)) != len(instr.outs):
                        names = ", ".join(sorted(v.name for v in waiting))
                        found[f"{_where(function, k, instr)}: not what every path here has spawned: {names}"] = None
                    may, must = none
                case ir.Return() if may:
                    found[f"{_where(function, k, instr)}: returns before the join"] = None
        for target in successors(block.end):
            old = before.get(target)
            new = (may, must) if old is None else (old[0] | may, old[1] & must)
            if new != old:
                before[target] = new
                work.append(target)
    yield from found
