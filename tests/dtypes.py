"""The command that tries the dtype table: `python tests/dtypes.py --help`, and see `tests.support.dtypes`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # not this folder: there is a `cli`, a `data` ... in it

from tests.support.dtypes import main  # noqa: E402

if __name__ == "__main__":
    main()
