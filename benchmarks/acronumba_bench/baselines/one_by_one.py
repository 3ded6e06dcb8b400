"""The models in idiomatic PyTorch, one instance at a time, without batching.

Each is written with the operations that are fastest for one vector: `torch.addmv` with a weight that lies transposed,
so that a bias costs nothing, and gates that share an activation in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.program import Program
from acronumba.zoo import (
    beam_decoder,
    berxit,
    bilstm_tagger,
    birnn,
    cells,
    child_sum_lstm,
    decoder,
    drnn,
    encoder,
    expressions,
    graph_rnn,
    listops,
    moe,
    mv_rnn,
    nested_rnn,
    stack_rnn,
    tree_lstm,
)
from acronumba_bench.baselines.by_torch import tensor

Pair = tuple[Array, Array]


def _weight(m: Array) -> Array:
    """Return a matrix [out, in] for products with one vector."""
    return tensor(np.ascontiguousarray(m.T)).t()


def _arrays(*arrays: Array) -> list[Array]:
    return [tensor(a) for a in arrays]


def _numpy(value: Any) -> Any:
    """Return a result with tensors converted to NumPy arrays."""
    if isinstance(value, torch.Tensor):
        return value.cpu().numpy()[()]
    if isinstance(value, list | tuple):
        return type(value)(map(_numpy, value))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: _numpy(getattr(value, f.name)) for f in fields(value)})
    return value


def _program(model: Callable[[Any], Any], xs: Sequence[Any]) -> Program:
    return Program(run=lambda: [model(x) for x in xs], results=_numpy)


# ---------------------------------------------------------------------------------------------------------------- cells


def _lstm(cell: cells.LSTM) -> Callable[[Array, Array, Array], Pair]:
    w, u, (b,), n = _weight(cell.w), _weight(cell.u), _arrays(cell.b), cell.u.shape[1]

    def step(x: Array, h: Array, c: Array) -> Pair:
        gates = torch.addmv(b, w, x).addmv_(u, h)
        i, f, o = gates[: 3 * n].sigmoid_().chunk(3)
        c = (f * c).addcmul_(i, gates[3 * n :].tanh_())
        return torch.tanh(c).mul_(o), c

    return step


def _gru(cell: cells.GRU) -> Callable[[Array, Array], Array]:
    w, u, (b,), n = _weight(cell.w), _weight(cell.u), _arrays(cell.b), cell.u.shape[1]

    def step(x: Array, h: Array) -> Array:
        gates, own = torch.addmv(b, w, x), torch.mv(u, h)
        r, z = gates[: 2 * n].add_(own[: 2 * n]).sigmoid_().chunk(2)
        new = gates[2 * n :].addcmul_(r, own[2 * n :]).tanh_()
        return torch.lerp(new, h, z)

    return step


def _classifier(w: Array, b: Array) -> Callable[[Array], Array]:
    w_out, (b_out,) = _weight(w), _arrays(b)
    return lambda h: torch.softmax(torch.addmv(b_out, w_out, h), 0)


# ---------------------------------------------------------------------------------------------------------------- trees


def _leaf_gates(gates: Array, n: int) -> Pair:
    i, o = gates[: 2 * n].sigmoid_().chunk(2)
    c = i * gates[2 * n :].tanh_()
    return torch.tanh(c).mul_(o), c


def _composer(w: Array, b: Array) -> Callable[[Pair, Pair], Pair]:
    weight, (bias,), n = _weight(w), _arrays(b), len(b) // 5

    def compose(left: Pair, right: Pair) -> Pair:
        gates = torch.addmv(bias, weight, torch.cat([left[0], right[0]]))
        i, fl, fr, o = gates[: 4 * n].sigmoid_().chunk(4)
        c = (i * gates[4 * n :].tanh_()).addcmul_(fl, left[1]).addcmul_(fr, right[1])
        return torch.tanh(c).mul_(o), c

    return compose


def sentiment(p: tree_lstm.Params, xs: Sequence[tree_lstm.Tree]) -> Program:
    w_leaf, (embed, b_leaf), n = _weight(p.w_leaf), _arrays(p.embed, p.b_leaf), p.embed.shape[1]
    compose, classify = _composer(p.w, p.b), _classifier(p.w_out, p.b_out)

    def encode(t: Any) -> Pair:
        if t.left is None:
            return _leaf_gates(torch.addmv(b_leaf, w_leaf, embed[t.word]), n)
        return compose(encode(t.left), encode(t.right))

    return _program(lambda t: classify(encode(t)[0]), xs)


def classify_expressions(p: listops.Params, xs: Sequence[listops.Expression]) -> Program:
    w_leaf, (embed, b_leaf), n = _weight(p.w_leaf), _arrays(p.embed, p.b_leaf), p.embed.shape[1]
    compose, classify = _composer(p.w, p.b), _classifier(p.w_out, p.b_out)

    def leaf(symbol: int) -> Pair:
        return _leaf_gates(torch.addmv(b_leaf, w_leaf, embed[symbol]), n)

    def encode(e: listops.Expression) -> Pair:
        state = leaf(e.symbol)
        if e.symbol < 10:
            return state
        for argument in e.arguments:
            state = compose(state, encode(argument))
        return compose(state, leaf(listops.CLOSE))

    return _program(lambda e: classify(encode(e)[0]), xs)


def matrices_and_vectors(p: mv_rnn.Params, xs: Sequence[tree_lstm.Tree]) -> Program:
    w, w_matrix = _weight(p.w), tensor(p.w_matrix)
    vectors, matrices, b = _arrays(p.vectors, p.matrices, p.b)
    classify = _classifier(p.w_out, p.b_out)

    def compose(t: Any) -> Pair:
        if t.left is None:
            return vectors[t.word], matrices[t.word]
        (vl, ml), (vr, mr) = compose(t.left), compose(t.right)
        v = torch.addmv(b, w, torch.cat([torch.mv(mr, vl), torch.mv(ml, vr)])).tanh_()
        return v, torch.mm(w_matrix, torch.cat([ml, mr]))

    return _program(lambda t: classify(compose(t)[0]), xs)


def classify_syntax(p: child_sum_lstm.Params, xs: Sequence[child_sum_lstm.Node]) -> Program:
    w, u, u_forget = map(_weight, (p.w, p.u, p.u_forget))
    (embed, b), n = _arrays(p.embed, p.b), p.embed.shape[1]
    classify = _classifier(p.w_out, p.b_out)

    def encode(node: child_sum_lstm.Node) -> Pair:
        x = torch.addmv(b, w, embed[node.kind])
        gates, forget = x[: 3 * n], x[3 * n :]
        if not node.children:
            return _leaf_gates(gates, n)
        total, kept = embed.new_zeros(n), embed.new_zeros(n)
        for child in node.children:
            h, c = encode(child)
            total += h
            kept.addcmul_(torch.addmv(forget, u_forget, h).sigmoid_(), c)
        gates = torch.addmv(gates, u, total)
        i, o = gates[: 2 * n].sigmoid_().chunk(2)
        c = kept.addcmul_(i, gates[2 * n :].tanh_())
        return torch.tanh(c).mul_(o), c

    return _program(lambda node: classify(encode(node)[0]), xs)


# ------------------------------------------------------------------------------------------------------------ sequences


def tag_words(p: birnn.Params, xs: Sequence[list[int]]) -> Program:
    (embed,), classify = _arrays(p.embed), _classifier(p.w_out, p.b_out)

    def reader(cell: birnn.Cell) -> Callable[[list[Array]], list[Array]]:
        w, u, (b, start) = _weight(cell.w), _weight(cell.u), _arrays(cell.b, cell.start)

        def read(vectors: list[Array]) -> list[Array]:
            h, states = start, []
            for x in vectors:
                h = torch.addmv(b, w, x).addmv_(u, h).tanh_()
                states.append(h)
            return states

        return read

    onward, back = reader(p.forward), reader(p.backward)

    def tag(words: list[int]) -> list[Array]:
        vectors = [embed[word] for word in words]
        both = zip(onward(vectors), reversed(back(vectors[::-1])), strict=True)
        return [classify(torch.cat(states)) for states in both]

    return _program(tag, xs)


def tag_spelled(p: bilstm_tagger.Params, xs: Sequence[list[bilstm_tagger.Word]]) -> Program:
    (embed, letter), classify = _arrays(p.embed, p.letter), _classifier(p.w_out, p.b_out)

    def reader(r: bilstm_tagger.Reader) -> Callable[[list[Array]], list[Array]]:
        step, (h_first, c_first) = _lstm(r.cell), _arrays(r.h, r.c)

        def read(vectors: list[Array]) -> list[Array]:
            h, c, states = h_first, c_first, []
            for x in vectors:
                h, c = step(x, h, c)
                states.append(h)
            return states

        return read

    onward, back = reader(p.forward), reader(p.backward)
    spell_onward, spell_back = reader(p.spell_forward), reader(p.spell_backward)

    def vector(word: bilstm_tagger.Word) -> Array:
        if word.frequency >= bilstm_tagger.OFTEN:
            return embed[word.id]
        letters = [letter[x] for x in word.letters]
        return torch.cat([spell_onward(letters)[-1], spell_back(letters[::-1])[-1]])

    def tag(sentence: list[bilstm_tagger.Word]) -> list[Array]:
        vectors = [vector(word) for word in sentence]
        both = zip(onward(vectors), reversed(back(vectors[::-1])), strict=True)
        return [classify(torch.cat(states)) for states in both]

    return _program(tag, xs)


def encode_texts(p: nested_rnn.Params, xs: Sequence[list[list[int]]]) -> Program:
    w, u, step = _weight(p.w), _weight(p.u), _gru(p.outer)
    embed, b, first, start = _arrays(p.embed, p.b, p.first, p.start)

    def encode(text: list[list[int]]) -> Array:
        h = start
        for words in text:
            inner = first
            for word in words:
                inner = torch.addmv(b, w, embed[word]).addmv_(u, inner).tanh_()
            h = step(inner, h)
        return h

    return _program(encode, xs)


def _experts(p: moe.Params) -> tuple[Callable[[int], Pair], Callable[[Array, Array, int], Array]]:
    (embed,), w_router = _arrays(p.embed), _weight(p.w_router)
    experts = [(_weight(e.w_in), _weight(e.w_out), *_arrays(e.b_in, e.b_out)) for e in p.experts]

    def routed(word: int) -> Pair:
        x = embed[word]
        return x, torch.softmax(torch.mv(w_router, x), 0)

    def mixed(x: Array, gates: Array, k: int) -> Array:
        w_in, w_out, b_in, b_out = experts[k]
        return torch.addcmul(x, gates[k], torch.addmv(b_out, w_out, torch.addmv(b_in, w_in, x).relu_()))

    return routed, mixed


def mix(p: moe.Params, xs: Sequence[moe.Tokens]) -> Program:
    routed, mixed = _experts(p)

    def one(word: int) -> Array:
        x, gates = routed(word)
        return mixed(x, gates, int(gates.argmax()))

    return _program(lambda tokens: [one(word) for word in tokens.words], xs)


def mix_emulated(p: moe.Params, xs: Sequence[moe.Tokens]) -> Program:
    routed, mixed = _experts(p)
    return _program(
        lambda tokens: [mixed(*routed(word), k) for word, k in zip(tokens.words, tokens.experts, strict=True)], xs
    )


# --------------------------------------------------------------------------------------------------- those that decide


def grow(p: drnn.Params, xs: Sequence[drnn.Start], *, emulated: bool = False) -> Program:
    ancestral_step, fraternal_step = _gru(p.ancestral), _gru(p.fraternal)
    u_ancestral, u_fraternal, w = map(_weight, (p.u_ancestral, p.u_fraternal, p.w))
    topology = _weight(np.stack([p.topology_a, p.topology_f]))
    start, embed, first_h, first_x = _arrays(p.start, p.embed, p.first_h, p.first_x)
    v_ancestral, v_fraternal = _arrays(p.v_ancestral, p.v_fraternal)

    def family(h_parent: Array, x_parent: Array, level: int, shape: drnn.Shape | None) -> list[drnn.Node]:
        ancestral = ancestral_step(x_parent, h_parent)
        from_parent = torch.mv(u_ancestral, ancestral)
        fraternal, x = first_h, first_x
        siblings: list[tuple[Array, Array, Array, bool]] = []
        more = True
        while more:
            fraternal = fraternal_step(x, fraternal)
            h = torch.addmv(from_parent, u_fraternal, fraternal).tanh_()
            k = len(siblings)
            if shape is None:
                children, sibling = torch.mv(topology, h).sigmoid_().tolist()
                parent, more = level < drnn.LEVELS and children > 0.5, k + 1 < drnn.SIBLINGS and sibling > 0.5
            else:
                parent, more = len(shape.children[k].children) > 0, k + 1 < len(shape.children)
            scores = torch.mv(w, h)
            if parent:
                scores += v_ancestral
            if more:
                scores += v_fraternal
            probabilities = torch.softmax(scores, 0)
            word = probabilities.argmax()
            x = embed[word]
            siblings.append((word, probabilities, x, parent))
        return [
            drnn.Node(
                word,
                probabilities,
                family(ancestral, x, level + 1, shape and shape.children[k]) if parent else [],
            )
            for k, (word, probabilities, x, parent) in enumerate(siblings)
        ]

    return _program(lambda s: family(start[s.vector], start[s.vector], 1, s.shape if emulated else None), xs)


def grow_emulated(p: drnn.Params, xs: Sequence[drnn.Start]) -> Program:
    return grow(p, xs, emulated=True)


def classify(p: berxit.Params, xs: Sequence[berxit.Sentence], *, emulated: bool = False) -> Program:
    n, heads = p.embed.shape[1], p.heads
    w_qkv = _weight(np.concatenate([p.wq, p.wk, p.wv])).t()
    wo, w_in, w_out = (_weight(m).t() for m in (p.wo, p.w_in, p.w_out))
    embed_, position, b_in, b_out, w_certain, b_certain = _arrays(
        p.embed, p.position, p.b_in, p.b_out, p.w_certain, p.b_certain
    )
    scale_attention, shift_attention, scale, shift = _arrays(p.scale_attention, p.shift_attention, p.scale, p.shift)
    classes = _classifier(p.w_class, p.b_class)

    def layer(x: Array) -> Array:
        q, k, v = torch.mm(x, w_qkv).view(-1, 3, heads, n // heads).permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(q[None], k[None], v[None])[0].transpose(0, 1).reshape(-1, n)
        x = F.layer_norm(torch.addmm(x, attended, wo), (n,), scale_attention, shift_attention)
        hidden = F.gelu(torch.addmm(b_in, x, w_in), approximate="tanh")
        return F.layer_norm(torch.addmm(b_out, hidden, w_out).add_(x), (n,), scale, shift)

    def one(sentence: berxit.Sentence) -> tuple[Array, Any]:
        x = embed_[sentence.words]
        x = layer(F.layer_norm(x + position[: len(x)], (n,)))
        used = 1
        certain = torch.sigmoid(torch.dot(w_certain, x[0]) + b_certain)
        while used < sentence.layers if emulated else used < berxit.LAYERS and float(certain) < 0.5:
            x = layer(x)
            used += 1
            certain = torch.sigmoid(torch.dot(w_certain, x[0]) + b_certain)
        return classes(x[0]), certain if emulated else used

    return _program(one, xs)


def classify_tuples(p: expressions.Params, xs: Sequence[expressions.Expression]) -> Program:
    embed, w_number, b_number = _arrays(p.embed, p.w_number, p.b_number)
    w_unary, w, classify = _weight(p.w_unary), _weight(p.w), _classifier(p.w_out, p.b_out)
    operators = dict(zip(p.operators, _arrays(*p.operators.values()), strict=True))

    def encode(e: expressions.Expression) -> Array:
        match e:
            case ("number", value):
                size = float(np.sign(value) * np.log1p(abs(value)))
                return torch.add(b_number, w_number, alpha=size).tanh_()
            case ("name", word):
                return embed[word]
            case ("unary", name, operand):
                return torch.addmv(operators[name], w_unary, encode(operand)).tanh_()
            case ("binary", name, left, right):
                return torch.addmv(operators[name], w, torch.cat([encode(left), encode(right)])).tanh_()
        _, name, parts = e
        state = operators[name]
        for part in parts:
            state = torch.addmv(operators[name], w, torch.cat([state, encode(part)])).tanh_()
        return state

    return _program(lambda e: classify(encode(e)), xs)


def encode_sentences(p: encoder.Params, xs: Sequence[list[int]]) -> Program:
    n, heads = p.embed.shape[1], p.heads
    embed, position = _arrays(p.embed, p.position)

    def layer(of: encoder.Layer) -> Callable[[Array], Array]:
        w_qkv = _weight(np.concatenate([of.wq, of.wk, of.wv])).t()
        wo, w_in, w_out = (_weight(m).t() for m in (of.wo, of.w_in, of.w_out))
        b_in, b_out, scale, shift = _arrays(of.b_in, of.b_out, of.scale, of.shift)
        scale_attention, shift_attention = _arrays(of.scale_attention, of.shift_attention)

        def apply(x: Array) -> Array:
            q, k, v = torch.mm(x, w_qkv).view(1, -1, 3, heads, n // heads).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=p.causal)[0].transpose(0, 1).reshape(-1, n)
            x = F.layer_norm(torch.addmm(x, attended, wo), (n,), scale_attention, shift_attention)
            hidden = F.gelu(torch.addmm(b_in, x, w_in))
            return F.layer_norm(torch.addmm(b_out, hidden, w_out).add_(x), (n,), scale, shift)

        return apply

    layers = [layer(of) for of in p.layers]

    def one(words: list[int]) -> Array:
        x = F.layer_norm(embed[words] + position[: len(words)], (n,))
        for apply in layers:
            x = apply(x)
        return x

    return _program(one, xs)


def generate(p: decoder.Params, xs: Sequence[decoder.Start], *, emulated: bool = False) -> Program:
    n, heads = p.embed.shape[1], p.heads
    embed, position, b_out, w_out = *_arrays(p.embed, p.position, p.b_out), _weight(p.w_out)

    def layer(of: encoder.Layer) -> Callable[[Array, Pair | None], tuple[Array, Pair]]:
        w_qkv = _weight(np.concatenate([of.wq, of.wk, of.wv])).t()
        wo, w_in, w_out = (_weight(m).t() for m in (of.wo, of.w_in, of.w_out))
        b_in, b_out, scale, shift = _arrays(of.b_in, of.b_out, of.scale, of.shift)
        scale_attention, shift_attention = _arrays(of.scale_attention, of.shift_attention)

        def apply(x: Array, kept: Pair | None) -> tuple[Array, Pair]:
            q, k, v = torch.mm(x, w_qkv).view(1, -1, 3, heads, n // heads).permute(2, 0, 3, 1, 4)
            if kept is not None:
                k, v = torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=kept is None)[0].transpose(0, 1).reshape(-1, n)
            x = F.layer_norm(torch.addmm(x, attended, wo), (n,), scale_attention, shift_attention)
            hidden = F.gelu(torch.addmm(b_in, x, w_in))
            return F.layer_norm(torch.addmm(b_out, hidden, w_out).add_(x), (n,), scale, shift), (k, v)

        return apply

    layers = [layer(of) for of in p.layers]

    def one(start: decoder.Start) -> decoder.Sentence:
        count = len(start.words)
        x = embed[start.words] + position[:count]
        kept: list[Pair | None] = [None] * len(layers)
        words: list[Array] = []
        score = b_out.new_zeros(())
        while True:
            x = F.layer_norm(x, (n,))
            for k, apply in enumerate(layers):
                x, kept[k] = apply(x, kept[k])
            best, word = torch.log_softmax(torch.addmv(b_out, w_out, x[-1]), 0).max(0)
            words.append(word)
            score += best
            if len(words) == (start.follow if emulated else decoder.LENGTH):
                break
            if not emulated and int(word) == decoder.END:
                break
            x = embed.index_select(0, word.view(1)) + position[count + len(words) - 1]
        return decoder.Sentence(words, score)

    return _program(one, xs)


def generate_emulated(p: decoder.Params, xs: Sequence[decoder.Start]) -> Program:
    return generate(p, xs, emulated=True)


def classify_emulated(p: berxit.Params, xs: Sequence[berxit.Sentence]) -> Program:
    return classify(p, xs, emulated=True)


def parse(p: stack_rnn.Params, xs: Sequence[stack_rnn.Sentence], *, emulated: bool = False) -> Program:
    steps = [_lstm(s.cell) for s in (p.buffer, p.stack, p.history)]
    bottoms = [tuple(_arrays(s.x, s.h, s.c)) for s in (p.buffer, p.stack, p.history)]
    w, g, u = map(_weight, (p.w, p.g, p.u))
    embed, action_vectors, d, q, e = _arrays(p.embed, p.action, p.d, p.q, p.e)

    def one(sentence: stack_rnn.Sentence) -> tuple[list[Any], Array]:
        read, push, remember = steps
        buffer, stack, (_, h, c) = [bottoms[0]], [bottoms[1]], bottoms[2]
        for word in reversed(sentence.words):
            x = embed[word]
            buffer.append((x, *read(x, *buffer[-1][1:])))
        actions: list[Any] = []
        while len(buffer) > 1 or len(stack) > 2:
            state = torch.addmv(d, w, torch.cat([stack[-1][1], buffer[-1][1], h])).relu_()
            y = torch.addmv(q, g, state)
            if emulated:
                action = sentence.actions[len(actions)]
            elif len(stack) < 3:
                action = stack_rnn.SHIFT
            elif len(buffer) == 1:
                action = stack_rnn.LEFT + int(y[stack_rnn.LEFT :].argmax())
            else:
                action = int(y.argmax())
            if action == stack_rnn.SHIFT:
                x = buffer.pop()[0]
            else:
                upper, lower = stack.pop()[0], stack.pop()[0]
                pair = [upper, lower] if action == stack_rnn.LEFT else [lower, upper]
                x = torch.addmv(e, u, torch.cat(pair)).tanh_()
            stack.append((x, *push(x, *stack[-1][1:])))
            h, c = remember(action_vectors[action], h, c)
            actions.append(y if emulated else action)
        return actions, stack[-1][0]

    return _program(one, xs)


def parse_emulated(p: stack_rnn.Params, xs: Sequence[stack_rnn.Sentence]) -> Program:
    return parse(p, xs, emulated=True)


def draw_graphs(p: graph_rnn.Params, xs: Sequence[graph_rnn.Start], *, emulated: bool = False) -> Program:
    step, w, u = _gru(p.node), _weight(p.w), _weight(p.u)
    start, nobody, adjacent, edge, w_out, b_out = _arrays(p.start, p.nobody, p.adjacent, p.edge, p.w_out, p.b_out)

    def one(s: graph_rnn.Start) -> Any:
        h, x = start[s.vector], nobody
        rows: list[list[Any]] = []
        for draws, edges in zip(s.draws, s.edges, strict=True):
            h = step(x, h)
            state, x, last = torch.mv(w, h), nobody, 2
            row: list[Any] = []
            for k, draw in enumerate(draws):
                state = torch.addmv(edge[last], u, state).tanh_()
                probability = torch.sigmoid(torch.dot(w_out, state) + b_out)
                last = edges[k] if emulated else int(draw < float(probability))
                if last:
                    x = x + adjacent[k]
                row.append(probability if emulated else last)
            rows.append(row)
        h = step(x, h)
        return (rows, h) if emulated else graph_rnn.Graph(rows, h)

    return _program(one, xs)


def score_graphs(p: graph_rnn.Params, xs: Sequence[graph_rnn.Start]) -> Program:
    return draw_graphs(p, xs, emulated=True)


def decode(p: beam_decoder.Params, xs: Sequence[beam_decoder.Start], *, emulated: bool = False) -> Program:
    step, w_out = _lstm(p.cell), _weight(p.w_out)
    start, embed, begin, b_out = _arrays(p.start, p.embed, p.begin, p.b_out)
    beam_size = beam_decoder.BEAM

    def candidates(beam: list[Any]) -> list[Any]:
        found = []
        for hypothesis in beam:
            words, score, x, h, c, ended = hypothesis
            if ended:
                found.append(hypothesis)
                continue
            h, c = step(x, h, c)
            scores, best = torch.topk(torch.log_softmax(torch.addmv(b_out, w_out, h), 0), beam_size)
            for s, word in zip((scores + score).tolist(), best.tolist(), strict=True):
                found.append(([*words, word], s, embed[word], h, c, False))
        return found

    def one(s: beam_decoder.Start) -> list[beam_decoder.Sentence]:
        beam: list[Any] = [([], 0.0, begin, start[s.vector], start[s.vector], False)]
        for length in range(len(s.rounds) if emulated else beam_decoder.LENGTH):
            if all(hypothesis[-1] for hypothesis in beam):
                break
            found = candidates(beam)
            if emulated:
                beam = [(*found[choice.candidate][:-1], choice.ends) for choice in s.rounds[length]]
            else:
                best = sorted(found, key=lambda hypothesis: -hypothesis[1])[:beam_size]
                beam = [(*b[:-1], b[-1] or b[0][-1] == beam_decoder.END) for b in best]
        return [beam_decoder.Sentence([np.int64(w) for w in b[0]], np.float32(b[1])) for b in beam]

    return _program(one, xs)


def decode_emulated(p: beam_decoder.Params, xs: Sequence[beam_decoder.Start]) -> Program:
    return decode(p, xs, emulated=True)


ONE_BY_ONE: Mapping[str, Callable[..., Program]] = {
    "tree_lstm": sentiment,
    "child_sum_lstm": classify_syntax,
    "mv_rnn": matrices_and_vectors,
    "birnn": tag_words,
    "bilstm_tagger": tag_spelled,
    "nested_rnn": encode_texts,
    "listops": classify_expressions,
    "expressions": classify_tuples,
    "encoder": encode_sentences,
    "moe": mix,
    "moe_emulated": mix_emulated,
    "moe_route": mix,
    "drnn": grow,
    "drnn_emulated": grow_emulated,
    "berxit": classify,
    "berxit_emulated": classify_emulated,
    "stack_rnn": parse,
    "stack_rnn_emulated": parse_emulated,
    "graph_rnn": draw_graphs,
    "graph_rnn_emulated": score_graphs,
    "beam_decoder": decode,
    "beam_decoder_emulated": decode_emulated,
    "decoder": generate,
    "decoder_emulated": generate_emulated,
}
