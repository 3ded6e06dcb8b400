"""Tiles and kernels compile for processors that this machine is not, into the instructions they are meant for."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as binding
import pytest

from acronumba.emit import llvm, passes, target, tree
from acronumba.kernels.cpu import generate
from acronumba.kernels.tiles import TileKey, panel_shape, tile_module
from tests.support.kernel_runs import SpecBuilder


@dataclass(frozen=True)
class Processor:
    triple: str
    cpu: str
    features: str
    machine: str  # as `platform.machine()` tells it
    multiply: str  # and add, of float32 vectors, with the registers that are used for it

    @property
    def target(self) -> target.Target:
        return target.of(self.cpu, self.features, self.machine)


PROCESSORS = {
    "avx512": Processor(
        "x86_64-unknown-linux-gnu",
        "skylake-avx512",
        "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx2,+fma",
        "x86_64",
        r"\bvfmadd\d+ps\b.*%zmm",
    ),
    "avx2": Processor("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma", "x86_64", r"\bvfmadd\d+ps\b.*%ymm"),
    "neon": Processor("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", "aarch64", r"\bfmla\s+v\d+\.4s"),
    "plain": Processor("x86_64-unknown-linux-gnu", "x86-64", "+sse2", "x86_64", r"\bmulps\b|\bfmaf?\b"),
}


@functools.cache
def prepared() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def assembly(module: tree.Module, processor: Processor) -> str:
    """Return what LLVM makes of a module for a processor."""
    prepared()
    machine: Any = binding.Target.from_triple(processor.triple).create_target_machine(
        cpu=processor.cpu, features=processor.features, opt=passes.LEVEL
    )
    head = f'target triple = "{processor.triple}"\ntarget datalayout = "{machine.target_data}"\n'
    parsed = binding.parse_assembly(head + llvm.module_text(module))
    passes.optimise(parsed, machine)
    return str(machine.emit_assembly(parsed))


def lstm(n: int) -> Any:
    b = SpecBuilder("cell")
    x, c = b.tensor("x", n), b.tensor("c", n)
    w = b.shared("w", 2 * n, n)
    y = b.op("matmul", w, x, shape=(2 * n,))
    gates = [b.op("slice", y, attrs=((k * n,), (1,)), shape=(n,)) for k in range(2)]
    forget, update = b.op("sigmoid", gates[0], shape=(n,)), b.op("tanh", gates[1], shape=(n,))
    state = b.op("add", b.op("mul", forget, c, shape=(n,)), update, shape=(n,))
    return b.spec(state, b.op("tanh", state, shape=(n,)))


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_width_of_a_processor(name: str) -> None:
    assert PROCESSORS[name].target.kind == name


@pytest.mark.parametrize("name", ["avx512", "avx2", "neon"])
def test_tiles_multiply_and_add_in_registers(name: str) -> None:
    """The innermost loop of the tallest tile has its multiplications and nothing on the stack."""
    processor = PROCESSORS[name]
    shape = panel_shape(1, 4096, processor.target, "float32")
    module = tile_module([TileKey(shape.rows, shape.vectors, "float32")], processor.target)
    text = assembly(module, processor)
    loops = re.split(r"^\.LBB\w+:.*$", text, flags=re.M)
    inner = max(loops, key=lambda block: len(re.findall(processor.multiply, block)))
    # NEON multiplies with a lane of a register: the same number, in as many instructions
    assert len(re.findall(processor.multiply, inner)) >= shape.rows * shape.vectors
    assert not re.search(r"\((%rsp|%rbp)\)|\[sp|\bbl\b|\bcall", inner), inner


@pytest.mark.parametrize("name", PROCESSORS)
def test_kernels_call_nothing_but_tiles(name: str) -> None:
    """Functions are computed in vectors: no call of C's, and of the generated functions only by address."""
    processor = PROCESSORS[name]
    code = generate(lstm(64), processor.target)
    text = assembly(code.module, processor)
    called = set(re.findall(r"^\s+(?:callq?|bl)\s+([A-Za-z_\"][^\s]*)", text, re.M))
    own = {c for c in called if "acronumba." in c or c.startswith(('"', ".L"))}
    known = {"memcpy", "memset", "memmove", "memcpy@PLT", "memset@PLT", "memmove@PLT"}
    if name == "plain":  # which has no such instruction
        known |= {"fmaf", "fmaf@PLT", "fma", "fma@PLT"}
    assert called - own <= known, called - own
    if name != "plain":
        assert re.search(processor.multiply, text)
