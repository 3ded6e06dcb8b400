"""A plan run in plain Python over checked memory, with kernels evaluated by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acronumba.analysis.plan import Plan
from acronumba.config import Options, verify_level
from acronumba.host.machine import make_host
from acronumba.ir.spec import KernelSpec
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import Interpreted, runtime_module
from acronumba.runtime.idle import plain_uses
from acronumba.runtime.program import KernelEntry, Linked
from acronumba.runtime.reference import functions


def link_interpreted(
    plan: Plan, options: Options, kernels: Callable[[Interpreted], Sequence[KernelEntry]]
) -> Executable:
    """Return an executable of a plan in plain Python; `kernels` returns kernels that its engine can call."""
    host = make_host(plan, options, doubles=verify_level() > 2)
    modules = (runtime_module(), host.module)
    engine = Interpreted(modules)
    linked = Linked(host=host, modules=modules, engine=engine, kernels=tuple(kernels(engine)), interpreted=True)
    return Executable(plan, options, linked)


def interpreted_kernels(specs: Sequence[KernelSpec]) -> Callable[[Interpreted], tuple[KernelEntry, ...]]:
    """Return a function from an engine to kernels that interpreted code can call."""

    def make(engine: Interpreted) -> tuple[KernelEntry, ...]:
        out = []
        for spec in specs:
            plan, run = (engine.memory.add_function(f) for f in functions(spec))
            out.append(KernelEntry(plan=plan, run=run, shared=plain_uses(spec)))
        return tuple(out)

    return make
