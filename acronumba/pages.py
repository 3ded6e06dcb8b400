"""The pages of the codes, printed by `acronumba explain CODE`.

Each page says in plain words what a code means, and has two small programs: `wrong` raises the code for the
instances `xs` (and the shared values `shared`, if there are any), `right` does what was meant. Both begin with
`PREAMBLE`. Tests run them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PREAMBLE = """\
from dataclasses import dataclass
import numpy as np
from acronumba import model, nn
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a user is told about a code."""

    text: str  # the explanation
    rewrite: str  # one sentence: what to write instead
    wrong: str = ""  # a program whose model `f` raises the code
    right: str = ""  # the same with the rewrite


PAGES: Mapping[str, Page] = {
    "ACR101": Page(
        text="A failure belongs to its instance: it ends that instance and is reported in `InstanceErrors`, and the "
        "model itself cannot catch it. Test for what could go wrong before it does.",
        rewrite="test the condition with `if` before the operation that could fail",
        wrong="""
@model
def f(x):
    try:
        return 1.0 / x
    except ZeroDivisionError:
        return 0.0

xs = [1.0, 0.0]
""",
        right="""
@model
def f(x):
    if x == 0.0:
        return 0.0
    return 1.0 / x

xs = [1.0, 0.0]
""",
    ),
    "ACR102": Page(
        text="A model computes values and does nothing else: there are no files, locks or settings to enter and leave. "
        "What changes NumPy's settings (`np.errstate`) has no effect on compiled code; a batch raises no "
        "warnings.",
        rewrite="take the statements out of the `with`",
        wrong="""
@model
def f(x):
    with np.errstate(divide="ignore"):
        return np.log(x)

xs = [np.ones(3), np.zeros(3) + 2]
""",
        right="""
@model
def f(x):
    return np.log(x)

xs = [np.ones(3), np.zeros(3) + 2]
""",
    ),
    "ACR103": Page(
        text="Instances are computed together and in any order, so they cannot change a variable outside the call. "
        "Pass the value as an argument and return the new one.",
        rewrite="pass the value as an argument and return the new one",
        wrong="""
count = 0

@model
def f(x):
    global count
    count = count + 1
    return x * 2.0

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    return x * 2.0, 1

xs = [1.0, 2.0]
""",
    ),
    "ACR104": Page(
        text="A function that yields or awaits hands control to its caller in the middle, which a batch cannot follow. "
        "Collect the values in a list and return it.",
        rewrite="append to a list and return it",
        wrong="""
def parts(n):
    for i in range(n):
        yield i * 2

@model
def f(n):
    return sum(parts(n))

xs = [1, 2, 3]
""",
        right="""
def parts(n):
    out = []
    for i in range(n):
        out.append(i * 2)
    return out

@model
def f(n):
    return sum(parts(n))

xs = [1, 2, 3]
""",
    ),
    "ACR105": Page(
        text="Names live to the end of the function and memory is managed by the batch, so that there is nothing to "
        "delete. To take an element out of a list, use `pop`.",
        rewrite="leave it out; to take an element from a list use `pop`",
        wrong="""
@model
def f(n):
    values = [n, n + 1]
    del values[0]
    return values[0]

xs = [1, 2, 3]
""",
        right="""
@model
def f(n):
    values = [n, n + 1]
    values.pop(0)
    return values[0]

xs = [1, 2, 3]
""",
    ),
    "ACR106": Page(
        text="Imports run once, when your module is loaded, and not for each instance.",
        rewrite="move the import to the top of the file",
        wrong="""
@model
def f(x):
    import math
    return math.sqrt(x)

xs = [1.0, 4.0]
""",
        right="""
import math

@model
def f(x):
    return math.sqrt(x)

xs = [1.0, 4.0]
""",
    ),
    "ACR107": Page(
        text="A class made inside a function would be another class at each call. Define it at the top level of the "
        "file.",
        rewrite="move the class to the top level of the file",
        wrong="""
@model
def f(x):
    @dataclass
    class Pair:
        a: float
        b: float
    return Pair(x, x).a

xs = [1.0, 4.0]
""",
        right="""
@dataclass
class Pair:
    a: float
    b: float

@model
def f(x):
    return Pair(x, x).a

