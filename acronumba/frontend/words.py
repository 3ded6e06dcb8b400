"""Conversion between abstract values and words; dispatch over the alternatives of a union."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from acronumba.data.classes import field_names, fields_in_order
from acronumba.data.shared import (
    ENDLESS,
    Shared,
    SharedAgain,
    SharedConst,
    SharedLeaf,
    SharedNode,
    SharedOpaque,
    nodes_of,
)
from acronumba.frontend.array_forms import array_of_words
from acronumba.frontend.block import B, Cases, last_name
from acronumba.frontend.cells import Cells, endless, without_end
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.facts import Facts
from acronumba.frontend.handlers import CONSTANTS, KEPT, READ, WORDS
from acronumba.frontend.kinds.arrays import ArrayRef, Tensor
from acronumba.frontend.kinds.errors import ErrorValue, conversion
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.lists import ElementInfo, ListVal, StaticList
from acronumba.frontend.kinds.maps import DictVal, MapVal
from acronumba.frontend.kinds.nested import Nested
from acronumba.frontend.kinds.numbers import ALWAYS, EnumVal, NoneVal, Num, number
from acronumba.frontend.kinds.objects import ClassNumber, MutableObject, ObjectValue, Ref, SharedVal, reference
from acronumba.frontend.kinds.records import Record
from acronumba.frontend.kinds.torch_tensors import as_torch
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.unions import MaybeUnbound, UnionVal
from acronumba.frontend.kinds.value import NOT_CONST, Val, Value
from acronumba.frontend.nesting import close, fits
from acronumba.ir import nodes as ir
from acronumba.ir.shapes import ALL, Shape, ShapeClass, is_shape, shape_class
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    UNSET,
    Array0T,
    ArrayT,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    FunctionT,
    IntT,
    ListT,
    MapT,
    NeverT,
    NoneT,
    OpaqueT,
    RefT,
    ScalarT,
    StructT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    Word,
    all_parts,
    case_slices,
    case_table,
    members,
    type_text,
    union,
    union_cases,
    union_word,
    words,
)  # fmt: skip

ALONE = NoneT | BoolT | IntT | FloatT | FunctionT  # types that merge with no other in a union


class Words(Cells):
    """Conversion of values to the words of their types, and back."""

    joining = False  # whether words are those of values at a join, which replace the values
    stored_now = False  # whether a value is stored, and not bound to a name

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._tables: dict[int, tuple[UnionT, dict[Type, tuple[int, Type, slice]]]] = {}  # by id of the type

    def whole(self, val: Val) -> Val:
        """Return a value as an operand: for an array that is written to, its current elements."""
        handler = READ.get(type(val))
        return val if handler is None else handler(self, val)

    def kept(self, val: Val) -> None:
        """Note that a value is bound to a name, or stored."""
        handler = KEPT.get(type(val))
        if handler is not None:
            handler(self, val)

    # ---- values and words

    def tensor(self, ref: ir.Var, fresh: bool = False) -> Tensor:
        """Return the abstract value of a tensor variable, reading the extents that are run-time."""
        assert isinstance(ref.type, TensorT)
        dims = tuple(self.extent_of(ref, k) if n is None else n for k, n in enumerate(ref.type.shape))
        return Tensor(ref.type, ref, dims, fresh=fresh)

    def shared_value(self, node: Shared) -> Val:
        """Return the abstract value of a part of the shared parameters."""
        self.used.add(id(node))
        match node:
            case SharedLeaf(tensor=True) if self.facts.tensors:
                return as_torch(self.shared_value(replace(node, tensor=False)))
            case SharedLeaf(type=TensorT() as t):
                dims = tuple(n for n in t.shape if n is not None)
                return Tensor(t, ir.SharedArg(self.shared(node)), dims, aliased=True)
            case SharedLeaf(type=Array0T() as t):
                return Tensor(t.scalar, ir.SharedArg(self.shared(node)), (), aliased=True, array0=number(True))
            case SharedLeaf(type=IntT() | FloatT() as t):
                return self.shared_number(node, t)
            case SharedLeaf(type=MapT() as t, cls=cls, factory=factory) if cls is not dict:
                entries = self.from_words(t, tuple(self._shared_word(node, w) for w in words(t)))
                assert isinstance(entries, MapVal)
                return replace(entries, cls=cls, extra=self.constant(factory) if cls is defaultdict else None)
            case SharedLeaf(type=t, fields=fields):
                self.note_fields(fields)
                return self.from_words(t, tuple(self._shared_word(node, w) for w in words(t)))
            case SharedConst(value=value):
                return self.constant(value)
            case SharedNode():
                return SharedVal(node)
            case SharedAgain(outer=outer):
                return SharedVal(self.shared_at(outer))
            case SharedOpaque(path=path, what=what):
                raise self.reject("ACR501", seen=f"{path}: {what}", rewrite=conversion(what))

    def note_fields(self, fields: Sequence[tuple[type, str, Type]]) -> None:
        """Note the types of the fields of the closed shapes in a shared value, which may be one outside of the call."""
        for cls, name, t in fields:
            self.note(self.facts.outside, cls)
            row = self.facts.given.setdefault(cls, {})
            if name not in row:
                row[name] = t
                self.data_lists |= {part for part in all_parts(t) if isinstance(part, ListT)}
            self.widen_field(cls, name, t)

    def shared_at(self, path: str) -> SharedNode:
        """Return the shared structure at a path."""
        return next(node for root in self.shared_roots for node in nodes_of(root) if node.path == path)

    def _shared_word(self, leaf: SharedLeaf, word: Word) -> ir.Var:
        out = self.var(last_name(leaf.path), word)
        self.emit(ir.Shared(out=out, index=self.shared(leaf), loc=self.loc))
        return out

    def constant(self, value: Any) -> Val:
        """Return the abstract value of a compile-time constant."""
        import enum

        if value is None:
            return NoneVal()
        if isinstance(value, enum.Enum) and type(value) not in CONSTANTS:
            return EnumVal(type(value), const=value)
        if isinstance(value, bool | int | float) and type(value) in (bool, int, float):
            return number(value)
        make = next((CONSTANTS[c] for c in type(value).__mro__ if c in CONSTANTS), Static)
        return make(value)

    def shared_items(self, val: SharedVal) -> tuple[Val, ...]:
        """Return the items of a shared structure; one of a dict that cannot be read is rejected where it is used."""
        if val.node.kind != "dict":
            return tuple(self.shared_value(item) for item in val.node.items)
        return tuple(
            ErrorValue(f"{item.path}: {item.what}", "ACR501")
            if isinstance(item, SharedOpaque)
            else self.shared_value(item)
            for item in val.node.items
        )

    def materialise(self, val: SharedVal, part: bool = False) -> Val:
        """Return a shared structure as an ordinary value made of its leaves; `part`: only to read a part of it."""
        again = next((item for item in val.node.items if isinstance(item, SharedAgain)), None)
        if again is not None:
            raise self.reject("ACR501", seen=f"{again.path}: {ENDLESS}")
        items = self.shared_items(val)
        match val.node.kind:
            case "object":
                if self.facts.same.first(val.node.path) in self.facts.overlaid:
                    seen = f"{self.describe(val)}, whose attributes are assigned, as one of several objects"
                    raise self.reject("ACR113", seen=seen, rewrite="choose it by an `if`, or by a constant")
                self.note(self.facts.fixed, val.node.cls)
                self.note(self.facts.outside, val.node.cls)
                return ObjectValue(val.node.cls, val.node.names, items, own=False)
            case "tuple":
                return TupleVal(items)
            case "dict":
                if val.node.cls is OrderedDict and not part:
                    seen = f"{self.describe(val)}, as a whole"
                    raise self.reject("ACR501", seen=seen, rewrite="read its items, or pass dict(x)")
                return DictVal(val.node.names, items)
            case _:
                cell = self.cell(("shared", val.node.path))
                return StaticList(items, cell)

    def static(self, val: Any) -> Any:
        """Return the Python value of a compile-time constant; NOT_CONST for other values."""
        return val.static(self) if isinstance(val, Value) else NOT_CONST

    def type_of(self, val: Val) -> Type:
        """Return the run-time type of a value; reject values that exist only at compile time."""
        self.check_poison(val)
        t = val.stored_type(self)
        if t is None:
            self.facts.loops_kept = True  # in an unrolled loop, each iteration has a value of its own
            code = "ACR206" if val.is_function else "ACR308"
            raise self.reject(code, seen=self.describe(val), rewrite=val.stored_as)
        return t

    def note_form(self, ref: ArrayRef) -> None:
        """Note the form of an array that is passed by reference; allocation sites of arrays of one form are unified."""
        form = (ref.type.dtype, ref.form()[1])
        known = self.facts.arrays.setdefault(form, ref)
        self.pass_itself([known.place, ref.place])

    def to_words(self, val: Val, t: Type) -> tuple[ir.Var, ...]:
        """Convert a value to the words of a type that includes its own."""
        self.check_poison(val)
        val = self.named_in(val, t)
        if isinstance(t, UnionT) and not (isinstance(val, UnionVal) and val.type == t):
            if isinstance(val, SharedVal):
                val = self.materialise(val)
            val = val.bound_value()
            if val.is_choosable and val.is_several:
                return val.to_words(self, t) or ()
            return self._to_union(val, t)
        found = val.to_words(self, t)
        if found is None:
            raise self.reject("ACR301", seen=f"{self.describe(val)} where {type_text(t)} is expected")
        return found

    def named_in(self, val: Val, t: Type) -> Val:
        """Return a list, tuple or dict as a row of its closed shape, if a type has that; any other value as it is."""
        shapes = [m.cls for m in members(t) if isinstance(m, StructT) and is_shape(m.cls)]
        if not shapes or val.python_class not in (list, tuple, dict) or isinstance(val, Nested | Record):
            return val
        val = val.unshared(self)
        kind = self.type_of(val)
        fitting = [cls for cls in shapes if fits(cls.shape, kind, self.facts.nodes)]
        return self.new_nested(max(fitting, key=lambda c: c.shape.tag is not None), val) if fitting else val

    def new_nested(self, cls: ShapeClass, val: Val) -> Nested:
        """Return a list, tuple or dict as a new row of a closed shape."""
        known = val.sequence(self) if cls.shape.is_open else None
        if known is not None:
            listed = ListT(union(*map(self.type_of, known)), tupled=cls.shape.python is tuple)
            t = self.widen_field(cls, ALL, listed)
            val = self.from_words(t, self.to_words(val, t))
        items = {ALL: val} if cls.shape.is_open else dict(zip(cls.shape.names, val.children(), strict=True))
        given = isinstance(val, DictVal) and cls in self.written_before  # those made in the call are rows already
        if given:
            self.note(self.facts.outside, cls)
        return Nested(cls, self.new_row(cls, items, given), own=None if given else True)

    def tagged(self, val: TupleVal | StaticList) -> Val:
        """Return a new tuple or list whose first item is a tag as a row, if those of its length differ by tags."""
        cls = list if isinstance(val, StaticList) else tuple
        size = len(val.items)
        if (cls, size) not in self.facts.tagged or self.block is None or any(v.word_type() is None for v in val.items):
            return val
        tag = self.static(val.items[0])
        return self.new_nested(shape_class(Shape(cls, size, tag)), val) if type(tag) is str else val

    def open_row(self, val: Nested) -> Val:
        """Return a row of a closed shape as a list, tuple or dict."""
        shape = val.cls.shape
        items = tuple(self.row_part(val, name) for name in shape.names)
        if shape.is_open:
            return items[0]
        if shape.python is list:
            types = self.facts.fields[val.cls]
            cell = self.row_cell(TupleT(tuple(types[name] for name in shape.names), listed=True))
            return StaticList(items, cell, stored=True)
        return TupleVal(items) if shape.keys is None else DictVal(shape.keys, items)

    def row_part(self, val: Nested, name: str) -> Val:
        """Read a field of a row of a closed shape."""
        t = self.facts.fields.get(val.cls, {}).get(name)
        if t is None:
            self.facts.changed = True
            raise Restart
        return self.read_row(val.cls, val.var, val.own, name, t)

    def read_row(self, cls: type, var: ir.Var, own: bool | None, name: str, t: Type) -> Val:
        """Read a field of a row."""
        self.reads.setdefault(cls, set()).add(name)
        if cls in self.facts.built:
            self.note(self.facts.built[cls], name)
        outs = tuple(self.var(name, e) for e in words(t))
        if self.block is None:
            return ErrorValue()
        if outs:
            self.emit(ir.Load(outs=outs, ref=var, cls=cls, field=name, loc=self.loc))
        val = self.from_words(t, outs)
        if own is False:  # the fields of an input are inputs
            self.came_in.update(outs)
            val = replace(val, own=False) if isinstance(val, Ref | Nested) else val
        return self.placed(val, (cls, name) if own else None)

    def words_of_items(self, items: Sequence[Val], t: TupleT | DictT) -> tuple[ir.Var, ...]:
        """Convert the items of a tuple, list or dict to the words of a type of as many items."""
        return tuple(w for v, u in zip(items, t.items, strict=True) for w in self.to_words(v, u))

    def map_word(self, val: DictVal | MapVal, t: MapT) -> ir.Var:
        """Return the variable of a dict or set as a value of a dict or set type."""
        if isinstance(val, DictVal):
            assert val.cell is not None
            self.make_real(val.cell)
            raise Restart
        if (t.item is None) is not val.is_set:
            raise self.reject("ACR301", seen=f"{self.describe(val)} where {type_text(t)} is expected")
        by_type = self.cells_by_type(t)
        kind = val.cell.find().kind
        if kind is not None:
            seen = f"a dict of values of class {kind[0].__name__}, where it is stored"
            raise self.reject("ACR308", seen=seen, rewrite="{k: dict(v) for k, v in d.items()}")
        if val.type != t:
            self.unify_cells(val.cell, by_type)
        self.same_places(val.cell, by_type)
        self.mix(val.cell, not by_type.mixed)
        return val.var

    def realise(self, val: StaticList, item: Type | None = None) -> ListVal:
        """Make the run-time list of a static one; `item`: the type of its elements, if it is not that of its site."""
        cell = val.cell.find()
        for v in val.items:
            t = self.type_of(v)
            self.widen_cell(cell, t)
            self.put_in(cell, v)
        item = cell.item if item is None else item
        flat = tuple(w for v in val.items for w in self.to_words(v, item))
        out = self.var("list", ListT(item))
        self.emit(ir.ListNew(out=out, width=len(words(item)), args=flat, count=len(val.items), loc=self.loc))
        return ListVal(cell, out)

    def _to_union(self, val: Val, t: UnionT) -> tuple[ir.Var, ...]:
        single = union_word(t)
        if isinstance(val, UnionVal):
            if single is not None and ((word := union_word(val.type)) == single or isinstance(word, RefT)):
                return val.vars
            return self.cases_to_words(val, t)
        if single is not None:
            if isinstance(val, NoneVal):
                return (self.null(single),)
            if isinstance(single, RefT) and isinstance(kind := val.word_type(), StructT | UnionT):
                return self.to_words(val, next(m for m in members(kind) if isinstance(m, StructT)))
            if not isinstance(single, RefT):
                return self.to_words(val, next(m for m in t.members if not isinstance(m, NoneT)))
        mine = self.type_of(val)
        out: list[ir.Var] = []
        tag = -1
        for k, (case, _) in enumerate(case_slices(t)):
            if tag < 0 and self._is_part(mine, case):
                tag = k
                out += self.to_words(val, case)
            else:
                out += [self.zero(w) for w in words(case)]
        if tag < 0:
            raise self.reject("ACR301", seen=f"{self.describe(val)} where {type_text(t)} is expected")
        return (self.word(number(tag)), *out)

    def _is_part(self, mine: Type, case: Type) -> bool:
        """Whether a case of a union holds values of a type that is no union."""
        if mine == case:
            return True
        if isinstance(case, ALONE) or isinstance(mine, ALONE):
            return mine == NEVER
        both = union(case, mine)
        return both == case or close(self, both) == case

    def cases_to_words(self, val: UnionVal, t: Type) -> tuple[ir.Var, ...]:
        """Convert a union to another layout, case by case."""
        return self.words_of_cases(t, val.alternatives(self), lambda read: self.to_words(read(), t))

    def words_of_cases(self, t: Type, cases: Cases[B], given: Callable[[B], Sequence[ir.Var]]) -> tuple[ir.Var, ...]:
        """Return the words of a type that the branch of the first test that holds gives, in new variables."""
        outs = tuple(self.var("", w) for w in words(t))

        def copied(branch: B) -> None:
            for out, src in zip(outs, given(branch), strict=True):
                self.emit(ir.Copy(out=out, src=src, loc=self.loc))

        self.meet_again(self.along(cases, copied)[0])
        return outs

    def null(self, word: Word) -> ir.Var:
        out = self.var("none", word)
        self.emit(ir.Const(out=out, value=None, loc=self.loc))
        return out

    def zero(self, word: Word) -> ir.Var:
        if isinstance(word, IntT | FloatT | BoolT):
            return self.word(number({INT: 0, FLOAT: 0.0, BOOL: False}[word]))
        return self.null(word)

    def tensor_var(self, val: Tensor) -> ir.Var:
        """Return the tensor as a variable; a shared one becomes an ordinary value."""
        self.stored_now, saved = True, self.stored_now
        self.kept(val)
        self.stored_now = saved
        if not self.joining:
            val.seen()
        return self.variable(val)

    def unmarked_words(self, val: Val, t: Type) -> tuple[ir.Var, ...]:
        """Return the words of a value that is replaced where control flow joins, which is no alias."""
        self.joining, saved = True, self.joining
        try:
            return self.to_words(val, t)
        finally:
            self.joining = saved

    def variable(self, val: Tensor) -> ir.Var:
        """Return the variable of a tensor, without noting an alias."""
        if isinstance(val.ref, ir.Var):
            return val.ref
        param = self.shared_params[val.ref.index]
        out = self.var(last_name(param.path), param.type)  # type: ignore[arg-type]
        self.emit(ir.Shared(out=out, index=val.ref.index, loc=self.loc))
        return out

    # ---- objects

    def note(self, known: set[Any], what: Any) -> None:
        """Add an element to a set of facts."""
        if what not in known:
            known.add(what)
            self.facts.changed = True

    def made_here(self, classes: tuple[type, ...]) -> bool | None:
        """Whether an object of one of these classes was made in the call; None if that is known only at run time."""
        if self.facts.outside.isdisjoint(classes):
            return True
        return False if self.facts.built.keys().isdisjoint(classes) else None

    def row_of(self, val: ObjectValue | MutableObject) -> ir.Var:
        """Return the row of an object; it is made unless the object has one."""
        if isinstance(val, ObjectValue):
            if val.stored and not issubclass(val.cls, tuple):  # one object, stored twice
                self.note(self.facts.changing, val.cls)
            val.stored = True
            return self.new_row(val.cls, val.fields(self), given=not val.own)
        self.note(self.facts.changing, val.cls)
        if self.sealed is not None and val.key in self.sealed:
            return self.sealed[val.key]
        val.must_exist(self)
        if self.sealed is None or val.key in self.building:  # it contains itself
            self.note(self.facts.rows, val.site)
            if val.key in self.building:
                self.note(self.facts.early, val.site)
            return self.null(RefT((val.cls,)))
        self.building.add(val.key)
        out = self.sealed[val.key] = self.new_row(val.cls, val.fields(self))
        self.building.discard(val.key)
        return out

    def new_row(self, cls: type, items: Mapping[str, Val], given: bool = False) -> ir.Var:
        """Make a row of a class; fields of the class that are not among the items are `UNSET`."""
        self.facts.changed |= cls not in self.facts.built
        names = self.facts.built.setdefault(cls, set())
        if not names.issuperset(items):
            names.update(items)
            self.facts.changed = True
        self.stored.setdefault(cls, set()).update(names)
        flat: list[ir.Var] = []
        for name in fields_in_order(cls, names):
            val = items.get(name)
            found = UNSET if val is None else self.type_of(val)
            if isinstance(val, MaybeUnbound):
                found = union(found, UNSET)
            t = self.widen_field(cls, name, found)
            if val is not None:
                self.put_in(self.field_cell(cls, name), val.value if isinstance(val, MaybeUnbound) else val)
            flat += self._unset(t) if val is None else self._field_words(val, t)
        out = self.var(cls.__name__.lower(), RefT((cls,)))
        self.emit(ir.New(out=out, cls=cls, args=tuple(flat), loc=self.loc, given=given))
        return out

    def field_cell(self, cls: type, name: str) -> ElementInfo:
        """Return the element info of a field, with facts of the lists and arrays stored in it."""
        return self.cell(("field", cls, name))

    def widen_field(self, cls: type, name: str, given: Type) -> Type:
        """Widen the type of a field of a class by a type, and return it.

        The type is closed: what it was before may be not, once it has more members.
        """
        table = self.facts.fields.setdefault(cls, {})
        wider = given
        while True:
            old = table.get(name)
            wider = wider if old is None or isinstance(old, OpaqueT) else union(old, wider)
            if wider == old:
                return wider
            wider = close(self, wider, cls)
            if table.get(name) == old:  # else closing has widened this field itself
                break
        if wider != old:
            self.one_form(wider)
            if endless(wider):
                raise self.reject("ACR303", seen=without_end(wider))
            table[name] = wider
            self.facts.changed = True
        return wider

    def _unset(self, t: Type) -> tuple[ir.Var, ...]:
        """Return the words of an `UNSET` field."""
        if not isinstance(t, UnionT):
            return ()
        single = union_word(t)
        if single is not None:
            return (self.null(single),)
        tag = union_cases(t).index(UNSET)
        return (self.word(number(tag)), *(self.zero(w) for case in union_cases(t) for w in words(case)))

    def _field_words(self, val: Val, t: Type) -> tuple[ir.Var, ...]:
        """Return the words of a field, which may be assigned on some paths only."""
        if not isinstance(val, MaybeUnbound):
            return self.to_words(val, t)
        cases = [(val.bound, val.value), (ALWAYS, None)]
        return self.words_of_cases(t, cases, lambda v: self._unset(t) if v is None else self.to_words(v, t))

    def from_words(self, t: Type, vars: tuple[ir.Var, ...]) -> Val:
        """Return the abstract value of the words of a type."""
        read = WORDS.get(type(t))
        if read is not None:
            found: Val = read(self, t, vars)
            return found
        match t:
            case IntT() | FloatT() | BoolT():
                return Num(t, var=vars[0])
            case EnumT():
                return EnumVal(t.cls, var=vars[0])
            case ScalarT():
                return self.key_scalar(t.dtype, vars[0])
            case NoneT():
                return NoneVal(given=True)
            case NeverT():
                raise self.never()
            case TensorT():
                return self.tensor(vars[0])
            case ArrayT():
                return self.note_extents(array_of_words(self.facts.arrays[t.seen.dtype, t.form], t, vars))
            case Array0T():
                return Tensor(t.scalar, vars[-1], (), array0=number(True) if t.sure else Num(BOOL, var=vars[0]))
            case StructT():
                return reference((t.cls,), vars[0], self.made_here((t.cls,)))
            case TupleT() | DictT():
                items: list[Val] = []
                at = 0
                for u in t.items:
                    width = len(words(u))
                    if isinstance(u, OpaqueT):  # rejected where it is read
                        items.append(ErrorValue(u.what, "ACR304"))
                        continue
                    items.append(self.from_words(u, vars[at : at + width]))
                    at += width
                if isinstance(t, DictT):
                    return DictVal(t.keys, tuple(items))
                if t.cls is not tuple:
                    return ObjectValue(t.cls, field_names(t.cls), tuple(items))
                return StaticList(tuple(items), self.row_cell(t), stored=True) if t.listed else TupleVal(tuple(items))
            case ListT():
                return self.list_of(t, vars[0])
            case MapT():
                return MapVal(self.cells_by_type(t), vars[0], set if t.item is None else dict)
            case UnionT():
                return self.narrowed(UnionVal(t, vars, t.members))
            case OpaqueT():
                raise self.reject("ACR304", seen=t.what, rewrite=conversion(t.what))
        raise AssertionError(t)  # its reader is in `WORDS`

    # ---- unions

    def narrowed(self, val: UnionVal) -> Val:
        """Return a union as an ordinary value if a single alternative (or only classes) is left."""
        rest = val.possible
        if not rest:
            return ErrorValue()
        single = union_word(val.type)
        if all(isinstance(m, StructT) for m in rest):
            classes = tuple(m.cls for m in rest if isinstance(m, StructT))
            word = val.vars[0] if single is not None else self._struct_word(val)
            return reference(classes, word, self.made_here(classes))
        if len(rest) > 1:
            return val
        only = rest[0]
        if single is not None:
            return NoneVal() if isinstance(only, NoneT) else self._one_of(val, self.from_words(only, val.vars))
        _, case, where = self._table(val.type)[only]
        return self._one_of(val, self.from_words(case, val.vars[where]))

    def _one_of(self, val: UnionVal, only: Val) -> Val:
        """Return an alternative of a union with the union's facts of the container or field from which it was read."""
        only = only.with_places(val.places) if val.place is None else self.placed(only, val.place)
        x = only.marked if not only.is_tensor else only.children()[0].marked
        if val.marked is not None and x is not None:
            x.base, x.fresh, x.aliased, x.named = val.marked, val.is_own, not val.is_own, True
        return only if val.outer is None else only.within(val.outer)

    def placed(self, val: Val, place: tuple[type, str] | None) -> Val:
        """Return a value read from a field of an object made in the call, with the facts of this field's values."""
        if place is None:
            return val
        return val.from_field(place, self.field_cell(*place))

    def _struct_word(self, val: UnionVal) -> ir.Var:
        case, where = case_slices(val.type)[0]
        assert all(isinstance(m, StructT) for m in members(case))
        return val.vars[where][0]

    def keep(self, val: UnionVal, wanted: Callable[[Type], bool]) -> UnionVal:
        return replace(val, possible=tuple(m for m in val.possible if wanted(m)))

    def is_case(self, val: UnionVal, wanted: Callable[[Type], bool]) -> Num:
        """Return whether the type of a value is one of the wanted members, as a bool."""
        yes = [m for m in val.possible if wanted(m)]
        if not yes or len(yes) == len(val.possible):
            return number(bool(yes))
        if union_word(val.type) is not None:
            null = self.var("", BOOL)
            self.emit(ir.IsNull(out=null, ref=val.vars[0], loc=self.loc))
            is_null = Num(BOOL, var=null)
            if any(isinstance(m, NoneT) for m in val.possible):
                if all(isinstance(m, NoneT) for m in yes):
                    return is_null
                structs = [m for m in val.possible if not isinstance(m, NoneT)]
                if len(yes) == len(structs) and not any(isinstance(m, NoneT) for m in yes):
                    return self.negate(is_null)
                # some classes only: the tag may be read only where the reference is not None
                return self._guarded_class_test(val.vars[0], is_null, yes)
            return self.class_test(val.vars[0], tuple(m.cls for m in yes if isinstance(m, StructT)))
        tag = Num(INT, var=val.vars[0])
        out: Num = number(False)
        table = self._table(val.type)
        of_case: dict[int, list[Type]] = {}
        for m in yes:
            of_case.setdefault(table[m][0], []).append(m)
        for k, chosen in sorted(of_case.items(), key=lambda item: item[0]):
            here = self.scalar("eq", tag, number(k))
            _, case, where = table[chosen[0]]
            if isinstance(case, UnionT) and len(chosen) < sum(m in val.possible for m in case.members):
                ref = val.vars[where][0]  # one case has several classes
                chosen = [m for m in case.members if m in chosen]
                here = self._guarded_class_test(ref, self.negate(here), chosen)
            out = self.either(out, here)
        return out

    def _table(self, t: UnionT) -> dict[Type, tuple[int, Type, slice]]:
        """Return the `case_table` of a union; types do not change."""
        found = self._tables.get(id(t))
        if found is None:
            found = self._tables[id(t)] = t, case_table(t)
        return found[1]

    def _guarded_class_test(self, ref: ir.Var, absent: Num, yes: Sequence[Type]) -> Num:
        none = number(any(isinstance(m, NoneT) for m in yes))
        classes = tuple(m.cls for m in yes if isinstance(m, StructT))
        cases = [(absent, lambda: none), (ALWAYS, lambda: self.class_test(ref, classes))]
        (out,) = self.words_of_cases(BOOL, cases, lambda test: [self.word(test())])
        return Num(BOOL, var=out)

    def class_test(self, ref: ir.Var, classes: tuple[type, ...]) -> Num:
        tag = self.var("", INT)
        self.emit(ir.ClassTag(out=tag, ref=ref, loc=self.loc))
        out: Num = number(False)
        for cls in classes:
            out = self.either(out, self.scalar("eq", Num(INT, var=tag), Num(INT, var=self.class_number(cls))))
        return out

    def class_number(self, cls: type) -> ir.Var:
        """Return the tag of a class as a constant, whose value is set when the layouts are known."""
        out = self.var(cls.__name__, INT)
        self.emit(ir.Const(out=out, value=ClassNumber(cls), loc=self.loc))  # type: ignore[arg-type]
        return out
