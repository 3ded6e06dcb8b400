"""Errors: what they print, that they survive pickling, and groups of them."""

from __future__ import annotations

import pickle
import sys
import traceback
import types

import numpy as np
import pytest

import acronumba
from acronumba import AcronumbaError, DataError, InstanceErrors, ShapeMismatch, TypeMismatch, Unsupported, model
from acronumba.api.failures import plain_failure, user_line
from acronumba.api.plain import PlainCall
from acronumba.errors import NOWHERE, Loc, format_rejection, together
from acronumba.errors.codes import reject
from acronumba.pipeline.failures import machine_failure


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def f(x):\n    y = größe(x) + 1\n\tz = 2\n")
    return str(file)


def at(file, line, column, end, end_line=None):
    return Loc(file, "f", line, column, end_line or line, end)


def test_a_rejection_shows_place_caret_seen_and_rewrite(source):
    error = Unsupported("ACR201", "no such function", at(source, 2, 8, 18), "größe", "call another")
    assert str(error).splitlines() == [
        "ACR201: no such function",
        f"  {source}:2:9, in f",
        "    y = größe(x) + 1",
        "        ^^^^^^^^",
        "  seen: größe",
        "  instead: call another",
    ]
    assert (error.code, error.file, error.line, error.column) == ("ACR201", source, 2, 9)


def draws(x):
    return np.random.normal(size=3) + x  # noqa: NPY002


def calls(x):
    return draws(x) * 2


def test_a_rejection_in_a_helper_says_by_which_calls_it_was_reached():
    @acronumba.model
    def main(x):
        return calls(x)

    with pytest.raises(Unsupported) as rejected:
        main.batch(np.ones((2, 3), np.float32))
    places = [line.strip() for line in str(rejected.value).splitlines() if ", in " in line]
    assert [place.rpartition(", in ")[2].rpartition(".")[2] for place in places] == ["draws", "calls", "main"]
    assert [place.startswith("called from ") for place in places] == [False, True, True]
    assert rejected.value.loc.path[1].line == calls.__code__.co_firstlineno + 1


def test_columns_count_bytes_as_ast_does(source):
    error = Unsupported("ACR117", "no", at(source, 2, 21, 22))
    assert str(error).splitlines()[3].index("^") == 4 + len("y = größe(x) + ")


def test_a_caret_over_several_lines_ends_with_the_first(source):
    error = Unsupported("ACR117", "no", at(source, 2, 8, 4, end_line=3))
    assert str(error).splitlines()[3] == "        " + "^" * len("größe(x) + 1")


def test_an_error_without_a_place_prints_one_sentence():
    error = AcronumbaError("ACR705", "there is no option `x`")
    assert str(error) == "ACR705: there is no option `x`"
    assert (error.file, error.line, error.column) == (None, None, None)


def test_all_rejections_of_a_function_come_at_once_in_order_of_place(source):
    second = ShapeMismatch("ACR401", "second", at(source, 3, 1, 2))
    first, again = (Unsupported("ACR101", "first", at(source, 2, 4, 5)) for _ in range(2))
    error = together([second, first, again])
    assert type(error) is Unsupported
    text = str(error)
    assert text.index("first") < text.index("second") and text.count("first") == 1
    assert text.endswith("(2 errors)")
    assert [e.code for e in error.others] == ["ACR401"]


@pytest.mark.parametrize("cls", [AcronumbaError, Unsupported, TypeMismatch, ShapeMismatch])
def test_rejections_can_be_pickled(source, cls):
    error = cls("ACR301", "a sentence", at(source, 2, 8, 9), "seen", "rewrite")
    error.others = (Unsupported("ACR101", "other", NOWHERE),)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error) and copy.loc == error.loc and copy.others[0].code == "ACR101"


def test_the_classes_are_also_those_of_python():
    assert issubclass(TypeMismatch, TypeError)
    assert issubclass(ShapeMismatch, ValueError)
    assert issubclass(DataError, AcronumbaError)


def test_data_errors_know_instance_and_path():
    error = pickle.loads(pickle.dumps(DataError("[3].left.word: expected int", instance=3, path="[3].left.word")))
    assert (error.instance, error.path, error.code) == (3, "[3].left.word", "ACR701")
    assert "expected int" in str(error)


def group():
    errors = {4: ValueError("four"), 1: ZeroDivisionError("one"), 2: ShapeMismatch("ACR401", "two")}
    return InstanceErrors(errors, ["a", None, None, "b", None])


def test_instance_errors_are_an_exception_group():
    error = group()
    assert isinstance(error, ExceptionGroup) and isinstance(error, AcronumbaError)
    assert list(error.errors) == [1, 2, 4]
    assert error.exceptions == (error.errors[1], error.errors[2], error.errors[4])
    assert error.results == ["a", None, None, "b", None]
    assert error.code == "ACR700"
    assert "3 of 5 instances failed" in str(error) and "[4] ValueError: four" in str(error)


