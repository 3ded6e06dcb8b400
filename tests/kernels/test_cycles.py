"""Machine code of kernels for a GPU, run in Python: its results, and estimates of cycles (`benchmarks/cubins.py`).

`make test-cuda` installs what these tests need: the extras `cuda` and `cuda-cycles`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cuda import compat, cubins, generate, persistent
from acronumba.strategy import Strategy
from acronumba_bench.gpu import clocks, cycles, instructions, sass
from acronumba_bench.gpu.emulate import Issued, turns_of
from acronumba_bench.gpu.launch import Launch, blocks_of
from acronumba_bench.workloads import WORKLOADS
from tests.support.chosen import one_in
from tests.support.kernel_cases import cell, close, evaluate

needs_tools = pytest.mark.skipif(
    bool(compat.missing()) or not sass.nvdisasm(), reason=compat.missing() or "nvidia-cuda-nvdisasm is not installed"
)


@cache
def kernels(name: str, size: int) -> tuple[KernelSpec, ...]:
    workload = WORKLOADS[name]
    columns, p = inputs(workload, size, 1, None)
    f = workload.model.with_options(strategy=Strategy(refactor=False))  # as on a device
    return specialise(f, bind(f, (columns,), {"p": p}))[0].plan.kernels


@needs_tools
@pytest.mark.parametrize("nodes", [1, 5])
def test_machine_code_has_the_results_of_the_definition(nodes: int) -> None:
    spec = cell(12)
    code = generate.generate(spec)
    launch = Launch(spec, code, nodes)
    for entry, machine, grids in zip(code.entries, cubins.machines(code, (9, 0), "a"), code.grids, strict=True):
        blocks = blocks_of(grids, launch.counts, cycles.PROCESSORS)
        for block in range(blocks):
            launch.run(machine, entry, blocks, block)
    for i, given in enumerate(launch.given):
        row = [given[o.index] for o in spec.operands if o.kind != "shared"]
        for k, wanted in enumerate(evaluate(spec, row, launch.shared)):
            assert close(launch.result(k, i), wanted)


@needs_tools
def test_cycles_of_measuring_kernels_are_those_assumed() -> None:
    from cuda.core import Linker, LinkerOptions, ObjectCode

    for name, expected in {"LDS chained": cycles.HOPPER.shared, "SHFL chained": cycles.HOPPER.exchange}.items():
        case = instructions.CASES[name]
        text = ObjectCode.from_ptx(clocks.KERNELS[case.kernel].text.encode())
        cubin = bytes(Linker(text, options=LinkerOptions(arch="sm_90a")).link("cubin").code)
        assert instructions.estimated(sass.read(cubin, case.kernel), case, 1) == expected


# Of functions of the zoo (size 256), for batches of so many nodes, with the packages that `make test-cuda` installs.
GOLDEN = [("tree_lstm", 1, 0, 16, 4_261), ("tree_lstm", 0, 0, 16, 4_083), ("birnn", 1, 0, 64, 3_231)]


@needs_tools
@pytest.mark.parametrize(("name", "kernel", "function", "nodes", "expected"), one_in(3, GOLDEN))
def test_estimates_of_cycles(name: str, kernel: int, function: int, nodes: int, expected: int) -> None:
    spec = kernels(name, 256)[kernel]
    code = generate.generate(spec)
    machine = cubins.machines(code, (9, 0), "a")[function]
    launch = Launch(spec, code, nodes)
    _, found = launch.estimate(machine, code.entries[function], code.grids[function], 1)
    assert abs(found - expected) <= expected / 10


# Of a block of a function of the zoo, from its first barrier on: the most that it may take for so many nodes.
LIMITS = [("birnn", 1, 64, 2_200), ("tree_lstm", 2, 16, 2_350), ("tree_lstm", 2, 64, 5_000)]


@needs_tools
@pytest.mark.parametrize(("name", "kernel", "nodes", "most"), LIMITS)
def test_streamed_products_take_few_cycles(name: str, kernel: int, nodes: int, most: int) -> None:
    """4 and 16 rows of a block with 5 gates and 512 terms, 8 rows with one gate and 256 terms."""
    spec = kernels(name, 256)[kernel]
    code = generate.generate(spec)
    (machine,) = cubins.machines(code, (9, 0), "a")
    launch = Launch(spec, code, nodes)
    blocks = blocks_of(code.grids[0], launch.counts, cycles.PROCESSORS)
    assert cycles.behind(launch.run(machine, code.entries[0], blocks, 0)) <= most
    assert machine.spills == machine.stack == 0 and machine.registers <= 168
    assert sass.read(machine.code, code.entries[0]).size <= 18 << 10


@needs_tools
def test_products_in_three_parts_take_fewer_cycles_for_many_rows() -> None:
    """64 rows of a block with 5 gates and 512 terms; registers are those that two of three parts would not fit in."""
    spec = kernels("tree_lstm", 256)[2]
    taken = []
    for precision in ("float32", "tf32x3"):
        code = generate.generate(spec, precision=precision)
        (machine,) = cubins.machines(code, (9, 0), "a")
        assert machine.spills == machine.stack == 0 and machine.registers <= 168
        taken.append(Launch(spec, code, 256).estimate(machine, code.entries[0], code.grids[0], 1)[1])
    assert taken[1] <= 20_000 and taken[0] > 1.2 * taken[1]


@needs_tools
@pytest.mark.parametrize(
    ("name", "kernel", "nodes", "most"), one_in(2, [("birnn", 1, 64, 4_900), ("tree_lstm", 2, 16, 6_800)])
)
def test_steps_of_the_persistent_kernel_take_few_cycles(name: str, kernel: int, nodes: int, most: int) -> None:
    """Of which about 2,000 are in front of the gate, while other blocks are at work."""
    spec = kernels(name, 256)[kernel]
    code = generate.generate(spec)
    whole = persistent.persistent([code])
    (machine,) = cubins.machines(whole, (9, 0), "a")
    assert 1_000 < Launch(spec, code, nodes).step(machine, whole) <= most
    assert machine.spills == machine.stack == 0


def issued(text: str, at: int = 0, **control: int) -> Issued:
    i = sass._instruction(at, text)
    for name, value in ({"stall": 4} | control).items():
        setattr(i, name, value)
    return Issued(i)


def test_cycles_of_chains_and_of_warps_that_hide_them() -> None:
    chain = [issued("FFMA R0, R1, R2, R0", stall=4) for _ in range(100)]
    come = cycles.HOPPER.jump  # of the first line of code
    assert cycles.cycles([[chain]]) == cycles.cycles([[chain] * 4]) == come + 397  # of one each scheduler
    assert come + 397 <= cycles.cycles([[chain] * 16]) <= come + 404  # four of each hide each other
    load = issued("LDS R0, [R1]", stall=1, sets=0)
    load.turns = 1
    use = issued("FADD R2, R0, R0", waits=1)
    assert cycles.cycles([[[load, use]]]) == come + cycles.HOPPER.shared + 1


def test_a_barrier_waits_for_the_last_warp() -> None:
    meet, work = issued("BAR.SYNC 0x0", stall=1), [issued("FFMA R0, R1, R2, R0") for _ in range(50)]
    found = cycles.cycles([[[*work, meet, issued("NOP")], [meet, issued("NOP")]]])
    m = cycles.HOPPER
    assert found == m.jump + 200 + m.barrier + 2 * m.arrival + 1


def test_code_comes_line_by_line_once() -> None:
    m = cycles.HOPPER
    line = [[issued("FFMA R0, R1, R2, R0", at=sass.SIZE * (8 * n + k), stall=1) for k in range(8)] for n in range(3)]
    assert cycles.cycles([[line[0] + line[1]]]) == m.jump + m.line + 8  # the second follows the first
    assert cycles.cycles([[line[0] + line[2]]]) == 2 * m.jump + 16
    assert cycles.cycles([[line[0] * 3]]) == m.jump + 24


def test_copies_share_what_comes_from_the_second_cache() -> None:
    m = cycles.HOPPER
    copy = issued("LDGSTS.E.BYPASS.128 [R0], [R2.64]", stall=1)
    copy.turns = 4
    trace = [*[copy] * 64, issued("LDGDEPBAR"), issued("DEPBAR.LE SB0, 0x0"), issued("NOP")]
    alone, together = (cycles.cycles([[trace] * 4], busy=n) for n in (1, 132))
    size = 4 * 64 * 512
    assert size / m.port < alone < size / m.port + m.copy + m.jump + 32
    assert together - alone == pytest.approx(size * (132 / m.every - 1 / m.port), abs=4)


def test_what_was_read_is_near() -> None:
    m = cycles.HOPPER
    load, use = issued("LDG.E R0, [R2.64]", stall=1, sets=0), issued("FADD R2, R0, R0", waits=1)
    load.apart = True
    far = cycles.cycles([[[load, use]]])
    load.again = True
    assert far - cycles.cycles([[[load, use]]]) == m.l2 - m.l1


def test_turns_of_shared_memory() -> None:
    lanes = np.arange(32)
    assert turns_of(lanes * 4, 1) == turns_of(lanes * 0, 1) == 1
    assert turns_of(lanes * 8, 1) == 2 and turns_of(lanes * 128, 1) == 32
    assert turns_of(lanes * 16, 4) == 4 and turns_of(lanes // 8 * 16, 4) == 2
    assert turns_of(lanes // 8 * 128, 4) == 4