xs = [1.0, 4.0]
""",
    ),
    "ACR108": Page(
        text="The language has assignments, `if`, `while`, `for`, `match`, `return`, `break`, `continue`, `pass`, "
        "`assert`, `raise`, nested functions and expressions. Any other statement is refused.",
        rewrite="write it with the statements of the language",
    ),
    "ACR109": Page(
        text="On the left of `=` there can be names, tuples of names (one of them starred), and elements of a list "
        "made in this call. A slice of a list, or a field, cannot be assigned.",
        rewrite="make a new list with slices and `+`",
        wrong="""
@model
def f(n):
    values = [n, n + 1, n + 2]
    values[1:] = [0]
    return len(values)

xs = [1, 2]
""",
        right="""
@model
def f(n):
    values = [n, n + 1, n + 2]
    values = values[:1] + [0]
    return len(values)

xs = [1, 2]
""",
    ),
    "ACR110": Page(
        text="The `else` of a loop runs unless the loop was left by `break`. Say that with a variable.",
        rewrite="set a bool before the loop and test it afterwards",
        wrong="""
@model
def f(n):
    for i in range(n):
        if i == 3:
            break
    else:
        return -1
    return 1

xs = [1, 5]
""",
        right="""
@model
def f(n):
    found = False
    for i in range(n):
        if i == 3:
            found = True
            break
    return 1 if found else -1

xs = [1, 5]
""",
    ),
    "ACR111": Page(
        text="Tensors are values: an element cannot be assigned, because other names may mean the same memory. Build "
        "the new tensor with `np.where`, `np.concatenate` or `np.stack`.",
        rewrite="make a new tensor with `np.where`, `np.concatenate` or `np.stack`",
        wrong="""
@model
def f(x):
    y = x + 1.0
    y[0] = 0.0
    return y

xs = [np.ones(3), np.zeros(3)]
""",
        right="""
@model
def f(x):
    y = x + 1.0
    return np.where(np.arange(3) == 0, 0.0, y)

xs = [np.ones(3), np.zeros(3)]
""",
    ),
    "ACR112": Page(
        text="`x += y` changes the array that `x` names, and with it every other name of that array: a parameter, a "
        "view, an element of a list. It is allowed only where the tensor was made in this call, has no other name "
        "and keeps its dtype.",
        rewrite="write `x = x + y`",
        wrong="""
@model
def f(x):
    x += 1.0
    return x * 2.0

xs = [np.ones(3), np.zeros(3)]
""",
        right="""
@model
def f(x):
    x = x + 1.0
    return x * 2.0

xs = [np.ones(3), np.zeros(3)]
""",
    ),
    "ACR113": Page(
        text="What comes from a parameter is the caller's data, which instances may share. Copy a list with `list(x)` "
        "before it is changed, and make a changed object with `dataclasses.replace`.",
        rewrite="change a copy: `list(x)`, `dataclasses.replace(x, ...)`",
        wrong="""
@model
def f(values: list[int]):
    values.append(7)
    return len(values)

xs = [[1, 2], [3]]
""",
        right="""
@model
def f(values: list[int]):
    values = list(values)
    values.append(7)
    return len(values)

xs = [[1, 2], [3]]
""",
    ),
    "ACR114": Page(
        text="A generator expression is read once, where it stands: by `sum`, `any`, `all`, `min`, `max`, `tuple`, "
        "`list`, `sorted` or unpacking. To keep the values, make a list.",
        rewrite="write a list: `[... for ...]`",
        wrong="""
@model
def f(n):
    squares = (i * i for i in range(n))
    return sum(squares)

xs = [1, 3]
""",
        right="""
@model
def f(n):
    squares = [i * i for i in range(n)]
    return sum(squares)

xs = [1, 3]
""",
    ),
    "ACR115": Page(
        text="Sets and dicts with keys of the data are not in the language; dicts have fixed string keys.",
        rewrite="use a list, or a dict written with its keys",
        wrong="""
@model
def f(n):
    return len({i % 3 for i in range(n)})

xs = [1, 5]
""",
        right="""
@model
def f(n):
    seen = [any(i % 3 == k for i in range(n)) for k in range(3)]
    return sum(seen)

xs = [1, 5]
""",
    ),
    "ACR116": Page(
        text="A string is a constant of the program: a key, a choice. It cannot be made from run-time values. The "
        "message of `raise` and `assert` is different: it is made by the plain call.",
        rewrite="return the numbers and make the text from the results",
        wrong="""
@model
def f(n):
    label = f"item {n}"
    return label

xs = [1, 5]
""",
        right="""
@model
def f(n):
    return n

xs = [1, 5]
""",
    ),
    "ACR117": Page(
        text="This kind of expression is not in the language. Whether two arrays are one object (`is`), for "
        "example, is a question about memory, which a batch lays out in its own way.",
        rewrite="write it with the expressions of the language",
        wrong="""
