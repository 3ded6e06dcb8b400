"""Several parameters: how well does each sentence answer a question? Instances that fail do not disturb the others."""

from dataclasses import dataclass

import numpy as np

from acronumba import InstanceErrors, model, nn


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    w: np.ndarray  # [H, H]
    u: np.ndarray  # [H, H]
    start: np.ndarray  # [H]


def read(words: list[int], p: Params):
    h = p.start
    for word in words:
        h = np.tanh(p.w @ p.embed[word] + p.u @ h)
    return h


@model
def score(question: list[int], answers: list[list[int]], temperature: float = 1.0, *, p: Params):
    if not answers:
        raise ValueError("no answers to choose from")
    q = read(question, p)
    return [nn.sigmoid(np.dot(q, read(answer, p)) / temperature) for answer in answers]


def main() -> None:
    rng, size = np.random.default_rng(5), 24
    normal = lambda *shape: (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)
    p = Params(embed=normal(60, size), w=normal(size, size), u=normal(size, size), start=normal(size))
    sentence = lambda: rng.integers(0, 60, int(rng.integers(1, 12))).tolist()
    questions = [sentence() for _ in range(30)]
    answers = [[sentence() for _ in range(int(rng.integers(1, 5)))] for _ in range(30)]

    one_by_one = [score(q, a, p=p) for q, a in zip(questions, answers, strict=True)]
    for got, expected in zip(score.batch(questions, answers, p=p), one_by_one, strict=True):
        assert np.allclose(got, expected, rtol=1e-5, atol=1e-6)

    answers[7] = []
    try:
        score.batch(questions, answers, p=p)
    except InstanceErrors as failed:
        assert list(failed.errors) == [7]
        assert sum(result is not None for result in failed.results) == 29
        print(f"question 7 failed: {failed.errors[7]}; the other 29 have their answers")
    else:
        raise AssertionError("question 7 has no answers and should fail")


if __name__ == "__main__":
    main()
