"""The command that tries writes into arrays: `python tests/masked.py --help`, and see `tests.support.masked`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # not this folder: there is a `cli`, a `data` ... in it

from tests.support.masked import main  # noqa: E402

if __name__ == "__main__":
    main()
