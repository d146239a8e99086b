"""Which modules are of one kind: the same computation, with other numbers in it."""

from collections.abc import Sequence

from torch import Tensor, nn

# Compared on their own, or of no account for what a module computes.
_MODULE_STATE = {"_parameters", "_buffers", "_modules", "training", "_grouped_as"}


def same_kind(a: nn.Module, b: nn.Module) -> bool:
    """Tells whether two modules differ in the values of their parameters and buffers alone.

    Classes, plain attributes, hooks, shapes and children all have to agree. A class attribute
    ``batched_as`` lets different classes with one forward pass count as one.
    """
    if getattr(a, "batched_as", type(a)) != getattr(b, "batched_as", type(b)):
        return False
    if not (_same_attributes(a, b) and _same_tensors(a, b)):
        return False
    if a._modules.keys() != b._modules.keys():
        return False
    # Not `named_children`, which leaves out a child that stands in two places.
    pairs = [(child, b._modules[name]) for name, child in a._modules.items()]
    return all(x is y if x is None or y is None else same_kind(x, y) for x, y in pairs)


def group_by_kind(modules: Sequence[nn.Module]) -> list[list[int]]:
    """Returns the positions of ``modules``, those that can be stacked in one list.

    A module stands alone when it has buffers, which a stacked pass would update in a copy, or
    parameters that another module has too.
    """
    groups: list[list[int]] = []
    shared = _shared_parameters(modules)

    def can_stack(module: nn.Module) -> bool:
        return not list(module.buffers()) and not shared & {id(p) for p in module.parameters()}

    for position, module in enumerate(modules):
        for group in groups:
            first = modules[group[0]]
            if can_stack(module) and can_stack(first) and same_kind(first, module):
                group.append(position)
                break
        else:
            groups.append([position])
    return groups


def has_shared_parameters(module: nn.Module) -> bool:
    """Tells whether some parameter stands in two places of a module."""
    n_places = len(list(module.named_parameters(remove_duplicate=False)))
    return n_places != len(list(module.named_parameters()))


def _shared_parameters(modules: Sequence[nn.Module]) -> set[int]:
    seen: set[int] = set()
    shared: set[int] = set()
    for module in modules:
        own = {id(parameter) for parameter in module.parameters()}
        if has_shared_parameters(module):
            shared |= own
        shared |= own & seen
        seen |= own
    return shared


def _same_attributes(a: nn.Module, b: nn.Module) -> bool:
    own_a = {name: value for name, value in vars(a).items() if name not in _MODULE_STATE}
    own_b = {name: value for name, value in vars(b).items() if name not in _MODULE_STATE}
    try:
        return bool(own_a == own_b)
    except (RuntimeError, ValueError):  # tensors and arrays do not compare to one truth value
        return False


def _same_tensors(a: nn.Module, b: nn.Module) -> bool:
    def signature(module: nn.Module) -> dict[str, object]:
        tensors: dict[str, Tensor | None] = {**module._parameters, **module._buffers}
        return {
            name: None if t is None else (tuple(t.shape), t.dtype, t.device, t.requires_grad)
            for name, t in tensors.items()
        }

    return signature(a) == signature(b)
