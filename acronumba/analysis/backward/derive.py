"""The backward kernel of a kernel.

In: a `KernelSpec`, the operands whose adjoints are requested, the results that may have one. Out: `Backward`: the same
kernel with saved values as further results; the backward kernel, a specification like any other; the sources of its
arguments; and the destinations of its results. Results go to the adjoints of the node's operands (`AdjointOutput`) and,
as parts of sums over all nodes (`ParameterGradient`), to the gradients of shared values:

    sum     C += g                                     values that are read as they are: biases, scales, start states
    outer   C[r, c] += left[r] right[c]                matrices of products
    rows    C[index] += g                              tables that are read by rows

C belongs to a value that depends on shared tensors alone: a shared tensor, or a value that the kernel computes from
shared tensors. The sum over all nodes is taken first, and pulled back through this computation once
(`ParameterGradient.of`). A matrix that is an argument of the node may be one of several shared ones (experts of a
list): then each of these has its own C (`ParameterGradient.which`).

Unchanged adjoints are not copied: an adjoint that is passed on, or a piece of it, is named by its position in memory
(`Source`). The adjoint of a row `x[k]` adds to row k of the adjoint of `x` (`AdjointOutput.row`), so a loop over an
array does not make an array per step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from acronumba.analysis.backward.joint import Joint, Node
from acronumba.analysis.backward.keep import NEVER, choose_kept
from acronumba.ir.ops import TENSORS, Attrs
from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand
from acronumba.ir.vjp import Applied, Sizes, adjoints, differentiable
from acronumba.records import record

FLOATS = ("float32", "float64")
_GUESS = 16  # elements along a run-time extent, in comparisons of costs


@record()
class Source:
    """Position of a value in memory: a tensor, from element `start` on.

    `kind` is "argument" (of the forward node), "result" (of it), "adjoint" (of one of its results), "backward" (a
    result of the backward node) or "table": row `row` of shared tensor `number`.
    """

    kind: str
    number: int
    start: int = 0
    row: Source | None = None


@record(kw_only=True)
class AdjointOutput:
    """A part of the adjoint of an operand."""

    operand: int  # number in the specification
    source: Source
    shape: Sizes  # of the value
    row: Source | int | None = None  # the first row of the operand that it is for, along axis 0; None: all of it


@record(kw_only=True)
class RowBlock:
    """One or more rows of numbers per node: all axes of `shape` but the last count rows."""

    source: Source
    dtype: str
    shape: Sizes


@record(kw_only=True)
class ParameterGradient:
    """A part of the gradient of a value that depends on shared tensors alone."""

    kind: str  # "sum", "outer", "rows"
    of: int  # number of the value in the specification
    parts: tuple[RowBlock, ...]  # sum: g; outer: left, right; rows: index, g
    start: tuple[int, int] = (0, 0)  # outer: row and column of C where it begins
    row: RowBlock | None = None  # outer: which matrix of a stack it is, of those along axis 0
    which: int = -1  # outer: the argument of the node that is the matrix, a shared tensor; -1: it is not one


@record(kw_only=True)
class Backward:
    """The derivative of a kernel."""

    forward: KernelSpec  # its results: the kernel's own, then `kept`
    kept: tuple[int, ...]  # numbers of values
    backward: KernelSpec | None  # None: there is nothing to compute
    arguments: tuple[Source, ...]  # of a backward node
    outputs: tuple[AdjointOutput, ...]
    terms: tuple[ParameterGradient, ...]


@record(frozen=False)
class _RawOutput:
    operand: int
    value: int
    row: int | None = None  # a value
    first: int = 0  # if there is none: the first row


@record(frozen=False)
class _RawGradient:
    kind: str
    of: int
    parts: tuple[int, ...]
    start: tuple[int, int] = (0, 0)
    row: int | None = None


def differentiate(
    spec: KernelSpec, wanted: Collection[int], results: Collection[int], shared: Collection[int] = ()
) -> Backward:
    """Return the backward kernel of a kernel.

    Parameters
    ----------
    spec
        The kernel.
    wanted
        Numbers of the operands, floats, whose adjoints are requested.
    results
        Positions of the results that may have an adjoint.
    shared
        Subset of `wanted`: operands that are shared tensors at run time, though they are arguments of nodes.
    """
    return _Derivation(spec, wanted, shared).run(results)


@record(kw_only=True)
class Pullback:
    """The backward pass from a value that depends on shared tensors alone, to these."""

    spec: KernelSpec  # of a batch of one node
    arguments: tuple[Source, ...]  # of the node; "adjoint": that of the value
    of: tuple[int, ...]  # per result: which shared tensor its gradient is of


def pullback(spec: KernelSpec, value: int, wanted: Collection[int], cheap: bool = False) -> Pullback | None:
    """Return the kernel that pulls the adjoint of a value back to shared tensors.

    None if there are none, and, unless `cheap`, if that takes no product.

    Parameters
    ----------
    spec
        The kernel that computes the value.
    value
        Number of the value.
    wanted
        Numbers of the shared tensors whose gradients are requested.
    """
    b = Joint(spec)
    active = {v for v, o in enumerate(spec.operands) if o.kind == "shared" and o.index in wanted and o.dtype in FLOATS}
    for v in range(b.operands, value + 1):
        if b.dtype(v) in FLOATS and not active.isdisjoint(_through(b.nodes[v])):
            active.add(v)
    grads = {value: [b.adjoint(0, value)]}
    dear = False
    for v in reversed(range(b.operands, value + 1)):
        if v not in grads or v not in active:
            continue
        node, b.loc = b.nodes[v], b.locs[v]
        dear = dear or TENSORS[node.op].kind == "product"
        places = {k for k, a in enumerate(node.args) if a in active and differentiable(node.op, k, node.attrs)}
        g = b.sum_of(grads.pop(v), v)
        one = Applied(op=node.op, args=node.args, attrs=node.attrs, result=v, adjoint=g, wanted=places)
        for k, given in adjoints(b, one).items():
            grads.setdefault(node.args[k], []).append(given)
    found = {v: b.sum_of(gs, v) for v, gs in sorted(grads.items()) if v < b.operands}
    if not (dear or cheap) or not found:
        return None
    writer = _Writer(spec, b, (), ())
    writer.results, writer.outs = [], list(found.values())
    made, arguments = writer.specification()
    made = replace(made, dims=0, rows=None)  # those of nodes, which the value does not depend on
    return Pullback(spec=made, arguments=arguments, of=tuple(spec.operands[v].index for v in found))


def depends(spec: KernelSpec, result: int) -> set[int]:
    """Return the operands that a result depends on by derivatives."""
    dtypes = [*(o.dtype for o in spec.operands), *(op.dtype for op in spec.body)]
    first = len(spec.operands)
    seen: set[int] = set()
    todo = [spec.results[result]]
    while todo:
        v = todo.pop()
        if v in seen or dtypes[v] not in FLOATS:
            continue
        seen.add(v)
        if v >= first:
            todo += _through(spec.body[v - first])
    return {v for v in seen if v < first}


def _through(op: Node | KernelOp) -> list[int]:
    """Return the arguments that an operation has a derivative by."""
    return [a for k, a in enumerate(op.args) if differentiable(op.op, k, op.attrs)]


class _Derivation:
    """Differentiates one kernel."""

    def __init__(self, spec: KernelSpec, wanted: Collection[int], shared: Collection[int]) -> None:
        self.spec, self.b = spec, Joint(spec)
        b = self.b
        self.shared = {v for v in shared if self._is_argument(v)}
        self.active = {v for v in wanted if b.dtype(v) in FLOATS}
        self.own: set[int] = set()  # values that depend on a node's operands or extents
        for v in range(b.forward):
            node = b.nodes[v]
            if v < b.operands:
                if spec.operands[v].kind != "shared":
                    self.own.add(v)
                continue
            if not self.own.isdisjoint(node.reads()) or has_extents(node):
                self.own.add(v)
            if node.dtype in FLOATS and not self.active.isdisjoint(_through(node)):
                self.active.add(v)
        self.grads: dict[int, list[int]] = {}
        self.outputs: list[_RawOutput] = []
        self.terms: list[_RawGradient] = []
        self.sums: dict[int, list[int]] = {}  # by values that depend on shared tensors alone

    def run(self, results: Collection[int]) -> Backward:
        b = self.b
        for j, v in enumerate(self.spec.results):
            if j in results and v in self.active:
                self.grads.setdefault(v, []).append(b.adjoint(j, v))
        for v in reversed(range(b.operands, b.forward)):
            if v not in self.grads:
                continue
            g = b.sum_of(self.grads.pop(v), v)
            b.loc = b.locs[v]
            if b.names.get(v):
                b.names.setdefault(g, f"d_{b.names[v]}")
            if v in self.own:
                self._back(v, b.nodes[v], g)
            else:
                self.sums.setdefault(v, []).append(g)
        self.outputs += [_RawOutput(v, b.sum_of(gs, v)) for v, gs in self.grads.items() if v in self.own]
        self.terms += [_RawGradient("sum", v, (b.sum_of(gs, v),)) for v, gs in self.sums.items()]
        return _Writer(self.spec, b, self.outputs, self.terms).write()

    def _back(self, v: int, node: Node, g: int) -> None:
        """Go back over an operation whose result's adjoint is `g`."""
        wanted = {k for k, a in enumerate(node.args) if a in self.active and differentiable(node.op, k, node.attrs)}
        if node.op == "matmul":
            wanted -= self._product(node, g, wanted)
        if node.op == "take" and 0 in wanted and self._row(node, g):
            return
        if node.op == "slice" and 0 in wanted and self._piece(node, g):
            return
        if not wanted:
            return
        one = Applied(op=node.op, args=node.args, attrs=node.attrs, result=v, adjoint=g, wanted=wanted)
        for k, given in adjoints(self.b, one).items():
            a = node.args[k]
            (self.grads if a in self.own else self.sums).setdefault(a, []).append(given)

    # ---- sums over nodes, and parts of adjoints

    def _product(self, node: Node, g: int, wanted: Collection[int]) -> set[int]:
        """Note the outer products that gradients of shared matrices are made of; return which arguments these are."""
        b, done = self.b, set()
        for k in wanted:
            matrix, other = node.args[k], node.args[1 - k]
            table, row, swapped = self._matrix(matrix)
            if table is None or other not in self.own or other in self.shared:
                continue
            columns = k == 0 and len(b.shape(other)) > 1
            adjoint = b.swap(g) if columns else g
            for x, at in self._beside(b.swap(other) if columns else other):
                if (k == 0) != swapped:
                    term = _RawGradient("outer", table, (adjoint, x), (0, at), row)
                else:
                    term = _RawGradient("outer", table, (x, adjoint), (at, 0), row)
                self.terms.append(term)
            done.add(k)
        return done

    def _matrix(self, x: int) -> tuple[int | None, int | None, bool]:
        """Return the shared value that a matrix is made of.

        Returns
        -------
        tuple
            The value, or None; the index into it if it is a stack of matrices; and whether the matrix is its transpose.
        """
        node = self.b.nodes[x]
        if len(node.shape) != 2:
            return None, None, False
        if node.op == "transpose" and node.attrs == ((1, 0),):
            table, row, swapped = self._matrix(node.args[0])
            return table, row, not swapped
        if x not in self.own or x in self.shared:
            return x, None, False
        if node.op == "take" and node.attrs == (0,) and node.args[0] not in self.own and not self.b.shape(node.args[1]):
            return node.args[0], self.b.cast(node.args[1], "int64"), False
        return None, None, False

    def _beside(self, x: int) -> list[tuple[int, int]]:
        """Return the pieces of rows that lie side by side, each with its first column."""
        node = self.b.nodes[x]
        if node.op != "concat" or node.attrs != (len(node.shape) - 1,):
            return [(x, 0)]
        out, at = [], 0
        for a in node.args:
            n = self.b.shape(a)[-1]
            if not isinstance(n, int):
                return [(x, 0)]
            out.append((a, at))
            at += n
        return out

    def _row(self, node: Node, g: int) -> bool:
        """Note the adjoint of a `take` of rows of a shared table, or of one row of an operand; False for others."""
        b, (x, index) = self.b, node.args
        if node.attrs != (0,):
            return False
        if x not in self.own:
            width = math.prod(n for n in b.shape(x)[1:] if isinstance(n, int))
            rows = b.reshape(g, (*b.shape(index), width))
            self.terms.append(_RawGradient("rows", x, (b.cast(index, "int64"), rows)))
            return True
        if b.shape(index) or not self._is_argument(x):
            return False
        self.outputs.append(_RawOutput(x, g, b.cast(index, "int64")))
        return True

    def _piece(self, node: Node, g: int) -> bool:
        """Note the adjoint of a slice of an operand's first axis with a computed start; False for other slices."""
        (x,), (starts, steps) = node.args, node.attrs
        cut = [k for k, (n, m) in enumerate(zip(node.shape, self.b.shape(x), strict=True)) if n != m or starts[k] != 0]
        if cut != [0] or steps[0] != 1 or not self._is_argument(x):
            return False
        if isinstance(starts[0], int) and all(isinstance(s[0], int) for s in (node.shape, self.b.shape(x))):
            return False  # a concatenation with zeros, which others may join
        self.outputs.append(_RawOutput(x, g, self.b.number_of(starts[0])))
        return True

    def _is_argument(self, x: int) -> bool:
        """Whether value `x` is a tensor argument of the node, as a whole."""
        return x < self.b.operands and self.spec.operands[x].kind == "tensor" and self.spec.rows is None


