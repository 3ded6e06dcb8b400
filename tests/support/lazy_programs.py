"""Random programs about laziness: what iterators compute when, seen by a log, by failures and by changed containers."""

from __future__ import annotations

import random
from collections.abc import Callable

HELPERS = """
import itertools
from itertools import accumulate, chain, compress, dropwhile, filterfalse, groupby, islice, pairwise, starmap, takewhile


def part(x, log):
    log.append(x)
    return 12 // x


def odd(x, log):
    log.append(100 + x)
    return x % 2 == 1


def pair(x, y, log):
    log.append((x + 7) * 1000 + y)
    return x * 3 - y


def numbers(xs, log):
    for x in xs:
        log.append(10000 + x)
        if x == 4:
            return
        yield x
        log.append(20000 + x)
        if x > 2:
            yield x - 1


def safely(xs, log):
    try:
        for x in xs:
            yield part(x, log)
    except ZeroDivisionError:
        log.append(-7)
        yield 1


def lazily(xs, log):
    return (part(x, log) for x in xs if x != 3)


def mapped(xs, log):
    return map(lambda v: part(v + 1, log), xs)


def consumed(it, log):
    total = 0
    for v in it:
        log.append(-v)
        total = total * 2 + v
        if total > 40:
            break
    return total


def first_two(it):
    a = -1
    for b in it:
        if a >= 0:
            return a * 10 + b
        a = b
    return a
"""


