"""The command that runs random programs: `python tests/fuzz.py --help`, and see `tests.support.fuzz`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # not this folder: there is a `cli`, a `data` ... in it

from tests.support.fuzz import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
