"""What the host program, the schedule and the layout cost per node, without kernels.

    python benchmarks/host.py [--models NAME ...] [--batch N ...] [--rounds N] [--trees FILE] [--json FILE]

Each mini-batch of packed data is recorded; recorded and scheduled; recorded, scheduled and laid out, in turns. A row
has the processor time of each stage in nanoseconds per node, nodes that were equal to others included: medians, and in
`least` the smallest time of all three. A call of Python takes about 20 us of `record`.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.runtime.trace import STAGES
from acronumba_bench import by_model
from acronumba_bench.workloads import WORKLOADS

MODELS = ("nested_rnn", "birnn", "bilstm_tagger", "tree_lstm")
MEASURED = ("record", "schedule", "layout")


def row(name: str, batch: int, rounds: int, trees: str | None) -> dict[str, Any]:
    """Measure a model."""
    workload = WORKLOADS[name]
    xs, p = inputs(workload, "small", batch, trees)
    f = workload.model.with_options(threads=1)
    compiled, leaves, packed = specialise(f, bind(f, (xs,), {"p": p}))
    assert packed is not None
    words, keep = compiled.shared.words(packed, leaves)
    taken: dict[str, list[int]] = {stage: [] for stage in MEASURED}
    nodes = equal = 0
    for turn in range(rounds + 3):
        for stage in MEASURED:
            start = time.thread_time_ns()
            run = compiled.executable.run(packed.roots, words, keep=keep, stable=True, last=STAGES.index(stage))
            if turn >= 3:
                taken[stage].append(time.thread_time_ns() - start)
            nodes, equal = run.buffers["n"], run.buffers["ncap"] - run.buffers["nroom"]
            run.close()
    up_to = [0.0, *(statistics.median(taken[stage]) for stage in MEASURED)]
    stages = {
        stage: round((b - a) / (nodes + equal), 2) for stage, a, b in zip(MEASURED, up_to, up_to[1:], strict=False)
    }
    least = round(min(taken["layout"]) / (nodes + equal), 2)
    return {"model": name, "instances": batch, "nodes": nodes, "equal": equal, **stages, "least": least}


if __name__ == "__main__":
    by_model.main(__doc__, MODELS, 60, row)
