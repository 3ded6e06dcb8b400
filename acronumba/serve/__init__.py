"""A server for requests that arrive one at a time: requests that arrive during a mini-batch form the next one.

>>> from acronumba import serve
>>> async with serve.Server(parse, p=p, max_batch=64) as server:  # doctest: +SKIP
...     y = await server(sentence, deadline=0.2)
"""

from __future__ import annotations

from acronumba.serve.metrics import Histogram, Metrics, prometheus
from acronumba.serve.request_queue import DeadlineExceeded, Overloaded, ServerClosed
from acronumba.serve.server import Server
from acronumba.serve.simulated import Simulation, simulate

__all__ = [
    "DeadlineExceeded",
    "Histogram",
    "Metrics",
    "Overloaded",
    "Server",
    "ServerClosed",
    "Simulation",
    "prometheus",
    "simulate",
]
