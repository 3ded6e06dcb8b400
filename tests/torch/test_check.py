"""`check` of models of PyTorch: the plain call, the float64 run beside it, and what both leave as it was."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba  # noqa: E402
import acronumba.torch  # noqa: E402
from acronumba.api.check import Checker  # noqa: E402
from acronumba.api.shadow import narrow, wide  # noqa: E402
from acronumba.config import Options  # noqa: E402
from acronumba.torch.plain import TorchCall  # noqa: E402


class Tree(nn.Module):
    """A recursive net over nested tuples."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        self.table = nn.Embedding(10, size)
        self.mix = nn.Linear(size, size)

    def forward(self, tree):
        h = torch.tanh(self.mix(self.table(torch.tensor(tree[0]))))
        for child in tree[1]:
            h = h + self.forward(child)
        return h


TREES = [(1, [(2, []), (3, [(4, [])])]), (5, []), (9, [(0, []), (7, [])])]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_the_batch_is_compared_with_the_module_and_its_float64_run():
    found = acronumba.torch.model(Tree()).check(TREES)
    assert found.ok and found.model == "Tree.forward"
    assert {v.verdict for v in found.verdicts} <= {"equal", "close"}
    assert all(v.plain_error > 0 for v in found.verdicts if v.verdict == "close")


def test_the_verify_level_2_compares_each_batch(monkeypatch):
    monkeypatch.setenv("ACRONUMBA_VERIFY", "2")
    net = Tree()
    out = acronumba.torch.model(net).batch(TREES)
    assert torch.allclose(out[0], net(TREES[0]))


