"""Results that may be written to, shapes, exceptions and names of run time, against plain calls of PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError  # noqa: E402
from tests.support.torch_checks import check, leaves, same  # noqa: E402

x = torch.arange(12, dtype=torch.float32).reshape(3, 4)

# ---- results that are new tensors


def viterbi(x):
    v, w, back = x[0] * 1, x[0] * 2, []
    for row in x:
        scores, best = (v.unsqueeze(1) + row).max(0)
        back.append(best)
        v = (v.unsqueeze(1) + row).max(0)[0]
        scores += 1
        best += 1
        w += scores
    v += w
    v.mul_(2)
    return v, w, back


def forward_algorithm(x):
    v = x[0] * 1
    w = v
    for row in x:
        v = torch.logsumexp(v.unsqueeze(1) + row, 0)
    v += w
    return v, w


def seen_by_views(x):
    best = x.min(1).values
    kept, row = best, best.unsqueeze(0)
    best -= 1
    return best, kept, row


def expanded(x):
    y = x[0].expand(2, 4).contiguous()
    z = x.sum(0).unsqueeze(1).expand(-1, 3).contiguous()
    y += 1
    z[0] += 1
    return y, z, x[0] * 1


@pytest.mark.parametrize("f", [viterbi, forward_algorithm, seen_by_views, expanded])
def test_new_tensors_are_written_to(f):
    check(f, x)


def turned_inside(x):
    y = torch.tanh(x.t())
    z = y.contiguous()
    z += 1
    return y, z


def turned_attribute(x):
    y = torch.relu(x.T)
    z = y.flatten()
    y += 1
    return y, z


def turned_row(x):
    y = x.permute(1, 0) * 2
    z = y[0].contiguous()
    z += 1
    return y, z


def turned_input(x):
    y = x.t().contiguous()
    y += 1
    return y


@pytest.mark.parametrize("f", [turned_inside, turned_attribute, turned_row, turned_input])
def test_what_may_be_a_copy_is_not_written_to(f):
    """PyTorch keeps the order of axes in results, so that `contiguous` of them is a copy or not."""
    with pytest.raises(AcronumbaError, match=r"ACR11[12]"):
        check(f, x)


# ---- squeeze of what is written to


def squeezed(x):
    y = x * 2
    v = y.squeeze(0)
    y.add_(1)
    return y, v


def squeezed_everywhere(x):
    y = x * 2
    v = y.squeeze()
    y.add_(1)
    return y, v


@pytest.mark.parametrize("f", [squeezed, squeezed_everywhere])
def test_squeeze_by_a_size_of_run_time_is_rejected(f):
    with pytest.raises(acronumba.ShapeMismatch, match=r"(?s)ACR403.*v = y\.squeeze\("):
        acronumba.torch.model(f).batch([x, x[:1], x[:, :1]])


def squeezed_of_known_sizes(x):
    y = (x.sum(0) * 2).unsqueeze(0)
    v = y.squeeze(0)
    y.add_(1)
    return y, v


def test_squeeze_of_known_sizes():
    check(squeezed_of_known_sizes, x)


# ---- modules of several kinds


class Cells(nn.Module):
    def __init__(self, *modules):
        super().__init__()
        self.ms = nn.ModuleList(modules)

    def forward(self, x, k):
        h = c = torch.zeros(1, 4)
        h, c = self.ms[k](x[:1], (h, c))
        return h, c


class Layers(Cells):
    def forward(self, x, k):
        given = [x[:1] for _ in range(2 - k % 2)]
        return self.ms[k // 2](*given)


def outcomes(net, *columns):
    """Return the outcomes of plain calls, and of a batch: results, or the classes and texts of exceptions."""
    plain = []
    for args in zip(*columns, strict=True):
        try:
            plain.append(net(*args))
        except Exception as error:
            plain.append((type(error), str(error)))
    try:
        return plain, list(acronumba.torch.model(net).batch(*columns))
    except acronumba.InstanceErrors as error:
        errors = {k: (type(e), str(e)) for k, e in error.errors.items()}
        return plain, [errors.get(k, out) for k, out in enumerate(error.results)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cells(nn.LSTMCell(4, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 4), nn.Linear(4, 4)),
        lambda: Cells(nn.LSTM(4, 4), nn.GRU(4, 4), nn.RNN(4, 4), nn.LSTM(4, 4)),
        lambda: Layers(nn.Linear(4, 4), nn.Bilinear(4, 4, 4)),
    ],
    ids=["cells", "layers", "arities"],
)
def test_instances_that_get_to_the_wrong_module_fail(make):
    torch.manual_seed(0)
    net = make()
    want, got = outcomes(net, [x, x + 1, x - 1, x], [0, 1, 2, 3])
    for a, b in zip(want, got, strict=True):
        if isinstance(a, tuple) and isinstance(a[0], type):
            assert a == b
        else:
            same(a, b)


# ---- sizes, and attributes by names of run time


def sizes_of(x):
    return {"s": x.shape, "n": x.shape.numel(), "m": x.t().size().numel() + x[1:].shape.numel()}


def test_sizes():
    want, (got, _) = sizes_of(x), acronumba.torch.model(sizes_of).batch([x, x])
    assert got == want and type(got["s"]) is torch.Size


class Numbered(nn.Module):
    def __init__(self):
        super().__init__()
        self.m0, self.m1, self.mask = nn.Linear(4, 4), nn.Linear(4, 4), torch.ones(4)

    def forward(self, x, k):
        return getattr(self, f"m{k}")(x) * self.mask


class Named(Numbered):
    def forward(self, x, k):
        return getattr(self, "m" + k)(x)


def test_modules_by_the_number_in_their_name():
    torch.manual_seed(0)
    net = Numbered()
    want, got = outcomes(net, [x, x + 1, x - 1], [0, 1, 0])
    same(want, got)
    with pytest.raises(AcronumbaError, match=r"(?s)this name must be known.*method, such as modules.*self\.parts\[k\]"):
        acronumba.torch.model(Named()).batch([x, x], ["0", "1"])


# ---- try


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.embed, self.layer = {"a": 0, "b": 1}, nn.Embedding(2, 4), nn.Linear(4, 4)

    def forward(self, x, word):
        h = self.layer(x)
        try:
            h = h + self.embed(torch.tensor(self.words[word]))
            k = int(word)
        except KeyError:
            h, k = h * 2, -1
        except ValueError:
            h, k = h - 1, -2
        return h, k, self.rows(x, word)

    def rows(self, x, word):
        out = []
        for row in x:
            try:
                if row.sum().item() > 20:
                    raise ValueError("large")
                out.append(self.layer(row))
                row = x[int(row[0].item())]
                out.append(row)
            except (ValueError, IndexError):
                out.append(row * 0)
            else:
                out.append(row - 1)
            finally:
                out.append(row + 1)
        return out


class Stacks(Reader):
    def forward(self, x, word):
        stack, h = [x], x * 1
        try:
            stack.pop()
            a = stack.pop()
        except RuntimeError:
            a = x
        except IndexError:
            a = x + 1
        try:
            h += 1
            h[len(word)] = 0
            b = h[len(word) + 1]
        except IndexError:
            b = x[0]
        return a, b, h


class Anything(Reader):
    def forward(self, x, word):
        try:
            y = x @ self.layer.weight[: len(word)]
        except Exception:
            y = x * 3
        return y


@pytest.mark.parametrize("cls", [Reader, Stacks, Anything])
def test_try(cls):
    torch.manual_seed(0)
    net, xs, words = cls(), [x, x + 1, x - 7, x * 1], ["a", "c", "7", "bbbb"]
    grads = []
    for follows in (False, True):
        with torch.set_grad_enabled(follows):
            want, got = outcomes(net, xs, words)
        same(want, got)
    for outs in (want, got):
        net.zero_grad()
        total = sum(leaf.sum() for leaf in leaves(outs) if isinstance(leaf, torch.Tensor))
        if total.requires_grad:
            total.backward()
        grads.append([p.grad for p in net.parameters() if p.grad is not None])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


class Shapes(Reader):
    def forward(self, x, word):
        try:
            y = x @ self.layer.weight[: len(word)]
        except ValueError:
            y = x * 3
        return y


def test_shapes_that_do_not_fit_are_no_value_errors():
    net = Shapes()
    want, got = outcomes(net, [x, x], ["a", "bbbb"])
    assert want[0][0] is got[0][0] is RuntimeError
    same(want[1], got[1])


class Unclear(Reader):
    def forward(self, x, word):
        try:
            return torch.gather(x, 0, torch.tensor([[len(word)]]))
        except IndexError:
            return x


def test_an_unclear_exception_of_pytorch_is_rejected():
    with pytest.raises(AcronumbaError, match=r"(?s)ACR101.*return torch\.gather.*in `try`"):
        acronumba.torch.model(Unclear()).batch([x, x], ["a", "bbbb"])


class Truths(Reader):
    def forward(self, x, word):
        try:
            k = 1 if x[: len(word)] else 2
        except RuntimeError:
            k = 3
        return k, len(word)


def test_the_truth_of_several_elements_is_a_runtime_error():
    want, got = outcomes(Truths(), [torch.ones(3), torch.ones(3), torch.zeros(1)], ["a", "bb", "a"])
    assert want == got == [(1, 1), (3, 2), (2, 1)]
