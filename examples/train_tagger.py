"""Train a tagger: what is each name in a function of Python's library, a parameter, a method, something assigned?

The tagger sees the names and constants alone, in order, without any syntax. Two loops read them, onward and back.
"""

import argparse
import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acronumba import init, model, nn, optim, pack, save, training
from acronumba.zoo.data import python_functions, word_id

VOCABULARY = 4096
TAGS = ["function", "parameter", "assigned", "read", "called", "attribute", "method", "keyword", "constant"]


@dataclass
class Sentence:
    words: list[int]
    tags: list[int]  # one for each word


@dataclass
class Reader:
    w: np.ndarray  # [H, H]: of the word
    u: np.ndarray  # [H, H]: of the last state
    b: np.ndarray  # [H]
    start: np.ndarray  # [H]


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    onward: Reader
    back: Reader
    w_out: np.ndarray  # [C, 2H]
    b_out: np.ndarray  # [C]


def read(vectors: list, r: Reader) -> list:
    h = r.start
    states = []
    for x in vectors:
        h = np.tanh(r.w @ x + r.u @ h + r.b)
        states.append(h)
    return states


def scores(words: list[int], p: Params) -> list:
    vectors = [p.embed[word] for word in words]
    onward, back = read(vectors, p.onward), read(vectors[::-1], p.back)[::-1]
    return [p.w_out @ np.concatenate([a, b]) + p.b_out for a, b in zip(onward, back, strict=True)]


@model
def loss(s: Sentence, *, p: Params):
    total = np.float32(0)
    for y, tag in zip(scores(s.words, p), s.tags, strict=True):
        total = total + nn.cross_entropy(y, tag)
    return total / len(s.words)


@model
def tag(words: list[int], *, p: Params):
    return [np.argmax(y) for y in scores(words, p)]


def params(rng: np.random.Generator, size: int) -> Params:
    def reader() -> Reader:
        w, u = init.glorot(rng, (size, size)), init.orthogonal(rng, (size, size))
        return Reader(w=w, u=u, b=np.zeros(size, np.float32), start=np.zeros(size, np.float32))

    return Params(
        embed=init.normal(rng, (VOCABULARY, size), 0.3),
        onward=reader(),
        back=reader(),
        w_out=init.glorot(rng, (len(TAGS), 2 * size)),
        b_out=np.zeros(len(TAGS), np.float32),
    )


def sentence(function: ast.FunctionDef) -> Sentence:
    """The names and constants of a function, and what they are."""
    found = []

    def add(word: str, tag: str) -> None:
        found.append((word_id(word, VOCABULARY), TAGS.index(tag)))

    def walk(node: ast.AST, called: bool = False) -> None:
        match node:
            case ast.FunctionDef():
                add(node.name, "function")
            case ast.arg():
                add(node.arg, "parameter")
            case ast.keyword(arg=str()):
                add(node.arg, "keyword")
            case ast.Name():
                add(node.id, "assigned" if isinstance(node.ctx, ast.Store) else "called" if called else "read")
            case ast.Constant():
                add(repr(node.value), "constant")
        for child in ast.iter_child_nodes(node):
            walk(child, called=isinstance(node, ast.Call) and child is node.func)
        if isinstance(node, ast.Attribute):
            add(node.attr, "method" if called else "attribute")

    walk(function)
    return Sentence(*map(list, zip(*found, strict=True)))


def accuracy(sentences: list[Sentence], p: Params) -> float:
    said = tag.batch([s.words for s in sentences], p=p)
    right = [int(a) == b for s, tags in zip(sentences, said, strict=True) for a, b in zip(tags, s.tags, strict=True)]
    return float(np.mean(right))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a tagger.")
    parser.add_argument("--steps", type=int, default=300, help="mini-batches at most")
    parser.add_argument("--size", type=int, default=64, help="of states")
    parser.add_argument("--batch", type=int, default=16, help="functions in a mini-batch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="where the best parameters go")
    parser.add_argument("--checkpoint", type=Path, help="written at every test, and resumed if it is there")
    parser.add_argument("--plot", type=Path, help="an SVG file for the curves")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    sentences = [sentence(f) for f in python_functions(1200, seed=0)]
    sentences = [sentences[k] for k in rng.permutation(len(sentences))]
    held, sentences = sentences[:150], sentences[150:]
    p = params(rng, args.size)
    few = sentences[:4]
    assert np.allclose(loss.batch(few, p=p).stack(), [loss(s, p=p) for s in few], rtol=1e-4)  # batched is plain

    packed = pack(sentences)
    opt = optim.Adam(3e-3)
    watch = training.Watch(args.steps, patience=5)
    if args.checkpoint and args.checkpoint.exists():
        training.resume(args.checkpoint, p, opt, watch, rng)
    with watch:
        while not watch.over:
            some = packed[rng.choice(len(packed), args.batch)]
            value, grads = loss.value_and_grad.batch(some, p=p)
            optim.clip(grads, 5.0)
            opt.update(p, grads)
            watch.took(value, instances=len(some))
            if watch.step % 30 == 0 or watch.step == args.steps:
                best = watch.tested(accuracy(held, p))
                if best and args.save:
                    save(args.save, p)
                if args.checkpoint:
                    training.checkpoint(args.checkpoint, p, opt, watch, rng)

    print(watch.curve())
    if args.plot:
        watch.plot(args.plot)


if __name__ == "__main__":
    main()