@model
def f(x):
    y = x + 1.0
    return 0 if x is y else 1

xs = [np.ones(2), np.zeros(2)]
""",
        right="""
@model
def f(x):
    y = x + 1.0
    return np.all(x == y)

xs = [np.ones(2), np.zeros(2)]
""",
    ),
    "ACR201": Page(
        text="Everything that a model calls is compiled with it: your own functions, NumPy's tensor functions, "
        "`acronumba.nn`, `math` and some builtins. A call that acts on the outside world (printing, files, time) "
        "has no meaning for many instances at once. Print the results after the batch, or debug with the plain "
        "call.",
        rewrite="do it before or after the batch; in the plain call everything works",
        wrong="""
@model
def f(x):
    print(x)
    return x * 2.0

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    return x * 2.0

xs = [1.0, 2.0]
""",
    ),
    "ACR202": Page(
        text="Not every NumPy function is in the language, and some only with some of their arguments. `LANGUAGE` in "
        "the documentation lists them.",
        rewrite="express it with functions of the language",
        wrong="""
@model
def f(x):
    return np.median(x)

xs = [np.ones(3), np.arange(3.0)]
""",
        right="""
@model
def f(x):
    return np.mean(x)

xs = [np.ones(3), np.arange(3.0)]
""",
    ),
    "ACR203": Page(
        text="The call gives too many or too few arguments, or names one that the function does not have.",
        rewrite="call the function with the arguments of its definition",
        wrong="""
def double(x):
    return x * 2.0

@model
def f(x):
    return double(x, 3)

xs = [1.0, 2.0]
""",
        right="""
def double(x):
    return x * 2.0

@model
def f(x):
    return double(x)

xs = [1.0, 2.0]
""",
    ),
    "ACR204": Page(
        text="The compiler reads the source of your functions. Functions made by `exec` or at the interactive prompt "
        "have none. It is not taken from a file that has changed since it was imported, if compiling it gives other "
        "code than that of the function. The plain call works all the same. Notebooks are fine.",
        rewrite="put the function into a file (or a notebook) and import it again",
        wrong="""
space = {"model": model}
exec("@model\\ndef f(x):\\n    return x * 2.0\\n", space)
f = space["f"]

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    return x * 2.0

xs = [1.0, 2.0]
""",
    ),
    "ACR205": Page(
        text="Inside a model, calling another model is calling its plain function; it is compiled and batched with the "
        "outer one. `.batch`, `.on` and `.trace` belong outside.",
        rewrite="call it plainly: `g(x)`",
        wrong="""
@model
def g(x):
    return x * 2.0

@model
def f(x):
    return g.batch([x])[0]

xs = [1.0, 2.0]
""",
        right="""
@model
def g(x):
    return x * 2.0

@model
def f(x):
    return g(x)

xs = [1.0, 2.0]
""",
    ),
    "ACR206": Page(
        text="A nested function or lambda may be called and passed down, but not returned or stored: no data describes "
        "it.",
        rewrite="return its result, or the values that it needs",
        wrong="""
@model
def f(x):
    return lambda y: x + y

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    add = lambda y: x + y
    return add(1.0)

xs = [1.0, 2.0]
""",
    ),
    "ACR207": Page(
        text="The function calls itself on every path, so that no call of it could ever return.",
        rewrite="add a path that returns without the call",
        wrong="""
def down(n):
    return down(n - 1) + 1

@model
def f(n):
    return down(n)

xs = [1, 2]
""",
        right="""
def down(n):
    if n <= 0:
        return 0
    return down(n - 1) + 1

@model
def f(n):
    return down(n)

xs = [1, 2]
""",
    ),
    "ACR208": Page(
        text="Positional parameters vary by instance, keyword-only ones are shared by all: that must be plain from the "
        "signature, so that `*args`, `**kw` and a model without positional parameters are refused.",
        rewrite="name each parameter; put what is shared behind `*`",
        wrong="""
@model
def f(*values):
    return values[0] * 2.0

xs = [1.0, 2.0]
""",
        right="""
@model
def f(value):
    return value * 2.0

xs = [1.0, 2.0]
""",
    ),
    "ACR209": Page(
        text="The value has such a method or attribute in Python, but the language does not.",
        rewrite="use a function or method of the language",
        wrong="""
@model
def f(x):
    return x.byteswap()

xs = [np.ones(3), np.zeros(3)]
""",
        right="""
