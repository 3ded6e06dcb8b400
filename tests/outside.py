"""The command that runs programs outside of the language: see `python tests/outside.py --help`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # not this folder: there is a `cli`, a `data` ... in it

from tests.support.outside import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
