"""The passes from a program to a plan, in the order in which they run: a table of contents of `analysis`.

In: a typed `Program`. Out: a `Draft`, from which `analysis.plan` makes the `Plan`. A pass takes a draft and returns the
next one; `wanted` decides from the options whether the pass runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from acronumba.analysis.dead import remove_dead
from acronumba.analysis.fibers.fork import fork
from acronumba.analysis.grouping.blocks import Grouping, Kernels
from acronumba.analysis.grouping.checks import remove_repeated_checks
from acronumba.analysis.grouping.extents import Extents
from acronumba.analysis.grouping.hoist import NO_SPLIT, Split, split
from acronumba.analysis.grouping.invariant import move_invariants
from acronumba.analysis.grouping.proved import replace_proved
from acronumba.analysis.grouping.rows import rows_text
from acronumba.analysis.phases import phases_text
from acronumba.analysis.refactor import refactor
from acronumba.analysis.sharing.dead_results import drop_dead_results
from acronumba.analysis.sharing.loop_exits import duplicate_loop_exits
from acronumba.analysis.sharing.per_batch import Computed, find_per_batch
from acronumba.analysis.sharing.projected_tables import embed_then_project
from acronumba.analysis.sharing.share import share
from acronumba.analysis.sharing.variants import merge_variants
from acronumba.analysis.simplify import simplify
from acronumba.analysis.value_flow import value_flow
from acronumba.analysis.waits import waiting_functions, waits_notes, waits_text
from acronumba.config import Options, verify_level
from acronumba.ir.nodes import Function, Program
from acronumba.ir.notes import Note, decisions_in, notes_text
from acronumba.ir.spec import KernelSpec, Use
from acronumba.records import record


@record(kw_only=True)
class Draft:
    """An unfinished plan."""

    program: Program
    options: Options
    computed: tuple[Computed, ...] = ()  # per-batch constants
    apart: Split = NO_SPLIT  # which operations must be different kernels
    kernels: tuple[KernelSpec, ...] = ()
    uses: tuple[tuple[Use, ...], ...] = ()  # per kernel: where it is recorded
    notes: tuple[Note, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)  # the findings of passes, as text

    def each(self, change: Callable[[Function], Function]) -> Program:
        """Return the program with each function changed."""
        return replace(self.program, functions=tuple(map(change, self.program.functions)))

    def shown(self, name: str, text: str) -> Mapping[str, str]:
        """Return the texts with another text added."""
        return {**self.texts, name: text}


@record(kw_only=True)
class Pass:
    """One step from a program to a plan."""

    name: str
    run: Callable[[Draft], Draft]
    wanted: Callable[[Options], bool] = lambda options: True


def _refactor(d: Draft) -> Draft:
    if d.program.kept:  # products that are asked for would become sums
        return d
    program, notes = refactor(d.program, d.options.decisions)
    return replace(d, program=program, notes=(*d.notes, *notes), texts=d.shown("refactor", notes_text(notes)))


def _share(d: Draft) -> Draft:
    """Find shared operands, and operations on them that are computed once per mini-batch.

    The results of these are shared tensors, too, so shared operands are searched for once more. (Not to a fixed point:
    a recursion may compute a new one from the one that it was given, without end.)
    """
    check = verify_level() > 1
    first = share(d.program, d.options, check=check)
    passed, copied = duplicate_loop_exits(first.program, d.options)
    if copied:
        first = share(passed, d.options, check=check)
    program, computed, told = find_per_batch(embed_then_project(first.program, d.options), d.options)
    shares = share(program, d.options, check=check) if computed else first
    notes = dict.fromkeys((*d.notes, *first.notes, *shares.notes, *copied, *told))
    lines = [f"once {shares.program.shared[c.index].path}: line {c.loc.line}\n" for c in computed]
    texts = d.shown("sharing", "".join([shares.text, *lines]))
    return replace(d, program=shares.program, computed=computed, notes=tuple(notes), texts=texts)


def _simplify(d: Draft) -> Draft:
    return replace(d, program=d.each(lambda f: remove_dead(simplify(f), d.program.kept)))


def _dead_results(d: Draft) -> Draft:
    if d.program.kept:  # it may be one of these that is not computed
        return d
    program, notes = drop_dead_results(d.program)
    return replace(d, program=program, notes=(*d.notes, *notes))


def _invariant(d: Draft) -> Draft:
    program, notes = move_invariants(d.program, d.options.decisions)
    return replace(d, program=program, notes=(*d.notes, *notes))


def _extents(d: Draft) -> Draft:
    """Add run-time extents, which the grouping alone reads: nothing may be removed before it."""
    return replace(d, program=d.each(lambda f: remove_repeated_checks(replace_proved(Extents(f).run()))))


def _hoist(d: Draft) -> Draft:
    apart = split(d.program, value_flow(d.program), d.options.decisions)
    return replace(d, apart=apart, notes=(*d.notes, *apart.notes()))


def _blocks(d: Draft) -> Draft:
    table = Kernels(d.program, d.options)
    program = d.each(lambda f: remove_dead(Grouping(f, table, d.apart).run()))
    program = replace(program, once=tuple(map(table.once, d.computed)))
    kernels, uses = table.finish()
    return replace(d, program=program, kernels=kernels, uses=uses, notes=(*d.notes, *table.notes))


def _copies(d: Draft) -> Draft:
    program, kernels, uses, notes = merge_variants(d.program, d.kernels, d.uses, d.options)
    return replace(d, program=program, kernels=kernels, uses=uses, notes=(*d.notes, *notes))


def _rows(d: Draft) -> Draft:
    return replace(d, texts=d.shown("rows", rows_text(d.kernels)))


def _decided(d: Draft) -> Draft:
    """Add the texts of decisions, after the last change."""
    told = {name: decisions_in(name, d.notes) for name in ("once", "invariant", "hoist", "copies")}
    return replace(d, texts={**d.texts, **told})


def _waits(d: Draft) -> Draft:
    return replace(d, notes=(*d.notes, *waits_notes(d.program)), texts=d.shown("waits", waits_text(d.program)))


def _phases(d: Draft) -> Draft:
    return replace(d, texts=d.shown("phases", phases_text(d.program, d.kernels, d.uses)))


def _forks(d: Draft) -> Draft:
    if not waiting_functions(d.program):
        return d
    program, notes = fork(d.program)
    return replace(d, program=program, notes=(*d.notes, *notes), texts=d.shown("forks", notes_text(notes)))


PASSES = (
    Pass(name="refactor", run=_refactor, wanted=lambda o: o.decisions.refactor and o.reuse and o.duplicate and o.equal),
    Pass(name="sharing", run=_share),
    Pass(name="simplify", run=_simplify),
    Pass(name="dead_results", run=_dead_results, wanted=lambda o: o.duplicate),
    Pass(name="invariant", run=_invariant, wanted=lambda o: o.hoist),
    Pass(name="extents", run=_extents),
    Pass(name="hoist", run=_hoist, wanted=lambda o: o.hoist and o.blocks and o.decisions.split),
    Pass(name="blocks", run=_blocks),
    Pass(name="copies", run=_copies),
    Pass(name="rows", run=_rows, wanted=lambda o: o.hoist),
    Pass(name="decided", run=_decided),
    Pass(name="waits", run=_waits),
    Pass(name="phases", run=_phases),
    Pass(name="forks", run=_forks, wanted=lambda o: o.forkjoin),  # last: no other pass has to know of fibers
)


def run_passes(program: Program, options: Options, after: Callable[[Pass, Draft], object] | None = None) -> Draft:
    """Run the passes on a program; `after` is called after each pass that runs."""
    draft = Draft(program=program, options=options)
    for one in PASSES:
        if one.wanted(options):
            draft = one.run(draft)
            if after is not None:
                after(one, draft)
    return draft
