"""From LLVM's text of a module to machine code, and machine code into memory.

In: text, as `emit.llvm` writes it. Out: an object file for this CPU; an engine with the code of an object file. Both by
llvmlite, the LLVM that Numba brings. Numba is not imported: its front end and its lists of passes are for code of
another kind.

The text needs few passes: it has neither reference counts nor exceptions, loops are already ordered and vectorised, and
functions to inline are marked. The passes only inline these and promote locals to registers. LLVM's own lists of passes
take two to four times as long, for code that is 1% faster (`benchmarks/passes.py`).
"""

from __future__ import annotations

import functools
import platform
from types import ModuleType
from typing import TYPE_CHECKING

from acronumba.emit.target import processor

if TYPE_CHECKING:
    from llvmlite.binding import ExecutionEngine, ModuleRef, TargetMachine

# Names of llvmlite's passes, in their order, and the level of LLVM's code generator.
PASSES: tuple[str, ...] = ("always_inliner", "global_dead_code_eliminate", "sroa", "simplify_cfg")
LEVEL = 1
# Characters of a module's text from which the code generator's level is 0: it takes a tenth of the time (1 s in place
# of 9 for 15 MB), for three times as much code. Only host programs of thousands of blocks are so large.
LARGE = 6_000_000
# Options of LLVM's code generator, and the version that has them. In host programs of thousands of blocks, the register
# coalescer takes half of the time, quadratic in the blocks, to spare one copy in twenty: after so many it leaves off.
OPTIONS, OPTIONS_OF = ("-large-interval-freq-threshold=64",), 22


@functools.cache
def _binding() -> ModuleType:
    """Return llvmlite's binding, ready to compile for this machine."""
    from llvmlite import binding

    for option in OPTIONS if binding.llvm_version_info[0] == OPTIONS_OF else ():
        binding.set_option("acronumba", option)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding  # type: ignore[no-any-return]


@functools.cache
def target_machine(level: int = LEVEL) -> TargetMachine:
    """Return LLVM's target machine for this CPU, with a level of the code generator."""
    binding = _binding()
    name, features = processor()
    triple = binding.get_process_triple()
    return binding.Target.from_triple(triple).create_target_machine(
        cpu=name,
        features=features,
        opt=level,
        reloc="static" if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686") else "default",
        codemodel="jitdefault",
        jit=True,
    )


def optimise(module: ModuleRef, machine: TargetMachine) -> None:
    """Run the passes over a module of llvmlite's."""
    from llvmlite.binding.newpassmanagers import NewPassManager

    binding = _binding()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=LEVEL))
    manager = binding.create_new_module_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
    NewPassManager._dispose(manager)  # llvmlite's own method is hidden by that of another base class
    manager.detach()


def object_file(text: str) -> bytes:
    """Return the machine code of a module, as an object file of the system's linker.

    Raises
    ------
    RuntimeError
        If LLVM cannot parse the text: a bug of its generator.
    """
    binding, machine = _binding(), target_machine(LEVEL if len(text) < LARGE else 0)
    head = f'target triple = "{binding.get_process_triple()}"\ntarget datalayout = "{machine.target_data}"\n'
    module = binding.parse_assembly(head + text)
    optimise(module, machine)
    code: bytes = machine.emit_object(module)
    return code


def loaded(code: bytes) -> ExecutionEngine:
    """Return an engine with an object file's machine code; closing it frees the memory."""
    binding = _binding()
    empty = binding.parse_assembly("")
    engine = binding.create_mcjit_compiler(empty, binding.Target.from_default_triple().create_target_machine(jit=True))
    engine.remove_module(empty)  # compiling it takes longer than loading the code
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
