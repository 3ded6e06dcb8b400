"""Training of modules of PyTorch by their mini-batches: gradients, optimisers, and what PyTorch promises of both."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from acronumba import AcronumbaError, InstanceErrors, value_and_grad, vjp

torch = pytest.importorskip("torch")

from acronumba.torch import layer, model  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Tree:
    def __init__(self, word: int, left: Any = None, right: Any = None) -> None:
        self.word, self.left, self.right = word, left, right


class Words(nn.Module):
    """A tree of words: each node from its word and children."""

    def __init__(self, vocab: int = 20, dim: int = 6, classes: int = 3) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.left, self.right = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.out = nn.Linear(dim, classes)

    def encode(self, tree):
        x = self.emb(torch.tensor(tree.word))
        if tree.left is None:
            return torch.tanh(x)
        return torch.tanh(self.left(self.encode(tree.left)) + self.right(self.encode(tree.right)) + x)

    def forward(self, tree):
        return self.out(self.encode(tree))

    def loss(self, tree, label):
        scores = self.forward(tree)
        return scores @ scores - scores[label]


def random_tree(rng: random.Random, n: int) -> Tree:
    word = rng.randrange(20)
    if n <= 1:
        return Tree(word)
    k = rng.randint(1, n - 1)
    return Tree(word, random_tree(rng, k), random_tree(rng, n - k))


def trees(count: int = 12, seed: int = 0) -> list[Tree]:
    rng = random.Random(seed)
    return [random_tree(rng, rng.randint(1, 8)) for _ in range(count)]


def grads_of(net: Any, loss: Any) -> dict[str, Any]:
    """Return the gradients of the parameters of a module that a loss leads to, by name; None where it does not."""
    net.zero_grad()
    loss.backward()
    found = {n: None if p.grad is None else p.grad.clone() for n, p in net.named_parameters()}
    net.zero_grad()
    return found


def assert_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Check that gradients are those of PyTorch, to 1e-5 of the largest of each parameter."""
    assert found.keys() == wanted.keys()
    for name, g in wanted.items():
        if g is None:
            assert found[name] is None, name
        else:
            assert found[name] is not None and found[name].dtype == g.dtype and found[name].shape == g.shape
            assert (found[name] - g).abs().max() <= 1e-5 * g.abs().max() + 1e-12, name


def plain(net: Any, data: Any) -> Any:
    return torch.stack([net(x) for x in data])


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Words()


def test_gradients_are_those_of_pytorch(net: Any) -> None:
    data, fast = trees(), model(net)
    outs = fast.batch(data)
    torch.testing.assert_close(outs.stack(), plain(net, data))
    wanted = grads_of(net, plain(net, data).square().sum())
    assert_same(grads_of(net, fast.batch(data).stack().square().sum()), wanted)
    assert_same(grads_of(net, sum(o.square().sum() for o in outs)), wanted)
    assert_same(grads_of(net, layer(net)(data).square().sum()), wanted)
    assert_same(grads_of(net, layer(net.forward)(data).square().sum()), wanted)
    values, offsets = fast.batch(data).ragged()
    assert offsets.tolist() == [3 * k for k in range(13)]
    assert_same(grads_of(net, values.square().sum()), wanted)
    some = fast.batch(data)
    assert_same(grads_of(net, some[3].sum() + some[-1][0]), grads_of(net, net(data[3]).sum() + net(data[-1])[0]))


def test_results_are_followed_only_where_pytorch_does(net: Any) -> None:
    data, fast = trees(), model(net)
    assert fast.batch(data)[0].requires_grad
    with torch.no_grad():
        assert not fast.batch(data)[0].requires_grad and not fast.batch(data).stack().requires_grad
    with torch.inference_mode():
        assert not fast.batch(data)[0].requires_grad
    net.requires_grad_(False)
    assert not fast.batch(data)[0].requires_grad and not layer(net)(data).requires_grad
    assert len(fast.batch([])) == 0
    with pytest.raises(AcronumbaError, match="no results"):
        fast.batch([]).stack()