@model
def f(x):
    return x

xs = [np.ones(3), np.zeros(3)]
""",
    ),
    "ACR210": Page(
        text="The compiler follows your calls by reading the functions. What a decorator, a builtin, a C "
        "extension, `functools.partial` or an `__init__` of your own does it cannot read.",
        rewrite="call a plain function; in place of `functools.partial` write a lambda",
        wrong="""
from functools import lru_cache

@model
def f(x):
    @lru_cache
    def double(y):
        return y * 2.0
    return double(x)

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    def double(y):
        return y * 2.0
    return double(x)

xs = [1.0, 2.0]
""",
    ),
    "ACR211": Page(
        text="`np.random` keeps a hidden counter, so that a result would depend on the order in which instances are "
        "computed. The functions of `acronumba.random` are functions of a key, which is data: make keys by "
        "`random.key` or `random.keys`, pass one as a positional parameter, and draw from it or from its children.",
        rewrite="draw from a key that is a positional parameter: acronumba.random.normal(key, shape)",
        wrong="""
@model
def f(x):
    return x + np.random.normal()

xs = [1.0, 2.0]
""",
        right="""
from acronumba import random

@model
def f(x):
    value, key = x
    return value + random.normal(key)

xs = [(1.0, random.key(0, 0)), (2.0, random.key(0, 1))]
""",
    ),
    "ACR301": Page(
        text="The operation is not defined for values of these types, as in Python and NumPy.",
        rewrite="convert one of the values",
        wrong="""
@model
def f(x):
    return x + None

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    return x + 1.0

xs = [1.0, 2.0]
""",
    ),
    "ACR302": Page(
        text="The value is None, or of another class, on some path that leads here, and what is done with it can "
        "be compiled for one class only. (A field or method of what *may* be None is not refused: the "
        "instance fails as the plain call would.)",
        rewrite="test it first: `if x is not None`, `isinstance`, `match`",
        wrong="""
@model
def f(n):
    values = [1, 2] if n > 1 else (1.5, n)
    total = 0.0
    for v in values:
        total = total + v
    return total

xs = [1, 2]
""",
        right="""
@model
def f(n):
    values = [1.0, 2.0] if n > 1 else [1.5, float(n)]
    total = 0.0
    for v in values:
        total = total + v
    return total

xs = [1, 2]
""",
    ),
    "ACR303": Page(
        text="The elements of a list, or the values that a variable has on different paths, must have one common type "
        "that can be written down in finite size.",
        rewrite="give the values one type, for example a dataclass",
        wrong="""
@model
def f(n):
    value = ()
    for i in range(n):
        value = (i, value)
    return value

xs = [1, 2]
""",
        right="""
@model
def f(n):
    value = []
    for i in range(n):
        value.append(i)
    return value

xs = [1, 2]
""",
    ),
    "ACR304": Page(
        text="A field that the model never reads may hold anything. This one is read, and its values are of a type "
        "that cannot be stored: a string, a set, an object that is no dataclass.",
        rewrite="store a number or an enum in its place, or do not read it",
        wrong="""
@dataclass
class Word:
    text: str
    id: int

@model
def f(w: Word):
    return w.id if w.text == "the" else 0

xs = [Word("the", 1), Word("cat", 2)]
""",
        right="""
@dataclass
class Word:
    text: str
    id: int

@model
def f(w: Word):
    return w.id if w.id == 1 else 0

xs = [Word("the", 1), Word("cat", 2)]
""",
    ),
    "ACR305": Page(
        text="The number of names on the left differs from the number of values on the right.",
        rewrite="unpack into as many names as there are values",
        wrong="""
@model
def f(x):
    a, b = (x, x, x)
    return a + b

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    a, b, _ = (x, x, x)
    return a + b

xs = [1.0, 2.0]
""",
    ),
    "ACR306": Page(
        text="The variable is not defined, or not on every path that leads here.",
        rewrite="assign the variable on every path",
        wrong="""
@model
def f(x):
    return x + missing

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    missing = 1.0
    return x + missing

xs = [1.0, 2.0]
""",
    ),
    "ACR307": Page(
        text="None of the classes that the value can have here has this attribute.",
        rewrite="use a field of the class",
        wrong="""
@dataclass
class Point:
    x: float

@model
def f(p: Point):
    return p.z

xs = [Point(1.0)]
""",
        right="""
@dataclass
class Point:
    x: float

@model
def f(p: Point):
    return p.x

