"""`Model.explain`: the user's source with what became of each line, and what options are worth."""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import acronumba
from acronumba import Options, Trace, model, nn, pack
from acronumba.api.dispatch import specialise
from acronumba.api.effects import changes
from acronumba.api.explanation import Explanation, letter
from acronumba.api.model import Model
from acronumba.cli.main import main
from acronumba.config import OPTIMISATIONS
from acronumba.errors import AcronumbaError, Loc
from acronumba.ir.notes import KINDS, Note
from acronumba.pipeline.compiled import Compiled
from acronumba.pipeline.link import with_kernels
from acronumba.runtime.run import Run
from acronumba.runtime.trace import empty_trace
from acronumba.views.explain import explanation_text
from acronumba.views.explained import SourceLine
from acronumba.zoo import berxit, birnn, graph_rnn, mv_rnn, tree_lstm
from tests.support import models_that_wait
from tests.support.all_models import CASES
from tests.support.chosen import one_in

ZOO = {"tree_lstm": (tree_lstm, "sentiment"), "birnn": (birnn, "tag"), "mv_rnn": (mv_rnn, "sentiment")}


@cache
def explained(name: str, **options: Any) -> tuple[Explanation, Any]:
    """An explanation of a model of the zoo, and the trace of the same mini-batch."""
    module, attribute = ZOO[name]
    f = getattr(module, attribute).with_options(**options)
    xs, p = module.instances(4), module.params(8)
    return f.explain(xs, p=p), f.trace(xs, p=p)


@pytest.fixture(scope="module", autouse=True)
def forget() -> Iterator[None]:
    yield
    explained.cache_clear()


def line_with(e: Explanation, text: str) -> SourceLine:
    (found,) = [line for f in e.functions for line in f.lines if text in line.text]
    return found


@pytest.mark.parametrize("name", one_in(3, ZOO))
def test_counts_are_those_of_a_run(name: str) -> None:
    e, trace = explained(name)
    assert (e.count.nodes, e.count.batches, e.count.lower_bound) == (trace.nodes, len(trace.batches), trace.lower_bound)
    assert {b.name: (b.nodes, b.batches) for b in e.blocks if b.nodes} == {
        kernel: (sum(b.size for b in of), len(of))
        for kernel in {b.kernel for b in trace.batches}
        for of in [[b for b in trace.batches if b.kernel == kernel]]
    }


def test_effects_are_those_of_runs() -> None:
    e, _ = explained("mv_rnn")
    different = [x for x in e.effects if (x.count.nodes, x.count.batches) != (e.count.nodes, e.count.batches)]
    assert different
    for effect in different:
        other = mv_rnn.sentiment.with_options(**{effect.option: effect.value})
        trace = other.trace(mv_rnn.instances(4), p=mv_rnn.params(8))
        assert (effect.count.nodes, effect.count.batches) == (trace.nodes, len(trace.batches)), effect.option


def test_the_source_is_the_users() -> None:
    e, _ = explained("tree_lstm")
    assert [f.lines[0].text for f in e.functions] == [
        "def encode(t: Tree, p: Params) -> tuple[Array, Array]:", "@model",
    ]  # fmt: skip
    text = Path(tree_lstm.__file__).read_text(encoding="utf-8").splitlines()
    for function in e.functions:
        assert function.file == tree_lstm.__file__
        assert all(text[line.number - 1] == line.text for line in function.lines)


def test_lines_have_blocks_and_phases() -> None:
    e, _ = explained("birnn")
    step = line_with(e, "h = np.tanh(cell.w @ x")
    end = line_with(e, "classes.append(")
    assert len(step.blocks) >= 2, "one for each direction"
    assert max(step.phases) < min(end.phases)
    named = {b.letter: b for b in e.blocks}
    assert {named[k].phases for k in end.blocks} == {(phase,) for phase in end.phases}
    assert not line_with(e, "states.append(h)").blocks
    assert any("p.w_out" in text for k in end.blocks for text in named[k].shared)
    assert "shared" in {r.kind for r in end.remarks}
    assert "row" in {r.kind for r in line_with(e, "p.embed[w]").remarks}


def test_options_are_measured_and_the_trees_of_what_was_measured_can_be_read() -> None:
    e, _ = explained("birnn")
    assert [(x.option, x.value) for x in e.effects] == changes(Options())
    assert {x.option for x in e.effects} - {"schedule"} == set(OPTIMISATIONS)
    (blocks,) = [x for x in e.effects if x.option == "blocks"]
    assert blocks.count.nodes > e.count.nodes and blocks.count.batches > e.count.batches
    assert f"{blocks.count.batches} batches instead of {e.count.batches}" in str(e)
    record = dataclasses.asdict(e)
    assert record["functions"][0]["lines"][0]["number"] == e.functions[0].lines[0].number