def test_adam_takes_the_same_steps(net: Any) -> None:
    mine, data, rng = copy.deepcopy(net), trees(30), random.Random(1)
    fast = model(mine)
    steps = [torch.optim.Adam(m.parameters(), 1e-2, weight_decay=1e-3) for m in (net, mine)]
    for _ in range(20):
        some = rng.sample(range(30), 8)
        labels = torch.tensor([k % 3 for k in some])
        losses = []
        for m, opt in zip((net, mine), steps, strict=True):
            opt.zero_grad()
            scores = plain(net, [data[k] for k in some]) if m is net else fast.batch([data[k] for k in some]).stack()
            loss = F.cross_entropy(scores, labels)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], abs=2e-6)
    for p, q in zip(net.parameters(), mine.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=2e-5, rtol=1e-4)
    assert len(fast._entries) == 1


def test_tied_frozen_and_unreached_parameters(net: Any) -> None:
    data, fast = trees(), model(net)
    net.right.weight = net.left.weight
    net.spare = nn.Linear(2, 2)
    net.register_buffer("shift", torch.ones(3))
    net.emb.requires_grad_(False)
    wanted = grads_of(net, plain(net, data).square().sum())
    assert wanted["spare.weight"] is None and wanted["emb.weight"] is None
    assert_same(grads_of(net, fast.batch(data).stack().square().sum()), wanted)
    leaf = [Tree(1)]
    assert grads_of(net, fast.batch(leaf).stack().sum())["left.weight"] is None  # no instance has reached it


def test_gradients_accumulate_and_graphs_are_freed(net: Any) -> None:
    data, fast = trees(), model(net)
    wanted = grads_of(net, plain(net, data).sum())
    fast.batch(data).stack().sum().backward()
    total = fast.batch(data).stack().sum()
    total.backward(retain_graph=True)
    total.backward()
    for name, p in net.named_parameters():
        torch.testing.assert_close(p.grad, 3 * wanted[name], atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.backward()
    outs = fast.batch(data)
    grads = torch.autograd.grad(outs[0].sum(), [net.out.weight, net.left.weight], retain_graph=True)
    again = torch.autograd.grad(net(data[0]).sum(), [net.out.weight, net.left.weight])
    torch.testing.assert_close(grads, again)


def test_second_derivatives_are_rejected(net: Any) -> None:
    (g,) = torch.autograd.grad(model(net).batch(trees()).stack().sum(), [net.out.weight], create_graph=True)
    with pytest.raises(AcronumbaError, match="only first derivatives"):
        g.square().sum().backward()


def test_a_parameter_changed_in_place_raises_as_in_pytorch(net: Any) -> None:
    loss = model(net).batch(trees()).stack().sum()
    with torch.no_grad():
        net.left.weight.add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[6, 6\]\]"):
        loss.backward()


def test_the_state_of_a_mini_batch_is_freed_by_its_backward_pass(net: Any) -> None:
    import gc
    import weakref

    outs = model(net).batch(trees())
    state = weakref.ref(outs[0].grad_fn.saved_tensors[0].token.back.forward)
    outs.stack().sum().backward()
    gc.collect()
    assert state() is None and outs[0].grad_fn is not None


def test_value_and_grad_without_a_graph(net: Any) -> None:
    data = trees()
    labels = [k % 3 for k in range(len(data))]
    fast = model(net.loss)
    losses = torch.stack([net.loss(t, y) for t, y in zip(data, labels, strict=True)])
    wanted = grads_of(net, losses.mean())
    value, grads = fast.value_and_grad.batch(data, labels)
    torch.testing.assert_close(value, losses.mean().detach())
    assert not value.requires_grad and net.out.weight.grad is None
    assert_same(grads, wanted)
    fast.value_and_grad.batch(data, labels, into=net)
    fast.value_and_grad.batch(data, labels, into=net)
    assert_same({n: p.grad / 2 for n, p in net.named_parameters()}, wanted)
    found = fast.value_and_grad.batch(data, torch.tensor(labels))  # each label is a tensor without axes
    assert_same(found.grads, wanted)
    torch.testing.assert_close(found.losses.stack(), losses.detach())


