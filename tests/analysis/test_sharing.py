"""Which operands are shared, what is computed once, which code is copied: the analyses, and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import Options, model
from acronumba.analysis.plan import Plan
from acronumba.analysis.sharing.facts import Fact, Sharing
from acronumba.analysis.sharing.share import share
from acronumba.api.check import compare
from acronumba.config import COPIES
from acronumba.errors import AcronumbaError, InstanceErrors
from acronumba.ir import nodes as n
from acronumba.ir.types import INT, ListT, RefT, TensorT, TupleT
from acronumba.zoo import birnn
from tests.support import generate
from tests.support.chosen import one_in
from tests.support.hand import F32, REF, Hand, program
from tests.support.plain_call import agree, outcomes, plain

RNG = np.random.default_rng(3)
H = 4


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype(np.float32)


@dataclass
class Cell:
    w: np.ndarray  # [H, H]
    b: np.ndarray  # [H]


@dataclass
class Params:
    a: Cell
    b: Cell
    embed: np.ndarray  # [7, H]
    start: np.ndarray  # [H]
    cells: list[Cell]
    named: dict[str, Cell]


@dataclass
class Chain:
    x: np.ndarray  # [H]
    kind: int
    rest: Chain | None = None


def cell() -> Cell:
    return Cell(weights(H, H), weights(H))


P = Params(cell(), cell(), weights(7, H), weights(H), [cell() for _ in range(3)], {"u": cell(), "v": cell()})


def chain(n: int) -> Chain:
    out = None
    for k in range(n):
        out = Chain(weights(H), (k + n) % 3, out)
    assert out is not None
    return out


CHAINS = [chain(n) for n in (1, 3, 2, 5)]


def planned(fn: Any, *columns: Any, **options: Any) -> Plan:
    plan: Plan = model(fn).with_options(**options)._compiled(columns, {"p": P}).plan
    return plan


def check(fn: Any, *columns: Any, p: Any = P, compiled: bool = False, **options: Any) -> None:
    """Compare the plan's interpreter, or machine code, with the plain calls."""
    m = model(fn).with_options(**options)
    agree(outcomes(m.batch if compiled else m._interpret, *columns, p=p), plain(fn, *columns, p=p), close=True)


def matrices(plan: Plan) -> list[tuple[str, str]]:
    """Return for each matrix product whether its matrix is shared, and which it is."""
    out = []
    for spec in plan.kernels:
        for op in spec.body:
            if op.op == "matmul":
                for a in op.args:
                    while a >= len(spec.operands) and spec.body[a - len(spec.operands)].op in ("transpose", "slice"):
                        a = spec.body[a - len(spec.operands)].args[0]
                    if a < len(spec.operands) and len(spec.operands[a].shape) == 2:
                        o = spec.operands[a]
                        out.append((o.kind, plan.program.shared[o.index].path if o.kind == "shared" else ""))
    return sorted(set(out))


def kinds(plan: Plan, kind: str) -> list[str]:
    return [note.text for note in plan.notes if note.kind == kind]


# ---- models: where shared tensors travel


def through_a_row(t: Chain, *, p: Params) -> Any:
    def run(t: Chain, c: Cell) -> Any:
        h = np.tanh(c.w @ t.x + c.b)
        return h if t.rest is None else h + run(t.rest, c)

    return run(t, Cell(p.a.w, p.a.b)) - run(t, Cell(p.b.w, p.b.b))


def through_a_tuple(t: Chain, *, p: Params) -> Any:
    def run(t: Chain, c: tuple[Any, Any]) -> Any:
        w, b = c
        h = np.tanh(w @ t.x + b)
        return h if t.rest is None else h + run(t.rest, c)

    return run(t, (p.a.w, p.a.b)) - run(t, (p.b.w, p.b.b))


def through_a_dict(t: Chain, *, p: Params) -> Any:
    def run(t: Chain, c: dict[str, Any]) -> Any:
        h = np.tanh(c["w"] @ t.x + c["b"])
        return h if t.rest is None else h + run(t.rest, c)

    return run(t, {"w": p.a.w, "b": p.a.b}) - run(t, {"w": p.b.w, "b": p.b.b})


def through_a_list(xs: list[np.ndarray], *, p: Params) -> Any:
    ws = [p.a.w]
    for _ in xs:
        ws.append(p.b.w)
    return [ws[0] @ x for x in xs]


def through_a_result(t: Chain, *, p: Params) -> Any:
    def last(t: Chain, w: Any) -> Any:
        return w if t.rest is None else last(t.rest, w)

    return last(t, p.b.w) @ t.x