def test_an_option_that_is_off_is_measured_on() -> None:
    off, _ = explained("mv_rnn", blocks=False)
    on, _ = explained("mv_rnn")
    (effect,) = [x for x in off.effects if x.option == "blocks"]
    assert effect.value is True
    assert (effect.count.nodes, effect.count.batches) == (on.count.nodes, on.count.batches)
    assert "blocks=True " in str(off)


@pytest.mark.parametrize("name", ["birnn", "mv_rnn"])
def test_every_line_of_the_options_compares_the_same_way_round(name: str) -> None:
    """What the change would need comes first, also of a schedule, and of an option that costs batches."""
    e, _ = explained(name)
    lines = explanation_text(e, 400).partition("With one option changed, this mini-batch would need")[2].splitlines()
    found = 0
    for x in e.effects:
        setting = f'{x.option}="{x.value}"' if isinstance(x.value, str) else f"{x.option}={x.value}"
        said = [line for line in lines if line.split()[:1] == [setting]]
        for noun, changed, now in (
            ("batch", x.count.batches, e.count.batches), ("node", x.count.nodes, e.count.nodes)
        ):  # fmt: skip
            if changed != now:
                (line,) = said
                assert re.search(rf" {changed:,} {noun}(?:e?s)? instead of {now:,}\b", line), line
                found += 1
        assert said or any(setting in line for line in lines)
    assert found > 3


@pytest.mark.parametrize("name", ZOO)
def test_it_fits_80_columns_and_has_no_colours_as_text(name: str, tmp_path: Any) -> None:
    e, _ = explained(name)
    text = str(e)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text and text.isascii()
    assert e.to_text(tmp_path / "e.txt").read_text(encoding="utf-8") == text + "\n"
    assert max(map(len, explanation_text(e, 60).splitlines())) <= 60
    for function in e.functions:
        for line in function.lines:
            assert all(word in text for word in line.text.split())


def test_a_terminal_gets_colours_unless_they_are_unwanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    e, _ = explained("mv_rnn")

    def printed() -> str:
        out = io.StringIO()
        Console(file=out, width=80, force_terminal=True, color_system="standard").print(e)
        return out.getvalue()

    assert "\x1b[3" in printed() or "\x1b[1;3" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any(f"\x1b[{n}m" in printed() for n in range(30, 38))


def note(kind: str, text: str, line: int, column: int, end: int, option: str = "hoist") -> Note:
    file = birnn.__file__
    return Note(loc=Loc(file, "read", line, column, line, end), kind=kind, text=text, option=option)


def test_notes_of_the_analyses_are_put_below_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, _ = explained("birnn")
    here = line_with(plain, "h = np.tanh(")
    at = here.text.index("cell.w @ x")
    loc = here.number, at, at + len("cell.w @ x")
    made = Compiled.plan
    told = (
        note("moved", "`p.b` and 1 more", *loc),
        note("hoisted", "does not depend on earlier steps", *loc),
        note("hoisted", "does not depend on earlier steps", *loc),  # found twice, said once
        note("shared", "p.forward.w is the same tensor for all instances", *loc, option="reuse"),
        note("shared", "p.forward.u is the same tensor for all instances", *loc, option="reuse"),
    )
    monkeypatch.setattr(
        Compiled, "plan", property(lambda self: dataclasses.replace(made.__get__(self, Compiled), notes=told))
    )
    e, _ = explained.__wrapped__("birnn")
    remarks = line_with(e, "h = np.tanh(").remarks
    assert [(r.kind, r.option) for r in remarks if r.kind != "fused"] == [
        ("moved", "hoist"), ("hoisted", "hoist"), ("shared", "reuse"), ("shared", "reuse"),
    ]  # fmt: skip
    assert remarks[1].expression == "cell.w @ x" and remarks[1].column == at
    text = " ".join(str(e).split())
    assert text.count("hoisted: `cell.w @ x`: does not depend on earlier steps") == 1
    assert "shared: p.forward.w, p.forward.u" in text
    assert "moved: `p.b` and 1 more" in text
    assert f"hoisted {KINDS['hoisted'].meaning}" in text


