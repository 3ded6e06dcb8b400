"""Kernels for a GPU, compiled to machine code without one: no registers spilled, the instructions that are wanted.

`make test-cuda` installs what these tests need: the extra `cuda`.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import Unsupported, model, operation
from acronumba.analysis.backward.program import plan_backward
from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.emit import cache as kept
from acronumba.emit.simt import NAMES
from acronumba.ir.spec import KernelSpec
from acronumba.ir.types import TensorT
from acronumba.kernels.cuda import compat, cubins, generate, persistent, tiles
from acronumba.kernels.cuda import sums as cuda_sums
from acronumba.pipeline.link_device import back_codes, device_codes, once_codes
from acronumba_bench.lessons import LESSONS
from acronumba_bench.workloads import WORKLOADS
from tests.support.chosen import one_in
from tests.support.kernel_cases import PRODUCTS, WORDS, attention, cell
from tests.support.kernel_fuzz import Cell, Fuzz
from tests.support.kernel_runs import SpecBuilder
from tests.support.own_operations import decay, spread
from tests.support.ragged_kernels import ATTENTION

pytestmark = pytest.mark.skipif(bool(compat.missing()), reason=compat.missing())

GPUS = [((8, 0), ""), ((9, 0), "a")]


@cache
def compiled(
    source: str, entries: tuple[str, ...], gpu: Any = GPUS[1], called: tuple[str, ...] = ()
) -> dict[str, compat.Machine]:
    return compat.compile_text(source, dict.fromkeys(entries, 4), *gpu, called=called)


def machines(spec: KernelSpec, gpu: Any = GPUS[1]) -> dict[str, compat.Machine]:
    code = generate.generate(spec)
    return compiled(code.text, code.entries, gpu, tuple(tile.text() for tile in code.tiles))


def nothing_spilled(found: dict[str, compat.Machine]) -> None:
    for entry, machine in found.items():
        assert machine.spills == 0 and machine.stack == 0, (entry, machine.spills, machine.stack)
        assert 0 < machine.registers <= 255, entry
        assert not re.search(r"\b(ld|st)\.local", machine.ptx), entry
        assert machine.code[:4] == b"\x7fELF"


@pytest.mark.parametrize("gpu", one_in(2, map(pytest.param, GPUS), ["sm_80", "sm_90a"]))
def test_a_cell_keeps_weights_in_registers_and_copies_rows(gpu: Any) -> None:
    (machine,) = machines(cell(64), gpu).values()
    assert machine.spills == machine.stack == 0 and machine.registers <= 168
    assert "mma.sync" not in machine.ptx
    assert "cp.async.cg.shared.global" in machine.ptx and "cp.async.wait_group 1" in machine.ptx
    assert "ld.shared.v4.f32" in machine.ptx and "ld.global.v4.f32" in machine.ptx
    assert ".f64" not in machine.ptx, "a number without a type"
    assert "call" not in re.findall(r"^\t(\w+)", machine.ptx, re.M), "ptxas would write the products twice"
    assert len(re.findall(r"(bar|barrier)\.sync\s+0", machine.ptx)) <= 4
    assert machine.shared <= 48 << 10


@pytest.mark.parametrize(("precision", "whole"), one_in(2, [("float32", True), ("tf32x3", False)]))
def test_a_cell_of_several_turns_spills_nothing_on_devices_before_hopper(precision: str, whole: bool) -> None:
    code: generate.CudaCode | persistent.PersistentCode = generate.generate(cell(256), precision=precision)
    code = persistent.persistent([code]) if whole else code
    (machine,) = cubins.machines(code, *GPUS[0])
    assert machine.spills == machine.stack == 0


@pytest.mark.long
def test_matrices_that_nodes_choose_spill_nothing_on_devices_before_hopper() -> None:
    b = SpecBuilder("chosen")
    x, number, stack = b.tensor("x", 512), b.operand("int", "number"), b.shared("stack", 3, 256, 512)
    matrix = b.op("take", stack, number, shape=(256, 512), attrs=(0,))
    (machine,) = machines(b.spec(b.op("matmul", matrix, x, shape=(256,))), GPUS[0]).values()
    assert machine.spills == machine.stack == 0


def test_less_precise_products_use_tensor_cores() -> None:
    code = generate.generate(cell(64), precision="tf32")
    found = compiled(code.text, code.entries, called=tuple(tile.text() for tile in code.tiles))
    nothing_spilled(found)
    (machine,) = found.values()
    assert "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in machine.ptx
    assert "cp.async.cg.shared.global" in machine.ptx and "cp.async.wait_group" in machine.ptx
    # the sums and products of the text are not contracted: `fma` is where the text has it
    assert 10 << 10 < machine.shared <= 48 << 10


def test_machine_code_is_kept_and_checked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.ENVIRONMENT, str(tmp_path / "cache"))
    code = generate.generate(cell(4))
    first = cubins.machines(code, (8, 0))
    monkeypatch.setattr(compat, "compile_text", None)  # nothing is compiled again
    assert cubins.machines(code, (8, 0)) == first
    (file,) = (tmp_path / "cache").rglob("0.cubin")
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(TypeError):  # what was changed is not used: it would be compiled
        cubins.machines(code, (8, 0))


def test_kernels_are_compiled_by_processes(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [generate.generate(cell(n)) for n in (4, 8, 12)]
    monkeypatch.setenv(kept.ENVIRONMENT, str(tmp_path / "one"))
    alone = [cubins.machines(code, (8, 0)) for code in codes[:2]]
    monkeypatch.setenv(kept.ENVIRONMENT, str(tmp_path / "two"))
    monkeypatch.setattr(compat, "compile_text", None)  # nothing is compiled here
    cubins.compile_missing(codes[:1], (8, 0), "", 2)
    assert not [*(tmp_path / "two").glob("cubin*")], "a process for one kernel is no gain"
    cubins.compile_missing(codes, (8, 0), "", 2)
    for code, mine in zip(codes, alone, strict=False):
        for found, wanted in zip(cubins.machines(code, (8, 0)), mine, strict=True):  # Numba numbers names
            assert (found.registers, found.stack, found.shared) == (wanted.registers, wanted.stack, wanted.shared)
    assert cubins.machines(codes[2], (8, 0))
    cubins.compile_missing(codes, (8, 0), "", 2)


def test_what_a_process_cannot_compile_is_left(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.ENVIRONMENT, str(tmp_path / "cache"))
    codes = [replace(generate.generate(cell(n)), text="no text") for n in (4, 8)]
    cubins.compile_missing(codes, (8, 0), "", 2)
    assert not [*(tmp_path / "cache").glob("cubin*")]


def test_sums_and_products_are_not_contracted() -> None:
    text = "@cuda.jit\ndef f(a, b, c, d):\n    store(d, load(f32, a) * load(f32, b) + load(f32, c))\n"
    (machine,) = compiled(text, ("f",)).values()
    assert "fma" not in machine.ptx and "mul" in machine.ptx


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_many_products_fit_into_shared_memory(dtype: str) -> None:
    """Independent products of one stage, and a row in many pieces."""
    b = SpecBuilder("many")
    xs = [b.tensor(f"x{k}", 24, dtype=dtype) for k in range(7)]
    ws = [b.shared(f"w{k}", 64, 24, dtype=dtype) for k in range(7)]
    products = [b.op("matmul", w, x, shape=(64,), dtype=dtype) for w, x in zip(ws, xs, strict=True)]
    spec = b.spec(*(b.op("tanh", v, shape=(64,), dtype=dtype) for v in products))
    found = machines(spec)
    nothing_spilled(found)
    assert all(0 < m.shared <= 48 << 10 for m in found.values())


@pytest.mark.parametrize("seed", one_in(2, range(2)))
def test_random_kernels(seed: int) -> None:
    for fuzz in (Fuzz(seed), Fuzz(5000 + seed, 10, **PRODUCTS), Fuzz(9000 + seed, 14, **WORDS), Cell(200 + seed)):
        for machine in machines(fuzz.spec).values():
            assert machine.spills == 0


def test_attention() -> None:
    nothing_spilled(machines(attention(32)))


@pytest.mark.parametrize("name", one_in(2, ["causal", "float64", pytest.param("heads", marks=pytest.mark.slow)]))
def test_attention_in_tiles(name: str) -> None:
    found = machines(ATTENTION[name])
    nothing_spilled(found)
    (machine,) = found.values()
    assert machine.shared <= 48 << 10 and ("mma" in machine.ptx) == (name != "float64")


@pytest.mark.parametrize("way", one_in(2, ["columns", "rows"]))
def test_tiles_of_matrices_of_a_node(way: str) -> None:
    for kind, shape in (("float32", "m16n8k8"), ("float64", "")):
        made = tiles.Tile(kind, 1, 64, 64, 2, way)
        call = f"{made.name}(a, b, c, 1, d, a, 0, 6, b, c, a, d)"
        found = compiled(f"{made.text()}\n\n@cuda.jit\ndef go(a, b, c, d):\n    store(a, {call})\n", ("go",))
        nothing_spilled(found)
        assert shape in found["go"].ptx


@pytest.mark.parametrize(
    "name", one_in(2, ["tree_lstm", "mv_rnn", pytest.param("berxit_emulated", marks=pytest.mark.slow)])
)
def test_models(name: str) -> None:
    """Three of the zoo: a recursion, a matrix of each node's own, a transformer."""
    workload = WORKLOADS[name]
    columns, p = inputs(workload, 32, 1, None)
    compiled_ = specialise(workload.model, bind(workload.model, (columns,), {"p": p}))[0]
    for spec in compiled_.plan.kernels:
        nothing_spilled(machines(spec))


