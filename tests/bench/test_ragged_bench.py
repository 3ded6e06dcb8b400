"""`acronumba bench --ragged`: sets of lengths, what PyTorch computes, what is counted, the command line."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from acronumba.bench.agreement import agreement, in_float64
from acronumba.bench.by_hand.program import Program
from acronumba.cli.main import main
from acronumba.zoo import encoder
from acronumba_bench import lengths, ragged, views

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
SENTENCES = [5, 1, 9, 5, 2, 9, 16, 3, 4]


def sentences(width: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, width)).astype(np.float32) for n in SENTENCES]


# ----------------------------------------------------------------------------------------------------------- lengths


@pytest.mark.long
def test_lengths_of_docstrings() -> None:
    for name in lengths.sets(None):
        found = lengths.of_docstrings(name)
        assert len(found) >= 64 and min(found) >= 1 and max(found) <= lengths.LONGEST
        assert sorted(found) == sorted(lengths.of_docstrings(name, 1)) != found != lengths.of_docstrings(name, 1)


def test_lengths_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("3\n1\n4\n")
    (tmp_path / "README.md").write_text("of few\n")
    assert lengths.load(str(tmp_path), lengths.sets(str(tmp_path))) == {"few": [3, 1, 4]}
    for wrong in ("", "3 -1", "3 words"):
        (tmp_path / "few.txt").write_text(wrong)
        with pytest.raises(ValueError, match="something else than lengths"):
            lengths.read(tmp_path / "few.txt")


# ----------------------------------------------------------------------------------------------------------- PyTorch


@TORCH
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("many", [len(SENTENCES), 1])
def test_all_ways_of_pytorch_compute_the_layer(many: int) -> None:
    from acronumba_bench.baselines import by_torch, ragged_torch

    assert tuple(ragged_torch.WAYS) == ragged.WAYS
    p, xs = encoder.params(32, vocabulary=1, layers=1), sentences(32)[:many]
    (of,) = p.layers
    rng = np.random.default_rng(1)
    for name in ("b_in", "b_out", "scale_attention", "shift_attention", "scale", "shift"):
        setattr(of, name, rng.standard_normal(getattr(of, name).shape).astype(np.float32))
    expected = [ragged.layer(x, p=p) for x in xs]
    exact = [ragged.layer(x, p=in_float64(p)) for x in xs]
    for name, make in ragged_torch.ways():
        program = by_torch.inferring(make)(p, xs)
        for _ in range(2):
            verdict, error = agreement(program.results(program.run()), expected, exact, alone=False)
            assert verdict in ("equal", "close"), (name, error)


@TORCH
@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_pytorch(causal: bool) -> None:
    from acronumba_bench.baselines import by_torch, ragged_torch

    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 7, 4 * ragged.WIDTH)).astype(np.float32)
    make = by_torch.inferring(lambda _, xs: ragged_torch.attention(*xs, heads=4, causal=causal))
    program = make(None, (list(q), list(k), list(v)))
    for got, *x in zip(program.results(program.run()), q, k, v, strict=True):
        assert np.allclose(got, ragged.attend(*x, heads=4, causal=causal), rtol=1e-4, atol=1e-5)


# ----------------------------------------------------------------------------------------------------------- figures


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "LENGTHS", (3,))
    monkeypatch.setattr(ragged, "ROWS", 6)
    monkeypatch.setattr(ragged, "BURST_ROUNDS", 1000)
    monkeypatch.setattr(ragged, "TRACES", 1)


def test_a_layer_and_attention_are_measured(quick: None) -> None:
    r = ragged.measure({"few": [3, 1, 3]}, sizes=(16,), batches=(4,), rounds=2)
    (row,), (alone,) = r.layers, r.attention
    assert not row.wrong and not alone.wrong and row.errors["ours"] < 1e-5
    assert (row.words, row.lengths, row.sentences, row.width) == (10, 2, 4, 16)
    weights, attended = 24 * 10 * 16 * 16, 4 * (3 * 9 + 1) * 16
    assert row.flops == sum(row.kernel_flops.values()) == weights + attended
    assert row.attention == attended / row.flops
    assert row.padded == pytest.approx((24 * 12 * 16 * 16 + 4 * 4 * 9 * 16) / row.flops)
    assert row.batches < row.batches_unragged
    assert (alone.length, alone.sentences, alone.flops) == (3, 2, 2 * 4 * 9 * 8 * 64)
    for of in r.rows:
        assert len(of.seconds["ours"]) == 2 and of.times("ours") == 1.0
    text = printed(r)
    assert "size 16, 4 sentences" in text and "attention alone" in text
    assert alone.times(ragged.WINDOW) > 0 and alone.times(ragged.CAUSAL_WINDOW) > 0 and "of full" in text


def test_turns_are_compared() -> None:
    seconds = {"multiply and add": (1.0, 2.0, 1.0), "ours": (2.0, 4.0, 8.0), "padded": (6.0, 4.0, 16.0)}
    one = turns(threads=1, seconds=seconds)
    assert (one.best("ours"), one.times("padded"), one.share()) == (4.0, 2.0, 0.25)
    two = turns(threads=2, seconds=seconds)
    assert (two.best("ours"), two.times("padded"), two.share()) == (2.0, 2.0, 0.125)


def turns(**of: Any) -> ragged.Turns:
    return ragged.Turns(flops=5, burst_flops=10, errors={}, wrong=(), **of)


def printed(r: ragged.Ragged) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(views.ragged_view(r))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def result(**of: Any) -> ragged.Ragged:
    seconds = dict.fromkeys(("ours", "multiply and add"), (8.0,)) | dict.fromkeys(ragged.WAYS, (16.0,))
    row = ragged.Layer(
        lengths_of="functions", width=512, sentences=128, words=65536, lengths=128, attention=0.11, padded=1.52,
        batches=3, batches_unragged=257, kernels={"apply_53": 0.5, "apply_53_2": 0.25},
        kernel_flops={"apply_53": 10**9, "apply_53_2": 10**9}, fastest={}, reasons={}, threads=1, flops=3,
        burst_flops=4, seconds=seconds, errors={}, wrong=(),
    )  # fmt: skip
    other = dataclasses.replace(row, seconds=seconds | dict.fromkeys(ragged.WAYS, (4.0,)))
    about = {"processor": "icelake-server", "python": "3.11.7", "numba": "0.61"}
    alone = ragged.Attention(
        length=3, sentences=4, heads=8, threads=1, flops=4, burst_flops=4, errors={}, wrong=(),
        seconds={"multiply and add": (1.0,), "ours": (2.0,), "ours, causal": (1.0,)},
    )  # fmt: skip
    layers = (dataclasses.replace(row, **of), other)
    return ragged.Ragged(rounds=1, threads=1, machine=about, torch="2.0", layers=layers, attention=(alone,))


def test_the_table_fits_and_tells() -> None:
    text = printed(result())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in text
    (first, *_) = [line.split() for line in lines if line.startswith("functions")]
    assert first == "functions 65,536 128 11% 1.52 3/257 8000 0% 75% 2.00 2.00 2.00 2.00".split()
    (mean,) = [line.split() for line in lines if line.startswith("geomean")]
    assert mean == ["geomean", "75%", "1.00", "1.00", "1.00", "1.00"]
    assert "apply_53 500 2, apply_53_2 250 4" in text
    (alone,) = [line.split() for line in lines if line.split()[:2] == ["3", "4"]]
    assert alone == ["3", "4", "2000", "50%", "1000", "0.50", "67%"]
    assert "No PyTorch nested, jagged: why" in printed(result(reasons={"nested, jagged": "why"}))
    assert "ours alone" in printed(dataclasses.replace(result(), torch=""))


def test_wrong_results_are_told(monkeypatch: pytest.MonkeyPatch, quick: None, tmp_path: Path) -> None:
    def off(p: Any, xs: Any, threads: int) -> Any:
        ours = [np.asarray(ragged.layer(x, p=p)) for x in xs]
        ours[1] = ours[1] + np.float32(1e-3)  # of the sentence that no plain call is made for
        return {"padded, wrong": Program(run=lambda: None, results=list)}, {"padded, wrong": ours}, {}

    monkeypatch.setattr(ragged, "_ways", off)
    row = ragged.layer_row("few", [1, 3, 5, 7], 16, rounds=1)
    assert row.wrong == ("padded, wrong",) and row.fastest == {} and row.errors["padded, wrong"] > 1e-4
    assert "Not the results of the plain calls: functions, 512, 128: ours" in printed(result(wrong=("ours",)))


@pytest.mark.slow
def test_the_command_measures(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.txt").write_text("3 1 4")
    given = ["bench", "--ragged", "--lengths", str(tmp_path), "--size", "16", "--batch", "3", "--rounds", "1"]
    assert main([*given, "--json", str(tmp_path / "figures.json")]) == 0
    told = json.loads((tmp_path / "figures.json").read_text())
    assert [(row["lengths_of"], row["width"], row["words"]) for row in told["layers"]] == [("few", 16, 8)]
    assert [row["length"] for row in told["attention"]] == list(ragged.LENGTHS)
    assert "size 16, 3 sentences" in capfd.readouterr().out


def test_wrong_usage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, why in {
        "--ragged --sets nothing": "no set of lengths 'nothing'; there are: modules, functions",
        "--ragged --lengths nowhere": "no files *.txt in 'nowhere'",
        "--ragged --models encoder": "--ragged takes --lengths and --sets",
        "--ragged --size 12": "not a multiple of 8",
        "--ragged --device simulator": "measure the CPU",
        "--sets modules": "are for --ragged",
    }.items():
        assert main(["bench", *wrong.split()]) == 2
        assert why in capsys.readouterr().err
    assert main(["bench", "--ragged", "--sets", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*lengths.DOCSTRINGS, "attention"]