def test_every_kind_of_note_is_one_that_analyses_make() -> None:
    files = Path(acronumba.__file__).parent.rglob("*.py")
    source = "".join(p.read_text(encoding="utf-8") for p in files if p.name != "notes.py")
    assert [kind for kind in KINDS if f'"{kind}"' not in source] == []
    assert set(re.findall(r'kind="(\w+)", text=', source)) <= KINDS.keys()


def test_every_text_that_is_made_of_notes_is_a_stage() -> None:
    @model
    def f(x: Any, *, w: Any) -> Any:
        return w @ x

    stages = set(f.stages([np.ones(3)], w=np.ones((2, 3))))
    assert {"once", "hoist"} <= {kind.stage for kind in KINDS.values()} - {""} <= stages


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_any_model_can_be_explained(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is said before a mini-batch is recorded: source, blocks, what is shared."""

    def record(self: Model, call: Any) -> Any:
        compiled, leaves, _ = specialise(self, call, packed=False)
        specs = compiled.plan.kernels
        names = tuple(s.name for s in specs)
        return compiled, leaves, dataclasses.replace(empty_trace(), kernels=names, specs=specs)

    monkeypatch.setattr(Model, "_record", record)
    monkeypatch.setattr("acronumba.api.effects.effects", lambda *a: ())
    e = case.model.explain(*case.columns, **case.shared)
    text = str(e)
    assert max(map(len, text.splitlines())) <= 80
    lines = {line.number: line for f in e.functions for line in f.lines}
    assert case.model.__wrapped__.__code__.co_firstlineno in lines
    assert {k for line in lines.values() for k in line.blocks} == {b.letter for b in e.blocks}
    assert all(b.name in text for b in e.blocks)


def test_a_mini_batch_with_failures_is_explained() -> None:
    @model
    def f(x: np.ndarray, n: int, *, w: np.ndarray) -> np.ndarray:
        return w @ x / (6 // n)

    w = np.ones((3, 3), np.float32)
    e = f.explain(np.ones((3, 3), np.float32), [1, 0, 2], w=w)
    assert e.instances == 3 and e.count.nodes == 2 and e.count.optimal


def test_columns_may_be_iterators_and_packed() -> None:
    @model
    def f(x: np.ndarray) -> np.ndarray:
        return nn.softmax(x)

    xs = list(np.ones((3, 4), np.float32))
    assert f.explain(iter(xs)).count.nodes == f.explain(pack(xs)).count.nodes == 3
    with pytest.raises(AcronumbaError, match="cannot be inferred from an empty mini-batch"):
        f.explain([])


def test_lambdas_outside_of_functions_are_shown() -> None:
    e = uses_a_lambda.explain(np.ones((2, 3), np.float32))
    assert len(e.functions) == 2
    assert line_with(e, "twice = lambda").blocks


twice = lambda x: np.tanh(x) * 2.0


@model
def uses_a_lambda(x: np.ndarray) -> np.ndarray:
    return twice(x)


def test_letters() -> None:
    assert [letter(k) for k in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]


def test_the_command_line_shows_it(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine_to_explain.py"
    path.write_text(
        "import numpy as np\nfrom acronumba import model\n\n@model\ndef double(x, *, w):\n    return w @ x * 2.0\n\n"
        "def example():\n    return ([np.ones(3), np.zeros(3)],), {'w': np.ones((2, 3))}\n"
    )
    try:
        assert main(["explain", f"{path}:double"]) == 0
    finally:
        sys.modules.pop("mine_to_explain", None)
        sys.path[:] = [p for p in sys.path if p != str(tmp_path)]
    out = capsys.readouterr().out
    assert "double: 2 instances, 2 nodes in 1 batch (proved optimal)" in out
    assert "6     return w @ x * 2.0" in out and "stages:" not in out


def halved(x: np.ndarray, *, w: np.ndarray) -> np.ndarray:
    """Reads numbers of each kind: in turns, in loops, and some that are there without a wait."""
    h, low = np.tanh(w @ x), (w[1] * x).min()
    steps = 0
    while float(h.max()) > 0.1 and steps < 5:
        if bool(h[0] > h[1]) and float(low) < 0.5:
            h = h * np.float32(0.5)
        for k in range(int(np.argmax(h)) + 1):
            h = np.tanh(w @ h) if float(h[k]) > 0 else h - low
        steps += 1
    return h


WAITS = model(halved)
WAITS_ON = list(np.random.default_rng(3).standard_normal((12, 4)).astype(np.float32))
WEIGHTS = 2 * np.random.default_rng(4).standard_normal((4, 4)).astype(np.float32)


def figures(count: Any) -> tuple[int, ...]:
    return count.nodes, len(count.batches) if isinstance(count, Trace) else count.batches, count.rounds


def assert_effects_are_those_of_runs(f: Model, e: Explanation, columns: Any, shared: Any, options: Any) -> None:
    for x in (x for x in e.effects if x.option in options):
        trace = f.with_options(**{x.option: x.value}).trace(*columns, **shared)
        assert (*figures(x.count), x.count.lower_bound) == (*figures(trace), trace.lower_bound), (x.option, x.value)


def test_models_that_wait_compute_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def counted(modules: Any, specs: Any, *rest: Any) -> Any:
        compiled.append(len(specs))
        return with_kernels(modules, specs, *rest)

    monkeypatch.setattr("acronumba.pipeline.link.with_kernels", counted)
    e = WAITS.explain(WAITS_ON, w=WEIGHTS)
    assert compiled == [len(e.blocks)]
    assert e.count.rounds > 10 and len({figures(x.count) for x in e.effects}) > 1
    assert_effects_are_those_of_runs(WAITS, e, (WAITS_ON,), {"w": WEIGHTS}, ("blocks", "schedule"))


def test_a_trace_says_who_waited_where_and_in_which_round() -> None:
    trace = WAITS.trace(WAITS_ON, w=WEIGHTS)
    assert sorted({wait.round for wait in trace.waits}) == list(range(trace.rounds))
    assert {wait.instance for wait in trace.waits} == set(range(len(WAITS_ON)))
    reads = [k for k, line in enumerate(inspect.getsource(halved).splitlines()) if "float(h" in line or "int(" in line]
    decides = {wait.loc.line - halved.__code__.co_firstlineno for wait in trace.waits}
    assert set(reads) < decides
    assert not WAITS.trace([], w=WEIGHTS).waits


@pytest.mark.parametrize("other", [lambda notes: notes[:-1], lambda notes: notes[[*range(len(notes)), -1]]])
def test_what_reads_other_values_than_were_noted_is_computed(monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    expected, read = WAITS.explain(WAITS_ON[:2], w=WEIGHTS), Run._read
    monkeypatch.setattr(Run, "_read", lambda self: None if (notes := read(self)) is None else other(notes))
    assert str(WAITS.explain(WAITS_ON[:2], w=WEIGHTS)) == str(expected)


@pytest.mark.parametrize("case", one_in(24, models_that_wait.CASES, [c.name for c in models_that_wait.CASES], "slow"))
@pytest.mark.long
def test_effects_on_models_that_wait_are_those_of_runs(case: Any) -> None:
    e = case.model.explain(*case.columns, **case.shared)
    assert_effects_are_those_of_runs(case.model, e, case.columns, case.shared, (*OPTIMISATIONS, "schedule"))


@pytest.mark.slow
def test_a_model_that_computes_much_between_waits_is_explained_in_seconds() -> None:
    xs, p = berxit.instances(20), berxit.params()
    berxit.classify.batch(xs[:1], p=p)
    start = time.process_time()
    berxit.classify.batch(xs, p=p)
    once = time.process_time() - start
    told = berxit.classify.explain(xs, p=p)
    assert time.process_time() - start - once < 4 * once + 2, "it runs once, and records for each option"
    assert told.count.rounds == 7


@pytest.mark.slow
def test_models_that_wait_are_explained_in_seconds() -> None:
    xs, p = graph_rnn.instances(60), graph_rnn.params()
    start = time.process_time()
    told = graph_rnn.generate.explain(xs, p=p)
    assert time.process_time() - start < 10  # seconds: all that is compiled, too
    assert told.count.rounds > 100 and told.count.nodes > 10_000
    assert {e.option for e in told.effects} == {*OPTIMISATIONS, "schedule"}
    same = {e.option: (e.count.nodes, e.count.batches) for e in told.effects if e.option != "schedule"}
    assert same["fuse"] == same["horizontal"] == (told.count.nodes, told.count.batches) != same["blocks"]


def test_many_items_of_a_shared_dict_have_one_line() -> None:
    @model
    def f(name: str, *, table: dict[str, Any]) -> Any:
        return table[name] * 2.0

    text = str(f.explain(["k3"], table={f"k{k}": np.ones(2) for k in range(9)}))
    assert text.partition("shared parameters:\n")[2].startswith(" table[...]: float64[2], 9 times\n\n")