def test_one_failure_of_many_instances_is_one_line():
    error = InstanceErrors({k: ValueError("no") if k != 7 else KeyError("a") for k in range(64)}, [None] * 64)
    assert str(error).splitlines() == [
        "64 of 64 instances failed", "  [0, 1, 2 and 60 more] ValueError: no", "  [7] KeyError: 'a'"
    ]  # fmt: skip
    each = InstanceErrors({k: ValueError(str(k)) for k in range(8)})
    assert str(each).splitlines()[5:] == ["  [4] ValueError: 4", "  ... and 3 more"]


@model
def project(x, *, p):
    return np.tanh(p["w"] @ x).sum()


def test_a_mismatch_of_shapes_names_what_was_found():
    """And which transposition would fit; the line of source with its caret is below."""
    with pytest.raises(InstanceErrors) as failed:
        project.batch([np.ones(4), np.ones(3)], p={"w": np.ones((3, 5))})
    (first, caret) = str(failed.value).splitlines()[5:7]
    assert "`p['w']` is float64[3, 5], `x` is float64[3]; `p['w'].T` would fit" in str(failed.value.errors[1])
    assert first.strip() == 'return np.tanh(p["w"] @ x).sum()' and caret.index("^") == first.index('p["w"]')
    assert "would fit" not in str(failed.value.errors[0])


def test_an_operation_in_float64_is_told_once_where_it_is_compiled(capsys, monkeypatch):
    monkeypatch.setenv("ACRONUMBA_QUIET", "0")

    @model
    def widened(x, *, w):
        return w @ np.concatenate([x, [1.0]])

    xs = [np.ones(2, np.float32)]
    widened.batch(xs, w=np.ones((2, 3)))  # as the parameter is
    assert "float64" not in capsys.readouterr().err
    widened.batch(xs, w=np.ones((2, 3), np.float32))
    assert "a line computes in float64, though all parameters are float32" in capsys.readouterr().err
    widened.batch(xs, w=np.ones((2, 3), np.float32))
    assert "float64" not in capsys.readouterr().err


def test_except_star_sees_the_instances():
    seen = []
    try:
        raise group()
    except* ValueError as part:
        seen.append(part.errors)
    except* ZeroDivisionError as part:
        seen.append(part.errors)
    assert [sorted(s) for s in seen] == [[2, 4], [1]]


def test_split_and_subgroup_keep_instances_and_results():
    match, rest = group().split(ZeroDivisionError)
    assert isinstance(match, InstanceErrors) and list(match.errors) == [1]
    assert isinstance(rest, InstanceErrors) and list(rest.errors) == [2, 4]
    assert rest.results == ["a", None, None, "b", None]
    assert group().subgroup(KeyError) is None


def test_an_instance_may_itself_raise_a_group():
    inner = ExceptionGroup("inner", [ValueError("a"), KeyError("b")])
    error = InstanceErrors({0: inner, 3: ValueError("c")})
    part = error.subgroup(ValueError)
    assert isinstance(part, ExceptionGroup)
    assert {str(e) for e in part.exceptions[0].exceptions} == {"a"}


def test_instance_errors_can_be_pickled():
    error = group()
    error.errors[4].line = 17
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, InstanceErrors) and list(copy.errors) == [1, 2, 4]
    assert copy.errors[4].line == 17 and copy.results == error.results and str(copy) == str(error)


def test_the_plain_call_says_what_an_instance_failed_of():
    def f(x, *, p):
        if x < 0:
            raise LookupError(f"{x} of {p}")
        return x

    loc = Loc(__file__, "f", f.__code__.co_firstlineno + 2, 12, 1, 20)
    error = plain_failure(PlainCall(f, {"p": 7}, 10**5), [-3], machine_failure("RuntimeError", "machine", loc))
    assert type(error) is LookupError and error.args == ("-3 of 7",)
    assert error.line == f.__code__.co_firstlineno + 2 and error.file == __file__


def test_where_the_plain_call_does_not_fail_the_machine_is_believed():
    machine = machine_failure("OverflowError", "int of more than 64 bits", Loc(__file__, "f", 9, 0, 9, 1))
    error = plain_failure(PlainCall(lambda x: x**10, {}, 10**5), [10**9], machine)
    assert type(error) is OverflowError and error.line == 9


def test_a_recursion_too_deep_for_python_is_not_the_instances_fault():
    def down(n):
        return n if n == 0 else down(n - 1)

    machine = machine_failure("ZeroDivisionError", "division by zero", Loc(__file__, "f", 9, 0, 9, 1))
    assert plain_failure(PlainCall(down, {}, 10**5), [10**6], machine) is machine


