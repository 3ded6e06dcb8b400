"""`Model.stages`: the text of every stage of the compiler, a mapping in order, made when it is read.

source                  the user's functions
schema                  types of the instances
ir                      the typed program
NAME                    the result of each analysis
plan                    kernels, and the nodes that are recorded
host                    the host program
kernels/NAME/cpu        the code of each kernel for the CPU
kernels/NAME/cuda       the same for a GPU, as source of `numba.cuda`; it needs none
backward/NAME           of gradients: the adjoints of each kernel, the values it keeps, and the sums for weights
tiles/cuda              the tiles of products that these call
persistent/cuda         the kernel that runs all of them in one launch
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from acronumba.pipeline.boundary import compiling
from acronumba.pipeline.texts import cuda_persistent_text, cuda_tiles_text
from acronumba.views.summary import Summarised, Summary
from acronumba.views.words import counted

if TYPE_CHECKING:
    from acronumba.analysis.backward.derive import Backward
    from acronumba.pipeline.compiled import Compiled


_TEXTS = {
    "source": "the user's functions", "schema": "the types of the instances", "ir": "the typed program",
    "plan": "kernels, and the nodes that are recorded", "host": "the host program", "kernels": "the code of a kernel",
    "backward": "the backward kernel", "tiles": "matrix products of kernels", "persistent": "all kernels in one launch",
}  # fmt: skip


class Stages(Mapping[str, str], Summarised):
    """The texts of the stages of one specialisation, by name."""

    def __init__(self, compiled: Compiled, backward: Sequence[Backward] = ()) -> None:
        self._compiled = compiled
        self._texts: dict[str, str] = {}
        self._makers: dict[str, Callable[[], str]] = {
            "source": partial(_source, compiled),
            "schema": partial(_schema, compiled),
            "ir": partial(compiled.artifacts.text, "ir"),
            **{name: partial(compiled.plan.texts.__getitem__, name) for name in compiled.plan.texts},
            "plan": partial(compiled.artifacts.text, "plan"),
            "host": compiled.artifacts.host_text,
        }
        for k, spec in enumerate(compiled.plan.kernels):
            name = spec.name if f"kernels/{spec.name}/cpu" not in self._makers else f"{spec.name}.{k}"
            self._makers[f"kernels/{name}/cpu"] = partial(compiled.artifacts.kernel_text, k)
            self._makers[f"kernels/{name}/cuda"] = partial(compiled.artifacts.cuda_text, k)
        for k, back in enumerate(backward):
            if back.outputs or back.terms:
                spec = compiled.artifacts.gradient_plan.kernels[k]
                name = spec.name if f"backward/{spec.name}" not in self._makers else f"{spec.name}.{k}"
                self._makers[f"backward/{name}"] = partial(_backward, back)
        self._makers["tiles/cuda"] = partial(cuda_tiles_text, compiled.plan, compiled.options)
        self._makers["persistent/cuda"] = partial(cuda_persistent_text, compiled.plan, compiled.options)

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            make = self._makers[name]
            with compiling(self._compiled.fn):
                self._texts[name] = make()
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def _summary(self) -> Summary:
        rows = tuple((name, _TEXTS.get(name) or _TEXTS.get(name.partition("/")[0], "an analysis")) for name in self)
        return Summary(self._compiled.fn.__qualname__, counted(len(self), "stage"), ("stage", "text"), rows)

    def __repr__(self) -> str:
        return f"<stages of {self._compiled.fn.__qualname__}: {', '.join(self)}>"


def _source(compiled: Compiled) -> str:
    """Return the source of the model, then of every other user function with instructions in the program."""
    texts = {compiled.fn.__code__.co_filename: {compiled.fn.__code__.co_firstlineno: inspect.getsource(compiled.fn)}}
    from acronumba.ir.source import functions_of

    for file, line, text in functions_of(compiled.program):
        texts.setdefault(file, {}).setdefault(line, text)
    parts = []
    for file, found in texts.items():
        for line, text in sorted(found.items()):
            parts.append(f"# {file}:{line}\n{inspect.cleandoc(text) if text.startswith(' ') else text.rstrip()}")
    return "\n\n\n".join(parts) + "\n"


def _backward(back: Backward) -> str:
    from acronumba.analysis.backward.remarks import backward_text

    return backward_text(back)


def _schema(compiled: Compiled) -> str:
    from acronumba.data.schema import schema_text

    return schema_text(compiled.schema)