def through_results_of_rows(t: Chain, *, p: Params) -> Any:
    def last(t: Chain) -> Any:
        return (t.x, Cell(p.b.w, p.b.b)) if t.rest is None else last(t.rest)

    x, c = last(t)
    return c.w @ x + c.b


def through_a_closure(t: Chain, *, p: Params) -> Any:
    def run(t: Chain, f: Any) -> Any:
        return f(t.x) if t.rest is None else f(t.x) + run(t.rest, f)

    return run(t, lambda x: p.a.w @ x) - run(t, lambda x: p.b.w @ x)


WEIGHT = weights(H, H)


def through_a_global(t: Chain, *, p: Params) -> Any:
    def run(t: Chain) -> Any:
        return WEIGHT @ t.x if t.rest is None else WEIGHT @ t.x + run(t.rest)

    return run(t) + p.start


def even(t: Chain, c: Cell) -> Any:
    h = np.tanh(c.w @ t.x)
    return h if t.rest is None else h + odd(t.rest, c)


def odd(t: Chain, c: Cell) -> Any:
    h = c.w @ t.x + c.b
    return h if t.rest is None else h - even(t.rest, c)


def through_mutual_recursion(t: Chain, *, p: Params) -> Any:
    return even(t, Cell(p.a.w, p.a.b)) - odd(t, Cell(p.b.w, p.b.b))


def chosen_by_a_constant(t: Chain, *, p: Params) -> Any:
    return p.cells[1].w @ t.x + p.named["v"].w @ t.x + p.a.w @ t.x


TRAVELS = {
    through_a_row: ["p.a.w", "p.b.w"],
    through_a_tuple: ["p.a.w", "p.b.w"],
    through_a_dict: ["p.a.w", "p.b.w"],
    through_a_result: ["p.b.w"],
    through_results_of_rows: ["p.b.w"],
    through_a_closure: ["p.a.w", "p.b.w"],
    through_a_global: ["WEIGHT"],
    through_mutual_recursion: ["p.a.w", "p.b.w"],
    chosen_by_a_constant: ["p.a.w", "p.cells[1].w", "p.named['v'].w"],
}


@pytest.mark.parametrize("fn", TRAVELS, ids=lambda fn: fn.__name__)
def test_shared_tensors_are_found_wherever_they_travel(fn: Any) -> None:
    assert matrices(planned(fn, CHAINS)) == [("shared", path) for path in sorted(TRAVELS[fn])]
    check(fn, CHAINS)
    check(fn, CHAINS, reuse=False)
    check(fn, CHAINS, duplicate=False)


def test_elements_of_a_growing_list() -> None:
    xs = [[weights(H) for _ in range(k)] for k in (2, 0, 3)]
    assert matrices(planned(through_a_list, xs)) == [("shared", "p.a.w")]
    check(through_a_list, xs)


# ---- models: what is not shared


def swapped(xs: list[np.ndarray], *, p: Params) -> Any:
    u, v = p.a.w, p.b.w
    h = p.start
    for x in xs:
        h = np.tanh(u @ h + x)
        u, v = v, u
    return h


def swapped_by_recursion(t: Chain, *, p: Params) -> Any:
    def run(t: Chain, u: Any, v: Any) -> Any:
        h = np.tanh(u @ t.x)
        return h if t.rest is None else h + run(t.rest, v, u)

    return run(t, p.a.w, p.b.w)


def chosen_by_a_branch(t: Chain, *, p: Params) -> Any:
    w = p.a.w if t.kind else p.b.w
    return w @ t.x


def same_in_both_arms(t: Chain, *, p: Params) -> Any:
    w = p.a.w if t.kind else p.a.w  # noqa: RUF034
    return w @ t.x


def chosen_by_data(t: Chain, *, p: Params) -> Any:
    ws = [p.a.w, p.b.w, p.cells[0].w]
    return ws[t.kind] @ t.x + p.cells[t.kind].b + p.embed[t.kind] + np.take(p.embed, t.kind, axis=0)


def test_a_loop_that_swaps_two_weights() -> None:
    xs = [[weights(H) for _ in range(k)] for k in (2, 1, 3)]
    assert matrices(planned(swapped, xs)) == [("tensor", "")]
    check(swapped, xs)
    check(swapped, xs, compiled=True)


