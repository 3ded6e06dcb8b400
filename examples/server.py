"""A model behind HTTP, and a generator of load that draws latency against it.

The application is ASGI, by Starlette: `uvicorn examples.server:app` serves it. Run as a script it asks the application
itself, without a network, at growing load. Without Starlette it says so and ends.

    pip install ".[serve]" starlette
    curl -d '{"word": 1, "kids": [{"word": 2}]}' localhost:8000/encode
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from acronumba import AcronumbaError, model, serve

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect
    from starlette.responses import JSONResponse
    from starlette.routing import Route
except ImportError:
    raise SystemExit(print("skipped: this example needs Starlette (pip install starlette)")) from None


@dataclass
class Tree:
    word: int
    kids: list[Tree] = field(default_factory=list)


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray


@model
def encode(t: Tree, *, p: Params) -> np.ndarray:
    h = p.embed[t.word]
    for k in t.kids:
        h = h + encode(k, p=p)
    return np.tanh(p.w @ h)


LARGEST = 1 << 16  # bytes of a body
SLOWEST = 5.0  # seconds until all of it is there
FORM = 'a tree is {"word": whole number, "kids": [trees]}'


def tree(read: Any) -> Tree:
    """Return the tree that was read; raise `ValueError` if it is none: what comes from a network may be anything."""
    if type(read) is not dict or type(read.get("word")) is not int or type(kids := read.get("kids", [])) is not list:
        raise ValueError(FORM)
    return Tree(read["word"], [tree(k) for k in kids])


async def body_of(request: Any) -> bytes | None:
    """Return the body, None if it is too large; no more of it is read than that takes."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and (len(said) > 18 or int(said) > LARGEST):
        return None
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > LARGEST:
            return None
    return bytes(found)


RNG = np.random.default_rng(0)
PARAMS = Params(*(RNG.standard_normal(s).astype(np.float32) / 8 for s in ((100, 64), (64, 64))))


@asynccontextmanager
async def lifespan(app: Any) -> Any:
    async with serve.Server(encode, p=PARAMS, max_queue=256) as app.state.server:
        await app.state.server(Tree(0))  # compiles before the first request has a deadline
        yield


async def answer(request: Any) -> Any:
    try:
        async with asyncio.timeout(SLOWEST):
            body = await body_of(request)
        if body is None:
            return JSONResponse({"error": f"a body has at most {LARGEST} bytes"}, 413, {"Connection": "close"})
        instance = tree(json.loads(body))
    except TimeoutError:
        return JSONResponse({"error": f"the body took more than {SLOWEST} s"}, 408, {"Connection": "close"})
    except (ClientDisconnect, ValueError, RecursionError):  # nobody hears it; no JSON or no tree; one without end
        return JSONResponse({"error": FORM}, 400)
    try:
        result = await request.app.state.server(instance, deadline=2.0)
    except (serve.Overloaded, serve.ServerClosed) as error:
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
    except serve.DeadlineExceeded as error:
        return JSONResponse({"error": str(error)}, 504)
    except Exception as error:  # of this instance: a word that there is not
        text = error.message if isinstance(error, AcronumbaError) else str(error)  # without lines of this file
        return JSONResponse({"error": text}, 422)
    return JSONResponse([float(x) for x in result])


app = Starlette(routes=[Route("/encode", answer, methods=["POST"])], lifespan=lifespan)


async def post(*body: bytes) -> int:
    """Ask the application, with a body in pieces; return the status."""
    status, left = [0], list(body)

    async def receive() -> Any:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: Any) -> None:
        status[0] = message.get("status", status[0])

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/encode",
    }
    scope |= {"raw_path": b"/encode", "query_string": b"", "headers": [], "root_path": ""}
    await app(scope, receive, send)
    return status[0]


def body(chance: random.Random, leaves: int) -> Any:
    kids = [body(chance, leaves // 2) for _ in range(2)] if leaves > 1 else []
    return {"word": chance.randrange(100), "kids": kids}


async def ask(rate: float, seconds: float = 0.5) -> tuple[list[float], int]:
    """Send requests at random times; return the latencies of what was answered, and how many were not."""
    chance, took, lost, tasks = random.Random(0), list[float](), [0], set[asyncio.Task[None]]()
    bodies = [json.dumps(body(chance, 8)).encode() for _ in range(64)]

    async def one(k: int) -> None:
        begin = time.perf_counter()
        if await post(bodies[k % 64]) == 200:
            took.append(time.perf_counter() - begin)
        else:
            lost[0] += 1

    at, end = time.perf_counter(), time.perf_counter() + seconds
    while (at := at + chance.expovariate(rate)) < end:
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        tasks.add(asyncio.create_task(one(len(tasks))))
    await asyncio.gather(*tasks)
    return sorted(took), lost[0]


async def main() -> None:
    async with app.router.lifespan_context(app):
        bad = (b'{"word": Infinity}', b'{"word": 1e400}', b'{"word": 1, "kids": {}}', b"[1]", b"no", b"[" * 50000)
        assert [await post(b) for b in (b'{"word": 1}', b'{"word": 500}', *bad)] == [200, 422, *[400] * len(bad)]
        assert await post(*[b'{"word": 1}' + b" " * 4096] * 17) == 413
        trees = [tree(body(random.Random(k), 8)) for k in range(8)]
        served = await asyncio.gather(*map(app.state.server, trees))
        assert [x.tobytes() for x in served] == [x.tobytes() for x in encode.batch(trees, p=PARAMS)]
        assert np.allclose(served, [encode(t, p=PARAMS) for t in trees], atol=1e-5)
        print(" requests/s   median      p99   rejected")
        for rate in (50, 200, 800, 3200):
            took, lost = await ask(rate)
            p50, p99 = (1e3 * took[int(q * len(took))] for q in (0.5, 0.99))
            print(f"{rate:11} {p50:5.1f} ms {p99:5.1f} ms {lost:9}   {'#' * min(60, round(p50))}")
        metrics = app.state.server.metrics()
        print(f"{metrics.delivered} delivered, {metrics.failed} failed, {metrics.batch_sizes.mean:.1f} together")


if __name__ == "__main__":
    asyncio.run(main())
