"""The command line."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys

import pytest

import acronumba
from acronumba import model
from acronumba.cli.examples import find_example
from acronumba.cli.main import main, parser
from acronumba.errors.codes import CODES

MODEL = """
import numpy as np
from acronumba import model

@model
def double(x, *, w):
    return w @ x * 2.0

@model
def other(x):
    return x
"""
EXAMPLE = "\ndef example():\n    return ([np.ones(3), np.zeros(3)],), {'w': np.ones((2, 3))}\n"
MAIN = """
def main():
    print("noise")
    print(double.batch([np.ones(3)], w=np.ones((2, 3))).stack())
    raise SystemExit(3)
"""
ZOO = "\ndef instances(n, seed=0):\n    return [np.ones(3)] * n\n\ndef params(size=3):\n    return np.ones((2, size))\n"


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.py"
        path.write_text(MODEL + text)
        return str(path)

    yield write
    sys.modules.pop("mine", None)
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


def test_a_main_that_reads_arguments_has_none(file, monkeypatch):
    text = "\ndef main():\n    import argparse\n    parser = argparse.ArgumentParser()\n"
    text += "    parser.add_argument('--steps', type=int, default=3)\n    n = parser.parse_args().steps\n"
    text += "    double.batch([np.ones(n)], w=np.ones((2, n)))\n"
    monkeypatch.setattr(sys, "argv", ["acronumba", "show", "x.py:double", "--stage", "ir"])
    _, columns, shared = find_example(file(text), "double")
    assert len(columns[0]) == 1 and shared["w"].shape == (2, 3)
    assert sys.argv[1] == "show"


def test_error_prints_the_page(capsys):
    assert main(["error", "ACR101"]) == 0
    assert "try:" in capsys.readouterr().out
    assert main(["error", "101"]) == 0
    assert capsys.readouterr().out.startswith("ACR101")


def test_error_lists_all_codes(capsys):
    assert main(["error"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == list(CODES)


def test_error_of_an_unknown_code(capsys):
    assert main(["error", "ACR111x"]) == 2
    assert "ACR111" in capsys.readouterr().err


def test_wrong_usage_ends_with_status_2(capsys):
    for arguments in ([], ["nothing"], ["cache"], ["show"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
    assert main(["show", "file.py"]) == 2
    capsys.readouterr()


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.strip() == f"acronumba {acronumba.__version__}"


@pytest.mark.parametrize("text", [EXAMPLE, MAIN, ZOO])
def test_a_file_says_what_its_model_is_shown_on(file, text):
    model, columns, shared = find_example(file(text), "double")
    assert model.__name__ == "double" and columns[0][0].shape == (3,) and shared["w"].shape == (2, 3)


def test_show_prints_a_stage(file, capsys):
    assert main(["show", file(EXAMPLE) + ":double", "--stage", "source"]) == 0
    assert "return w @ x * 2.0" in capsys.readouterr().out


def test_show_lists_stages(file, capsys):
    assert main(["show", file(EXAMPLE) + ":double"]) == 0
    assert "plan" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("command", "words"),
    [("explain", "w: float64[2, 3]"), ("check", "1 equal"), ("trace", "1 node in 1 batch")],
)
def test_reports_of_a_model(file, capsys, command, words):
    assert main([command, file(EXAMPLE) + ":double", "-n", "1"]) == 0
    assert words in capsys.readouterr().out


def test_a_command_that_was_meant(capsys):
    with pytest.raises(SystemExit):
        main(["explian", "x.py:f"])
    assert "did you mean explain?" in capsys.readouterr().err
    assert main(["explain", "acr101"]) == 2
    assert "acronumba error ACR101" in capsys.readouterr().err


def test_a_model_that_was_meant(file, capsys):
    path = file(EXAMPLE)
    names = {path: f"{path}:double", "birnn": "acronumba.zoo.birnn:tag", "nowhere.py": "FILE.py:MODEL"}
    for given, meant in names.items():
        assert main(["trace", str(given)]) == 2
        assert capsys.readouterr().err == f"Say which model: acronumba trace {meant}\n"
    assert main(["trace", f"{path}:othr"]) == 1
    assert f"instead: {path}:other" in capsys.readouterr().err
    assert main(["trace", "acronumba.zoo.birn:tag"]) == 1
    assert "there is no module acronumba.zoo.birn" in capsys.readouterr().err


def test_a_module_is_found_in_the_current_folder(tmp_path, capsys, monkeypatch):
    path = tmp_path / "of_this_folder.py"
    path.write_text("import missing_from_everywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(ModuleNotFoundError, match="missing_from_everywhere"):
        main(["trace", "of_this_folder:double"])
    path.write_text(MODEL + EXAMPLE)
    assert main(["trace", "of_this_folder:double", "-n", "1"]) == 0
    assert "1 node in 1 batch" in capsys.readouterr().out


def test_show_of_an_unknown_stage(file, capsys):
    assert main(["show", file(EXAMPLE) + ":double", "--stage", "nothing"]) == 2
    assert "host" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [(EXAMPLE, "nothing", "models: double, other"), ("", "double", "example()"), (MAIN, "other", "example()")],
)
def test_show_says_what_is_missing(file, capsys, text, name, words):
    if text is MAIN:
        text = text.replace("    raise SystemExit(3)\n", "")
    assert main(["show", f"{file(text)}:{name}"]) == 1
    err = capsys.readouterr().err
    assert "ACR710" in err and words in err


def test_explore_names_what_it_can_be_asked_for_itself(file, capsys):
    path = file(EXAMPLE)
    assert main(["explore", f"{path}:nothing"]) == 1
    assert f"instead: {path}:double" in capsys.readouterr().err


def test_show_of_no_file(capsys):
    assert main(["show", "nowhere.py:f"]) == 1
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("numba", "CPU", "cache", "CUDA"):
        assert word in out
    assert "BAD" not in out


def test_prepared_code_is_found_by_models(tmp_path, capsys, monkeypatch):
    from acronumba.emit import compile
    from acronumba.zoo import tree_lstm

    monkeypatch.setenv("ACRONUMBA_CACHE_DIR", str(tmp_path / "cache"))
    compile.forget()
    assert main(["doctor", "--prepare"]) == 0
    first = capsys.readouterr().out
    assert main(["doctor", "--prepare"]) == 0
    assert re.match(r"(\d+) of \1 modules compiled in \d+\.\d s, into ", first)
    assert capsys.readouterr().out.startswith("0 of ")
    built = []
    build = compile._build
    monkeypatch.setattr(compile, "_build", lambda pending: built.append(pending.name) or build(pending))
    compile.forget()
    model(tree_lstm.sentiment.__wrapped__).batch(tree_lstm.instances(2), p=tree_lstm.params(8))
    assert "host_sentiment" in built and not [n for n in built if n == "runtime" or n.startswith("tiles")]
    compile.forget()


def test_cache_clear(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ACRONUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["cache", "path"]) == 0
    assert str(tmp_path / "cache") in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "acronumba", "error", "ACR601"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("ACR601")


def test_picture_says_what_it_cannot_draw(file, tmp_path, capsys):
    assert main(["picture", "file.py"]) == 2
    assert "acronumba picture FILE.py:MODEL" in capsys.readouterr().err
    out = tmp_path / "out.svg"
    assert main(["picture", f"{file(EXAMPLE)}:double", "--graph", "7", "-o", str(out)]) == 1
    assert "instance 7 has 0 nodes" in capsys.readouterr().err
    (tmp_path / "other.json").write_text('{"rows": []}')
    assert main(["picture", str(tmp_path / "other.json"), "-o", str(out)]) == 1
    assert "does not hold times" in capsys.readouterr().err
    assert not out.exists()


def completed(script, folder, *words):
    """Return what bash offers for the last of the words."""
    given = " ".join(f"'{word}'" for word in words)
    code = f"COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _acronumba; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", f"{script}\n{code}"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_models_and_codes(file, tmp_path, capsys):
    file("")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, tmp_path, "acronumba", "ex") == ["explain", "explore"]
    assert completed(script, tmp_path, "acronumba", "trace", "mi") == ["mine.py"]
    assert completed(script, tmp_path, "acronumba", "trace", "mine.py", ":") == ["double", "other"]
    assert completed(script, tmp_path, "acronumba", "trace", "mine.py", ":", "d") == ["double"]
    assert completed(script, tmp_path, "acronumba", "trace", "mine.py:d") == ["mine.py:double"]
    assert completed(script, tmp_path, "acronumba", "picture", "--o") == ["--open"]
    assert completed(script, tmp_path, "acronumba", "error", "ACR21") == [c for c in CODES if c.startswith("ACR21")]
    assert completed(script, tmp_path, "acronumba", "cache", "") == ["clear", "path"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_all_commands_and_options(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, command in commands().items():
        assert re.search(rf"\b{name}\b", script)
        assert all(o.lstrip("-") in script for action in command._actions for o in action.option_strings)
    if path := shutil.which(shell):
        subprocess.run([path, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_commands_options_models_and_codes(file, tmp_path, capsys):
    file("")
    assert main(["completion", "fish"]) == 0
    script = capsys.readouterr().out

    def completed(text):
        run = [shutil.which("fish"), "--no-config", "-c", f"{script}\ncomplete -C 'acronumba {text}'"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    assert completed("exp") == ["explain", "explore"]
    assert completed("trace mi") == ["mine.py"]
    assert completed("trace mine.py:") == ["mine.py:double", "mine.py:other"]
    assert completed("trace mine.py:d") == ["mine.py:double"]
    assert completed("picture --o") == ["--open"]
    assert completed("error ACR21") == [c for c in CODES if c.startswith("ACR21")]


def commands():
    return next(a.choices for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
