"""Check a built site: every link inside of it leads somewhere, and no page loads anything from the network.

python docs/builder/links.py build/site
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Not `html.parser`: its reading of all pages takes several seconds. Comments and what scripts hold are no tags.
ATTRIBUTES = r"""(?:[^>"']|"[^"]*"|'[^']*')*"""
TAG = re.compile(rf"<!--.*?-->|<(?P<tag>[a-z][\w-]*)(?P<attributes>{ATTRIBUTES})>", re.I | re.S)
SCRIPT = re.compile(rf"(<(script|style)\b{ATTRIBUTES}>).*?</\2\s*>", re.I | re.S)
ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
LOADED = {"script", "img", "iframe", "source", "video", "audio", "embed"}  # what has `src` is loaded with the page


class Page:
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        for found in TAG.finditer(SCRIPT.sub(r"\1", text)):
            if found["tag"]:
                self._tag(found["tag"].lower(), {m[1].lower(): unescape(m[2] or m[3] or m[4] or "")
                                                 for m in ATTRIBUTE.finditer(found["attributes"])})  # fmt: skip

    def _tag(self, tag: str, of: dict[str, str]) -> None:
        self.places |= {of[name] for name in ("id", "name") if name in of}
        if tag in LOADED and "src" in of:
            self.loads.append(of["src"])
        elif tag == "link" and of.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loads.append(of.get("href", ""))
        elif tag == "a" and "href" in of:
            self.links.append(of["href"])


@cache
def page(path: Path) -> Page:
    """Return a page, read once."""
    return Page(path.read_text(encoding="utf-8"))


def wrong(site: Path) -> Iterator[str]:
    """Yield what is wrong with the pages of a site."""
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name.startswith("_static/"):  # templates of the theme
            continue
        found = page(path)
        for target in found.loads:
            if urlsplit(target).netloc:
                yield f"{name} loads {target}"
        for target in [*found.loads, *found.links]:
            within = f"{path.name}{target}" if target.startswith("#") else target
            if problem := _problem(path.parent, within):
                yield f"{name}: {target}: {problem}"
    for path in sorted(site.rglob("*.css")):
        if "url(http" in path.read_text(encoding="utf-8") or "url(//" in path.read_text(encoding="utf-8"):
            yield f"{path.relative_to(site).as_posix()} loads from the network"


@cache
def _problem(folder: Path, target: str) -> str:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not target:
        return ""
    there = folder / unquote(parts.path)
    if there.is_dir():
        return "a folder, which has no page where there is no server"
    if not there.exists():
        return "there is no such file"
    place = unquote(parts.fragment)
    is_state = "=" in place  # what is selected in a page of the explorer
    if place and not is_state and there.suffix == ".html" and place not in page(there.resolve()).places:
        return "there is no such place in it"
    return ""


def main(site: str) -> int:
    """Print what is wrong; return how many things are."""
    found = list(wrong(Path(site)))
    print("\n".join(found) or f"{sum(1 for _ in Path(site).rglob('*.html'))} pages; every link leads somewhere")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
