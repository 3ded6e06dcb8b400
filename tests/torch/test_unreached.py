"""Code that cannot run for some instances fails in them alone: modules that do not fit, values of other classes."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba  # noqa: E402
from acronumba.torch import model  # noqa: E402


class Fits(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, h, x):
        return torch.tanh(self.layer(h)) + x


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, h, x):
        return self.layer(h) * x


class Joins(nn.Module):
    def forward(self, h, x):
        return torch.cat([h, torch.zeros(1, 3)], 0)


class Mixes(nn.Module):
    def forward(self, h, x):
        return h.long() @ x


class Reshapes(nn.Module):
    def forward(self, h, x):
        return h.view(4) + x


class Program(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleDict(
            {"fits": Fits(), "wide": Wide(), "joins": Joins(), "mixes": Mixes(), "reshapes": Reshapes()}
        )

    def forward(self, x, program):
        h = x
        for name in program:
            h = self.steps[name](h, x)
        return h


class Branches(nn.Module):
    def forward(self, x, program):
        h = x
        for name in program:
            if name == "add":
                h = x + None
            elif name == "stack":
                h = torch.stack([x, x.unsqueeze(0)])
            elif name == "attribute":
                h = x.nothing
            elif name == "gather":
                h = x.gather(0, torch.tensor([[1]]))
            elif name == "list":
                h = F.linear([1.0, 2.0, 3.0], torch.ones(3, 3))
            else:
                h = h * 2
        return h


def same_outcomes(net, *columns):
    """Compare the results and the failures of a batch with those of plain calls; return the failures."""
    outcomes, failed = [], {}
    for row in zip(*columns, strict=True):
        try:
            outcomes.append(net(*row))
        except Exception as error:
            outcomes.append(error)
    with pytest.raises(acronumba.InstanceErrors) as caught:
        list(model(net).batch(*columns))
    for k, (want, got) in enumerate(zip(outcomes, caught.value.results, strict=True)):
        if isinstance(want, Exception):
            failed[k] = caught.value.errors[k]
            assert type(failed[k]) is type(want) and str(failed[k]) == str(want)
        else:
            torch.testing.assert_close(got, want)
    assert failed.keys() == caught.value.errors.keys()
    return failed


def test_a_module_that_does_not_fit_fails_where_it_is_chosen():
    programs = [["fits"], ["wide"], ["fits", "joins"], ["mixes"], ["fits", "reshapes"], [], ["fits", "fits"]]
    failed = same_outcomes(Program(), [torch.randn(3) for _ in programs], programs)
    assert list(failed) == [1, 2, 3, 4]


def test_a_branch_that_cannot_run_fails_where_it_is_taken():
    programs = [["double"], ["add"], ["stack"], ["attribute"], ["gather"], ["list"], ["double", "add"], []]
    failed = same_outcomes(Branches(), [torch.randn(3) for _ in programs], programs)
    assert list(failed) == [1, 2, 3, 4, 5, 6]


def test_what_no_instance_can_pass_is_rejected_with_its_line():
    with pytest.raises(acronumba.ShapeMismatch, match=r"torch.cat\(\[h, torch.zeros\(1, 3\)\], 0\)"):
        model(Joins()).batch([torch.ones(3)], [torch.ones(3)])


class Tree:
    def __init__(self, value, children=()):
        self.value, self.children = value, list(children)


class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, tree):
        h = self.layer(tree.value)
        for child in tree.children:
            h = h + self(child)
        return h


def good(depth=2):
    return Tree(torch.randn(3), [good(depth - 1) for _ in range(2)] if depth else [])


BAD = {
    "text": "abc",
    "none": None,
    "rank": torch.tensor(1.0),
    "int": torch.tensor([1, 2, 3]),
    "float64": torch.ones(3, dtype=torch.float64),
    "array": np.ones(3, np.float32),
    "list": [1.0, 2.0, 3.0],
    "number": 1.5,
    "size": torch.ones(4),
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_instance_fails_alone(name):
    bad = Tree(torch.randn(3), [good(1), Tree(BAD[name])])
    assert list(same_outcomes(Sums(), [good(), bad, good(), Tree(torch.zeros(3))])) == [1]


CALLS = {
    "matmul": lambda x, y: torch.matmul(x, y),
    "where": lambda x, y: torch.where(y, x, x),
    "reshape": lambda x, y: torch.reshape(y, (3,)),
    "index": lambda x, y: torch.index_select(x, 0, y),
    "cat": lambda x, y: torch.cat([x, y]),
    "dropout": lambda x, y: F.dropout(y, 0.0),
    "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "weight": lambda x, y: F.layer_norm(x, (3,), y),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_take_what_those_of_pytorch_take(name):
    """A list or an array in place of a tensor is no tensor: NumPy's functions, which compute the result, take it."""
    f, x = CALLS[name], torch.ones(3)
    for y in ([1, 0, 2], [True, False, True], np.ones(3, np.float32), np.ones(3, np.int64), 1, "abc"):
        with pytest.raises(TypeError):
            f(x, y)
        with pytest.raises((acronumba.InstanceErrors, acronumba.AcronumbaError)):
            list(model(f).batch([x, x], [y, y]))


class Unpacks(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)

    def forward(self, x):
        count, size = x.size()
        h = x.new_zeros(size)
        for k in range(count):
            h = self.cell(x[k], h)
        return h


@pytest.mark.parametrize("grad", [True, False])
def test_an_instance_whose_types_fit_no_code_fails_alone(grad):
    net, xs = Unpacks(), [torch.randn(2, 3), torch.randn(4, 3), torch.randn(1, 2, 3), torch.randn(2, 3)]
    with torch.set_grad_enabled(grad):
        assert list(same_outcomes(net, xs)) == [2]
        assert list(same_outcomes(net, [xs[2], *xs[:2], torch.ones(1, 2, 3)])) == [0, 3]
    with pytest.raises(acronumba.InstanceErrors) as caught:
        model(lambda x: net(x).sum()).value_and_grad.batch(xs)
    assert list(caught.value.errors) == [2]


def test_a_tensor_of_another_kind_is_named_with_its_dtype():
    bad = Tree(torch.ones(3).half())
    with pytest.raises(acronumba.InstanceErrors, match="1 of 2") as caught:
        list(model(Sums()).batch([good(), bad]))
    assert "[1].value" in str(caught.value.errors[1]) and "tensor of torch.float16" in str(caught.value.errors[1])