class Writer:
    """Writes one program; `lines` is its body."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def source(self) -> str:
        lists = ["xs", "ys", "xs[1:]", "ys[:3]", "[2, 3, 5]", "sorted(xs)"]
        return self.r.choice([*lists, "range(4)", "(1, 2, 0, 3)", "reversed(ys)"])

    def iterable(self, depth: int) -> str:
        """Return an expression for an iterator of ints."""
        r = self.r
        if depth == 0:
            return self.source()
        inner = lambda: self.iterable(depth - 1)
        forms: list[Callable[[], str]] = [
            lambda: f"map(lambda a: part(a, log), {inner()})",
            lambda: f"map(lambda a: part(a + 2, log), {inner()})",
            lambda: f"map(lambda a, b: pair(a, b, log), {inner()}, {inner()})",
            lambda: f"filter(lambda a: odd(a, log), {inner()})",
            lambda: f"filter(None, {inner()})",
            lambda: f"filterfalse(lambda a: odd(a, log), {inner()})",
            lambda: f"(part(a, log) for a in {inner()})",
            lambda: f"(a + k for a in {inner()} if odd(a, log))",
            lambda: f"(a * b for a in {inner()} for b in {self.source()} if odd(a + b, log))",
            lambda: f"takewhile(lambda a: odd(a, log), {inner()})",
            lambda: f"dropwhile(lambda a: odd(a, log), {inner()})",
            lambda: f"islice({inner()}, {r.choice(['2', '1, 3', '0', 'k', '0, 5, 2', '1, None, 2', '3, 1'])})",
            lambda: f"chain({inner()}, {inner()})",
            lambda: f"chain.from_iterable([a, a + 1] for a in {inner()})",
            lambda: f"accumulate({inner()})",
            lambda: f"accumulate({inner()}, lambda a, b: pair(a, b, log))",
            lambda: f"accumulate({inner()}, initial=k)",
            lambda: f"(a - b for a, b in zip({inner()}, {inner()}))",
            lambda: f"(i * a for i, a in enumerate({inner()}, 1))",
            lambda: f"(a - b for a, b in pairwise({inner()}))",
            lambda: f"starmap(lambda a, b: pair(a, b, log), zip({inner()}, {inner()}))",
            lambda: f"compress({inner()}, {inner()})",
            lambda: f"numbers({inner()}, log)",
            lambda: f"safely({inner()}, log)",
            lambda: f"lazily({inner()}, log)",
            lambda: f"mapped({inner()}, log)",
            lambda: f"(a for a, b in itertools.product({inner()}, {self.source()}))",
            lambda: f"(a + b for a, b in itertools.combinations({inner()}, 2))",
            lambda: f"iter({inner()})",
        ]
        return r.choice(forms)()

    def value(self, it: str) -> str:
        """Return an expression for an int that reads an iterator."""
        r = self.r
        return r.choice([
            f"sum({it})", f"sum({it})", f"len(list({it}))", f"next(iter({it}), -1)", f"int(any({it}))",
            f"int(all({it}))",
            f"max({it}, default=-3)", f"min({it}, default=9, key=lambda a: part(a, log))", f"int(2 in {it})",
            f"consumed({it}, log)", f"first_two({it})", f"sum(1 for a in {it} if odd(a, log))",
            f"sum(sorted({it})[:2])",
            f"int(any(odd(a, log) for a in {it}))", f"len(tuple({it}))", f"sum(set({it}))", f"len([*{it}])",
            f"max(*{it}, 1, 2)", f"sum(len(list(b)) * a for a, b in groupby({it}))",
            f"len([a for a, b in groupby({it}, lambda a: part(a, log))])",
        ])  # fmt: skip

    def block(self, depth: int, indent: str) -> None:
        r = self.r
        it = self.iterable(r.choice([1, 1, 2, 2, 3]))
        kind = r.randrange(18)
        put = lambda text: self.lines.append(indent + text)
        if kind <= 2:
            put(f"out.append({self.value(it)})")
        elif kind == 3:
            put(f"for a in {it}:")
            put("    out.append(a)")
            put(f"    if {r.choice(['a > 3', 'odd(a, log)', 'len(out) > 5', 'k == 2'])}:")
            put(f"        {r.choice(['break', 'continue', 'log.append(-5)'])}")
            put("    log.append(-1)")
            if r.random() < 0.5:
                put("else:")
                put("    log.append(-2)")
        elif kind == 4:
            other = self.iterable(r.choice([0, 1, 2]))
            strict = r.choice(["", "", "", ", strict=True"])
            put(f"for a, b in zip({it}, {other}{strict}):")
            put("    out.append(a * 10 + b)")
            put(f"    if {r.choice(['a > b', 'odd(b, log)', 'a == 2'])}:")
            put(f"        {r.choice(['break', 'continue', 'log.append(-5)'])}")
            put("    log.append(-1)")
        elif kind == 5:
            name = self.name()
            put(f"{name} = {it}")
            put(r.choice(["log.append(-9)", "k += 1", "ys.append(3)", "xs = [2, 1]", "ys = [k]"]))
            put(f"out.append({self.value(name)})")
        elif kind == 6:
            put("try:")
            self.block(depth + 1, indent + "    ") if depth < 2 else put(f"    out.append({self.value(it)})")
            put(f"except {r.choice(['ZeroDivisionError', '(ValueError, ZeroDivisionError)', 'ValueError'])}:")
            put("    out.append(-99)")
        elif kind == 7 and depth < 2:
            put(f"if {r.choice(['k > 1', 'len(xs) > 2', 'sum(xs) % 2 == 0'])}:")
            self.block(depth + 1, indent + "    ")
        elif kind == 8:
            it = it.replace("ys", "xs")  # else it would not end
            put(f"ys.extend({it})" if r.random() < 0.5 else f"ys += {it}")
            put("out.append(len(ys))")
        elif kind == 9:
            put(f"d = {{a: part(a + 1, log) for a in {it}}}")
            put("out += d.values()")
        elif kind == 10:
            put(f"out += [part(a + 1, log) for a in {it} if a < 6]")
        elif kind == 11:
            put(f"a, b = {it}")
            put("out += [a, b]")
        elif kind == 12:
            put(f"for a in {self.source()}:")
            put(f"    out.append({self.value(it)})")
        elif kind == 13:
            put(f"for i, a in enumerate({it}):")
            put("    out.append(i - a)")
            put(f"    if {r.choice(['i == 2', 'a > 3', 'odd(i, log)'])}:")
            put("        break")
        elif kind >= 15:
            self.reader(it, indent)
        else:
            put("s = set(xs)" if r.random() < 0.5 else "s = dict.fromkeys(xs, 1)")
            name = self.name()
            form = r.choice(
                ["iter(s)", "map(lambda a: part(a, log), s)", "(a for a in s)", "zip(s, xs)", "enumerate(s)"]
            )
            put(f"{name} = {form}")
            put(
                r.choice(
                    [
                        "log.append(1)",
                        "s.pop(k, None) if isinstance(s, dict) else s.discard(k)",
                        "s |= {k}" if "set(" in self.lines[-2] else "s[k] = 2",
                    ]
                )
            )
            put(f"out.append(len(list({name})))")

    def reader(self, it: str, indent: str) -> None:
        """Write code that reads one iterator in several places."""
        r = self.r
        put = lambda text: self.lines.append(indent + text)
        name = self.name()
        put(f"{name} = {it}" if r.random() < 0.8 else f"{name} = iter({it})")
        for _ in range(r.choice([1, 2, 3])):
            kind = r.randrange(7)
            if kind == 0:
                put(f"out.append(next(iter({name}), -4))")
            elif kind == 1:
                put(f"for a in {self.source()}:")
                put(f"    out.append(a - next(iter({name}), k))")
                put(f"    if {r.choice(['a > 1', 'odd(a, log)', 'k == 2'])}:")
                put("        log.append(-6)")
            elif kind == 2:
                put(f"for a in {name}:")
                put("    out.append(a)")
                put(f"    if {r.choice(['a > 3', 'odd(a, log)', 'k == 2'])}:")
                put(f"        {r.choice(['break', 'continue', 'log.append(-5)'])}")
            elif kind == 3:
                put(f"for a, b in zip({name}, {self.iterable(1)}):")
                put("    out.append(a - b)")
                put("    if odd(b, log):")
                put("        break")
            elif kind == 4:
                put(f"out += islice({name}, {r.choice(['1', '2', 'k'])})")
            elif kind == 5:
                put("if k > 1:")
                put(f"    out.append(next(iter({name}), -5))")
            else:
                put("while len(out) < 6:")
                put(f"    a = next(iter({name}), -8)")
                put("    out.append(a)")
                put("    if a < 0:")
                put("        break")
        put(f"out += [{self.value(name)}]")


def lazy_program(seed: int) -> str:
    """Return the source of a function `f(xs, k)` of a list and a number."""
    w = Writer(seed)
    w.lines += ["def f(xs, k):", "    log, out, ys = [], [], list(xs)"]
    for _ in range(w.r.choice([1, 1, 2, 3])):
        w.block(0, "    ")
    w.lines.append("    return out, log")
    return "\n".join(w.lines)
