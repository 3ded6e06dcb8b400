"""Make build/live: the playground, and the site's lessons with "Run this page", for any server of files.

In: packages of npm (`npm ci` here), and NumPy for WebAssembly: a wheel or zip that ACRONUMBA_PYODIDE_NUMPY names (for
Python 3.14 if `cp314` is in its name, else for 3.11), or what `numpy_wasm.py` builds. The site is copied if `make docs`
has made it, and its lessons get a script. Without NumPy nothing is made, and that is said.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SITE, LIVE, KEPT = ROOT / "build/site", ROOT / "build/live", ROOT / "build/numpy_wasm.zip"
NEEDS = ("networkx", "rich", "platformdirs", "Pygments", "markdown-it-py", "mdurl")
LEXERS = ("__init__", "_mapping", "python", "special")  # of Pygments: those of our texts
PYODIDE = ("pyodide.mjs", "pyodide.asm.*", "pyodide-lock.json", "python_stdlib.zip")
FILES = ("worker.js", "live.js", "play.js", "lesson.js", "live.css")
EXAMPLES = {"Recursive trees": "tree", "Sentences": "sentences", "Pairs": "pairs", "A stack machine": "stack_machine"}
STAY = ("10_", "11_")  # lessons that need threads, and PyTorch
MISSING = "NOT MADE: no NumPy for WebAssembly; name a file by ACRONUMBA_PYODIDE_NUMPY, or apt-get install emscripten"


def numpy_file() -> Path:
    """Return NumPy for WebAssembly; exit where there is none."""
    if given := os.environ.get("ACRONUMBA_PYODIDE_NUMPY"):
        return Path(given)
    if not KEPT.exists():
        python = next(filter(None, map(shutil.which, ("python3.11", "python3"))), sys.executable)
        KEPT.parent.mkdir(exist_ok=True)
        if not shutil.which("emcc") or subprocess.run([python, HERE / "numpy_wasm.py", KEPT], check=False).returncode:
            sys.exit(MISSING)
    return KEPT


def _zip(to: Path, files: dict[str, Path]) -> None:
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, file in sorted(files.items()):
            out.writestr(zipfile.ZipInfo(name), file.read_bytes(), zipfile.ZIP_DEFLATED)


def _needs() -> dict[str, Path]:
    """Return the files of the packages that are needed, and their licences."""
    out = {}
    for name in NEEDS:
        for file in distribution(name).files or ():
            inside = file.as_posix()
            if (file.suffix == ".py" and "/tests/" not in inside) or ".dist-info/" in inside:
                out[inside] = Path(str(file.locate()))
    return {name: file for name, file in out.items() if not name.startswith(("..", "pygments/lexers/"))} | {
        name: file for name, file in out.items() if name.startswith("pygments/lexers/") and file.stem in LEXERS
    }


def _package() -> dict[str, Path]:
    files = {file.relative_to(ROOT).as_posix(): file for file in (ROOT / "acronumba").rglob("*") if file.is_file()}
    own = {name: file for name, file in files.items() if "__pycache__" not in name and "acronumba/bench/" not in name}
    return {**own, "cells.py": HERE / "cells.py"}


def _examples() -> dict[str, str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    return {"README": f"{readme}page = encode.explore(trees[:8], p=p)\n"} | {
        title: (ROOT / f"examples/{name}.py").read_text(encoding="utf-8") for title, name in EXAMPLES.items()
    }


def _loaded(folder: Path) -> int:
    """Return how many megabytes a browser loads from a server that compresses."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    raw = sum(file.stat().st_size for file in files if file.suffix == ".zip")
    packed = sum(len(gzip.compress(file.read_bytes(), 6)) for file in files if file.suffix != ".zip")
    return -(-(raw + packed) // 1_000_000)


def build(to: Path, site: Path, numpy: Path | None, pyodide: Path) -> None:
    """Write all files; without NumPy, for tests of the page alone, there is no `numpy.zip`."""
    shutil.rmtree(to, ignore_errors=True)
    if site.exists():
        shutil.copytree(site, to)
    live = to / "live"
    (live / "pyodide").mkdir(parents=True)
    for pattern in PYODIDE:
        for file in pyodide.glob(pattern):
            shutil.copy(file, live / "pyodide")
    if numpy is not None:
        shutil.copy(numpy, live / "numpy.zip")
    _zip(live / "needs.zip", _needs())
    _zip(live / "acronumba.zip", _package())
    for name in FILES:
        shutil.copy(HERE / name, live)
    (live / "examples.json").write_text(json.dumps(_examples()), encoding="utf-8")
    size = _loaded(live)
    play = (HERE / "play.html").read_text(encoding="utf-8").replace("{megabytes}", str(size))
    (to / "play.html").write_text(play, encoding="utf-8")
    style = '<link rel="stylesheet" href="../live/live.css">'
    script = f'<script type="module" src="../live/lesson.js?mb={size}"></script>'
    for lesson in to.glob("lessons/[0-9]*.html"):
        if lesson.name.startswith(STAY):
            continue
        text = lesson.read_text(encoding="utf-8").replace("</head>", f"{style}{script}</head>", 1)
        lesson.write_text(text, encoding="utf-8")
    print(f"{to}/play.html: {size} MB to load; serve it: python -m http.server -d {to}")


def main() -> None:
    numpy = numpy_file()
    build(LIVE, SITE, numpy, HERE / "node_modules" / ("pyodide-314" if "cp314" in numpy.name else "pyodide"))


if __name__ == "__main__":
    main()
