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
    assert [f"3.{minor}" for minor in range(first, end)] == [*doctor.TESTED]
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
    ("system", "machine", "version", "said"),
    [
        ("Linux", "x86_64", "3.12.1", "tested"),
        ("Linux", "x86_64", "3.14.0", "tested with other versions of Python: 3.11, 3.12, 3.13"),
        ("Linux", "aarch64", "3.12.1", "no test runs on such a system"),
        ("Darwin", "arm64", "3.12.1", "no test runs on such a system"),
        ("Windows", "AMD64", "3.12.1", "no test runs on such a system"),
    ],
)
def test_the_doctor_says_which_systems_are_tested(
    system: str, machine: str, version: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "python_version_tuple", lambda: tuple(version.split(".")))
    found = doctor.supported()
    assert found == said or (said.startswith("no test") and found.startswith(said))


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    """What `make test-lowest` runs with is what a user may have."""
    project = PROJECT["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    lowest = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text(".ci/constraints-lowest.txt"), re.M))
    found = {name: low for line in declared for name, low in re.findall(r"^([\w-]+)>=([\d.]+)", line)}
    assert found.keys() == lowest.keys()
    for name, low in found.items():
        assert re.sub(r"(\.0)+$", "", lowest[name]) == re.sub(r"(\.0)+$", "", low), name
    for line in (line for extra in project["optional-dependencies"].values() for line in extra):
        name, low = re.match(r"([\w-]+)[^=<>]*(?:[=>]=([\d.]+))?", line).groups()  # type: ignore[union-attr]
        assert low is None or name not in found or low == found[name], line
    assert project["requires-python"] == f">={doctor.TESTED[0]}"
    assert [f"Programming Language :: Python :: {v}" for v in doctor.TESTED] == [
        c for c in project["classifiers"] if re.search(r"3\.\d+$", c)
    ]
