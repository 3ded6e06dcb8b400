"""Enumerations whose members are arguments of calls, for models in files of their own."""

from __future__ import annotations

import enum


class Part(enum.IntEnum):
    HEAD = 1
    BODY = 2


class Plain(enum.Enum):
    ONE = 1