def test_a_recursion_that_swaps_two_weights_becomes_two_functions() -> None:
    assert matrices(planned(swapped_by_recursion, CHAINS)) == [("shared", "p.a.w"), ("shared", "p.b.w")]
    check(swapped_by_recursion, CHAINS)


def test_a_branch_that_selects_a_weight() -> None:
    assert matrices(planned(chosen_by_a_branch, CHAINS)) == [("tensor", "")]
    assert matrices(planned(same_in_both_arms, CHAINS)) == [("shared", "p.a.w")]
    for fn in (chosen_by_a_branch, same_in_both_arms):
        check(fn, CHAINS)


def of_the_instance(t: Chain, m: np.ndarray, *, p: Params) -> Any:
    """The same tensor for all nodes of an instance, and another for each instance: given, or computed."""

    def run(t: Chain, c: Cell) -> Any:
        h = np.tanh(c.w @ t.x + c.b)
        return h if t.rest is None else h + run(t.rest, c)

    return run(t, Cell(m, p.a.b)) + run(t, Cell(p.a.w * t.x, p.a.b)) + run(t, Cell(p.b.w, p.b.b))


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_what_only_an_instance_shares_is_of_the_instance(compiled: bool) -> None:
    columns = CHAINS, [weights(H, H) for _ in CHAINS]
    assert matrices(planned(of_the_instance, *columns)) == [("shared", "p.b.w"), ("tensor", "")]
    check(of_the_instance, *columns, compiled=compiled)


def test_a_weight_chosen_by_data_is_a_row_of_a_shared_table() -> None:
    plan = planned(chosen_by_data, CHAINS)
    assert matrices(plan) == [("tensor", "")]
    assert "one of the shared tensors `p.a.w` or `p.b.w` or `p.cells[0].w`" in kinds(plan, "row")
    assert "one of the shared tensors `p.cells[0].b` or `p.cells[1].b` or `p.cells[2].b`" in kinds(plan, "row")
    assert "a row of the shared table `p.embed`" in kinds(plan, "row")
    assert "one of p.a.w, p.b.w, p.cells[0].w" in plan.texts["sharing"]
    check(chosen_by_data, CHAINS)


# ---- the algorithm, on programs written by hand


MATRIX, VEC = TensorT(F32, (H, H)), TensorT(F32, (H,))
TABLE = [("p.a", MATRIX), ("p.b", MATRIX)]


def facts(p: n.Program) -> dict[str, list[Fact]]:
    """Return the facts of each variable by name, one per context."""
    sharing = Sharing(p)
    out: dict[str, list[Fact]] = {}
    for found in sharing.facts.values():
        for v, fact in found.items():
            out.setdefault(v.name, []).append(fact)
    return out


def shared(*which: int) -> Fact:
    return Fact("shared", frozenset(which))


def test_contexts_are_told_apart_by_their_arguments() -> None:
    sites: list[n.Site] = []
    main = Hand("main", [("x", VEC)], [VEC, VEC, VEC], sites)
    f = Hand("f", [("w", MATRIX), ("k", INT)], [MATRIX], sites)
    with main.block(0):
        a, b = main.shared(0, MATRIX), main.shared(1, MATRIX)
        k = main.const(1)
        got = [main.call(1, w, k, outs=[MATRIX]) for w in (a, b, a)]
        main.ret(*(main.op("matmul", w, main.params[0], shape=(H,)) for w in got))
    with f.block(0):
        f.ret(f.call(1, *f.params, outs=[MATRIX]))  # a chain of any length: itself
    p = program([main, f], sites, [VEC], TupleT((VEC,) * 3), shared=TABLE)
    assert facts(p)["w"] == [shared(0), shared(1)]
    assert "r" not in facts(p)  # it never returns
    with f.block(0):
        f.branch(f.scalar("gt", f.params[1], f.const(0)), 1, 2)
    with f.block(1):
        f.ret(f.call(1, *f.params, outs=[MATRIX]))
    with f.block(2):
        f.ret(f.params[0])
    p = program([main, f], sites, [VEC], TupleT((VEC,) * 3), shared=TABLE)
    found = share(p, Options())
    ops = [i for i in found.program.functions[0].blocks[0].instrs if isinstance(i, n.Op)]
    assert [op.args[0] for op in ops] == [n.SharedArg(0), n.SharedArg(1), n.SharedArg(0)]


