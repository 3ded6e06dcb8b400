"""Which tests run a module: the answer to "where is the test for this?".

    python tests/which_tests.py --record [arguments of pytest]      runs tests, and writes down which lines each runs
    python tests/which_tests.py acronumba/host/writer.py ...        the tests that run most lines of modules

Needs `coverage` (pip install coverage). What was recorded is kept in build/which_tests, until it is recorded again.
Lines that run at import belong to no test; machine code, and what other processes run, is not seen.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "build" / "which_tests"
MOST = 20  # tests printed of a module


def record(arguments: list[str]) -> int:
    """Run tests in one process, under coverage with a context for each test; return the exit status."""
    DATA.parent.mkdir(exist_ok=True)
    settings = DATA.with_suffix(".cfg")
    settings.write_text("[run]\ndynamic_context = test_function\n", encoding="utf-8")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={DATA}"]
    command += ["--source=acronumba", "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def tests_of(module: Path) -> Counter[str]:
    """Return the tests that ran lines of a module, each with the number of lines."""
    from coverage import CoverageData

    data = CoverageData(str(DATA))
    data.read()
    lines = data.contexts_by_lineno(str(module.resolve()))
    return Counter(test for tests in lines.values() for test in set(tests) if test)


def main(argv: list[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", type=Path, metavar="FILE", help="files of the package")
    parser.add_argument("--record", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="run tests and record them")
    args = parser.parse_args(argv)
    if args.record is not None:
        return record(args.record)
    if not DATA.exists():
        parser.error("nothing is recorded yet: python tests/which_tests.py --record")
    for module in args.modules:
        found = tests_of(module)
        print(f"{module}: {len(found)} tests")
        for test, lines in found.most_common(MOST):
            print(f"{lines:7} lines  {test}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
