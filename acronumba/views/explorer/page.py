"""The explorer's page: one self-contained HTML file that loads nothing.

In: the data of `data.explorer_data`. Out: the text of the page, the data as JSON, or a frame for a notebook. The
scripts of `js` are concatenated to one module, in the order of `MODULES`, without their `import` statements. Only this
script and this style are allowed, by their hashes; the scripts never turn the user's strings into markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeAlias

from acronumba.views.words import counted

Data: TypeAlias = Mapping[str, Any]  # as `schema.json` describes it

MODULES = (
    "columns", "links", "ready", "layout", "game", "tokens",  # no DOM
    "frame", "source", "stages", "strip", "schedule", "graph", "player", "compare", "predict", "detail", "search",
    "keys", "start",
)  # fmt: skip
HEIGHT = 640  # pixels of a frame in a notebook


def json_text(data: Data) -> str:
    """Return the data as JSON, the same for the same data."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # half a character becomes JSON's escape of it


def page(data: Data) -> str:
    """Return the page."""
    code, style, title = script(), _read("style.css"), html.escape(headline(data))
    parts = {
        "TITLE": title,
        "STYLE": style,
        "CODE": code,
        "DATA": json_text(data).replace("<", "\\u003c"),
        "CSP": f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; base-uri 'none'",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))


def headline(data: Data) -> str:
    """Return "classify: 1,590 nodes in 12 batches (proved optimal)"."""
    s = data["summary"]
    bound = "proved optimal" if s["optimal"] else f"at least {s['lower_bound']:,}"
    return f"{data['model']}: {counted(s['nodes'], 'node')} in {counted(s['batches'], 'batch')} ({bound})"


def script() -> str:
    """Return the scripts as one module."""
    texts = (_read(f"js/{name}.js") for name in MODULES)
    return "\n".join(re.sub(r"^import\b[^;]*;\n", "", text, flags=re.M) for text in texts)


def frame(data: Data) -> str:
    """Return the page in a sandboxed iframe, which cannot access the notebook around it."""
    label = html.escape(headline(data), quote=True)
    return (
        f'<iframe sandbox="allow-scripts" title="{label}" width="100%" height="{HEIGHT}" '
        f'srcdoc="{html.escape(page(data), quote=True)}"></iframe>'
    )


def display(data: Data) -> None:
    """Show the page in a notebook.

    Raises
    ------
    RuntimeError
        IPython is not installed; the message says how to write the page to a file.
    """
    try:
        from IPython.display import publish_display_data
    except ImportError:
        raise RuntimeError("`show` is for notebooks; `html(path)` writes the same page to a file") from None
    publish_display_data({"text/plain": headline(data), "text/html": frame(data)})


def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
