"""What is said of the package in several places is said alike, and what a wheel holds."""

from __future__ import annotations

import fnmatch
import platform
import re
import tomllib
from pathlib import Path

import pytest

import acronumba
from acronumba.cli import doctor

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_changelog_has_the_version() -> None:
    versions = re.findall(r"^## \[([\d.]+)\] - (unreleased|\d{4}-\d\d-\d\d)$", text("CHANGELOG.md"), re.M)
    assert versions[0][0] == acronumba.__version__
    assert all(when != "unreleased" for _, when in versions[1:])


def test_the_citation_and_the_recipe_have_the_version() -> None:
    assert re.findall(r"^version: (.*)", text("CITATION.cff"), re.M) == [acronumba.__version__]
    assert re.findall(r'version: "(.*)"', text("recipe/recipe.yaml")) == [acronumba.__version__]


def test_the_recipe_needs_what_the_package_needs() -> None:
    run = text("recipe/recipe.yaml").split("  run:\n", 1)[1].split("\n\n", 1)[0]
    needs = {line.strip(" -").replace(" ", "", 1) for line in run.splitlines()}
    assert needs == {*PROJECT["project"]["dependencies"], "python" + PROJECT["project"]["requires-python"]}
    assert f"- setuptools {PROJECT['build-system']['requires'][0].removeprefix('setuptools')}" in text(
        "recipe/recipe.yaml"
    )


def test_there_is_a_classifier_for_each_python() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    first, end = (int(minor) for minor in re.findall(r"\(3, (\d+)\)", text("Makefile").split("VERSION :=", 1)[1])[:2])
    assert named == [f"3.{minor}" for minor in range(first, end)]
    assert all(f'"{version}"' in text(".github/workflows/systems.yml") for version in named)
    assert all(version in text("Makefile").split("test-all:", 1)[1] for version in named)


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    files = [p for p in (ROOT / "acronumba").rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert any(p.suffix == ".md" for p in files)
    assert [p.name for p in files if not any(fnmatch.fnmatch(p.name, pattern) for pattern in patterns)] == []
    folders = {p.parent for p in (ROOT / "acronumba").rglob("*.py")}
    packages = [folder for folder in folders if (folder / "__init__.py").exists()]
    assert folders == set(packages)


def test_every_file_that_must_be_there_is_in_the_source_distribution() -> None:
    manifest = text("MANIFEST.in")
    for name in ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "README.md"):
        assert (ROOT / name).exists()
        assert name in manifest


@pytest.mark.parametrize(
    ("system", "machine", "said"),
    [
        ("Linux", "x86_64", "tested"),
        ("Linux", "aarch64", "expected to work, not tested"),
        ("Darwin", "arm64", "expected to work, not tested"),
        ("Windows", "AMD64", "expected to work, not tested"),
        ("Darwin", "x86_64", "nothing is known"),
    ],
)
def test_the_doctor_says_which_systems_are_tested(
    system: str, machine: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert doctor.supported().startswith(said)
