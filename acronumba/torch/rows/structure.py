"""Parts of a module of PyTorch: its parameters and submodules, in PyTorch's order."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from acronumba.data.shared import SharedLeaf, SharedNode
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.kinds.objects import SharedVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.walker import Walker
from acronumba.torch.library import as_list, as_named, parts_in, within


def _parameters(node: SharedNode) -> SharedNode:
    return as_list(node.path, [part for _, part in within(node) if not isinstance(part, SharedNode)])


def _named_parameters(node: SharedNode) -> SharedNode:
    return as_named(node.path, [(name, part) for name, part in within(node) if not isinstance(part, SharedNode)])


def _children(node: SharedNode) -> SharedNode:
    return as_list(node.path, [part for _, part in parts_in(node) if not isinstance(part, SharedLeaf)])


def _named_children(node: SharedNode) -> SharedNode:
    return as_named(node.path, [(name, part) for name, part in parts_in(node) if not isinstance(part, SharedLeaf)])


def _modules(node: SharedNode) -> SharedNode:
    return as_list(node.path, [part for _, part in within(node) if not isinstance(part, SharedLeaf)])


def _named_modules(node: SharedNode) -> SharedNode:
    return as_named(node.path, [(name, part) for name, part in within(node) if not isinstance(part, SharedLeaf)])


def _listed(list_of: Callable[[SharedNode], SharedNode]) -> Callable[[Walker, Args], Val]:
    """Return the handler of a method that PyTorch makes a generator: here it is a list."""

    def handler(w: Walker, a: Args) -> Val:
        module = a["self"]
        if not isinstance(module, SharedVal):
            raise w.reject("ACR202", seen=f"{a.what} of {w.describe(module)}", rewrite="a module made outside")
        w.apart[(module.node.path,)] = w.loc  # PyTorch lists what is found twice once
        return w.shared_value(list_of(module.node))

    return handler


for _method, _list_of in (
    (nn.Module.parameters, _parameters), (nn.Module.named_parameters, _named_parameters),
    (nn.Module.children, _children), (nn.Module.named_children, _named_children),
    (nn.Module.modules, _modules), (nn.Module.named_modules, _named_modules),
):  # fmt: skip
    row("self", _method, rank0="any", whole=True, signature=lambda self: None)(_listed(_list_of))
