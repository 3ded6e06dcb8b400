"""Compare a wheel with the sources, and with the wheel that the source distribution makes.

python .ci/contents.py WHEEL WHEEL_OF_THE_SDIST
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(wheel: str, other: str) -> int:
    """Return how many files are wrong; print them."""
    with zipfile.ZipFile(wheel) as mine, zipfile.ZipFile(other) as theirs:
        inside = {n: mine.read(n) for n in mine.namelist() if ".dist-info/" not in n}
        again = {n: theirs.read(n) for n in theirs.namelist() if ".dist-info/" not in n}
    sources = {
        str(path.relative_to(ROOT)): path.read_bytes()
        for folder in (
            ROOT / "acronumba",
            *(ROOT / "acronumba").glob("lessons"),
        )  # a link, which `rglob` does not follow
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wrong = [f"not in the wheel: {n}" for n in sorted(sources.keys() - inside.keys())]
    wrong += [f"in the wheel alone: {n}" for n in sorted(inside.keys() - sources.keys())]
    wrong += [f"the source distribution makes another: {n}" for n in sorted(inside) if again.get(n) != inside[n]]
    print("\n".join(wrong) or f"{len(inside)} files, as in the sources")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