class _Writer:
    """Writes the two specifications, once all adjoints are known."""

    def __init__(
        self, spec: KernelSpec, b: Joint, outputs: Sequence[_RawOutput], terms: Sequence[_RawGradient]
    ) -> None:
        self.spec, self.b = spec, b
        self.outputs = [piece for output in outputs for piece in self._nonzero(output)]
        self.terms = terms
        self.results = list(spec.results)
        self.outs: list[int] = []

    def _nonzero(self, output: _RawOutput) -> list[_RawOutput]:
        """Return the pieces of an adjoint that is mostly zeros."""
        node = self.b.nodes[output.value]
        operand = self.spec.operands[output.operand]
        if node.op != "concat" or node.attrs != (0,) or operand.kind != "tensor" or self.spec.rows is not None:
            return [output]
        pieces, at, zeros = [], 0, 0
        for a in node.args:
            n = self.b.shape(a)[0]
            if not isinstance(n, int):
                return [output]
            if self.b.constant(a) == 0:
                zeros += n
            else:
                pieces.append(_RawOutput(output.operand, a, first=at))
            at += n
        return pieces if 2 * zeros > at else [output]

    def write(self) -> Backward:
        values = [output.value for output in self.outputs]
        values += [p for term in self.terms for p in (*term.parts, *(() if term.row is None else (term.row,)))]
        values += [output.row for output in self.outputs if output.row is not None]
        roots = list(dict.fromkeys(self._root(v)[0] for v in values))
        roots = [self.b.nodes[v].args[1] if self._is_table_row(self.b.nodes[v]) else v for v in roots]
        kept = self._keep(roots)
        self.results += kept
        outputs = tuple(self._output(output) for output in self.outputs)
        terms = tuple(self._term(term) for term in self.terms)
        forward = replace(self.spec, results=tuple(self.results))
        backward, arguments = self.specification() if self.outs else (None, ())
        return Backward(
            forward=forward, kept=tuple(kept), backward=backward, arguments=arguments, outputs=outputs, terms=terms
        )

    # ---- where things lie

    def _root(self, v: int) -> tuple[int, int]:
        """Return the value that `v` is a contiguous piece of, and the number of the piece's first element."""
        start = 0
        while True:
            node = self.b.nodes[v]
            if node.op == "reshape" or (node.op == "transpose" and self._stays(node)):
                v = node.args[0]
            elif node.op == "slice" and (skip := self._skip(node)) is not None:
                v, start = node.args[0], start + skip
            else:
                return v, start

    def _stays(self, node: Node) -> bool:
        """Whether a transposition moves no element."""
        shape = self.b.shape(node.args[0])
        real = [k for k in node.attrs[0] if shape[k] != 1]
        return real == sorted(real)

    def _skip(self, node: Node) -> int | None:
        """Return the number of elements before a contiguous slice; None if the slice is not contiguous."""
        starts, steps = node.attrs
        shape = self.b.shape(node.args[0])
        first = next((k for k, n in enumerate(shape) if n != 1), len(shape))
        for k, (start, step, n, m) in enumerate(zip(starts, steps, node.shape, shape, strict=True)):
            if (step != 1 and n != 1) or (k != first and (start != 0 or n != m)):
                return None
        behind = shape[first + 1 :]
        if first == len(shape) or starts[first] == 0:
            return 0
        if not isinstance(starts[first], int) or not all(isinstance(n, int) for n in behind):
            return None
        return int(starts[first] * math.prod(n for n in behind if isinstance(n, int)))

    def _source(self, v: int, side_by_side: bool = False) -> Source:
        """Return the source of a value: in memory already, or else a new result of the backward kernel.

        With `side_by_side`, for a node of several rows, the value of all rows must be contiguous, in the order of rows.
        """
        root, start = self._root(v)
        if side_by_side and not self._is_all_of_row(root, v):
            if v not in self.outs:
                self.outs.append(v)
            return Source("backward", self.outs.index(v))
        if root < self.b.operands and self.spec.operands[root].kind != "shared":
            return Source("argument", self.spec.operands[root].index, start)
        if root in self.results:
            return Source("result", self.results.index(root), start)
        node = self.b.nodes[root]
        if node.op == "adjoint":
            return Source("adjoint", node.attrs[0], start)
        if self._is_table_row(node):
            table, index = node.args
            return Source("table", self.spec.operands[table].index, start, self._source(index))
        if root not in self.outs:
            self.outs.append(root)
        return Source("backward", self.outs.index(root), start)

    def _is_all_of_row(self, root: int, v: int) -> bool:
        """Whether a value is all elements of its root, and each row has a root of its own."""

        def extents(x: int) -> tuple[int, list[int]]:
            shape = self.b.shape(x)
            return math.prod(n for n in shape if isinstance(n, int)), sorted(
                n.index for n in shape if isinstance(n, Dim)
            )

        assert self.spec.rows is not None
        if root < self.b.operands:
            o = self.spec.operands[root]
            if o.kind == "shared" or self.spec.rows[o.index] != "row":
                return False
        return extents(root) == extents(v) and not self._is_table_row(self.b.nodes[root])

    def _output(self, output: _RawOutput) -> AdjointOutput:
        whole = self.b.shape(output.value) == self.b.shape(output.operand)
        by_rows = self.spec.rows is not None and self.spec.rows[self.spec.operands[output.operand].index] == "row"
        row: Source | int | None = None if whole and output.row is None else output.first
        if output.row is not None:
            row = self._source(output.row)
        source = self._source(output.value, by_rows)
        return AdjointOutput(operand=output.operand, source=source, shape=self.b.shape(output.value), row=row)

    def _part(self, v: int) -> RowBlock:
        return RowBlock(source=self._source(v), dtype=self.b.dtype(v), shape=self.b.shape(v))

    def _term(self, term: _RawGradient) -> ParameterGradient:
        row = None if term.row is None else self._part(term.row)
        parts = tuple(map(self._part, term.parts))
        o = self.spec.operands[term.of] if term.of < self.b.operands else None
        which = -1 if o is None or o.kind == "shared" else o.index
        return ParameterGradient(kind=term.kind, of=term.of, parts=parts, start=term.start, row=row, which=which)

    def _is_table_row(self, node: Node) -> bool:
        """Whether a value is a row of a shared tensor."""
        if node.op != "take" or node.attrs != (0,) or self.b.shape(node.args[1]):
            return False
        return node.args[0] < self.b.operands and self.spec.operands[node.args[0]].kind == "shared"

    # ---- saved values

    def _lies(self, v: int) -> bool:
        """Whether a value of the specification, or an adjoint, is in memory when the backward kernel runs."""
        return v < self.b.operands or v in self.results or self.b.nodes[v].op == "adjoint"

    def _keep(self, roots: Sequence[int]) -> list[int]:
        """Return the values of the specification that are saved so that the roots can be computed."""
        b = self.b
        wanted, seen, todo = [], set(roots), list(roots)
        while todo:
            v = todo.pop()
            if v < b.forward:
                wanted.append(v)
                continue
            new = [a for a in b.nodes[v].reads() if a not in seen]
            seen.update(new)
            todo += new

        def size(v: int) -> int:
            return math.prod(n if isinstance(n, int) else _GUESS for n in b.shape(v))

        def keeping(v: int) -> int:
            return 2 * size(v) * (1 if b.dtype(v) == "bool" else 8 if b.dtype(v).endswith("64") else 4) + 1

        def computing(v: int) -> int:
            row = TENSORS[b.nodes[v].op]
            if row.kind in ("view", "create"):
                return 0
            if (row.loops and not row.moves) or row.name == "threefry":
                return NEVER
            return size(v) * row.cost

        there = {v for v in range(b.forward) if self._lies(v)}
        return sorted(choose_kept(wanted, there, lambda v: list(b.nodes[v].reads()), keeping, computing))

    # ---- the specification

    def specification(self) -> tuple[KernelSpec, tuple[Source, ...]]:
        """Return the kernel that computes `outs`, and where its arguments come from."""
        b, spec = self.b, self.spec
        live: set[int] = set()
        todo = list(self.outs)
        while todo:
            v = todo.pop()
            if v not in live:
                live.add(v)
                todo += () if self._lies(v) else b.nodes[v].reads()
        operands: list[Operand] = []
        arguments: list[Source] = []
        number: dict[int, int] = {}

        def argument(v: int, kind: str, name: str, source: Source) -> None:
            number[v] = len(operands)
            operands.append(Operand(kind, name, b.dtype(v), b.shape(v), len(arguments)))
            arguments.append(source)

        given = [v for v in sorted(live) if v < b.operands]
        for v in (v for v in given if spec.operands[v].kind == "tensor"):
            argument(v, "tensor", spec.operands[v].name, Source("argument", spec.operands[v].index))
        for v in sorted(v for v in live if b.operands <= v < b.forward and v in self.results):
            argument(v, "tensor", b.names[v] or f"kept_{v}", Source("result", self.results.index(v)))
        for v in sorted(v for v in live if b.nodes[v].op == "adjoint"):
            (j,) = b.nodes[v].attrs
            argument(v, "tensor", f"d_{b.names[spec.results[j]] or j}", Source("adjoint", j))
        for v in (v for v in given if spec.operands[v].kind not in ("tensor", "shared")):
            argument(v, spec.operands[v].kind, spec.operands[v].name, Source("argument", spec.operands[v].index))
        for v in (v for v in given if spec.operands[v].kind == "shared"):
            number[v] = len(operands)
            operands.append(spec.operands[v])
        body: list[KernelOp] = []
        for v in sorted(live - number.keys()):
            node = b.nodes[v]
            number[v] = len(operands) + len(body)
            args = tuple(number[a] for a in node.args)
            attrs = _renumbered(node.attrs, number)
            body.append(KernelOp(node.op, args, attrs, node.dtype, node.shape, b.names.get(v, ""), -1, b.locs[v]))
        results = []
        for v in self.outs:  # results are operations: a value that is none is passed on
            k = number[v]
            if k < len(operands):
                body.append(KernelOp("reshape", (k,), (), b.dtype(v), b.shape(v), "", -1, spec.body[0].loc))
                k = len(operands) + len(body) - 1
            results.append(k)
        ways = None
        if spec.rows is not None:
            ways = tuple(spec.rows[s.number] if s.kind == "argument" else "row" for s in arguments)
        name = f"{spec.name}_back"
        return KernelSpec(name, tuple(operands), spec.dims, tuple(body), tuple(results), ways), tuple(arguments)


def _renumbered(attr: Attrs, number: dict[int, int]) -> Attrs:
    def renumber(a: object) -> object:
        match a:
            case ("value", int(k)):
                return ("value", number[k])
            case tuple():
                return tuple(map(renumber, a))
        return a

    return tuple(map(renumber, attr))


def has_extents(op: Node | KernelOp) -> bool:
    """Whether run-time extents are in the shape of an operation's result, or among its static arguments."""
    return any(isinstance(n, Dim) for n in _flat((op.attrs, op.shape)))


def _flat(attr: object) -> list[object]:
    return [x for inner in attr for x in _flat(inner)] if isinstance(attr, tuple) else [attr]