def test_an_endless_instance_is_not_run_again():
    machine = machine_failure("RuntimeError", "10 steps", NOWHERE, endless=True)

    def never(x):
        raise AssertionError("was run")

    assert plain_failure(PlainCall(never, {}, 10**5), [1], machine) is machine
    assert machine.code == "ACR702"


def test_a_clash_of_shapes_is_a_shape_mismatch_with_the_shapes():
    def f(x, y):
        return x + y

    line = f.__code__.co_firstlineno + 1
    machine = machine_failure("ShapeMismatch", "extents 2 and 3 differ", Loc(__file__, "f", line, 15, line, 20))
    error = plain_failure(PlainCall(f, {}, 10**5), [np.ones(2), np.ones(3)], machine)
    assert type(error) is ShapeMismatch and error.line == line
    assert "`x` is float64[2], `y` is float64[3]" in str(error) and "return x + y" in str(error)


def test_frames_of_libraries_are_not_the_users_line():
    def f(x):
        return acronumba.nn.softmax(x, axis=5)

    with pytest.raises(ValueError) as caught:  # noqa: PT011
        f(np.ones(3))
    assert user_line(caught.value) == (f.__code__.co_firstlineno + 1, __file__)


def test_reject_fills_in_title_and_rewrite_of_the_page():
    error = reject("ACR101")
    assert type(error) is Unsupported
    assert "try" in format_rejection(error) and "instead:" in format_rejection(error)
    assert isinstance(reject("ACR401"), ShapeMismatch)
    assert isinstance(reject("ACR701"), DataError)


def test_a_traceback_has_one_frame_of_acronumba():
    @acronumba.model
    def f(x):
        return np.fft.fft(x)

    xs = [np.ones(2)]
    calls = [lambda: f.batch(xs), lambda: f.batch(3), lambda: f.batch(xs, q=1), lambda: f.trace(xs)]
    calls += [lambda: f.stages(xs), lambda: f.explain(xs), lambda: f.check(xs)]
    for call in calls:
        with pytest.raises(AcronumbaError) as caught:
            call()
        own = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename != __file__]
        assert len(own) == 1, own


def names_a_number_in_braces(x):
    if x < 0:
        raise ValueError(f"{x} is not {4}")
    return x


def test_a_number_in_braces_of_a_message_is_no_place_to_fill_in():
    with pytest.raises(InstanceErrors) as caught:
        acronumba.model(names_a_number_in_braces).batch([1, -2])
    assert str(caught.value.errors[1]) == "-2 is not 4"


@pytest.mark.parametrize(
    ("x", "w", "rewrite"),
    [
        ((4, 3), (2, 3), "transpose the right operand: `x @ y.T`"),
        ((3, 4), (3, 2), "transpose the left operand: `x.T @ y`"),
        ((3, 4), (2, 3), "exchange the operands: `y @ x`"),
        ((3,), (4, 2), "the last of the left is 3, the second to last of the right 4"),
    ],
)
def test_a_product_of_shapes_that_do_not_fit_says_which_would(x, w, rewrite):
    @acronumba.model
    def product(k, *, x, w):
        return x @ w * k

    arrays = {"x": np.ones(x, np.float32), "w": np.ones(w, np.float32)}
    with pytest.raises(ShapeMismatch) as caught:
        product.batch([1.0], **arrays)
    assert rewrite in caught.value.rewrite
    if "`" in rewrite:  # it runs
        eval(rewrite.split("`")[1], {"x": arrays["x"], "y": arrays["w"]})
    product = acronumba.model(lambda x, *, w: x @ w)
    with pytest.raises(InstanceErrors) as failed:
        product.batch([arrays["x"]], w=arrays["w"])
    found = str(failed.value.errors[0])
    assert [f"`{name}.T` would fit" in found for name in "wx"] == ["y.T" in rewrite, "x.T" in rewrite]


def test_one_instance_in_place_of_a_list_is_told_apart():
    @acronumba.model
    def count(words):
        return len(words)

    with pytest.raises(AcronumbaError) as caught:
        count.batch(np.arange(3))
    assert "`batch` takes a list of instances, not one" in str(caught.value)


def test_a_cell_of_a_notebook_has_its_number(monkeypatch, tmp_path):
    from tests.support.modules import import_file

    path = tmp_path / "1103966237.py"
    path.write_text("import acronumba\n\n@acronumba.model\ndef f(x, *, w):\n    return w @ x + 1j\n")
    cells = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={str(path): 3}))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: cells))
    cell = import_file(path, "cell")
    with pytest.raises(AcronumbaError) as caught:
        cell.f.batch([np.ones(2)], w=np.eye(2))
    assert "\n  In [3]:5:" in str(caught.value) and caught.value.file == str(path)