@pytest.mark.parametrize("move", ["pop", "insert", "sort", ""])
def test_elements_keep_their_places_until_they_move(move: str) -> None:
    sites: list[n.Site] = []
    f = Hand("f", [("x", VEC)], [MATRIX, MATRIX], sites)
    with f.block(0):
        a, b, zero = f.shared(0, MATRIX), f.shared(1, MATRIX), f.const(0)
        xs = f.list_new(MATRIX, a, b)
        if move == "pop":
            f.list_op("pop", xs, zero, outs=[MATRIX])
        elif move == "insert":
            f.list_op("insert", xs, zero, b)
        elif move == "sort":
            f.list_op("sort", xs, f.list_new(INT, zero, zero), f.const(False))
        first = f.list_op("get", xs, zero, outs=[MATRIX])
        other = f.list_op("get", xs, f.scalar("add", zero, zero), outs=[MATRIX])
        f.ret(first, other)
    found = facts(program([f], sites, [VEC], TupleT((MATRIX, MATRIX)), shared=TABLE))
    both = Fact("choice", frozenset((0, 1)), True)
    assert found[first.name] == [both if move else shared(0)]
    assert found[other.name] == [both]


def test_lists_of_the_data_hold_anything() -> None:
    sites: list[n.Site] = []
    f = Hand("f", [("xs", ListT(VEC)), ("t", REF)], [VEC, REF], sites)
    xs, t = f.params
    with f.block(0):
        f.ret(f.list_op("get", xs, f.const(0), outs=[VEC]), f.load(t, "left", REF))
    found = facts(program([f], sites, [ListT(VEC), REF], TupleT((VEC, VEC))))  # type: ignore[arg-type]
    assert [fact.kind for fact in found["get"]] == ["varying"]
    assert [fact.kind for fact in found["left"]] == ["objects"]


def test_rows_of_different_places_are_told_apart() -> None:
    @dataclass
    class Holder:
        w: Any

    layout = n.StructLayout(cls=Holder, fields=(n.FieldLayout(name="w", type=MATRIX, offset=1, width=1),), size=2)
    sites: list[n.Site] = []
    f = Hand("f", [("x", VEC)], [MATRIX, MATRIX, MATRIX], sites)
    with f.block(0):
        rows = [f.new(Holder, f.shared(k, MATRIX)) for k in (0, 1)]
        either = f.var("either", RefT((Holder,)))
        for r in rows:
            f.copy(either, r)
        f.ret(*(f.load(r, "w", MATRIX, Holder) for r in (*rows, either)))
    p = program([f], sites, [VEC], TupleT((MATRIX,) * 3), shared=TABLE, layouts=[layout])
    found = facts(p)
    assert [found[name] for name in ("w", "w1")] == [[shared(0)], [shared(1)]]
    assert found["w2"][0].label == "varying"


# ---- the debug check


def test_the_check_at_run_time_finds_a_wrong_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    for fn in (through_a_row, chosen_by_data, through_a_result):
        check(fn, CHAINS, compiled=True)
    right = Sharing.fact

    def wrong(self: Sharing, contexts: Any, v: n.Var) -> Fact:
        fact = right(self, contexts, v)
        return shared(min(fact.which)) if fact.kind == "choice" else fact

    monkeypatch.setattr(Sharing, "fact", wrong)
    with pytest.raises(InstanceErrors) as caught:
        model(chosen_by_a_branch)._interpret(CHAINS, p=P)
    assert sorted(caught.value.errors) == [k for k, t in enumerate(CHAINS) if not t.kind]
    assert all("the sharing analysis is wrong" in str(error) for error in caught.value.errors.values())
    with pytest.raises(AcronumbaError, match=r"2 different(.|\n)*the sharing analysis is wrong"):
        model(chosen_by_a_branch).batch(CHAINS, p=P)


def always_the_same(t: Chain, *, p: Params) -> Any:
    return p.cells[t.kind].w @ t.x


def test_a_missed_share_is_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    check(always_the_same, [t for t in CHAINS if t.kind == 1] * 2, compiled=True, equal=False)
    assert "p.cells[1].w for all instances" in caplog.text
    caplog.clear()
    check(always_the_same, CHAINS, compiled=True)
    assert not caplog.text


# ---- what is computed once


@dataclass
class Formulas:
    a: np.ndarray
    b: np.ndarray
    mask: np.ndarray
    scale: np.ndarray
    number: float


FORMULAS = Formulas(weights(H, H), weights(H, H), weights(H, H) > 0, weights(H), 0.5)


def formulas(xs: list[np.ndarray], *, p: Formulas) -> Any:
    out = []
    for x in xs:  # in a loop: still once
        y = (p.a @ p.b) @ x + np.exp(p.scale) * x
        out.append(y + (p.a * p.mask).T @ x * p.number + np.concatenate([p.a, p.b], axis=1)[:, 2:6] @ x)
    return out


