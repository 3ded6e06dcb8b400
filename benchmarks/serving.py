"""What serving costs: throughput when saturated, latency at part of that load, and 100,000 requests.

    python benchmarks/serving.py [MODEL ...] [--size small] [--pairs 8] [--requests 100000]

Throughput is compared by processor time, in pairs in turns: plain mini-batches of 64, then the same instances as single
requests of 128 clients. Latency is measured at a share of the load that the server takes, with arrivals at random, and
compared with the time of one mini-batch of the size that occurred, in the same run. `--requests N` sends that many and
prints the memory of the process after each tenth; what is flat does not grow. `--joining` compares, for models that
wait for values, requests that join what runs with mini-batches that run to their end, in turns: throughput by processor
time, the median latency of the quarter with the smallest results, and the bits. With 128 clients as many requests wait
as run, and half of the latency is waiting for a slot, however short a request is; with 64 there is a slot for each.
What the process holds once the model is warm is hidden from Python's collector (`gc.freeze`), as a server should do it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import pickle
import random
import statistics
import time
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

from acronumba import pack, serve  # noqa: E402
from acronumba.memory import resident  # noqa: E402

MODELS = {"tree_lstm": "sentiment", "birnn": "tag", "drnn": "generate"}
MORE = {"stack_rnn": "parse"}
BATCH = 64


def loaded(name: str, size: str, count: int) -> tuple[Any, Any, list[Any]]:
    """Return a model of the zoo on one thread, its parameters, and instances; it is compiled."""
    module = importlib.import_module(f"acronumba.zoo.{name}")
    f = getattr(module, (MODELS | MORE)[name]).with_options(threads=1)
    p, instances = pack(module.params(size)), module.instances(count)
    for n in (1, 8, BATCH):
        f.batch(instances[:n], p=p)
    gc.collect()
    gc.freeze()
    return f, p, instances


async def clients(server: Any, instances: list[Any], count: int) -> None:
    """Send all instances, each client its next one when the last is answered."""
    turns = iter(range(len(instances)))

    async def client() -> None:
        for k in turns:
            await server(instances[k])

    await asyncio.gather(*(client() for _ in range(count)))


async def throughput(name: str, size: str, pairs: int) -> float:
    """Print and return the share of the throughput of plain mini-batches; then the rate, in requests per second."""
    f, p, instances = loaded(name, size, 512)
    shares, walls = [], []
    async with serve.Server(f, p=p, max_batch=BATCH) as server:
        for _ in range(pairs):
            begin = time.process_time()
            for at in range(0, len(instances), BATCH):
                list(f.batch(instances[at : at + BATCH], p=p))
            alone, begin, wall = time.process_time() - begin, time.process_time(), time.perf_counter()
            await clients(server, instances, 2 * BATCH)
            shares.append(alone / (time.process_time() - begin))
            walls.append(time.perf_counter() - wall)
        mean = server.metrics().batch_sizes.mean
    rate = len(instances) / statistics.median(walls)
    share = f"{statistics.median(shares):6.1%} ({min(shares):.1%} to {max(shares):.1%})"
    print(f"{name:10} {share} of the throughput of mini-batches of {BATCH}, by processor time")
    print(f"{name:10} {rate:,.0f} requests/s, {mean:.0f} together")
    return rate


async def latency(name: str, size: str, rate: float, share: float, seconds: float = 8.0) -> None:
    """Print latencies at a share of the load that saturates."""
    f, p, instances = loaded(name, size, 512)
    chance, took = random.Random(0), list[float]()
    async with serve.Server(f, p=p, max_batch=BATCH) as server:

        async def one(k: int) -> None:
            begin = time.perf_counter()
            await server(instances[k % len(instances)])
            took.append(time.perf_counter() - begin)

        tasks, at, end = set[asyncio.Task[None]](), time.perf_counter(), time.perf_counter() + seconds
        for k in range(1 << 30):
            at += chance.expovariate(share * rate)
            if at > end:
                break
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            tasks.add(asyncio.create_task(one(k)))
        await asyncio.gather(*tasks)
        sizes = server.metrics().batch_sizes
    took.sort()
    n = max(1, round(sizes.mean))
    singles = []
    for k in range(100):
        begin = time.perf_counter()
        list(f.batch([instances[(k * n + j) % len(instances)] for j in range(n)], p=p))
        singles.append(time.perf_counter() - begin)
    one_batch = statistics.quantiles(singles, n=100)
    p50, p99 = took[len(took) // 2], took[int(0.99 * len(took))]
    print(f"{name:10} at {share:.0%} load: median {1e3 * p50:.2f} ms, p99 {1e3 * p99:.2f} ms of {len(took)} requests; "
          f"a mini-batch of {n}: median {1e3 * one_batch[49]:.2f} ms, p99 {1e3 * one_batch[98]:.2f} ms")  # fmt: skip


class Whole:
    """A model that a server runs in mini-batches only."""

    def __init__(self, model: Any) -> None:
        self.batch = model.batch


def size_of(result: Any) -> int:
    """Return about how large a result is."""
    return len(pickle.dumps(result))


async def joining(name: str, size: str, pairs: int, count: int) -> None:
    """Print what joining gains over mini-batches that run to their end, where so many clients saturate both."""
    f, p, instances = loaded(name, size, 512)
    sizes = [size_of(r) for r in f.batch(instances, p=p)]
    small = sorted(range(len(instances)), key=sizes.__getitem__)[: len(instances) // 4]
    shares, walls, medians = [], [], []
    for _ in range(pairs):
        seconds, wall, middle = [], [], []
        both: tuple[Any, ...] = (f, Whole(f))
        for model in both:
            async with serve.Server(model, p=p, max_batch=BATCH) as server:
                took = dict[int, float]()
                turns = iter(range(len(instances)))

                async def client(server: Any = server, turns: Any = turns, took: Any = took) -> None:
                    for k in turns:
                        begin = time.perf_counter()
                        await server(instances[k])
                        took[k] = time.perf_counter() - begin

                begin, at = time.process_time(), time.perf_counter()
                await asyncio.gather(*(client() for _ in range(count)))
                seconds.append(time.process_time() - begin)
                wall.append(time.perf_counter() - at)
                middle.append(statistics.median(took[k] for k in small))
        shares.append(seconds[1] / seconds[0])
        walls.append(wall[1] / wall[0])
        medians.append(middle[0] / middle[1])
    middle_share, by_clock, wait = map(statistics.median, (shares, walls, medians))
    print(f"{name:10} joining, {count} clients: {middle_share:.1%} ({min(shares):.1%} to {max(shares):.1%}) of"
          f" the throughput of mini-batches by processor time, {by_clock:.1%} by the clock;"
          f" the smallest quarter takes {wait:.2f} ({min(medians):.2f} to {max(medians):.2f}) of the time")  # fmt: skip
    async with serve.Server(f, p=p, max_batch=BATCH) as server:
        found = await asyncio.gather(*(server(x) for x in instances[:BATCH]))
    alone = [f.batch([x], p=p)[0] for x in instances[:BATCH]]
    same = sum(pickle.dumps(a) == pickle.dumps(b) for a, b in zip(found, alone, strict=True))
    print(f"{name:10} {same} of {BATCH} answers have the bits that they have alone")


async def steady(name: str, size: str, count: int) -> None:
    """Print the memory of the process after each tenth of many requests, some of which are withdrawn."""
    f, p, instances = loaded(name, size, 512)
    async with serve.Server(f, p=p, max_batch=BATCH) as server:
        for tenth in range(10):
            for _ in range(count // 10 // len(instances)):
                await clients(server, instances, 2 * BATCH)
            print(f"{(tenth + 1) * (count // 10):9,} requests  {resident() / 1e6:8.1f} MB", flush=True)
        print(server.metrics().requests, "requests,", server.metrics().delivered, "delivered")


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--size", default="small")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--load", type=float, default=0.2)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--joining", action="store_true")
    given = parser.parse_args()
    for name in given.models:
        if given.requests:
            asyncio.run(steady(name, given.size, given.requests))
        elif given.joining:
            for count in (2 * BATCH, BATCH):
                asyncio.run(joining(name, given.size, given.pairs, count))
        else:
            rate = asyncio.run(throughput(name, given.size, given.pairs))
            asyncio.run(latency(name, given.size, rate, given.load))


if __name__ == "__main__":
    main()
