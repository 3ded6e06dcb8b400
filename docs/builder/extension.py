"""The Sphinx extension of this site: it writes the pages that are made of the package, before Sphinx looks for pages.

In: the package, `examples/` and the notebooks of `lessons/`. Out: `errors/` (a page for each code), `command_line.md`,
`gallery/` and the explorer's pages, notebooks that have run, and notebooks to download. What has not changed is not
written anew. Lessons and models run beside whatever else is done before Sphinx reads pages, such as the pages of the
reference: `work`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from acronumba.cli.lessons import notebooks
from builder import codes, commands, gallery, work
from builder.files import write

HERE = Path(__file__).resolve().parent.parent
TITLE = re.compile(r"\A# .*\n")
TITLE_OF_LESSON = re.compile(r"^# \d+\. .*\n", re.M)
EXAMPLE = re.compile(r"\]\((?:\.\./)+examples(?:/(\w+)\.py)?\)")
FIRST, LAST = 0, 1000  # priorities of handlers of one event; those of other extensions lie between
README = re.compile(r"\]\((?:\.\./)+README\.md\)")


def setup(app: Any) -> dict[str, Any]:
    """Connect what is done to the events of Sphinx."""
    work.prepare()
    app.connect("builder-inited", _begin, priority=FIRST)
    app.connect("builder-inited", _write, priority=LAST)
    app.connect("source-read", _adapt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _begin(app: Any) -> None:
    left_out = {path for pattern in app.config.nb_execution_excludepatterns for path in HERE.glob(pattern)}
    found = set((HERE / "lessons").glob("*.md")) - left_out
    notebooks = sorted(found) if app.config.nb_execution_mode == "cache" else []
    app.work = work.Work(notebooks, Path(app.config.nb_execution_cache_path), app.config.nb_execution_timeout)


def _write(app: Any) -> None:
    codes.write(HERE / "errors")
    commands.write(HERE / "command_line.md")
    for folder, solutions in ((work.LESSONS, False), (work.LESSONS / "solutions", True)):
        for name, text in notebooks(solutions=solutions).items():
            write(folder / f"{name}.ipynb", text)
    app.work.finish()
    gallery.write(HERE / "gallery")


def _adapt(app: Any, name: str, source: list[str]) -> None:
    """Let links into the repository lead to pages of the site; show on the page of a model what it came to."""
    text = README.sub("](/first_model.md)", EXAMPLE.sub(lambda of: f"](/gallery/{of[1] or 'index'}.md)", source[0]))
    folder, _, model = name.partition("/")
    if name == "zoo/index":
        text += gallery.toctree(entry.name for entry in gallery.entries() if not entry.is_example)
    elif name == "lessons/index":
        text = text.replace("download, too.", 'download, and so has the <a href="README.ipynb">README</a>.')
    elif folder == "lessons":
        download = f'<p>Download this lesson as a notebook: <a href="{model}.ipynb">without solutions</a> or <a '
        download += f'href="solutions/{model}.ipynb">with solutions</a>.</p>'
        text = TITLE_OF_LESSON.sub(lambda title: f"{title[0]}\n{download}\n", text, count=1)
    elif folder == "zoo":
        text = TITLE.sub(lambda title: f"{title[0]}\n{gallery.head(model)}\n", text)
    source[0] = text