def formulas_in_a_recursion(t: Chain, *, p: Formulas) -> Any:
    def run(t: Chain, w: Any) -> Any:
        y = w @ t.x + np.tanh(p.scale)
        return y if t.rest is None else y + run(t.rest, w)

    return run(t, p.a.T) + run(t, p.a - p.b)


def not_once(t: Chain, *, p: Formulas) -> Any:
    y = (np.zeros(H, np.float32) + t.x) * np.float32(2.0) + p.a[1] + p.b.T[0]
    return y, p.a[t.kind], np.tanh(p.b * 2)[t.kind]


ONCE = {
    formulas: ["exp(p.scale)", "p.a * p.mask", "p.a @ p.b", "p.number"],
    formulas_in_a_recursion: ["p.a - p.b", "p.a.T", "tanh(p.scale)"],
    not_once: [],
}


@pytest.mark.parametrize("fn", ONCE, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("hoist", [True, False])
def test_what_is_shared_is_computed_once(fn: Any, hoist: bool) -> None:
    columns = [[[weights(H) for _ in range(k)] for k in (2, 0, 3)]] if fn is formulas else [CHAINS]
    plan = model(fn).with_options(hoist=hoist)._compiled(columns, {"p": FORMULAS}).plan
    paths = [plan.program.shared[o.index].path for o in plan.program.once]
    if hoist:
        assert set(ONCE[fn]) <= set(paths) and bool(paths) == bool(ONCE[fn])
        assert len(set(paths)) == len(paths)
    else:  # what products read, whose order of summation must not depend on the option
        assert not [path for path in paths if path.startswith(("exp", "tanh"))]
    assert all(kind == "shared" for kind, _ in matrices(plan))
    check(fn, *columns, p=FORMULAS, hoist=hoist)
    check(fn, *columns, p=FORMULAS, reuse=False)


def test_hoisting_keeps_the_bits_of_what_is_computed_once() -> None:
    xs = [[weights(H) for _ in range(k)] for k in (2, 0, 3)]
    for fn, column in ((formulas, xs), (formulas_in_a_recursion, CHAINS)):
        got = [model(fn).with_options(hoist=h).batch(column, p=FORMULAS) for h in (True, False)]
        assert [np.asarray(a).tobytes() for a in got[0]] == [np.asarray(a).tobytes() for a in got[1]]


def test_what_is_computed_once_follows_changes_in_place() -> None:
    p = Formulas(weights(H, H), weights(H, H), weights(H, H) > 0, weights(H), 0.5)
    m = model(formulas)
    xs = [[weights(H) for _ in range(k)] for k in (2, 1)]

    def right() -> bool:
        got, want = m.batch(xs, p=p), [formulas(x, p=p) for x in xs]
        return all(compare(list(a), b, b)[0] in ("equal", "close") for a, b in zip(got, want, strict=True))

    assert right()
    p.a[:] = weights(H, H)  # packed as well
    assert right()
    p.scale[1] = 2.0  # only read by what is computed once
    assert right()
    p.mask[:] = ~p.mask
    assert right()
    p.number = -3.0
    assert right()
    assert all(b.size for b in m.trace(xs, p=p).batches)


def index_that_may_fail(t: Chain, *, p: Formulas, k: int) -> Any:
    return p.a[k] + t.x if t.kind else t.x


def test_what_may_fail_is_not_computed_before_it_is_asked_for() -> None:
    m = model(index_that_may_fail)
    fine = [t for t in CHAINS if not t.kind]
    for k in (1, 17):
        assert [np.asarray(x).tolist() for x in m._interpret(fine, p=FORMULAS, k=k)] == [t.x.tolist() for t in fine]


# ---- copies


def test_birnn_has_a_copy_for_each_direction() -> None:
    p, xs = birnn.params(8, vocabulary=16), [[1, 2, 3], [4], [5, 6]]
    plans = {}
    for options in ({}, {"duplicate": False}, {"reuse": False}):
        m = birnn.tag.with_options(**options)
        plans[str(options)] = plan = m._compiled([xs], {"p": p}).plan
        got = m._interpret(xs, p=p)
        want = [birnn.tag(x, p=p) for x in xs]
        assert all(compare(a, b, b)[0] in ("equal", "close") for a, b in zip(got, want, strict=True))
        found = matrices(plan)
        names = {"p.forward.u", "p.forward.w", "p.backward.u", "p.backward.w"}
        if not options:
            assert {path for kind, path in found if kind == "shared"} >= names
            assert any("p.forward" in text and "p.backward" in text for text in kinds(plan, "duplicated"))
        elif "duplicate" in options:
            assert not names & {path for _, path in found} and ("shared", "p.w_out") in found
            assert kinds(plan, "merged")
        else:
            assert {kind for kind, _ in found} == {"tensor"}
    assert len(plans["{}"].kernels) > len(plans["{'duplicate': False}"].kernels)


def vectors_alone(t: Chain, b: Any) -> Any:
    h = np.tanh(t.x * b)
    return h if t.rest is None else h + vectors_alone(t.rest, b)


def copies_that_do_not_pay(t: Chain, *, p: Params) -> Any:
    return vectors_alone(t, p.a.b), vectors_alone(t, p.b.b)


def one_after_the_other(t: Chain, *, p: Params) -> Any:
    def run(x: Any, b: Any, n: int) -> Any:
        for _ in range(n):
            x = np.tanh(x * b)
        return x

    return run(run(t.x, p.a.b, t.kind), p.b.b, t.kind)


def test_copies_without_products_are_one_kernel() -> None:
    plan = planned(copies_that_do_not_pay, CHAINS)
    both = planned(copies_that_do_not_pay, CHAINS, duplicate=False)
    assert [k.operands for k in plan.kernels] == [k.operands for k in both.kernels]
    assert all(o.kind == "tensor" for k in plan.kernels for o in k.operands)
    assert any("no matrix product reads them" in text for text in kinds(plan, "merged"))
    check(copies_that_do_not_pay, CHAINS)
    check(copies_that_do_not_pay, CHAINS, compiled=True)


def test_copies_that_depend_on_each_other_are_not_merged() -> None:
    plan = planned(one_after_the_other, CHAINS)
    assert len(plan.kernels) == 2 and not kinds(plan, "merged")
    assert len(planned(one_after_the_other, CHAINS, duplicate=False).kernels) == 1
    check(one_after_the_other, CHAINS)
    check(one_after_the_other, CHAINS, duplicate=False)


def deep(t: Chain, c: Cell) -> Any:
    h = np.tanh(c.w @ t.x + c.b)
    return h if t.rest is None else h + deep(t.rest, c)


def stacked(t: Chain, *, p: list[Cell]) -> Any:
    out = t.x
    for c in p:
        out = out + deep(t, c)
    return out


def stacked_in_pieces(t: Chain, *, p: list[Cell]) -> Any:
    def run(t: Chain, w: Any, b: Any) -> Any:
        h = np.tanh(w @ t.x + b)
        return h if t.rest is None else h + run(t.rest, w, b)

    out = t.x
    for c in p:
        out = out + run(t, c.w, c.b)
    return out


@pytest.mark.parametrize("fn", [stacked, stacked_in_pieces], ids=lambda fn: fn.__name__)
def test_many_contexts_are_bounded(fn: Any) -> None:
    few, many = [[cell() for _ in range(n)] for n in (20, COPIES + 8)]
    plan = model(fn)._compiled([CHAINS], {"p": few}).plan
    assert len(plan.program.functions) == 1 + len(few)
    assert {kind for kind, _ in matrices(plan)} == {"shared"}
    assert all(n is not None for f in plan.program.functions for t in f.results for n in getattr(t, "shape", ()))
    plan = model(fn)._compiled([CHAINS], {"p": many}).plan
    assert len(plan.program.functions) <= 3 and matrices(plan) == [("tensor", "")]
    check(fn, CHAINS[:2], p=many)


def test_copies_of_a_kernel_are_one_piece_of_code() -> None:
    p, xs = birnn.params(8, vocabulary=16), [[1, 2, 3], [4], [5, 6]]
    run = birnn.tag._compiled([xs], {"p": p}).executable
    by = {spec.name: entry for spec, entry in zip(run.plan.kernels, run.kernels, strict=True)}
    codes = [entry.run for entry in by.values()]
    assert len(set(codes)) < len(codes)


# ---- random models


@pytest.mark.parametrize("option", one_in(3, ["reuse", "duplicate", "hoist"]))
def test_random_models_without_an_option(option: str, tmp_path: Path) -> None:
    for seed in range(300, 308):
        case = generate.generate(seed, 3 + seed % 6)
        assert not generate.differences(case, tmp_path, compiled=False, **{option: False}), f"seed {seed}"
