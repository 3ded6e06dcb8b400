"""Abstract values: all kinds of them (see `kinds`)."""

from __future__ import annotations

from acronumba.frontend.kinds.arrays import AllocationSite as AllocationSite
from acronumba.frontend.kinds.arrays import ArrayRef as ArrayRef
from acronumba.frontend.kinds.arrays import Axis as Axis
from acronumba.frontend.kinds.arrays import Cut as Cut
from acronumba.frontend.kinds.arrays import Tensor as Tensor
from acronumba.frontend.kinds.errors import ErrorValue as ErrorValue
from acronumba.frontend.kinds.functions import Bound as Bound
from acronumba.frontend.kinds.functions import Func as Func
from acronumba.frontend.kinds.functions import Method as Method
from acronumba.frontend.kinds.functions import OneOfFunctions as OneOfFunctions
from acronumba.frontend.kinds.functions import Partial as Partial
from acronumba.frontend.kinds.functions import Static as Static
from acronumba.frontend.kinds.functions import options_of as options_of
from acronumba.frontend.kinds.iterators import Columns as Columns
from acronumba.frontend.kinds.iterators import Enumerate as Enumerate
from acronumba.frontend.kinds.iterators import Generator as Generator
from acronumba.frontend.kinds.iterators import Range as Range
from acronumba.frontend.kinds.iterators import Reversed as Reversed
from acronumba.frontend.kinds.iterators import SliceVal as SliceVal
from acronumba.frontend.kinds.iterators import Stream as Stream
from acronumba.frontend.kinds.iterators import Yields as Yields
from acronumba.frontend.kinds.iterators import Zip as Zip
from acronumba.frontend.kinds.lists import ElementInfo as ElementInfo
from acronumba.frontend.kinds.lists import ListVal as ListVal
from acronumba.frontend.kinds.lists import StaticList as StaticList
from acronumba.frontend.kinds.lists import at_run_time as at_run_time
from acronumba.frontend.kinds.lists import inner_value as inner_value
from acronumba.frontend.kinds.lists import is_row as is_row
from acronumba.frontend.kinds.maps import DictVal as DictVal
from acronumba.frontend.kinds.maps import MapVal as MapVal
from acronumba.frontend.kinds.maps import MapView as MapView
from acronumba.frontend.kinds.maps import constant_value as constant_value
from acronumba.frontend.kinds.maps import map_type as map_type
from acronumba.frontend.kinds.numbers import EnumVal as EnumVal
from acronumba.frontend.kinds.numbers import HostScalar as HostScalar
from acronumba.frontend.kinds.numbers import NoneVal as NoneVal
from acronumba.frontend.kinds.numbers import Num as Num
from acronumba.frontend.kinds.numbers import as_number as as_number
from acronumba.frontend.kinds.numbers import members_of as members_of
from acronumba.frontend.kinds.numbers import number as number
from acronumba.frontend.kinds.objects import MutableObject as MutableObject
from acronumba.frontend.kinds.objects import ObjectValue as ObjectValue
from acronumba.frontend.kinds.objects import Ref as Ref
from acronumba.frontend.kinds.objects import SharedVal as SharedVal
from acronumba.frontend.kinds.objects import Super as Super
from acronumba.frontend.kinds.objects import is_field as is_field
from acronumba.frontend.kinds.tuples import Kept as Kept
from acronumba.frontend.kinds.tuples import TupleVal as TupleVal
from acronumba.frontend.kinds.tuples import as_list as as_list
from acronumba.frontend.kinds.tuples import unkept as unkept
from acronumba.frontend.kinds.unions import MaybeUnbound as MaybeUnbound
from acronumba.frontend.kinds.unions import NonlocalCell as NonlocalCell
from acronumba.frontend.kinds.unions import UnionVal as UnionVal
from acronumba.frontend.kinds.value import NOT_CONST as NOT_CONST
from acronumba.frontend.kinds.value import FieldPlace as FieldPlace
from acronumba.frontend.kinds.value import Turns as Turns
from acronumba.frontend.kinds.value import Val as Val
from acronumba.frontend.kinds.value import Value as Value
from acronumba.records import record


@record()
class ClassNumber:
    """Placeholder for the tag of a class."""

    cls: type