def test_functions_get_gradients_of_modules_by_name_and_around_them(net: Any) -> None:
    data, scale = trees(), torch.tensor([2.0, 3.0, 4.0], requires_grad=True)

    @model
    def score(tree, factor, *, part):
        return part(tree) * factor * scale

    factors = [torch.full((3,), float(k), requires_grad=True) for k in range(len(data))]
    net.zero_grad()
    score.batch(data, factors, part=net).stack().square().sum().backward()
    found = [scale.grad, *(f.grad for f in factors), *(p.grad for p in net.parameters())]
    tensors = [scale, *factors, *net.parameters()]
    loss = torch.stack([net(t) * f * scale for t, f in zip(data, factors, strict=True)]).square().sum()
    for g, same in zip(found, torch.autograd.grad(loss, tensors), strict=True):
        assert (g - same).abs().max() <= 1e-5 * same.abs().max()
    rows = torch.randn(len(data), 3, requires_grad=True)
    score.batch(data, rows, part=net).stack().square().sum().backward()
    loss = torch.stack([net(t) * f * scale for t, f in zip(data, rows, strict=True)]).square().sum()
    torch.testing.assert_close(rows.grad, torch.autograd.grad(loss, [rows])[0])


class Node:
    def __init__(self, x: Any, children: Any = ()) -> None:
        self.x, self.children = x, list(children)


def test_gradients_of_tensors_in_instances() -> None:
    torch.manual_seed(0)

    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(3, 3)

        def forward(self, node):
            h = self.f(node.x)
            for child in node.children:
                h = h + torch.tanh(self.forward(child))
            return h

    net, shared = Sums(), torch.randn(3, requires_grad=True)
    xs = [torch.randn(3, requires_grad=k != 2) for k in range(4)]
    data = [Node(xs[0], [Node(xs[1]), Node(shared)]), Node(shared, [Node(xs[2])]), Node(xs[3], [Node(shared)] * 2)]
    wants = [shared, *(x for x in xs if x.requires_grad), *net.parameters()]
    outs = model(net).batch(data)
    found = torch.autograd.grad(outs.stack().square().sum(), wants)
    torch.testing.assert_close(found, torch.autograd.grad(plain(net, data).square().sum(), wants))
    net.requires_grad_(False)
    (g,) = torch.autograd.grad(model(net).batch(data)[0].sum(), [shared])
    torch.testing.assert_close(g, torch.autograd.grad(net(data[0]).sum(), [shared])[0])


def test_a_layer_of_pytorch_around_a_model(net: Any) -> None:
    torch.manual_seed(1)
    encoder, data = nn.Linear(4, 3), trees()

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net

        def forward(self, tree, x):
            return self.inner(tree) * x

    xs = torch.randn(len(data), 4)
    both = Scaled()
    loss = layer(both)(data, encoder(xs)).square().sum()
    plain_loss = torch.stack([both(t, x) for t, x in zip(data, encoder(xs), strict=True)]).square().sum()
    params = [*encoder.parameters(), *net.parameters()]
    torch.testing.assert_close(torch.autograd.grad(loss, params), torch.autograd.grad(plain_loss, params))


def test_results_of_any_structure(net: Any) -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net

        def forward(self, tree, k):
            h = self.inner(tree)
            return {"h": h, "pair": (h, torch.tanh(h)), "k": k, "half": 0.5, "none": None, "list": [h] * 2}

    data = trees(4)
    outs = model(Several()).batch(data, [1, 2, 3, 4])
    one = outs[1]
    assert one["k"] == 2 and type(one["k"]) is int and one["half"] == 0.5 and one["none"] is None
    assert one["pair"][0] is one["h"] and one["list"][0] is one["list"][1] is one["h"]
    whole = outs.stack()
    assert whole["k"].tolist() == [1, 2, 3, 4] and whole["pair"][1].shape == (4, 3) and whole["none"] is None
    loss = whole["h"].sum() + 2 * whole["pair"][1].sum() + outs[0]["list"][1].sum()
    hs = plain(net, data)
    assert_same(grads_of(net, loss), grads_of(net, hs.sum() + 2 * torch.tanh(hs).sum() + hs[0].sum()))


