"""What escapes while a model is compiled is one error, which names the user's line and keeps its cause."""

from __future__ import annotations

import ast
import pickle

import numpy as np
import pytest

from acronumba import InstanceErrors, InternalError, model
from acronumba.frontend import handlers, operators
from acronumba.ir.verify import VerifyError

XS = [np.ones(3), np.arange(3.0)]


def helper(x):
    return x * 2.0


@model
def f(x, *, w):
    y = helper(x)
    return (y @ w).sum()


LINE = helper.__code__.co_firstlineno + 1
W = np.eye(3)
WAYS = [
    lambda m: m.batch(XS, w=W),
    lambda m: m.trace(XS, w=W),
    lambda m: m.explain(XS, w=W),
    lambda m: m.stages(XS, w=W),
    lambda m: m.check(XS, w=W),
    lambda m: m.value_and_grad.batch(XS, w=W),
    lambda m: m.value_and_grad(XS[0], w=W),
]


def fresh():
    return model(f.__wrapped__)


def broken(w, node):
    """Fail at the product in `helper`, as an operator might that the front end does not know."""
    return node.nosuch if isinstance(node.op, ast.Mult) else operators._binary_operator(w, node)


# Faults are those of acronumba's own code, not of the user's, of which this file is some.
broken.__code__ = broken.__code__.replace(co_filename=handlers.__file__)


def fails(error):
    def handler(w, node):
        raise error

    return handler


@pytest.mark.parametrize("way", WAYS)
def test_a_fault_of_the_front_end_names_the_line_that_it_walked(way, monkeypatch):
    monkeypatch.setitem(handlers.EXPRESSIONS, ast.BinOp, broken)
    with pytest.raises(InternalError) as caught:
        way(fresh())
    error = caught.value
    assert (error.code, error.line, error.file) == ("ACR798", LINE, __file__)
    assert "x * 2.0" in str(error) and "called from" in str(error)
    assert "AttributeError: 'BinOp' object has no attribute 'nosuch'" in error.seen
    assert "[f(x, w=w) for x in xs]" in error.rewrite
    assert type(error.__cause__) is AttributeError and error.__cause__.__traceback__ is not None
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("where", ["acronumba.analysis.plan.make_plan", "acronumba.pipeline.link.link"])
def test_a_fault_behind_the_front_end_names_the_model(where, monkeypatch):
    def broken(*args, **kwargs):
        return {}["nosuch"]

    broken.__code__ = broken.__code__.replace(co_filename=handlers.__file__)
    monkeypatch.setattr(where, broken)
    with pytest.raises(InternalError) as caught:
        fresh().batch(XS, w=W)
    assert caught.value.file == __file__ and caught.value.line == f.__wrapped__.__code__.co_firstlineno + 1
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_program_that_does_not_verify_is_a_fault(monkeypatch):
    def verify(program, kernels=()):
        raise VerifyError(["f, block 3: does not end"])

    verify.__code__ = verify.__code__.replace(co_filename=handlers.__file__)
    monkeypatch.setattr("acronumba.ir.verify.verify", verify)
    monkeypatch.setenv("ACRONUMBA_VERIFY", "1")
    with pytest.raises(InternalError, match="block 3: does not end") as caught:
        fresh().batch(XS, w=W)
    assert isinstance(caught.value.__cause__, VerifyError)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), SystemExit(3)])
def test_what_is_no_fault_of_the_compiler_passes(error, monkeypatch):
    monkeypatch.setitem(handlers.EXPRESSIONS, ast.BinOp, fails(error))
    with pytest.raises(type(error)):
        fresh().batch(XS, w=W)


def test_what_a_model_raises_itself_stays_its_own():
    @model
    def raising(x):
        if x.sum() > 2.0:
            raise LookupError("mine")
        return x

    with pytest.raises(InstanceErrors) as caught:
        raising.batch([np.ones(3), np.zeros(3)])
    assert [type(e) for e in caught.value.errors.values()] == [LookupError]


def test_an_exception_of_the_users_data_stays_its_own():
    class Keys(dict):
        def __iter__(self):
            raise LookupError("mine")

    class Column(list):
        def __iter__(self):
            raise LookupError("mine")

    @model
    def one(x):
        return x

    with pytest.raises(LookupError, match="mine"):
        one.batch(Column([1, 2]))


def unsupported(i, n):
    return np.zeros((1, n)).setflags(1, i)


def chosen(x):
    return unsupported(np.argmax(x), x.shape[1])


def test_a_rejection_that_a_loop_has_undone_is_told():
    """What is rejected in the first walk of a loop may be out of reach in the next: it has made the state unusable."""

    @model
    def loop(x, *, w):
        state = x @ w, x @ w
        for i in range(x.shape[0] - 1):
            h, c = state
            new = np.tanh(h + c), h * c
            if i < x.shape[0] - 2:
                m = chosen(new[0]).astype(np.float32)
                state = m * new[0], m * new[1]
        return state[0]

    with pytest.raises(Exception, match="setflags") as caught:
        loop.batch([np.ones((4, 8))] * 2, w=np.ones((8, 8)))
    assert caught.value.code == "ACR209" and caught.value.line == unsupported.__code__.co_firstlineno + 1