xs = [Point(1.0)]
""",
    ),
    "ACR308": Page(
        text="Functions, classes, modules and strings exist when a model is compiled, not when it runs: they can be "
        "called and compared with constants, but a result cannot contain them and they cannot depend on data.",
        rewrite="use numbers or an enum in their place",
        wrong="""
@model
def f(x):
    return [np.tanh]

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x):
    return [np.tanh(x)]

xs = [1.0, 2.0]
""",
    ),
    "ACR309": Page(
        text="The items of a dict may have different types, so that the key must be known when the model is compiled.",
        rewrite="use a list where the index is computed",
        wrong="""
@model
def f(n):
    pair = {"even": 1.0, "odd": 2.0}
    return pair[n % 2]

xs = [1, 2]
""",
        right="""
@model
def f(n):
    pair = [1.0, 2.0]
    return pair[n % 2]

xs = [1, 2]
""",
    ),
    "ACR310": Page(
        text="Tensors are float32, float64, integers or bool. float16, complex, strings and objects are not supported.",
        rewrite="use float32 or float64",
        wrong="""
@model
def f(x):
    return x.astype(np.float16)

xs = [np.ones(3)]
""",
        right="""
@model
def f(x):
    return x.astype(np.float32)

xs = [np.ones(3)]
""",
    ),
    "ACR401": Page(
        text="The shapes do not go together, whatever the run-time extents are. (A clash of some instances only is a "
        "`ShapeMismatch` of these instances.)",
        rewrite="make the shapes agree",
        wrong="""
@model
def f(x, *, w, b):
    return w @ x + b

xs = [np.ones(3), np.zeros(3)]
shared = {"w": np.ones((4, 3)), "b": np.ones(5)}
""",
        right="""
@model
def f(x, *, w, b):
    return w @ x + b

xs = [np.ones(3), np.zeros(3)]
shared = {"w": np.ones((4, 3)), "b": np.ones(4)}
""",
    ),
    "ACR402": Page(
        text="The tensor has fewer axes than that.",
        rewrite="use an axis from -rank to rank - 1",
        wrong="""
@model
def f(x):
    return np.sum(x, axis=1)

xs = [np.ones(3), np.zeros(3)]
""",
        right="""
@model
def f(x):
    return np.sum(x, axis=0)

xs = [np.ones(3), np.zeros(3)]
""",
    ),
    "ACR403": Page(
        text="The number of results, an axis or the rank depends on this number, so that it must be a constant, a "
        "shared int or the extent of a shared array.",
        rewrite="use a constant or a shared int",
        wrong="""
@model
def f(x, n):
    return np.split(x, n)[0]

xs = [np.ones(4), np.zeros(4)]
columns = [[2, 2]]
""",
        right="""
@model
def f(x, n):
    return np.split(x, 2)[0]

xs = [np.ones(4), np.zeros(4)]
columns = [[2, 2]]
""",
    ),
    "ACR404": Page(
        text="A reshape keeps the number of elements.",
        rewrite="give a shape with as many elements, or -1 for one extent",
        wrong="""
@model
def f(x, *, w):
    return w.reshape(2, 2) * x

xs = [1.0, 2.0]
shared = {"w": np.ones(6)}
""",
        right="""
@model
def f(x, *, w):
    return w.reshape(2, 3) * x

xs = [1.0, 2.0]
shared = {"w": np.ones(6)}
""",
    ),
    "ACR501": Page(
        text="Shared values are arrays, numbers, bools, strings, enums, None, and dataclasses, NamedTuples, tuples, "
        "lists and dicts (with string keys) of these.",
        rewrite="pass an array, a number, or a dataclass of them",
        wrong="""
@model
def f(x, *, table):
    return x + table[3]

xs = [1, 2]
shared = {"table": {3: 5}}
""",
        right="""
@model
def f(x, *, table):
    return x + table["three"]

xs = [1, 2]
shared = {"table": {"three": 5}}
""",
    ),
    "ACR601": Page(
        text="A condition, `float()`, `int()`, `range`, an index of a list need one number. NumPy's scalars are "
        "numbers, and so is an array of one element as a condition and for `.item()`; other arrays are not, and the "
        "plain call raises an exception too.",
        rewrite="say what is meant of all elements: `x.any()`, `x.all()`, `x.sum()`, `x[0]`",
        wrong="""
@model
def f(x, *, gate):
    if gate > 0.0:
        return x
    return -x

xs = [np.ones(3), -np.ones(3)]
shared = {"gate": np.array([1.0, -1.0, 0.0])}
""",
        right="""
