"""``acronumba demo``: one model, run plainly and batched, with the speed-up.

In: functions of Python's own standard library, which become trees. Out: text. Nothing is downloaded, and nothing is
trained (see `bench.demo_training`). The work is done in a child process, because NumPy reads its number of threads only
once, when it is imported.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import Any

TREES = 200
SIZE = 256
ROUNDS = 5  # of the batched competitors; the slow plain calls have two
_CHILD = "ACRONUMBA_DEMO_CHILD"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; return 0 if batched and plain results agree."""
    from acronumba.bench.openblas import best_setting

    environment = {**os.environ, **best_setting(threads=1), _CHILD: "1"}
    print(end="", flush=True)
    return subprocess.run([sys.executable, "-m", "acronumba.bench.demo"], env=environment, check=False).returncode


def run(trees: int = TREES, size: int = SIZE) -> int:
    """Show the model, its data, the comparison of results, the batches, and the times.

    Parameters
    ----------
    trees : int
        Number of instances.
    size : int
        Hidden size H of the model.

    Returns
    -------
    int
        0 if batched and plain results agree, else 1.
    """
    from acronumba.bench.by_hand.trees import flatten
    from acronumba.views.report import print_trace
    from acronumba.zoo import tree_lstm

    title("The model: a Tree-LSTM, written for one tree")
    print(inspect.getsource(tree_lstm.encode))
    print(inspect.getsource(inspect.unwrap(tree_lstm.sentiment)))

    title("The data: functions of Python's standard library as binary trees")
    p = tree_lstm.params(size)
    instances = tree_lstm.instances(trees)
    forest, words = flatten(instances)
    high = f"trees up to {len(forest.levels)} levels high"
    print(f"{trees} functions, {len(words)} names and constants, {high}; H = {size}\n")

    title("The same answers")
    first, agree = _answers(instances, p)

    title("What was batched")
    print(end="", flush=True)
    one_thread = tree_lstm.sentiment.with_options(threads=1)
    print_trace(one_thread.trace(instances, p=p).data, "sentiment", graph=False)
    print()

    title(f"Speed: milliseconds for {trees} trees, one thread each (plain: best of 2, batched: median of {ROUNDS})")
    _times(instances, p, first)
    core = os.environ.get("OPENBLAS_CORETYPE", "unset")
    print(f"\nNumPy ran with OPENBLAS_NUM_THREADS=1 and OPENBLAS_CORETYPE {core}, the fastest here, on trees")
    print("that were flattened beforehand.")
    return 0 if agree else 1


def _answers(instances: list[Any], p: Any) -> tuple[float, bool]:
    """Print whether plain and batched results agree; return the seconds of the plain calls, and the agreement."""
    import numpy as np

    from acronumba.bench.agreement import plain
    from acronumba.bench.measure import timed
    from acronumba.views.progress import progress
    from acronumba.zoo import tree_lstm

    one_thread = tree_lstm.sentiment.with_options(threads=1)
    with progress("the plain calls"):
        first, results = timed(lambda: plain(tree_lstm.sentiment, instances, p))
    expected = np.stack(results)
    with progress("compiling the model"):
        seconds, rows = timed(lambda: one_thread.batch(instances, p=p))
    batched = rows.stack()
    difference = float(np.abs(batched - expected).max())
    agree = difference <= 1e-5 * float(np.abs(expected).max())
    print("plain     [sentiment(t, p=p) for t in trees]")
    print(f"batched   sentiment.batch(trees, p=p)          first call {seconds:.1f} s, with compiling or loading")
    print(f"largest difference {difference:.1e}: {'they agree' if agree else 'THEY DIFFER'}\n")
    return first, agree


def _times(instances: list[Any], p: Any, first: float) -> None:
    """Print the times of the competitors; `first`: seconds that the plain calls took before."""
    from acronumba import pack
    from acronumba.bench.agreement import plain
    from acronumba.bench.by_hand import BATCHED
    from acronumba.bench.by_hand.by_numpy import NUMPY
    from acronumba.bench.measure import interleaved, timed
    from acronumba.zoo import tree_lstm

    one_thread = tree_lstm.sentiment.with_options(threads=1)
    by_level = BATCHED["tree_lstm"](NUMPY, p, instances)
    packed, shared = pack(instances), pack(p)
    again, _ = timed(lambda: plain(tree_lstm.sentiment, instances, p))
    times = {"plain Python and NumPy, one tree at a time": min(first, again)}
    rivals = interleaved(
        {
            "NumPy, batched by hand level by level": by_level.run,
            "acronumba, from Python objects": lambda: one_thread.batch(instances, p=p),
            "acronumba, packed once": lambda: one_thread.batch(packed, p=shared),
        },
        ROUNDS,
    )
    times |= {name: found.median for name, found in rivals.items()}
    slowest = max(times.values())
    for name, value in times.items():
        print(f"{name:44} {value * 1e3:9.1f} ms {slowest / value:8.1f} x")


def title(text: str) -> None:
    print(text)
    print("-" * len(text))


if __name__ == "__main__":
    sys.exit(run() if os.environ.get(_CHILD) else main())