@pytest.mark.parametrize(
    ("name", "gpu"), [("tree_lstm", GPUS[1]), pytest.param("mv_rnn", GPUS[0], marks=pytest.mark.slow)]
)
def test_all_kernels_of_a_model_are_one(name: str, gpu: Any, record_property: Any) -> None:
    """Functions that are called keep the registers that they have alone, and share memory in turn."""
    workload = WORKLOADS[name]
    columns, p = inputs(workload, 32, 1, None)
    plan = specialise(workload.model, bind(workload.model, (columns,), {"p": p}))[0].plan
    once = {o.kernel for o in plan.program.once}
    codes = [generate.generate(spec) for k, spec in enumerate(plan.kernels) if k not in once]
    code = persistent.persistent(codes)
    found = compat.compile_text(code.source, dict.fromkeys(code.entries, code.parameters), *gpu)
    nothing_spilled(found)
    machine = found["run"]
    record_property("registers", machine.registers)
    assert machine.shared == 0 and 0 < code.room < code.shared <= persistent.MOST
    assert machine.ptx.count(".entry") == 1 and "call" not in re.findall(r"^\t(\w+)", machine.ptx, re.M)
    assert "red.release.gpu.global.add.u64" in machine.ptx and "ld.acquire.gpu.global.u64" in machine.ptx
    assert ".nc" not in machine.ptx, "a load may find what was there before the last barrier"


