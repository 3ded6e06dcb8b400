"""Tables of words, and files of the small language that import them and each other."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import acronumba.runtime.library
from acronumba.data import words as values
from acronumba.emit import interpret, parse, text, tree
from acronumba.emit.words import RecordLayout
from acronumba.ir import spec
from acronumba.kernels import sums
from acronumba.kernels.cuda import marshal, persistent
from acronumba.kernels.cuda import sums as cuda_sums
from acronumba.runtime import state
from acronumba.runtime.backward import transposer
from acronumba.runtime.devices.back import sums_module
from acronumba.runtime.engines import runtime_module
from acronumba.runtime.library import back_words, launch_words, words
from acronumba.runtime.watched import watched_module

LIBRARY = Path(acronumba.runtime.library.__file__).parent
FILES = sorted(p.stem for p in LIBRARY.glob("*.py") if p.stem != "__init__")
TABLES = [
    state.STATE, state.KERNEL, state.STAGE, state.POOL, state.JOB, values.RECORD, values.LIST, spec.PARAMETERS,
    marshal.STREAM, marshal.ROW, persistent.STEP, persistent.BARRIER, persistent.POST, persistent.PIECE,
    launch_words.LAUNCH, launch_words.KERNEL,
    launch_words.FUNCTION, launch_words.GRID, launch_words.ABOUT, back_words.BACK, back_words.KERNEL,
    back_words.SOURCE, back_words.EXTENT, back_words.GIVE, back_words.PART, back_words.HEAD, sums.SUM, sums.LINK,
    cuda_sums.TASKS,
]  # fmt: skip


def test_a_table_says_where_its_words_are() -> None:
    row = RecordLayout("start  first byte\nshape[2]  rows,\n   and columns\nend  byte behind the last\n")
    assert row.at == {"start": 0, "shape": 1, "end": 3} and (row.count, row.size) == (4, 32)
    assert row.constants("ROW_") == {"ROW_START": 0, "ROW_SHAPE": 1, "ROW_END": 3}


@pytest.mark.parametrize("text", ["a  one\na  two\n", "a  one\n- two\n"])
def test_two_words_of_one_name_and_lines_without_a_name_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="no name of a word, or one that is taken"):
        RecordLayout(text)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: next(iter(t.at)))
def test_each_word_says_what_it_is(table: RecordLayout) -> None:
    lines = [line for line in table.text.strip().splitlines() if not line.startswith(" ")]
    bare = {line.split()[0] for line in lines if len(line.split()) == 1}
    assert bare <= {"known_groups", "depth_lengths", "root_dst", "count", "warps", "free"}, bare


def test_names_of_words_are_of_one_table() -> None:
    for module in (words, launch_words, back_words):
        with pytest.raises(AttributeError, match="no word of a table"):
            module.NO_SUCH_WORD  # noqa: B018
    assert (state.AT["n"], len(state.TABLE), 24) == (words.N, words.K_WORDS, words.RECORD_BYTES)
    assert marshal.STREAM.at["top"] == launch_words.STREAM_TOP and launch_words.ROW_BYTES == 72


@pytest.mark.parametrize("name", FILES)
def test_python_may_import_the_files_of_the_library(name: str) -> None:
    importlib.import_module(f"acronumba.runtime.library.{name}")


def test_every_file_of_the_library_is_in_it() -> None:
    modules = runtime_module(), transposer(), sums_module(), watched_module()
    found = {f.name for module in modules for f in module.functions}
    for name in FILES:
        source = (LIBRARY / f"{name}.py").read_text(encoding="utf-8")
        defined = set(re.findall(r"^def (\w+)\(", source, re.M))
        python = name in ("words", "back_words", "records") or re.fullmatch(
            "launch(_words|_steps|_rounds|_graph)?", name
        )
        assert python or defined <= found, name


def test_library_code_reads_words_by_their_names() -> None:
    for name in FILES:
        source = (LIBRARY / f"{name}.py").read_text(encoding="utf-8")
        assert not re.findall(r"\b(?:ld|st)\((?:ST|words|stream|about|state|params|job|stage), \d", source), name


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_files_import_functions_numbers_and_what_python_makes_of_trees(package: Path) -> None:
    (package / "numbers_of_words.py").write_text("FOUR = 4\ndef half(x):\n    return x >> 1\n")
    (package / "words_one.py").write_text(
        "from acronumba.emit.language import i64\nTWO = 2\ndef twice(x: i64) -> i64:\n    return TWO * x\n"
    )
    (package / "words_two.py").write_text(
        "from words_one import TWO, twice\nfrom numbers_of_words import FOUR, half\n"
        "def run(x: i64) -> i64:\n    return half(twice(x) + FOUR) + TWO\n"
    )
    functions = parse.parse_files(["words_two", "words_one"])
    assert [f.name for f in functions] == ["run", "twice"]
    assert "return (twice(x) + 4 >> 1) + 2" in text.function_text(functions[0], ["twice"])
    module = tree.Module("words", functions, ("run",))
    assert interpret.run(module, "run", [5], interpret.InterpreterMemory()) == 9


def test_several_words_of_an_array_are_read_one_after_the_other() -> None:
    (short,) = parse.parse("def f(a) -> i64:\n    x, y = lds(a, 3, 5)\n    return x - y\n")
    (long,) = parse.parse("def f(a) -> i64:\n    x = ld(a, 3)\n    y = ld(a, 5)\n    return x - y\n")
    assert text.function_text(short) == text.function_text(long)
    (paired,) = parse.parse("def f(a) -> i64:\n    x, y = ld(a, 3), ld(a, 5)\n    return x - y\n")
    assert text.function_text(paired) == text.function_text(long)
    for wrong in ("x, y = lds(a, 3)", "x, y = lds(a + 8, 3, 5)", "x, y = a"):
        with pytest.raises(SyntaxError, match="no such statement"):
            parse.parse(f"def f(a):\n    {wrong}\n")
    with pytest.raises(SyntaxError, match="a value reads what the same statement assigns"):
        parse.parse("def f(a):\n    x, a = a, x\n")


@pytest.mark.parametrize(
    "line",
    [
        "from words_other import missing",
        "from words_other import known as other",
        "from acronumba.emit.language import no_such_name",
        "from math import inf as infinity",
        "from string import digits",
        "import math",
    ],
)
def test_what_is_not_there_is_an_error_of_its_line(package: Path, line: str) -> None:
    (package / "words_other.py").write_text("def known(x):\n    return\n")
    (package / "words_wrong.py").write_text(f'"""Wrong."""\n{line}\n')
    with pytest.raises(SyntaxError, match="line 2: "):
        parse.parse_files(["words_wrong", "words_other"])


def test_the_text_of_a_module_names_the_words_of_its_tables() -> None:
    b = tree.Builder("f", [("T", tree.I64), ("other", tree.I64)])
    for k in range(4):
        b.store(b["T"], k, tree.load(b["other"], k))
    table = RecordLayout("first   one\nmany[2]   two\nlast   four")
    lines = text.module_text(tree.Module("m", (b.function(),), ("f",), tables={"T": table})).splitlines()
    written = {"FIRST": "ld(other)", "MANY": "ld(other, 1)", "MANY + 1": "ld(other, 2)", "LAST": "ld(other, 3)"}
    assert lines[1:] == [f"    st(T, {word}, {value})" for word, value in written.items()]