def test_instances_that_fail(net: Any) -> None:
    data = trees(4)
    data[2].word = 99
    with pytest.raises(InstanceErrors) as caught:
        model(net).batch(data)
    results = caught.value.results
    assert list(caught.value.errors) == [2] and results[2] is None
    found = grads_of(net, results[0].sum() + results[3].sum())
    assert_same(found, grads_of(net, net(data[0]).sum() + net(data[3]).sum()))


def test_copies_state_and_modes(net: Any) -> None:
    data, other = trees(), Words()
    fast = model(net)
    other.load_state_dict(net.state_dict())
    torch.testing.assert_close(model(other).batch(data).stack(), fast.batch(data).stack())
    twin = copy.deepcopy(net)
    twin.out.weight.data.mul_(2.0)
    torch.testing.assert_close(model(twin).batch(data).stack(), plain(twin, data))
    net.load_state_dict(twin.state_dict())
    torch.testing.assert_close(fast.batch(data).stack(), plain(net, data))
    net.out.weight = nn.Parameter(torch.ones(3, 6))
    torch.testing.assert_close(fast.batch(data).stack(), plain(net, data))
    fast.batch(data).stack().sum().backward()
    assert net.out.weight.grad is not None
    assert len(fast._entries) == 1


class Modes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(3, 3)
        self.sizes = {str(k): k for k in range(3000)}

    def forward(self, x):
        return self.f(x) if self.training else torch.tanh(self.f(x))


def test_both_modes_are_kept_and_unread_attributes_cost_nothing() -> None:
    net = Modes()
    fast, x = model(net), [torch.randn(3) for _ in range(3)]
    for train in (True, False, True, False):
        net.train(train)
        torch.testing.assert_close(fast.batch(x).stack(), plain(net, x))
        net.sizes["other"] = 0.5  # the program does not read it
        net.note = object()
    assert len(fast._entries) == 2


def test_float64() -> None:
    net = Words().double()
    data = trees()
    wanted = grads_of(net, plain(net, data).square().sum())
    assert_same(grads_of(net, model(net).batch(data).stack().square().sum()), wanted)
    assert wanted["out.weight"].dtype == torch.float64


def test_numbers_that_are_read_have_no_gradient() -> None:
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            h = self.f(x)
            return h * h[0].item() if h[1] > 0 else h

    net, xs = Gate(), [torch.randn(3) for _ in range(6)]
    wanted = grads_of(net, plain(net, xs).sum())
    assert_same(grads_of(net, model(net).batch(xs).stack().sum()), wanted)


