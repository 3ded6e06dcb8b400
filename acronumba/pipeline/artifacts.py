"""The artifacts of a specialisation, from its plan to machine code; each is made once, on demand.

In: a typed program and options. Out: the plan, executables for the CPU and for devices, a recorder, and texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from acronumba.config import Options, verify_level, without_refactoring
from acronumba.locks import ForkLock
from acronumba.pipeline.boundary import bounded, made_by_one, made_once
from acronumba.pipeline.log import Times, bar, debug

if TYPE_CHECKING:
    from acronumba.analysis.passes import Draft, Pass
    from acronumba.analysis.plan import Plan
    from acronumba.ir.nodes import Program
    from acronumba.ir.spec import KernelSpec
    from acronumba.runtime.driver import Executable


class Artifacts:
    """Makes the plan, the executables and the texts of a program; nothing is compiled before the first mini-batch.

    Parameters
    ----------
    program
        The typed program.
    options
        Options.
    times
        Times of the function.

    Attributes
    ----------
    lock
        Held while an artifact is made.
    """

    def __init__(self, program: Program, options: Options, times: Times) -> None:
        self.fn, self.program, self.options, self.times = times.fn, program, options, times
        self.lock = ForkLock()
        self._devices: dict[str, Executable] = {}  # executables by device, other than the CPU

    def verify(self, program: Program, kernels: Sequence[KernelSpec] = ()) -> None:
        """Verify a program, if `ACRONUMBA_VERIFY` asks for it."""
        if verify_level():
            from acronumba.ir.verify import verify

            verify(program, kernels)

    @made_by_one
    def plan(self) -> Plan:
        """Kernels and host program."""
        from acronumba.analysis.plan import make_plan, plan_text

        with self.times.stage("plan"):
            plan = make_plan(self.program, self.options, self._after)
        self.verify(plan.program, plan.kernels)
        debug(3, "plan", lambda: plan_text(plan))
        return plan

    @made_by_one
    def gradient_plan(self) -> Plan:
        """Plan of gradients, which know no equal nodes: callers compute the products of their own results."""
        from acronumba.analysis.plan import make_plan

        if not any(note.kind == "refactored" for note in self.plan.notes):
            return self.plan
        with self.times.stage("plan"):
            plan = make_plan(self.program, without_refactoring(self.options), self._after)
        self.verify(plan.program, plan.kernels)
        return plan

    def _after(self, one: Pass, draft: Draft) -> None:
        """Verify the result of a pass (`ACRONUMBA_VERIFY=2`), and log the pass."""
        if verify_level() > 1:
            self.verify(draft.program, draft.kernels)
        debug(5, "pass", lambda: f"{self.fn.__qualname__}: {one.name}")

    @made_by_one
    def executable(self) -> Executable:
        """Machine code."""
        from acronumba.pipeline.link import link

        plan = self.plan
        with self.times.stage("compile"), bar(f"compiling {self.fn.__qualname__}", self.times.progress) as step:
            made = link(plan, self.options, progress=step)
        debug(4, "host", self.host_text)
        for k, spec in enumerate(plan.kernels):
            debug(5, f"kernel {spec.name}", partial(self.kernel_text, k))
        return made

    @bounded
    def on(self, device: str) -> Executable:
        """Return the executable for a device."""
        if device == "cpu":
            return self.executable
        from acronumba.pipeline.link_device import link_device
        from acronumba.runtime.devices.names import open_device

        with self.lock:
            if device not in self._devices:
                with self.times.stage("compile"), bar(f"compiling {self.fn.__qualname__}", self.times.progress) as step:
                    self._devices[device] = link_device(self.plan, self.options, open_device(device), step)
        return self._devices[device]

    @made_by_one
    def recorder(self) -> Executable:
        """Executable with kernels that compute nothing."""
        from acronumba.pipeline.link import link
        from acronumba.runtime.idle import idle_kernels

        options = replace(self.options, threads=1, memory_limit=None)  # of runs that compute something
        return link(self.plan, options, kernels=idle_kernels(self.plan.kernels))

    @property
    def modules(self) -> int:
        """Number of modules of machine code in memory."""
        made = (self.__dict__.get("executable"), self.__dict__.get("recorder"), *self._devices.values())
        return sum(len(e.linked.modules) + len(e.kernels) for e in made if e is not None)

    @made_once
    def waits(self) -> bool:
        """Whether the program waits for values."""
        from acronumba.analysis.waits import waiting_functions

        return bool(waiting_functions(self.plan.program))

    @property
    def forks(self) -> bool:
        """Whether an instance may have several fibers."""
        from acronumba.analysis.waits import forks

        return forks(self.plan.program)

    def text(self, stage: str) -> str:
        """Return the text of the stage ``ir`` or ``plan``."""
        if stage == "ir":
            from acronumba.ir.printer import program_text

            return program_text(self.program)
        from acronumba.analysis.plan import plan_text

        return plan_text(self.plan)

    def host_text(self) -> str:
        """Return the host program as text."""
        from acronumba.emit.text import joined
        from acronumba.pipeline.texts import host_lines

        return joined(host_lines(self.plan, self.options))

    def kernel_text(self, k: int) -> str:
        """Return the code of a kernel as text."""
        from acronumba.emit.text import joined
        from acronumba.pipeline.texts import kernel_lines

        return joined(kernel_lines(self.plan.kernels[k], self.options))

    def cuda_text(self, k: int) -> str:
        """Return the code of a kernel for a GPU as text."""
        from acronumba.pipeline.texts import cuda_code

        return cuda_code(self.plan.kernels[k], self.options).text