@pytest.mark.parametrize(
    ("dtype", "gpu"), one_in(4, [(d, g) for d in ("float32", "float64") for g in GPUS[::-1]], mark="slow")
)
def test_sums_over_nodes(dtype: str, gpu: Any) -> None:
    """Tiles of outer products stay in registers, and nothing is added atomically."""
    code = cuda_sums.code(dtype)
    found = compiled(code.text, code.entries, gpu)
    nothing_spilled(found)
    (machine,) = found.values()
    assert machine.shared == 0 and not re.search(r"\b(atom|red)\.", machine.ptx)
    assert "fma.rn" in machine.ptx and (dtype == "float64" or ".f64" not in machine.ptx)


BACK = [(name, gpu) for name in sorted(WORKLOADS, key=lambda name: name != "tree_lstm") for gpu in GPUS[::-1]]


@pytest.mark.long
@pytest.mark.parametrize(("name", "gpu"), one_in(len(BACK), BACK, mark="slow"))
def test_kernels_of_a_backward_pass(name: str, gpu: Any) -> None:
    """Those of the forward pass, with what they keep, and those of the backward pass: of a loss, or of all results.

    With them come those of values that are made of parameters alone.
    """
    workload = WORKLOADS[name]
    xs, p = inputs(workload, 32, 1, None)
    f, columns, width = workload.model, (xs,), None
    if name in LESSONS:
        f, columns, width = LESSONS[name].loss, LESSONS[name].columns(xs), 1
    one = specialise(f, bind(f, columns, {"p": p}))[0]
    wanted = {k for k, s in enumerate(one.program.shared) if isinstance(s.type, TensorT) and "float" in s.type.dtype}
    back = plan_backward(one.plan, wanted, width, cheap=True)
    codes = [*device_codes(back.plan, one.options).values(), *back_codes(back, one.options)]
    codes += once_codes(back.plan, one.options)
    assert len(codes) > 1
    for code in codes:
        nothing_spilled(compiled(code.text, code.entries, gpu, tuple(tile.text() for tile in code.tiles)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORKLOADS))
