"""The command that tries NumPy's functions: `python tests/numpy_table.py --help`; see `tests.support.numpy_table`."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # not this folder: there is a `cli`, a `data` ... in it

from tests.support.numpy_table import main  # noqa: E402

if __name__ == "__main__":
    main()
