"""Models on several machines: a cluster of two nodes on this one. Skipped without Ray."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Tree:
    word: int
    kids: list[Tree]


@model
def total(t: Tree, *, p: np.ndarray) -> np.ndarray:
    h = p[t.word]
    for k in t.kids:
        h = h + np.tanh(total(k, p=p))
    return h


P = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)


def tree(k: int) -> Tree:
    return Tree(k % 10, [tree(k // 2)] * (k % 3) if k else [])


TREES = [tree(k) for k in range(300)]


def bits(results: Any) -> list[bytes]:
    return [x.tobytes() for x in results]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path[1:]])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def many(cluster: Any) -> Any:
    from acronumba import ray as many

    return many


def test_a_pool_gives_the_bits_of_a_mini_batch(many: Any) -> None:
    wanted = total.batch(TREES, p=P)
    with many.Pool(total, p=P, workers=2, same_processor=True) as pool:
        nodes = ray.get(
            [w.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()) for w in pool._workers]
        )
        assert len(set(nodes)) == 2
        assert bits(pool.batch(TREES)) == bits(wanted)
        assert (
            sorted(pool.stream(iter(TREES), chunk=32), key=lambda pair: pair[0])[7][1].tobytes() == wanted[7].tobytes()
        )
        pool.update(p=2 * P)
        assert bits(pool.batch(TREES)) == bits(total.batch(TREES, p=2 * P))
        with pytest.raises(TypeError, match="not a shared value"):
            pool.update(q=1)
        bad = [*TREES[:100], Tree(99, []), *TREES[100:]]
        with pytest.raises(InstanceErrors) as failed:
            pool.batch(bad)
        assert {k: type(e) for k, e in failed.value.errors.items()} == {100: IndexError}
        assert failed.value.results[100] is None
        assert len([r for r in failed.value.results if r is not None]) == 300
        with pytest.raises(InstanceErrors) as late:
            list(pool.stream(bad, chunk=64))
        assert late.value.errors.keys() == {100}
        with pytest.raises(AcronumbaError):
            pool.batch([1, 2])


def test_a_worker_that_is_killed_loses_nothing(many: Any) -> None:
    with many.Pool(total, p=P, workers=2) as pool:
        pool.update(p=3 * P)
        pool.batch(TREES[:20])
        found: dict[int, Any] = {}
        for k, result in pool.stream(TREES * 4, chunk=16):
            found[k] = result
            if len(found) == 100:
                pid = ray.get(pool._workers[0].__ray_call__.remote(lambda _: os.getpid()))
                os.kill(pid, signal.SIGKILL)
        wanted = bits(total.batch(TREES, p=3 * P))
        assert [found[k].tobytes() for k in range(1200)] == wanted * 4


def test_a_model_of_a_script(many: Any, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
from dataclasses import dataclass
import ray
from acronumba import model, ray as many

@dataclass
class Tree:
    word: int
    kids: "list[Tree]"

@model
def size(t: Tree) -> Tree:
    return Tree(1 + sum([size(k).word for k in t.kids]), [])

if __name__ == "__main__":
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    with many.Pool(size, workers=1) as pool:
        print(pool.batch([Tree(0, [Tree(0, []), Tree(0, [])]), Tree(0, [])]) == [Tree(3, []), Tree(1, [])])
""")
    there = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=there, check=False)
    assert done.stdout.strip().endswith("True"), done.stderr


def test_a_node_that_is_removed_loses_nothing(many: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "PATIENCE", 2.0)
    wanted = bits(total.batch(TREES, p=P))
    newer = bits(total.batch(TREES, p=2 * P))
    node = cluster.add_node(num_cpus=1, resources={"leaving": 1})
    with many.Pool(total, p=P, workers=3) as pool:
        pool.batch(TREES)
        homes = ray.get(
            [w.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()) for w in pool._workers]
        )
        assert node.node_id in homes
        count, found = 20_000, {}
        for k, result in pool.stream((TREES[k % 300] for k in range(count)), chunk=100):
            assert k not in found
            found[k] = result.tobytes()
            if len(found) == 5_000:
                cluster.remove_node(node, allow_graceful=False)
        assert [found[k] for k in range(count)] == [wanted[k % 300] for k in range(count)]
        pool.update(p=2 * P)
        assert bits(pool.batch(TREES)) == newer


def test_a_dataset_is_mapped(many: Any) -> None:
    lists = [[float(j) for j in range(k % 5)] for k in range(40)]
    sums = model(lambda xs, *, scale: scale * sum(xs, 0.0))
    given = (sums, {"scale": 2.0}, "values", "sum")
    column = np.empty(40, object)
    column[:] = [np.array(x) for x in lists]
    assert many.Mapper(*given)({"values": column})["sum"].tolist() == [2 * sum(x) for x in lists]
    assert pickle.loads(pickle.dumps(many.Mapper)) is many.Mapper
    import pyarrow as pa

    ds = ray.data.from_arrow(pa.table({"k": list(range(40)), "values": pa.array(lists)}))
    for form in ("numpy", "pyarrow"):
        mapped = ds.map_batches(many.Mapper, fn_constructor_args=given, concurrency=1, batch_size=16, batch_format=form)
        found = {row["k"]: row["sum"] for row in mapped.take_all()}
        assert found == {k: 2 * sum(x) for k, x in enumerate(lists)}


@dataclass
class Leaf:
    word: int
    x: list[float]


def test_a_table_of_arrow_is_mapped(many: Any) -> None:
    import pyarrow as pa

    @model
    def heights(t: Leaf, *, p: np.ndarray) -> np.ndarray:
        return p[t.word] * sum(t.x, 0.0)

    @model
    def cut(t: Leaf) -> Any:
        return t.x[: t.word % 2 + 1], t.word

    rows = [{"word": k, "x": [1.0] * k} for k in range(4)]
    table = pa.table({"t": rows})
    found = many.Mapper(heights, {"p": P}, "t", "h")(table)
    assert np.array_equal(found["h"].combine_chunks().to_numpy_ndarray(), [P[k] * k for k in range(4)])
    assert many.Mapper(cut, {}, "t", "c")({"t": np.array([Leaf(**r) for r in rows])})["c"][3] == ([1.0, 1.0], 3)


def test_a_deployment_serves(many: Any) -> None:
    ray_serve = pytest.importorskip("ray.serve")
    handle = ray_serve.run(many.deployment(total, p=P), name="total", route_prefix=None)
    assert handle.remote(TREES[5]).result().tobytes() == total.batch([TREES[5]], p=P)[0].tobytes()
    found = handle.many.remote([*TREES[:50], Tree(99, [])]).result()
    assert bits(found[:50]) == bits(total.batch(TREES[:50], p=P))
    assert isinstance(found[50], IndexError)
    ray_serve.shutdown()