class Many(nn.Module):
    """Many operations whose results, decisions and writes the float64 run has to follow."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 8)
        self.mix = nn.Linear(8, 8)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.window = nn.Conv1d(8, 8, 3, padding=1)
        self.seen: list[int] = []

    def forward(self, words, notes):
        o, (h, _) = self.rnn(self.table(torch.tensor(words))[None])
        y = torch.zeros(len(words), 8)
        for i, r in enumerate(o[0]):
            y[i] = r * 2
            y[i, 0] += 1
        y = self.window(self.norm(y).t()[None])[0].t()
        self.seen.append(len(words))
        self.hidden = y
        best, _ = y.max(1)
        top = y.topk(2, dim=1)
        mean = y.float().mean().item()
        z = torch.from_numpy(y.detach().numpy()) @ self.mix.weight
        h = h.squeeze(0).clone()
        h.tanh_()
        h.data[0, 1] = 3.0
        if best.max() > 0.1:
            h = h + 1
        notes["scores"] = F.log_softmax(h, -1)
        return {
            "y": y, "best": best, "top": top.values, "where": top.indices, "k": y.sum(0).argmax().item(), "mean": mean,
            "z": z, "parts": list(torch.chunk(z, 2, 0)), "w": torch.tensor([mean, 1.0]), "h": h,
            "scores": notes["scores"], "items": y[0].tolist(), "both": torch.stack([y.sum(), best.mean()]),
            "floor": (y * 3).floor(), "norm": y.norm(), "tanh": np.tanh(y.detach().numpy()),
        }  # fmt: skip


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, list) else [value]


def test_the_float64_run_is_that_of_the_module_in_float64():
    net = Many().eval()
    found = TorchCall.of(net, {}, Options()).reference().run(([1, 2, 3], {}))
    assert found.error is None and found.single
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            double = leaves(copy.deepcopy(net).double()([1, 2, 3], {}))
    finally:
        torch.set_default_dtype(torch.float32)
    plain = leaves(TorchCall.of(net, {}, Options()).run(([1, 2, 3], {})))
    assert len(plain) == len(double) == len(leaves(found.result))
    for mine, own, exact in zip(leaves(found.result), plain, double, strict=True):
        own, exact = (v.detach().numpy() if isinstance(v, torch.Tensor) else np.asarray(v) for v in (own, exact))
        assert np.array_equal(narrow(mine), own)
        # `from_numpy` begins anew, from values of float32.
        assert np.allclose(np.asarray(wide(mine), np.float64), exact, rtol=1e-6, atol=1e-6)
    exact = [np.abs(np.asarray(wide(m), float) - np.asarray(d)).max() for m, d in zip(
        leaves(found.result)[:3], double[:3], strict=True)]  # fmt: skip
    assert max(exact) < 1e-12


def test_a_plain_call_leaves_objects_as_they_were():
    net, notes = Many().eval(), {"old": 1}
    TorchCall.of(net, {}, Options()).run(([1, 2, 3], notes))
    assert net.seen == [] and not hasattr(net, "hidden") and notes == {"old": 1}


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x


def test_a_plain_call_leaves_objects_that_are_called_as_they_were():
    counter = Counter()

    def counts(x):
        return counter(x) * counter.calls

    call = TorchCall.of(counts, {}, Options())
    assert call.run([torch.ones(1)]) == call.run([torch.ones(1)]) == 1 and counter.calls == 0


def wrong(net, k, value):
    """Return the verdict on a result of instance `k` that is off."""
    call = TorchCall.of(net, {}, Options())
    return Checker(call, [value], {}, 10**6)(0, [TREES[k]])


def test_wrong_values_dtypes_shapes_and_arrays_for_tensors_are_different():
    net = Tree()
    with torch.no_grad():
        right = net(TREES[0])
    assert wrong(net, 0, right).verdict == "equal"
    assert wrong(net, 0, right + 1e-7).verdict == "close"
    for off in (right + 1e-3, right.double(), right[None], right.numpy()):
        found = wrong(net, 0, off)
        assert found.verdict == "different"
    assert "array float32[6] in place of tensor float32[6]" in found.where


class Greedy(nn.Module):
    """A decision between two sums that rounding cannot separate."""

    def forward(self, x):
        if x.sum() > 1.0:
            return torch.zeros(2)
        return torch.ones(2)


def test_decisions_that_rounding_cannot_separate_are_undecided():
    x = torch.tensor([0.1] * 10)
    call = TorchCall.of(Greedy(), {}, Options())
    with torch.no_grad():
        other = torch.ones(2) - Greedy()(x)
    assert Checker(call, [other], {}, 10**6)(0, [x]).verdict == "undecided"
    assert Checker(call, [other + 1], {}, 10**6)(0, [x]).verdict == "different"


def best(x):
    return x.argmax().item(), x.max(0)[1].item()


def test_the_index_of_the_best_may_be_any_of_those_that_are_as_good():
    x = torch.tensor([1.0, 2.0, 1.9999999])
    call = TorchCall.of(best, {}, Options())
    assert Checker(call, [(1, 1)], {}, 10**6)(0, [x]).verdict == "equal"
    assert Checker(call, [(2, 1)], {}, 10**6)(0, [x]).verdict == "undecided"
    assert Checker(call, [(1, 2)], {}, 10**6)(0, [x]).verdict == "undecided"
    assert Checker(call, [(0, 1)], {}, 10**6)(0, [x]).verdict == "different"


class Guarded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x, k):
        assert k >= 0, "negative"
        y = self.mix(x)
        if k == 3:
            raise ValueError(f"bad {k} of {x.shape}")
        return torch.tanh(y), {0: 1, 1: 2, 3: 0}[k]


def test_failures_of_instances_are_those_of_pytorch():
    net = Guarded()
    fast = acronumba.torch.model(net)
    xs, ks = [torch.randn(4), torch.randn(3), torch.randn(4), torch.randn(4), torch.randn(4)], [0, 1, -1, 3, 7]
    with pytest.raises(acronumba.InstanceErrors) as caught:
        fast.batch(xs, ks)
    errors = caught.value.errors
    assert sorted(errors) == [1, 2, 3, 4]
    for k in errors:
        with pytest.raises(type(errors[k])) as plain:
            net(xs[k], ks[k])
        assert type(errors[k]) is type(plain.value) and str(plain.value) in str(errors[k])
    assert torch.allclose(caught.value.results[0][0], net(xs[0], 0)[0])
    assert all("torch/nn" not in str(e) and "plain.py" not in str(e) for e in errors.values())
    assert fast.check(xs, ks).ok


def test_names_of_columns_leave_out_the_module():
    text = str(acronumba.torch.model(Guarded()).explain([torch.randn(4)], [1]))
    assert " x: " in text and " k: int" in text and " self: " not in text
    assert "self.mix.weight: float32[4, 4]" in text and "y = self.mix(x)" in text


def test_models_are_pickled_and_copied_with_their_modules():
    net = nn.Linear(3, 2)
    fast = acronumba.torch.model(net).with_options(schedule="agenda")
    x = torch.randn(3)
    again = pickle.loads(pickle.dumps(fast))
    assert again.options == fast.options and torch.equal(again(x), net(x))
    other = copy.deepcopy(fast)
    with torch.no_grad():
        other.target.weight += 1
    assert not torch.equal(other(x), net(x)) and copy.copy(fast) is fast
    assert torch.allclose(other.batch([x])[0], other(x)) and torch.allclose(fast.batch([x])[0], net(x))


@pytest.mark.parametrize("net", [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 4), nn.Tanh())])
def test_modules_of_pytorch_itself_are_models(net):
    fast = acronumba.torch.model(net)
    xs = [torch.randn(3) for _ in range(3)]
    assert fast.check(xs).ok and torch.allclose(fast.batch(xs)[1], net(xs[1]))
    method = acronumba.torch.model(net.forward)
    assert torch.allclose(method.batch(xs)[1], net(xs[1])) and method.check(xs).ok


def test_functions_of_pytorch_are_models():
    fast = acronumba.torch.model(F.embedding)
    x, w = torch.tensor(1), torch.randn(2, 3)
    assert torch.equal(fast.batch([x], [w])[0], w[1])


class Sentence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.lstm = nn.LSTMCell(4, 4)
        self.out = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, words, label):
        state = torch.zeros(1, 4), torch.zeros(1, 4)
        for word in words:
            state = self.lstm(self.table(torch.tensor([word])), state)
        return -F.log_softmax(self.out(state[0]), -1)[0, label]


def test_views_of_a_batch_show_the_users_lines_and_names_and_no_file_of_a_library(tmp_path, capsys):
    fast = acronumba.torch.model(Sentence())
    given = [[1, 2, 3], [4]], [0, 1]
    explained = str(fast.explain(*given))
    for line in ("state = self.lstm(self.table(torch", "self.lstm.weight_ih: float32[16, 4]",
                 "self.out[0].weight: float32[4, 4]", " words: list[int]", " label: int"):  # fmt: skip
        assert line in explained
    stages = fast.stages(*given)
    assert "self.lstm" in stages["ir"] and "self.lstm" in stages["source"]
    trace = fast.trace(*given)
    assert len(trace.results) == 2 and trace.nodes and "batches" in str(trace)
    fast.explore(*given, path=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "self.lstm(self.table" in page
    for text in (explained, page, *map(str, stages.values())):
        assert "acronumba/torch" not in text and "torch/nn" not in text
    assert capsys.readouterr().out.endswith("page.html\n")
