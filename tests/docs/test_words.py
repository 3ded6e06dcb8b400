"""The pages say things in the field's words, and the glossary explains them.

What stands in code, in a link's address or in a comment of Markdown is left out: names of options and functions are
what they are. `--update-golden` writes the table of remarks in `docs/glossary.md`.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from acronumba.cli.main import parser
from acronumba.errors.codes import CODES
from acronumba.ir.notes import KINDS

CODE = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)", re.S)
INSIDE = ("architecture.md", "contributing.md")  # how the compiler is built: `extent` is a word of the IR
PRODUCT = r"(?<!matrix )(?<!outer )(?<!matrix\n)(?<!outer\n)products?"
OLD = {  # what is not said any more, and what is
    r"processors?": "CPU",
    PRODUCT: "matrix product",
    r"figures": "measurements, results",
    r"refus\w+": "reject, error, unsupported",
    r"extents?": "dimension, dynamic dimension",
    r"arms?": "branch",
    r"pass(?:es)? over (?:the )?nodes": "kernel stages",
    r"in (?:how many )?parts": "micro-batches",
    r"yardsticks?": "baselines",
    r"way back": "backward pass",
}
RIDDLES = (  # sentences of which a reader asked what they mean
    "it **is** that function", "need not be looked through", "not in this version", "call of its plain function",
    "*e* be the largest", "reached twice is stored", "outside world", "others had to follow", "not at all",
    "needs more at any one time", "reads other weights in other places", "acts on each row of an array alone is one",
    "undone where it does not pay", 'says "at least"', "passed to a kernel once", "put it in a cycle of kernels",
    "no other need know", "they take from it as well", "Heavy weights", "To and fro", "stay where they are.**",
)  # fmt: skip
NAMES = {  # names that the package had, and those that took their place
    "WayBack": "BackwardPlan", "way_back": "plan_backward", "BackExecutable": "BackwardExecutable",
    "Here": "CpuBackend", "Desk": "RequestQueue, Workspace", "Room": "MemoryPolicy, HeapBuilder, Scratch",
    "Witness": "SourceGuard", "witness": "source_guard", "Twin": "ShadowArray, DeviceCopy", "twin": "shadow",
    "Give": "AdjointOutput", "Knot": "CycleOfPools", "Knowledge": "Facts", "Resweep": "Restart", "Poison": "ErrorValue",
    "Maybe": "MaybeUnbound", "Box": "NonlocalCell", "ArrayPlace": "AllocationSite", "Template": "JoinShape",
    "Contract": "TensorMath", "refuse": "reject", "Refused": "Rejected", "pass_by": "duplicate_loop_exits",
}  # fmt: skip
PHRASES = r"\b(?:ways? back|the way there|there and back|refus\w+)\b"
BEGIN, END = "<!-- remarks -->\n", "<!-- end of remarks -->"


def pages(root: Path) -> list[Path]:
    errors = root / "acronumba" / "errors" / "pages"
    return [root / "README.md", *sorted((root / "docs").rglob("*.md")), *sorted(errors.glob("*.md"))]


def prose(path: Path) -> str:
    return CODE.sub(" ", path.read_text(encoding="utf-8"))


def terms(root: Path) -> list[str]:
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^### (.+)$", text, re.M)


@pytest.mark.parametrize("old", OLD)
def test_pages_use_the_words_of_the_field(root: Path, old: str) -> None:
    found = {}
    for path in pages(root):
        if path.name == "glossary.md" or (path.name in INSIDE and old == "extents?"):
            continue
        if path.parent.name == "lessons" and old == PRODUCT:
            continue  # each speaks of one product, and says which at its beginning
        text = prose(path)
        if hits := [text[m.start() - 40 : m.end() + 40] for m in re.finditer(rf"\b(?:{old})\b", text, re.I)]:
            found[path.name] = hits
    assert not found, f"say: {OLD[old]}"


@pytest.mark.parametrize("old", OLD)
def test_codes_and_commands_use_them_too(old: str) -> None:
    said = [text for code in CODES.values() for text in (code.title, code.rewrite)]
    for action in parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            said += [command.format_help() for command in action.choices.values()]
    assert len(said) > 2 * len(CODES)
    assert not [text for text in said if re.search(rf"\b(?:{old})\b", CODE.sub(" ", text), re.I)], f"say: {OLD[old]}"


def test_what_the_package_prints_uses_them_too(root: Path) -> None:
    """Every text with a space in it that is no docstring, where reports, pages and commands are made."""
    found = []
    folders = (root / "acronumba" / name for name in ("api", "cli", "serve", "views"))
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for text in (node.value for node in texts if id(node) not in documented and " " in node.value):
            found += [(path.name, text) for old in OLD if re.search(rf"\b(?:{old})\b", CODE.sub(" ", text), re.I)]
    assert not found


def test_the_package_has_no_former_name(root: Path) -> None:
    """Neither as a name nor, for some, in a docstring or comment."""
    found = []
    for path in sorted((root / "acronumba").rglob("*.py")):
        room = path.relative_to(root / "acronumba").parts[0]
        text = path.read_text(encoding="utf-8")
        if NAMES.keys().isdisjoint(re.findall(r"\w+", text)) and not re.search(PHRASES, text, re.I):
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and token.string in NAMES and room != "zoo":
                found.append(f"{path.name}, line {token.start[0]}: {token.string}: say {NAMES[token.string]}")
            elif token.type in (tokenize.STRING, tokenize.COMMENT) and (hit := re.search(PHRASES, token.string, re.I)):
                found.append(f"{path.name}, line {token.start[0]}: {hit[0]}")
    assert not found, "\n".join(found)


def test_riddles_are_gone(root: Path) -> None:
    for path in pages(root):
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert not [riddle for riddle in RIDDLES if riddle in text], path.name


def test_pages_use_every_term_of_the_glossary(root: Path) -> None:
    text = " ".join(" ".join(prose(path) for path in pages(root) if path.name != "glossary.md").split()).lower()
    assert len(terms(root)) >= 35
    assert not [term for term in terms(root) if not re.search(rf"\b{re.escape(term.lower())}", text)]


def test_each_term_has_a_sentence_and_its_names_elsewhere(root: Path) -> None:
    text = (root / "docs" / "glossary.md").read_text(encoding="utf-8").split("## Remarks")[0]
    entries = re.split(r"^### ", text, flags=re.M)[1:]
    for entry in entries:
        name, _, body = entry.partition("\n\n")
        assert re.match(r"[A-Z][^|]+\.\n", body), name
        head, _, names = body[body.index("| ACRoBat") :].splitlines()[:3]
        assert head == "| ACRoBat | DyNet | TF Fold | CoRa | PyTorch |", name
        assert names.count("|") == 6, name


def test_the_glossary_has_every_remark_of_explain(root: Path, request: pytest.FixtureRequest) -> None:
    path = root / "docs" / "glossary.md"
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    found, after = rest.split(END)
    table = "\n| remark | means |\n|---|---|\n" + "".join(f"| `{k}` | {kind.meaning} |\n" for k, kind in KINDS.items())
    if request.config.getoption("--update-golden"):
        path.write_text(before + BEGIN + table + "\n" + END + after, encoding="utf-8")
    else:
        assert found == table + "\n"


def test_links_into_the_glossary_lead_to_a_term(root: Path) -> None:
    known = {term.lower().replace(" ", "-") for term in terms(root)}
    links = {link for path in pages(root) for link in re.findall(r"glossary\.md#([\w-]+)", path.read_text("utf-8"))}
    assert len(links) >= 15
    assert links <= known
