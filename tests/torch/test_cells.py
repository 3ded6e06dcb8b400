"""PyTorch's functions over dtypes, ranks and kinds of numbers: a part of the table of `tests/torch/cells.py`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import acronumba.torch  # noqa: E402
from acronumba import AcronumbaError  # noqa: E402
from tests.torch import cells, operations  # noqa: E402

ROUNDED = "PyTorch rounds the norm of the operand of float32 to float32"
# By a part of the text and kinds of a cell: why its results differ.
DIFFERENT = {
    **{
        f"{text} of x: uint8": "a negative number beside uint8 fails the instance; PyTorch wraps it"
        for text in ("torch.div(x, y, rounding_mode='trunc')", "torch.clamp(x, min=y)", "x.clamp(max=y)")
    },
    "F.cosine_similarity(x, y) of x: float64[n,n], y: float32[n,n]": ROUNDED,
    "F.cosine_similarity(x, y) of x: float32[n,n], y: float64[n,n]": ROUNDED,
    "F.cosine_similarity(x, y, dim=0) of x: float64[n], y: float32[n]": ROUNDED,
    "F.cosine_similarity(x, y, dim=0) of x: float32[n], y: float64[n]": ROUNDED,
}
# By a part of the text of a cell: why it is rejected, though PyTorch computes it.
REJECTED: dict[str, str] = {}
# By a part of the text of a cell: why its gradients differ.
OTHER_GRADIENTS = {
    "x ** y": "the derivative by the exponent is 0 where the base is negative; in PyTorch it is NaN",
    "torch.pow(x, y)": "as `x ** y`",
    "x.float_power(y)": "as `x ** y`",
    "x.logit()": "finite beyond 0 and 1, where the result is NaN; in PyTorch it is NaN",
    "x.acosh()": "NaN at 1 and below; in PyTorch infinite or NaN",
}


def unexplained(found: dict[cells.Cell, str], reasons: dict[str, str]) -> list[str]:
    return [f"{cell}: {text}" for cell, text in found.items() if not any(part in str(cell) for part in reasons)]


def agree(given: list[cells.Cell]) -> None:
    report = cells.try_cells(given)
    assert not unexplained(report.different, DIFFERENT)
    assert not unexplained(report.rejected, REJECTED)
    assert report.compared >= len(given) / 2  # the other cells are refused by PyTorch


def agree_in_gradients(given: list[cells.Cell]) -> None:
    report = cells.gradients([c for c in given if any(k.name in cells.FLOATS for k in c.kinds)])
    assert not unexplained(report.different, OTHER_GRADIENTS)
    assert not report.rejected


def shared(of: list[cells.Cell], k: int, n: int) -> list[cells.Cell]:
    return of[k::n]


def test_a_few_cells():
    agree(shared(cells.few(), 0, 24))


def test_gradients_of_a_few_cells():
    agree_in_gradients(shared(cells.few(), 1, 40))


@pytest.mark.long
@pytest.mark.parametrize("part", range(6))
def test_cells(part):
    agree(shared(cells.few(), part, 6))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_gradients(part):
    agree_in_gradients(shared(cells.few(), part, 4))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_all_cells(part):
    agree(shared(cells.every(), part, 40))


# Operations of public code that are not supported: what `tests/torch/operations.py` says of them.
LEFT_OUT = {
    "cuda": "ACR202", "packed sequences": "ACR202", "scatter_add": "ACR202", "complex views": "ACR202",
    "hooks": "ACR209", "median, dim": "ACR202", "mode": "ACR209", "svd": "ACR202", "fft": "ACR202",
}  # fmt: skip


@pytest.mark.long
def test_operations_of_public_code():
    found = operations.listing()
    assert {name: text[:6] for name, text in found.items() if text != "supported"} == LEFT_OUT


def test_functions_without_a_row_are_rejected_by_name():
    def misspelt(x):
        return torch.sigmoid(x) + x.lgamma()

    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(misspelt).batch([torch.ones(2)])
    assert caught.value.code == "ACR209"
    assert "lgamma" in str(caught.value)
    assert "x.lgamma()" in str(caught.value)


def test_arrays_of_numpy_are_no_operands():
    def mixed(x):
        return torch.matmul(x, x.numpy())

    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(mixed).batch([torch.ones(2)])
    assert caught.value.code == "ACR301"
    assert "must be Tensor, not" in str(caught.value)


def test_classes_of_tensors():
    def classes(x):
        return isinstance(x, torch.FloatTensor), isinstance(x, torch.LongTensor), isinstance(x, torch.autograd.Variable)

    given = [torch.ones(2), torch.ones(2)]
    assert list(acronumba.torch.model(classes).batch(given)) == list(map(classes, given)) == [(True, False, True)] * 2


def test_sizes_are_no_class_of_their_own():
    def sizes(x):
        return isinstance(x.shape, torch.Size)

    with pytest.raises(AcronumbaError) as caught:
        acronumba.torch.model(sizes).batch([torch.ones(2)])
    assert caught.value.code == "ACR308"
