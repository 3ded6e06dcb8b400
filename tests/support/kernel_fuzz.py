"""Random kernel specifications over all operations, dtypes, ranks and run-time extents, with operands for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from acronumba.errors import NOWHERE
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand, Size

FLOATS = ["float32", "float64"]
INTS = ["int32", "int64", "int8", "uint8", "uint16", "int16", "uint32", "uint64"]
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 16, 17, 33)


class Fuzz:
    """Makes one random specification; `operands(n)` makes inputs for n nodes."""

    most = 3000  # elements of a value

    def __init__(
        self, seed: int, length: int = 12, dtypes: tuple[str, ...] = (), favour: tuple[str, ...] = (),
        extents: tuple[int, ...] = EXTENTS,
    ) -> None:  # fmt: skip
        self.r = r = np.random.default_rng(seed)
        self.extents = extents
        self.dims = [int(r.choice(extents)) for _ in range(int(r.integers(0, 4)))]
        self.dtypes = dtypes or ("float32", "float32", "float64", "bool", *r.choice(INTS, 3))
        self.operands_: list[Operand] = []
        self.body: list[KernelOp] = []
        self.site = 0
        arguments = shareds = 0
        for k in range(int(r.integers(2, 6))):
            kinds = ["tensor", "tensor", "tensor", "shared", "int", "float", "bool"]
            kind = str(r.choice(["tensor", "shared"] if "matmul" in favour and k < 4 else kinds))
            dtype = {"int": "int64", "float": "float64", "bool": "bool"}.get(kind) or str(r.choice(self.dtypes))
            shape: tuple[Size, ...] = ()
            if kind in ("tensor", "shared"):
                rank = int(r.choice([1, 2, 2, 2] if "matmul" in favour else [0, 1, 1, 2, 2, 3]))
                shape = tuple(self.size(kind == "tensor") for _ in range(rank))
            index = shareds if kind == "shared" else arguments
            shareds, arguments = shareds + (kind == "shared"), arguments + (kind != "shared")
            self.operands_.append(Operand(kind, f"{kind}{k}", dtype, shape, index))
        tries = 0
        while len(self.body) < length and tries < length * 30:
            tries += 1
            self.step(str(r.choice(favour if favour and r.random() < 0.6 else list(TENSORS))))
        if not self.body:
            self.add("const", (), (1.5,), "float32", ())
        first = len(self.operands_)
        count = int(r.integers(1, 4))
        results = {first + len(self.body) - 1, *(first + int(k) for k in r.integers(0, len(self.body), count))}
        self.spec = KernelSpec(f"fuzz{seed}", tuple(self.operands_), len(self.dims), tuple(self.body), tuple(results))

    def size(self, dynamic: bool = True) -> Size:
        if self.dims and dynamic and self.r.random() < 0.5:
            return Dim(int(self.r.integers(len(self.dims))))
        return int(self.r.choice([e for e in self.extents if e]))

    def of(self, size: Size) -> int:
        return self.dims[size.index] if isinstance(size, Dim) else size

    def real(self, shape: tuple[Size, ...]) -> tuple[int, ...]:
        return tuple(self.of(s) for s in shape)

    def values(self) -> list[tuple[str, tuple[Size, ...]]]:
        return [(v.dtype, v.shape) for v in (*self.operands_, *self.body)]

    def add(
        self, op: str, args: tuple[int, ...], attrs: tuple[Any, ...], dtype: str, shape: tuple[Size, ...],
        site: bool = False,
    ) -> int:  # fmt: skip
        if int(np.prod(self.real(shape))) > self.most:
            return -1
        self.site += site
        name = f"{op}_{len(self.body)}" if self.r.random() < 0.7 else ""
        self.body.append(KernelOp(op, args, attrs, dtype, shape, name, self.site if site else -1, NOWHERE))
        return len(self.operands_) + len(self.body) - 1

    def pick(self, test: Any) -> int | None:
        found = [k for k, (t, s) in enumerate(self.values()) if test(t, s)]
        if not found:
            return None
        late = [k for k in found if k >= len(self.values()) - 4]
        return int(self.r.choice(late if late and self.r.random() < 0.6 else found))

    def broadcast(self, *shapes: tuple[Size, ...]) -> tuple[Size, ...] | None:
        out: list[Size] = []
        for k in range(1, max(map(len, shapes), default=0) + 1):
            sizes = [s[-k] for s in shapes if len(s) >= k]
            real = {self.of(s) for s in sizes} - {1}
            if len(real) > 1:
                return None
            if not real:
                out.append(1 if all(s == 1 for s in sizes) else next(s for s in sizes if s != 1))
                if any(isinstance(s, int) and s != 1 for s in sizes):
                    return None
                continue
            fits = [s for s in sizes if self.of(s) in real]
            fixed = [s for s in fits if isinstance(s, int)]
            out.append(fixed[0] if fixed else fits[0])
        return tuple(reversed(out))

    def step(self, op: str) -> None:
        r = self.r
        row = TENSORS[op]
        values = self.values()
        if row.kind == "element":
            self.element(op)
        elif row.kind == "reduce":
            v = self.pick(lambda t, s: True)
            assert v is not None
            t, shape = values[v]
            axes = tuple(k for k in range(len(shape)) if r.random() < 0.6)
            if op in ("sum", "prod"):
                out = t if t in FLOATS else "uint64" if t.startswith("u") else "int64"
            elif op in ("any", "all"):
                out = "bool"
            else:
                out = t
            if op in ("max", "min") and any(self.of(shape[k]) == 0 for k in axes):
                return
            self.add(op, (v,), (axes,), out, tuple(s for k, s in enumerate(shape) if k not in axes))
        elif row.kind == "arg":
            v = self.pick(lambda t, s: len(s) > 0)
            if v is not None:
                shape = values[v][1]
                axis = int(r.integers(len(shape)))
                if self.of(shape[axis]):
                    self.add(op, (v,), (axis,), "int64", tuple(s for k, s in enumerate(shape) if k != axis))
        elif row.kind == "scan":
            v = self.pick(lambda t, s: len(s) > 0)
            if v is not None:
                self.add(op, (v,), (int(r.integers(len(values[v][1]))),), *values[v])
        elif row.kind == "order":
            v = self.pick(lambda t, s: len(s) > 0)
            if v is not None:
                shape = values[v][1]
                self.add(op, (v,), (int(r.integers(len(shape))),), "int64", shape)
        elif row.kind == "search":
            v = self.pick(lambda t, s: len(s) == 1)
            w = None if v is None else self.pick(lambda t, s: t == values[v][0])
            if v is not None and w is not None:
                self.add(op, (v, w), (str(r.choice(["left", "right"])),), "int64", values[w][1])
        elif row.kind == "product":
            self.matmul()
        elif row.kind in ("fold", "scatter"):
            self.adjoint(op)
        elif row.kind == "create":
            if op == "const":
                t = str(r.choice(self.dtypes))
                value = bool(r.integers(2)) if t == "bool" else int(r.integers(0, 4)) + (0.5 if t in FLOATS else 0)
                self.add("const", (), (value,), t, ())
            else:
                t = str(r.choice([t for t in self.dtypes if t != "bool"]))
                self.add("iota", (), (), t, (self.size(),))
        else:
            self.view(op)

    def element(self, op: str) -> None:
        r = self.r
        if op == "index":
            self.index(int(r.integers(8)))
            return
        floats, any_ = (lambda t: t in FLOATS), (lambda t: True)
        number, whole = (lambda t: t != "bool"), (lambda t: t not in FLOATS)
        accepts = {
            **{name: floats for name, row in TENSORS.items() if row.takes == "float" or name == "isnan"},
            **dict.fromkeys(("neg", "sub", "sign", "floordiv", "mod", "floor"), number),
            "pow": number, **dict.fromkeys(("not", "and", "or", "xor"), whole), "threefry": lambda t: t == "uint64",
            **dict.fromkeys(("lshift", "rshift"), lambda t: t not in (*FLOATS, "bool")),
        }.get(op, any_)  # fmt: skip
        if op == "where":
            c = self.pick(lambda t, s: t == "bool")
            if c is None:
                return
        v = self.pick(lambda t, s: accepts(t))
        if v is None:
            return
        values = self.values()
        t, shape = values[v]
        arity = TENSORS[op].arity
        args = [v]
        if arity >= 2:
            w = self.pick(lambda u, s: u == t and self.broadcast(shape, s) is not None)
            if w is None:
                return
            args.append(w)
            if op == "pow" and t not in FLOATS and not t.startswith("u"):
                args[1] = self.add("abs", (w,), (), t, values[w][1])
                if args[1] < 0:
                    return
                if t in ("int64", "int32", "int16", "int8"):  # the smallest integer is negative even so
                    seven = self.add("const", (), (7,), t, ())
                    args[1] = self.add("and", (args[1], seven), (), t, values[w][1])
                    if args[1] < 0:
                        return
        if op == "where":
            args = [c, *args]
        values = self.values()
        out = self.broadcast(*(values[a][1] for a in args))
        if out is None:
            return
        result = "bool" if op in ("eq", "ne", "lt", "le", "gt", "ge", "isnan") else t
        if op == "cast":
            result = str(r.choice(self.dtypes))
        self.add(op, tuple(args), (), result, out)

    def index(self, among: int) -> int | None:
        """Add an index that is checked to be inside of so many; return it."""
        v = self.pick(lambda u, s: u not in (*FLOATS, "bool", "uint64") and len(s) < 3)
        if v is None:
            return None
        t, shape = self.values()[v]
        x = v if t == "int64" else self.add("cast", (v,), (), "int64", shape)
        if self.r.random() < 0.7:  # or else most kernels fail
            x = self.add("mod", (x, self.add("const", (), (among or 1,), "int64", ())), (), "int64", shape)
        return self.add("index", (x, self.add("const", (), (among,), "int64", ())), (), "int64", shape, site=True)

    def matmul(self) -> None:
        values = self.values()
        t = str(self.r.choice([*FLOATS, *self.dtypes]))
        x = self.pick(lambda u, s: u == t and len(s) > 0)
        if x is None:
            return
        sx = values[x][1]

        def fits(u: str, s: tuple[Size, ...]) -> bool:
            if u != t or not s or self.of(s[-2] if len(s) > 1 else s[0]) != self.of(sx[-1]):
                return False
            return self.broadcast(sx[:-2], s[:-2]) is not None

        y = self.pick(fits)
        if y is None:
            return
        sy = values[y][1]
        batch = self.broadcast(sx[:-2], sy[:-2])
        assert batch is not None
        shape = (*batch, *(sx[-2:-1]), *(sy[-1:] if len(sy) > 1 else ()))
        self.add("matmul", (x, y), (), t, shape)

    def adjoint(self, op: str) -> None:
        r, values = self.r, self.values()
        v = self.pick(lambda t, s: t in FLOATS if op == "fold" else t != "bool" and len(s) > 0)
        if v is None:
            return
        t, shape = values[v]
        if op == "fold":
            kept = shape[int(r.integers(len(shape) + 1)) :]
            ones = [Dim(k) for k, n in enumerate(self.dims) if n == 1]
            some = [1, *ones] if r.random() < 0.7 else [1]
            maybe = [Dim(k) for k, n in enumerate(self.dims)]
            out = []
            for s in kept:
                same = [d for d in maybe if self.of(d) == self.of(s)]
                choices = [s, s, *some, *same]
                out.append(choices[int(r.integers(len(choices)))])
            self.add(op, (v,), (), t, tuple(out))
            return
        i = self.pick(lambda u, s: u not in (*FLOATS, "bool", "uint64") and 0 < len(s) < 3)
        if i is None:
            return
        numbers = values[i][1]
        fits = [
            k for k in range(len(shape)) if [*map(self.of, shape[k : k + len(numbers)])] == [*map(self.of, numbers)]
        ]
        if fits:
            axis = int(r.choice(fits))
            self.add(op, (v, i), (axis,), t, (*shape[:axis], self.size(), *shape[axis + len(numbers) :]))

    def view(self, op: str) -> None:
        r = self.r
        values = self.values()
        if op == "scale_gradient":
            v = self.pick(lambda t, s: t in FLOATS)
            if v is not None:
                self.add(op, (v,), (0.5,), *values[v])
            return
        v = self.pick(lambda t, s: len(s) > 0) if op not in ("broadcast", "reshape") else self.pick(lambda t, s: True)
        if v is None:
            return
        t, shape = values[v]
        rank = len(shape)
        match op:
            case "transpose":
                axes = tuple(int(k) for k in r.permutation(rank))
                self.add(op, (v,), (axes,), t, tuple(shape[k] for k in axes))
            case "broadcast":
                to = [self.size() if s == 1 and r.random() < 0.7 else s for s in shape]
                more = [self.size() for _ in range(int(r.integers(0, 2)))]
                self.add(op, (v,), (), t, (*more, *to))
            case "reshape":
                to = self.regroup(list(shape))
                self.add(op, (v,), (), t, tuple(to))
            case "slice":
                starts: list[Any] = []
                steps, out = [], []
                for s in shape:
                    n = self.of(s)
                    if r.random() < 0.5 or n == 0:
                        starts.append(0), steps.append(1), out.append(s)
                        continue
                    step = int(r.choice([1, 1, 1, 2, -1, -2]))
                    start = int(r.integers(n))
                    left = (n - start + step - 1) // step if step > 0 else start // -step + 1
                    many: Size = int(r.integers(0, left + 1))
                    same = [Dim(k) for k, d in enumerate(self.dims) if 0 < d <= left]
                    if same and r.random() < 0.4:
                        many = same[0]
                    as_value = [("value", k) for k, o in enumerate(self.operands_) if o.kind == "int"]
                    starts.append(
                        as_value[0] if as_value and start < 3 and left > 3 and step == 1 and many == 1 else start
                    )
                    steps.append(step), out.append(many)
                self.add(op, (v,), (tuple(starts), tuple(steps)), t, tuple(out))
            case "windows":
                axis = int(r.integers(rank))
                n = self.of(shape[axis])
                size, many = self.size(), self.size()
                if self.of(size) + self.of(many) > n + 1:
                    size = int(r.integers(0, n + 1))
                    many = n + 1 - size
                self.add(op, (v,), (axis,), t, (*shape[:axis], many, size, *shape[axis + 1 :]))
            case "take":
                axis = int(r.integers(rank))
                if r.random() < 0.6:
                    i = self.index(self.of(shape[axis]))
                else:
                    i = self.pick(lambda u, s: u not in (*FLOATS, "bool", "uint64") and len(s) < 3)
                if i is not None:
                    self.add(op, (v, i), (axis,), t, (*shape[:axis], *self.values()[i][1], *shape[axis + 1 :]))
            case "concat":
                axis = int(r.integers(rank))
                args = [v]
                for _ in range(int(r.integers(0, 3))):
                    w = self.pick(
                        lambda u, s: (
                            u == t
                            and len(s) == rank
                            and all(
                                self.of(a) == self.of(b)
                                for k, (a, b) in enumerate(zip(s, shape, strict=True))
                                if k != axis
                            )
                        )
                    )
                    args += [w] if w is not None else []
                sizes = [values[a][1][axis] for a in args]
                total = sum(self.of(s) for s in sizes)
                if all(isinstance(s, int) for s in sizes):
                    whole: Size = total
                elif len(sizes) == 1:
                    whole = sizes[0]
                else:
                    found = [Dim(k) for k, d in enumerate(self.dims) if d == total]
                    if not found:
                        return
                    whole = found[0]
                self.add(op, tuple(args), (axis,), t, (*shape[:axis], whole, *shape[axis + 1 :]))

    def regroup(self, shape: list[Size]) -> list[Size]:
        out = [s for s in shape if s != 1]
        for _ in range(int(self.r.integers(1, 4))):
            k = int(self.r.integers(len(out) + 1))
            if k < len(out) and isinstance(out[k], int) and out[k] % 2 == 0 and out[k] > 2:
                out[k : k + 1] = [2, out[k] // 2]  # type: ignore[operator]
            elif k + 1 < len(out) and isinstance(out[k], int) and isinstance(out[k + 1], int):
                out[k : k + 2] = [out[k] * out[k + 1]]  # type: ignore[operator]
            elif k + 1 < len(out):
                total = self.of(out[k]) * self.of(out[k + 1])
                found = [Dim(j) for j, d in enumerate(self.dims) if d == total]
                if found and self.r.random() < 0.3 and isinstance(out[k], Dim) and isinstance(out[k + 1], Dim):
                    out[k : k + 2] = [found[0]]
            elif self.r.random() < 0.5:
                out.insert(k, 1)
        return out

    def data(self, dtype: str, shape: tuple[int, ...]) -> Any:
        r = self.r
        if dtype == "bool":
            return r.random(shape) < 0.5
        if dtype in FLOATS:
            x = r.integers(-4, 5, shape) * 0.5 if r.random() < 0.5 else r.standard_normal(shape) * 2
            x = np.asarray(x, dtype)
            if r.random() < 0.3 and x.size:
                x.reshape(-1)[r.integers(x.size)] = r.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30])
            return x
        info = np.iinfo(dtype)
        x = np.asarray(r.integers(max(info.min, -6), 7, shape), dtype)
        if r.random() < 0.2 and x.size:
            x.reshape(-1)[r.integers(x.size)] = (info.min, info.max)[int(r.integers(2))]
        return x

    def operands(self, nodes: int) -> tuple[list[list[Any]], dict[int, Any]]:
        out: list[list[Any]] = [[] for _ in range(nodes)]
        shared = {}
        for v, o in enumerate(self.operands_):
            if o.kind == "shared":
                shared[v] = self.data(o.dtype, self.real(o.shape))
                continue
            for row in out:
                if o.kind == "int":
                    row.append(int(self.r.integers(0, 3)))
                elif o.kind == "float":
                    row.append(float(self.r.standard_normal()))
                elif o.kind == "bool":
                    row.append(bool(self.r.integers(2)))
                else:
                    row.append(self.data(o.dtype, self.real(o.shape)))
        return out, shared


class Cell(Fuzz):
    """A random recurrent cell: products with shared weights, split, mixed and multiplied again."""

    most = 1 << 20

    def __init__(self, seed: int, length: int = 14) -> None:
        self.r = r = np.random.default_rng(seed)
        self.dims = [int(r.choice([1, 2, 5, 50]))]
        self.site = 0
        self.operands_ = []
        self.body = []
        t = str(r.choice(["float32", "float32", "float64"]))
        lead: tuple[Size, ...] = [(), (), (3,), (Dim(0),), (2, Dim(0))][int(r.integers(5))]
        n = int(r.choice([1, 3, 16, 17, 33, 40]))
        widths = [n, n, int(r.choice([2, 5, 19]))]
        plans: list[tuple[int, int, bool]] = []  # gates, pieces, transposed
        for _ in range(int(r.integers(1, 5))):
            plans.append(
                (int(r.choice([1, 1, 2, 3, 5, 7])), int(r.choice([1, 1, 2, 3])), bool(r.integers(2)) and not lead)
            )
        for k in range(4):
            w = widths[k] if k < 3 else n
            self.operands_.append(Operand("tensor", f"x{k}", t, (*lead, w), k))
        picks = []
        for j, (gates, pieces, flip) in enumerate(plans):
            sizes = [n if r.random() < 0.7 else widths[2] for _ in range(pieces)]
            picks.append(sizes)
            shape = (gates * n, sum(sizes)) if flip else (sum(sizes), gates * n)
            self.operands_.append(Operand("shared", f"w{j}", t, shape, 2 * j))
            self.operands_.append(Operand("shared", f"b{j}", t, (gates * n,), 2 * j + 1))
        pool = [0, 1, 3]
        for j, (gates, _, flip) in enumerate(plans):
            if r.random() < 0.5:
                self.mix(pool, t, (*lead, n))
            pieces = [int(r.choice(pool[-4:])) if s == n else 2 for s in picks[j]]
            last = len(lead)
            x = pieces[0]
            if len(pieces) > 1:
                x = self.add("concat", tuple(pieces), (last,), t, (*lead, sum(picks[j])))
            w, b = 4 + 2 * j, 5 + 2 * j
            y = self.add("matmul", (w, x) if flip else (x, w), (), t, (*lead, gates * n))
            if r.random() < 0.5:
                y = self.add("add", (y, b), (), t, (*lead, gates * n))
            if gates > 1:
                for g in range(gates):
                    starts = (*(0 for _ in lead), g * n)
                    pool.append(self.add("slice", (y,), (starts, (1,) * (last + 1)), t, (*lead, n)))
            else:
                pool.append(y)
            for _ in range(int(r.integers(0, 4))):
                self.mix(pool, t, (*lead, n))
        for _ in range(length // 4):
            self.mix(pool, t, (*lead, n))
        made = [v for v in pool if v >= len(self.operands_)]
        late = made[-6:]
        results = tuple(int(v) for v in dict.fromkeys([late[-1], *r.choice(late, int(r.integers(1, 3)))]))
        self.spec = KernelSpec(f"cell{seed}", tuple(self.operands_), 1, tuple(self.body), results)

    def mix(self, pool: list[int], t: str, shape: tuple[Size, ...]) -> None:
        r = self.r
        a, b = int(r.choice(pool[-6:])), int(r.choice(pool))
        kind = r.random()
        if kind < 0.35:
            a = self.add(str(r.choice(["sigmoid", "tanh"])), (a,), (), t, shape)
        if kind < 0.9:
            pool.append(self.add(str(r.choice(["add", "mul", "sub"])), (a, b), (), t, shape))
        else:  # a reduction over the row
            s = self.add("max", (a,), ((len(shape) - 1,),), t, shape[:-1])
            s = self.add("reshape", (s,), (), t, (*shape[:-1], 1))
            pool.append(self.add("sub", (a, s), (), t, shape))
        if self.r.random() < 0.1 and len(shape) == 1:
            pool.append(self.add("slice", (pool[-1],), ((int(shape[0]) - 1,), (-1,)), t, shape))  # type: ignore[call-overload]

    def data(self, dtype: str, shape: tuple[int, ...]) -> Any:
        return np.asarray(self.r.standard_normal(shape) * 0.5, dtype)
