"""The key of a kernel is all that its code depends on; what is known of it survives JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from acronumba.emit.llvm import module_text
from acronumba.emit.target import host
from acronumba.errors import Loc
from acronumba.ir.spec import KernelSpec, same_but_shared
from acronumba.kernels.cpu import generate
from acronumba.kernels.facts import KernelFacts
from acronumba.pipeline.link import deferred_kernel
from acronumba.strategy import DEFAULT
from tests.support.kernel_cases import PRODUCTS, WORDS
from tests.support.kernel_fuzz import Fuzz

KINDS = {"any": {}, "products": PRODUCTS, "words": WORDS}


def moved(spec: KernelSpec) -> KernelSpec:
    """Return the same kernel from elsewhere: another name, other lines, other names of values and shared parameters."""
    operands = [
        replace(o, name=f"other_{k}", index=o.index + 3 if o.kind == "shared" else o.index)
        for k, o in enumerate(spec.operands)
    ]
    body = [replace(op, name=f"value_{k}", loc=Loc("other.py", "g", k, 4, k, 9)) for k, op in enumerate(spec.body)]
    return replace(spec, name="elsewhere_90", operands=tuple(operands), body=tuple(body))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ten", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 20))])
def test_kernels_with_one_key_have_one_code(kind: str, ten: int) -> None:
    for seed in range(10 * ten, 10 * ten + 10):
        spec = Fuzz(seed, **KINDS[kind]).spec
        other = moved(spec)
        assert same_but_shared(other, lines=False) == same_but_shared(spec, lines=False)
        mine, theirs = generate(spec, host()), generate(other, host())
        assert module_text(mine.module) == module_text(theirs.module)
        assert mine.module.exports == theirs.module.exports and mine.module.notes == theirs.module.notes


@pytest.mark.parametrize("kind", KINDS)
def test_facts_survive_json(kind: str) -> None:
    for seed in range(30):
        code = generate(Fuzz(seed, **KINDS[kind]).spec, host())
        found = KernelFacts.of(json.loads(json.dumps(code.module.notes)))
        for name in ("shared", "tiles", "stages", "block", "cost"):
            assert getattr(found, name) == getattr(code, name), (seed, name)


def test_keys_tell_kernels_apart() -> None:
    spec = Fuzz(3, **PRODUCTS).spec
    keys = {
        deferred_kernel(spec, host(), DEFAULT).key,
        deferred_kernel(replace(spec, results=spec.results[:1] * 2), host(), DEFAULT).key,
        deferred_kernel(spec, host(), replace(DEFAULT, vertical=not DEFAULT.vertical)).key,
        deferred_kernel(spec, replace(host(), vector_bits=128), DEFAULT).key,
        deferred_kernel(replace(spec, body=(replace(spec.body[0], site=77), *spec.body[1:])), host(), DEFAULT).key,
    }
    assert len(keys) == 5
