"""The gallery: each model of the zoo and each example, its schedule as a picture, its trace, and the explorer's page.

In: the models of `acronumba.zoo`, and the scripts of `examples/`. Out: `gallery/`, with a page for each example (the
zoo has pages of its own), and `explorer/NAME.html` for each model.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from acronumba import Model, zoo
from acronumba.cli.examples import find_example
from acronumba.views.explorer.page import headline
from acronumba.views.explorer.summary import strip
from acronumba.views.words import letter
from builder.files import BUILD, ROOT, fill

MADE = BUILD / "gallery"  # what the models came to
EXPLORER = BUILD / "extra" / "explorer"  # their pages, which are copied to the site
INSTANCES = 8
SIZE = 64  # H of the zoo's models
RUNS = 2  # of which the faster is shown
TRAINING = ("train_tagger",)  # of the examples that train, which are run: gradients of the others take long to compile
SIZES = re.compile(r'width="(\d+)" height="(\d+)"')  # of a picture
LINES = 60  # of a trace


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the gallery."""

    name: str
    source: str  # as `acronumba explore` takes it: a module or a file
    text: str  # one sentence

    @property
    def is_example(self) -> bool:
        """Whether it is a script of `examples/`."""
        return self.source.endswith(".py")

    @property
    def title(self) -> str:
        """The title of its page."""
        if self.is_example:
            return f"{self.name}.py"
        page = (ROOT / "docs" / "zoo" / f"{self.name}.md").read_text(encoding="utf-8")
        return page.partition("\n")[0].removeprefix("# ")

    @property
    def page(self) -> str:
        """Its page, seen from the gallery."""
        return self.name if self.is_example else f"../zoo/{self.name}"


def entries() -> list[Entry]:
    """Return the models of the zoo, then the examples."""
    found = []
    for module in iter_modules(zoo.__path__):
        if (ROOT / "docs" / "zoo" / f"{module.name}.md").exists():
            source = f"acronumba.zoo.{module.name}"
            found.append(Entry(module.name, source, _sentence(importlib.import_module(source).__doc__)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.S)
        found.append(Entry(path.stem, f"examples/{path.name}", _sentence(text and text[1])))
    return found


def _sentence(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


def make(entry: Entry) -> None:
    """Run a model as `acronumba explore` does; keep its schedule, its trace and the explorer's page."""
    os.chdir(ROOT)
    module, page = _module(entry), EXPLORER / f"{entry.name}.html"
    if module is None:
        page.unlink(missing_ok=True)
        _keep(entry, {})
        return
    name = next(n for n, v in vars(module).items() if isinstance(v, Model))
    if entry.is_example:
        model, columns, shared = find_example(entry.source, name, INSTANCES)
    else:
        model, columns, shared = getattr(module, name), (module.instances(INSTANCES),), {"p": module.params(SIZE)}
    traced: Any = model.value_and_grad if name == "loss" else model
    trace = min((traced.trace(*columns, **shared) for _ in range(RUNS)), key=lambda t: t.seconds["execute"])
    exploration = trace.explored(options=False)  # what each is worth takes as long as all the rest; `explain` says it
    exploration.html(page)
    kernels = list(dict.fromkeys(batch.kernel for batch in trace.batches))
    lines = str(trace).splitlines()
    told = {
        "model": name,
        "instances": len(columns[0]),
        "headline": headline(exploration.data),
        "strip": strip(trace.batches, {kernel: letter(k) for k, kernel in enumerate(kernels)}),
        "trace": "\n".join(lines[:LINES] + ["..."] * (len(lines) > LINES)),
    }
    _keep(entry, told)


def _module(entry: Entry) -> Any:
    """Import the module of a model, or return None where it is not run."""
    if not entry.is_example:
        return importlib.import_module(entry.source)
    if entry.name.startswith("train_") and entry.name not in TRAINING:
        return None
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return importlib.import_module(entry.name)
    except SystemExit:  # a library that it needs is not installed
        return None


def _keep(entry: Entry, told: dict[str, Any]) -> None:
    (MADE / f"{entry.name}.json").write_text(json.dumps(told), encoding="utf-8")


def told_of(name: str) -> dict[str, Any]:
    """Return what a model came to."""
    found: dict[str, Any] = json.loads((MADE / f"{name}.json").read_text(encoding="utf-8"))
    return found


def picture(told: dict[str, Any], *, small: bool = False) -> str:
    """Return the schedule as a picture; small, it is bars alone, drawn out to the size of its place."""
    shape = r'viewBox="0 12 \1 60" preserveAspectRatio="none"' if small else r'viewBox="0 0 \1 \2"'
    sized = SIZES.sub(shape, told["strip"], count=1)
    if small:
        sized = re.sub("<text.*?</text>", "", sized)
    return f'<div class="schedule{" small" * small}">{sized}</div>'


def head(name: str) -> str:
    """Return what stands below the title of a model's page: its schedule, and where it can be explored."""
    told = told_of(name)
    if not told:
        return ""
    return (
        f"{picture(told)}\n\n"
        f'<p class="explore">{told["headline"]}. <a href="../explorer/{name}.html">Look through this mini-batch in the '
        f"explorer</a>.</p>\n"
    )


def write(folder: Path) -> None:
    """Write the pages."""
    found = entries()
    pages = {f"{e.name}.md": page(e) for e in found if e.is_example}
    fill(folder, {"index.md": index(found), **pages})


def page(entry: Entry) -> str:
    """Return the page of an example."""
    told = told_of(entry.name)
    source = (ROOT / entry.source).read_text(encoding="utf-8").rstrip()
    parts = [f"# {entry.title}\n", f"{entry.text}\n", head(entry.name), f"## Source\n\n```python\n{source}\n```\n"]
    if told:
        command = f"acronumba explore {entry.source}:{told['model']} -n {told['instances']}"
        parts.append(
            f"## Trace\n\n`print({told['model']}.trace(...))` of {told['instances']} instances; `{command}` makes the "
            f"page of the explorer. Times are those of the machine that built this site.\n\n"
            f"```text\n{told['trace']}\n```\n"
        )
    return "\n".join(parts)


def index(found: list[Entry]) -> str:
    """Return the page of all models."""
    cards: Callable[[bool], str] = lambda examples: "\n".join(card(e) for e in found if e.is_example is examples)
    return f"""# Gallery

Models from papers and small scripts, each with its schedule: a bar for each batch, as high as the batch has nodes,
with the letter and colour of its kernel. Each has a page with its source and its trace, and a page of the
[explorer](../explorer.md).

## Models from papers

[The models](../zoo/index.md) are modules of `acronumba.zoo`.

::::{{grid}} 1 1 2 2
:gutter: 3
{cards(False)}
::::

## Examples

Scripts of the folder `examples`. Each compares the batched results with the plain call.

::::{{grid}} 1 1 2 2
:gutter: 3
{cards(True)}
::::
{toctree(["../zoo/index", *(e.name for e in found if e.is_example)])}"""


def toctree(pages: Iterable[str]) -> str:
    """Return pages as a part of the table of contents."""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *pages, "```", ""])


def card(entry: Entry) -> str:
    """Return a card: a picture, a sentence, and two links."""
    told = told_of(entry.name)
    shown = picture(told, small=True) if told else ""
    explore = f' · <a href="../explorer/{entry.name}.html">explorer</a>' if shown else ""
    return f"""
:::{{grid-item-card}} {entry.title}
{shown}

{entry.text}

<a href="{entry.page}.html">{"source and trace" if told else "source"}</a>{explore}
:::"""
