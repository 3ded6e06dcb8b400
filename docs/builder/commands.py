"""The page of the command line, from what its commands say of themselves."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from acronumba.cli.main import parser
from builder.files import write as write_file

HEAD = """\
# Command line

`pip install .` brings the command `acronumba`; `python -m acronumba` is the same.
"""


def write(path: Path) -> None:
    """Write the page."""
    os.environ["COLUMNS"] = "96"
    top = parser()
    (commands,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    parts = [HEAD]
    for name, command in commands.choices.items():
        parts.append(f"## acronumba {name}\n\n```text\n{command.format_help().rstrip()}\n```\n")
    write_file(path, "\n".join(parts))