@model
def f(x, *, gate):
    return np.where(gate > 0.0, x, -x)

xs = [np.ones(3), -np.ones(3)]
shared = {"gate": np.array([1.0, -1.0, 0.0])}
""",
    ),
    "ACR700": Page(
        text="Some instances failed and the others did not. `InstanceErrors.errors` maps the number of an instance to "
        "its exception, which has the `line` of your program; `InstanceErrors.results` holds the results of the "
        "others.",
        rewrite="look at `.errors` and `.results` of the exception",
    ),
    "ACR701": Page(
        text="The annotations of dataclass fields are their types. `int` accepts bools and NumPy integers, `float` "
        "accepts ints; nothing else converts. The exception belongs to its instance and says where the value is, "
        "as in `[17].left.word`.",
        rewrite="correct the value, or the annotation",
    ),
    "ACR702": Page(
        text="The instance was stopped because it took more steps than `max_steps` allows: most likely a loop or "
        "recursion that never ends.",
        rewrite="look at the line's loop; raise the limit with `with_options(max_steps=...)`",
    ),
    "ACR703": Page(
        text="`Results.stack` gives every leaf a leading axis, so that each leaf must have the same shape and dtype in "
        "every instance.",
        rewrite="stack the leaves that are alike: `np.stack([r[0] for r in results])`",
    ),
    "ACR704": Page(
        text="The intermediate results of the mini-batch need more memory than `memory_limit` allows (by default half "
        "of what is free), or its arrays more than is free. Nothing was allocated. An instance that alone needs too "
        "much fails alone.",
        rewrite="pass fewer instances at once, or raise `with_options(memory_limit=...)`",
    ),
    "ACR705": Page(
        text="An option, a device or an environment variable has a value that does not exist.",
        rewrite="see `acronumba.Options` for what there is",
    ),
    "ACR706": Page(
        text="`f.batch(xs, ys, p=p)` takes one sequence of instances per positional parameter, by position, and the "
        "keyword-only parameters by name.",
        rewrite="pass a sequence per positional parameter and the shared values by name",
        wrong="""
@model
def f(x, *, scale):
    return x * scale

xs = [1.0, 2.0]
""",
        right="""
@model
def f(x, *, scale):
    return x * scale

xs = [1.0, 2.0]
shared = {"scale": 3.0}
""",
    ),
    "ACR707": Page(
        text="Each positional parameter gets one sequence with an element per instance: all have the same length.",
        rewrite="pass as many elements for each parameter",
        wrong="""
@model
def f(x, y):
    return x * y

xs = [1.0, 2.0]
columns = [[1.0]]
""",
        right="""
@model
def f(x, y):
    return x * y

xs = [1.0, 2.0]
columns = [[1.0, 5.0]]
""",
    ),
    "ACR708": Page(
        text="`load` is strict: the file must hold exactly the tensors that `like` has, with the same names and "
        "dtypes.",
        rewrite="give `like` the structure that was saved",
    ),
    "ACR709": Page(
        text="`load` is strict: each tensor of the file must have the shape that `like` has.",
        rewrite="give `like` the shapes that were saved",
    ),
    "ACR710": Page(
        text="`acronumba show FILE.py:MODEL` compiles the model for the data that the file has: what its function "
        "`example()` returns (a tuple of columns and a dict of shared values), or what its `main()` passes to the "
        "model.",
        rewrite="define `example()` in the file",
    ),
    "ACR711": Page(
        text="A function given as `schedule` gets columns of the recorded graph and returns the number of the batch of "
        "each node: integers that count from 0. All nodes of a batch have one `key`, and each node is in a later "
        "batch than every node it reads, `operand[first[v]:first[v + 1]]`. Nothing was computed.",
        rewrite="number the distinct pairs of depth and key: `np.unique(np.stack([c['depth'], c['key']], axis=1), "
        "axis=0, return_inverse=True)[1]`",
    ),
    "ACR712": Page(
        text="`batch` runs the code that the plain call runs. Where a function, or a name that it reads, changes while "
        "the model is compiled, the model is compiled again; after eight changes `batch` gives up. Other threads that "
        "replace functions without a pause are the cause. Nothing was computed.",
        rewrite="change the code before the call of `batch`, or with a pause after it",
    ),
    "ACR799": Page(
        text="With ACRONUMBA_VERIFY=2 every mini-batch is compared with the plain call, and this one differs by more "
        "than rounding allows. That is a mistake of the compiler, not of your program.",
        rewrite="please report it with the program and its data",
    ),
}