@pytest.mark.parametrize("gpu", ["8.0", "9.0a"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_the_whole_zoo(name: str, gpu: str, size: str) -> None:
    rows = runpy.run_path(str(Path(__file__).parent.parent.parent / "benchmarks" / "cubins.py"))["rows"]
    for row in rows(name, size, gpu):
        assert row["spills"] == row["stack"] == 0 and 0 < row["registers"] <= 255, row
        assert row["shared"] <= 48 << 10


def test_a_tile_is_compiled_once_for_all_that_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tiles.Tile("float64", 1, 8, 16, 2)
    texts = [
        f"@cuda.jit\ndef {name}(a, b, c, d):\n    store(a, {made.name}(a, b, c, 1, d, a, 8, b, a, c))\n"
        for name in ("one", "two")
    ]
    first = compat.compile_text(texts[0], {"one": 4}, *GPUS[1], called=[made.text()])["one"]
    seen = compat._space_of(made.text(), (9, 0, "a"))[made.name].overloads
    before = list(seen.values())
    second = compat.compile_text(texts[1], {"two": 4}, *GPUS[1], called=[made.text()])["two"]
    assert first.registers == second.registers and list(seen.values()) == before and len(before) == 1


def test_the_library_has_what_texts_call() -> None:
    from acronumba.kernels.cuda.functions import names

    assert {name for name in NAMES if name != "lane"} <= set(names())


@pytest.mark.parametrize(
    ("gates", "columns"), one_in(2, [(5, 16), (1, 8), pytest.param(12, 8, marks=pytest.mark.slow)])
)
def test_tiles_of_all_widths(gates: int, columns: int) -> None:
    shapes = {"float32": "m16n8k8", "tf32": "m16n8k8", "bf16": "m16n8k16", "float64": ""}
    for kind, shape in shapes.items():
        made = tiles.Tile(kind, gates, columns, 64, 2)
        call = f"{made.name}(a, b, c, 1, d, a, 8, b, a, c)"
        text = f"{made.text()}\n\n@cuda.jit\ndef go(a, b, c, d):\n    store(a, {call})\n"
        found = compiled(text, ("go",))
        nothing_spilled(found)
        assert f"mma.sync.aligned.{shape}" in found["go"].ptx if shape else "mma" not in found["go"].ptx


def test_the_private_names_of_the_packages_are_there() -> None:
    """What `compat` takes from packages that promise nothing about it: here a new version shows first."""
    from cuda.core import Linker, LinkerOptions, ObjectCode
    from numba.cuda import dispatcher, libdevice
    from numba.cuda.compiler import compile_cuda, kernel_fixup
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.extending import intrinsic

    assert all(map(callable, (compile_cuda, kernel_fixup, nvvm.set_launch_bounds, intrinsic, Linker, LinkerOptions)))
    assert callable(dispatcher.get_current_device) and callable(ObjectCode.from_ptx) and callable(libdevice.expf)


def test_a_bound_on_registers_that_what_is_called_does_not_keep_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings.nvjitlink import nvJitLinkError

    said = "ptxas error: Entry function 'run' with max regcount of 128 calls function 'apart' with regcount of 254"

    def reject(*_: Any) -> Any:
        error = nvJitLinkError(4)
        error.args = (said,)
        raise error

    monkeypatch.setattr(compat, "_assembled", reject)
    assert compat._bounded("run", [""], (9, 0)) is None
    said = "ptxas error: syntax error"
    with pytest.raises(nvJitLinkError):
        compat._bounded("run", [""], (9, 0))


def test_numba_is_imported_where_numpy_has_no_row_stack() -> None:
    program = """
import numpy as np
vars(np).pop("row_stack", None)
from acronumba.kernels.cuda import compat
machines = compat.compile_text("@cuda.jit\\ndef run(P):\\n    st(P, 0, 1)\\n", {"run": 1}, (9, 0))
assert machines["run"].code[:4] == b"\\x7fELF" and "row_stack" not in vars(np)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.parametrize("gpu", GPUS, ids=["sm_80", "sm_90a"])
def test_operations_of_the_users_own(gpu: Any) -> None:
    """Kernels that call device functions, alone and in one kernel; under `cuda.jit`, plain, or what `njit` has."""
    from numba import cuda

    @operation(
        shape=lambda x, k: (x.shape, ()), dtype=(np.float32, np.int64), kernel=lambda x, k, out, n: None,
        cuda=cuda.jit(device=True)(halved),
    )  # fmt: skip
    def half(x: Any, k: int) -> Any:
        return x * np.float32(0.5), k

    @model
    def f(x: Any, k: int) -> Any:
        y, n = half(np.tanh(x), k)
        return decay(y) + y, spread(decay(x), n)

    columns = [np.ones(3, np.float32)], [1]
    one = specialise(f, bind(f, columns, {}))[0]
    codes = list(device_codes(one.plan, one.options).values())
    calls = [call.operation.__name__ for code in codes for call, _ in code.operations]
    assert {*calls} == {"half", "decay", "spread"}
    for code in [*codes, persistent.persistent(codes)]:
        for machine in cubins.machines(code, *gpu):
            assert machine.code[:4] == b"\x7fELF" and machine.spills == 0


def halved(x, k, out, n):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        out[i] = x[i] * 0.5
    n[0] = k


def test_a_device_function_that_numba_cannot_compile_is_rejected() -> None:
    wrong = operation(halved, shape=(3,), dtype=np.float64, cuda=lambda x, k, n, m, out: np.linalg.eigh(out))

    @model
    def f(x: Any) -> Any:
        return wrong(x, 1, 2, 3)

    one = specialise(f, bind(f, ([np.ones(3)],), {}))[0]
    (code,) = device_codes(one.plan, one.options).values()
    with pytest.raises(Unsupported, match="Numba cannot compile a device function of halved"):
        cubins.machines(code, (9, 0))