class Children(nn.Module):
    """A child-sum Tree-LSTM in the usual style: rows of shape [1, H], joined by `torch.cat`."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.dim = dim
        self.emb = nn.Embedding(20, dim)
        self.ioux, self.iouh = nn.Linear(dim, 3 * dim), nn.Linear(dim, 3 * dim)
        self.fx, self.fh = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def encode(self, tree):
        x = self.emb(torch.tensor([tree.word]))
        kids = [k for k in (tree.left, tree.right) if k is not None]
        if len(kids) == 0:
            cs, hs = torch.zeros(1, self.dim), torch.zeros(1, self.dim)
        else:
            states = [self.encode(kid) for kid in kids]
            cs = torch.cat([s[0] for s in states], dim=0)
            hs = torch.cat([s[1] for s in states], dim=0)
        iou = self.ioux(x) + self.iouh(torch.sum(hs, dim=0, keepdim=True))
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        f = torch.sigmoid(self.fh(hs) + self.fx(x).expand(hs.size(0), -1))
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sum(f * cs, dim=0, keepdim=True)
        return c, torch.sigmoid(o) * torch.tanh(c)

    def forward(self, tree):
        return self.encode(tree)[1].squeeze(0)


def test_a_tree_lstm_in_the_usual_style() -> None:
    torch.manual_seed(0)
    net, data = Children(), trees(20)
    torch.testing.assert_close(model(net).batch(data).stack(), plain(net, data))
    wanted = grads_of(net, plain(net, data).square().sum())
    assert_same(grads_of(net, model(net).batch(data).stack().square().sum()), wanted)


class Parser(nn.Module):
    """A greedy parser with a stack LSTM, which decides by what it computes."""

    def __init__(self, dim: int = 4) -> None:
        super().__init__()
        self.dim = dim
        self.emb, self.cell = nn.Embedding(20, dim), nn.LSTMCell(dim, dim)
        self.compose, self.act = nn.Linear(2 * dim, dim), nn.Linear(2 * dim, 2)
        self.empty = nn.Parameter(torch.randn(1, dim))

    def forward(self, words):
        embs, n, at = self.emb(words), words.size(0), 0
        zero = torch.zeros(1, self.dim)
        stack, items, score = [(zero, zero)], [self.empty], torch.zeros(1)
        while at < n or len(items) > 2:
            top = embs[at].unsqueeze(0) if at < n else self.empty
            logits = F.log_softmax(self.act(torch.cat([stack[-1][0], top], dim=1)), dim=1)
            if len(items) < 3:
                action = 0
            elif at >= n:
                action = 1
            else:
                action = logits.argmax(dim=1).item()
            score = score + logits[0, action]
            if action == 0:
                x = embs[at].unsqueeze(0)
                at += 1
            else:
                right, left = items.pop(), items.pop()
                stack.pop()
                stack.pop()
                x = torch.tanh(self.compose(torch.cat([left, right], dim=1)))
            items.append(x)
            stack.append(self.cell(x, stack[-1]))
        return stack[-1][0].squeeze(0), score


def test_a_parser_that_decides_by_what_it_computes() -> None:
    torch.manual_seed(0)
    net = Parser()
    data = [torch.randint(0, 20, (n,)) for n in (1, 5, 9, 2, 7)]
    heads, scores = model(net).batch(data).stack()
    both = [net(x) for x in data]
    torch.testing.assert_close(heads, torch.stack([h for h, _ in both]))
    torch.testing.assert_close(scores, torch.stack([s for _, s in both]))
    wanted = grads_of(net, sum(h.square().sum() + s.sum() for h, s in both))
    assert_same(grads_of(net, heads.square().sum() + scores.sum()), wanted)


def test_words_that_are_numbers_are_looked_up_as_numbers() -> None:
    emb = nn.Embedding(10, 3, padding_idx=2)

    def looped(n):
        out, last = torch.zeros(3), torch.tensor(n)
        i = n
        while i < 5:
            last, t = torch.tensor(i), torch.tensor([i])
            i += 1
            out = out * 2 + emb(t)[0] * i
        return out + emb(last) + emb(torch.tensor([[i]]))[0, 0]

    def ranged(n):
        out, t = torch.zeros(3), torch.tensor(0)
        for k in range(n):
            out = out * 2 + emb(t)
            t = torch.tensor(k)
            if k > 4:
                break
        return out + emb(t.unsqueeze(0))[0]

    for f in (looped, ranged):
        data = [0, 2, 3, 7, 9]
        outs, same = model(f).batch(data).stack(), torch.stack([f(n) for n in data])
        torch.testing.assert_close(outs, same)
        found, wanted = (torch.autograd.grad(x.square().sum(), [emb.weight])[0] for x in (outs, same))
        torch.testing.assert_close(found, wanted)
    with pytest.raises(InstanceErrors) as caught:
        model(lambda n: emb(torch.tensor([n]))).batch([-1, 3, 10])
    assert list(caught.value.errors) == [0, 2]
    assert all(isinstance(e, IndexError) for e in caught.value.errors.values())


def test_results_without_gradients_are_not_followed(net: Any) -> None:
    net.register_buffer("shift", torch.ones(3))

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net

        def forward(self, tree, x):
            h = self.inner(tree)
            return h.detach(), h, x.sum(), x, self.inner.shift, self.inner.out.bias, h.argmax()

    mixed, data, x = Mixed(), trees(3), torch.randn(3)
    for grad in (False, True):
        x.requires_grad_(grad)
        found, same = model(mixed).batch(data, [x] * 3)[0], mixed(data[0], x)
        assert [t.requires_grad for t in found] == [t.requires_grad for t in same]
        torch.testing.assert_close(found, same)


def test_modules_of_several_devices_are_wrapped_around_a_model(net: Any) -> None:
    with pytest.raises(AcronumbaError, match="DataParallel: a module of several devices"):
        model(nn.DataParallel(net))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.fast = net, model(net)

        def forward(self, trees):
            return self.fast.batch(trees).stack()

    whole, data = Whole(), trees()
    wanted = grads_of(net, plain(net, data).sum())
    whole(data).sum().backward()
    assert_same({n.removeprefix("net."): p.grad for n, p in whole.named_parameters()}, wanted)
    twin = copy.deepcopy(whole)
    with torch.no_grad():
        twin.net.out.bias += 1
    torch.testing.assert_close(twin(data), whole(data) + 1)


def test_half_precision_is_rejected_with_a_conversion(net: Any) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(AcronumbaError, match=r"dtype .*float16"):
            model(copy.deepcopy(net).to(dtype)).batch(trees())
    with pytest.raises(AcronumbaError, match=r"float16"):
        model(nn.Linear(2, 2)).batch([torch.ones(2).half()])


def test_other_ways_to_gradients() -> None:
    net = Words()
    fast, data = model(net.loss), trees(4)
    found = value_and_grad(fast).batch(data, [0, 1, 2, 0])
    alone = fast.value_and_grad(data[1], 1)
    assert found.grads.keys() == alone.grads.keys() == dict(net.named_parameters()).keys()
    torch.testing.assert_close(alone.value, net.loss(data[1], 1).detach())
    for reject in (
        lambda: value_and_grad(fast, wrt="self"), lambda: vjp(fast),
        lambda: fast.value_and_grad.check(data, [0, 1, 2, 0]),
    ):  # fmt: skip
        with pytest.raises(AcronumbaError, match="PyTorch"):
            reject()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_many_tensors_in_instances(shape: tuple[int, ...]) -> None:
    class Totals(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.full(shape, 2.0))

        def forward(self, node):
            h = node.x * self.w
            for child in node.children:
                h = h + torch.tanh(self.forward(child))
            return h

    torch.manual_seed(0)
    net, one = Totals(), torch.randn(shape)
    leaves = [Node(torch.randn(shape, requires_grad=k % 2 == 1)) for k in range(60)]
    data = [Node(one, leaves[k : k + 5]) for k in range(0, 60, 4)]
    xs = [leaf.x for leaf in leaves if leaf.x.requires_grad]
    found = torch.autograd.grad(model(net).batch(data).stack().square().sum(), [net.w, *xs])
    torch.testing.assert_close(found, torch.autograd.grad(plain(net, data).square().sum(), [net.w, *xs]))
    if shape:  # a tensor of another shape, or of another dtype, among many
        data[3].children.append(Node(torch.randn(1)))
        torch.testing.assert_close(model(net).batch(data).stack(), plain(net, data))
        data[4].x = torch.ones(shape, dtype=torch.float64)
        for got, want in zip(model(net).batch(data), [net(x) for x in data], strict=True):
            torch.testing.assert_close(got, want)


def test_a_vocabulary_that_changes() -> None:
    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vocab = {f"w{k}": k for k in range(40)}
            self.emb = nn.Embedding(50, 3)

        def forward(self, word):
            return self.emb(torch.tensor([self.vocab[word]])).sum()

    net, words = Lookup(), ["w1", "w39", "w1"]
    fast = model(net)
    for change in ({}, {"w1": 7}, {"w1": 7, "other": 49}, {"w39": 2}, {"w39": 1}):
        net.vocab.update(change)
        torch.testing.assert_close(fast.batch(words).stack(), plain(net, words))
    net.vocab = dict(net.vocab, w1=3)
    torch.testing.assert_close(fast.batch(words).stack(), plain(net, words))
