"""Which modules have one architecture: the same computation, with other numbers in it."""

from collections.abc import Sequence
from types import FunctionType

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, type_before_parametrizations

# Compared on their own, or of no account for what a module computes.
_MODULE_STATE = {
    *("_parameters", "_buffers", "_modules", "training", "_grouped_as", "span"),
    *("_state_dict_hooks", "_state_dict_pre_hooks"),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
}


def same_architecture(a: nn.Module, b: nn.Module) -> bool:
    """Tells whether two modules differ in the values of their parameters and buffers alone."""
    return not difference(a, b)


def difference(a: nn.Module, b: nn.Module, path: str = "") -> str:
    """Returns in words where two modules differ beyond the values of their tensors, or nothing.

    Classes, plain attributes, hooks, shapes and children all have to agree. A class attribute
    ``batched_as`` lets different classes with one forward pass count as one.

    >>> difference(nn.Linear(2, 3), nn.Linear(2, 3))
    ''
    """
    where = f"`{path}`" if path else "the module itself"
    found = _own_difference(a, b, where)
    # Not `named_children`, which leaves out a child that stands in two places.
    for name, x in a._modules.items():
        if found:
            break
        y = b._modules[name]
        below = f"{path}.{name}" if path else name
        if x is not None and y is not None:
            found = difference(x, y, below)
        elif x is not y:
            found = f"`{below}` is None in one and not in another"
    return found


def _own_difference(a: nn.Module, b: nn.Module, where: str) -> str:
    """Returns where two modules differ, their children apart."""
    # Torch makes a class of its own for each module with a parametrization, such as a weight norm.
    classes = [type_before_parametrizations(module) for module in (a, b)]
    kinds = [getattr(kind, "batched_as", kind) for kind in classes]
    if kinds[0] != kinds[1]:
        return f"{where} is {type(a).__name__} in one and {type(b).__name__} in another"
    attribute = _differing_attribute(a, b)
    if attribute:
        values = [vars(module).get(attribute) for module in (a, b)]
        return f"`{attribute}` of {where} is {values[0]!r} in one and {values[1]!r} in another"
    if _signature(a) != _signature(b):
        return f"the tensors of {where} differ in names, shapes, types or in whether they learn"
    if a._modules.keys() != b._modules.keys():
        return f"{where} has other parts in one than in another"
    return ""


def group_by_architecture(modules: Sequence[nn.Module]) -> list[list[int]]:
    """Returns the positions of ``modules``, those that can be stacked in one list.

    A module stands alone when it has buffers, which a stacked pass would update in a copy, or
    parameters that another module has too, or an allocation, whose weights a pass keeps, or
    weights that it computes, such as those of a weight norm.

    >>> group_by_architecture([nn.Linear(2, 3), nn.ReLU(), nn.Linear(2, 3)])
    [[0, 2], [1]]
    """
    groups: list[list[int]] = []
    shared = shared_parameters(modules)

    def can_stack(module: nn.Module) -> bool:
        has_state = any(True for _ in module.buffers())
        has_allocation = any(getattr(part, "stands_alone", False) for part in module.modules())
        is_shared = bool(shared & {id(parameter) for parameter in module.parameters()})
        computes_weights = any(is_parametrized(part) for part in module.modules())
        return not (has_state or has_allocation or is_shared or computes_weights)

    for position, module in enumerate(modules):
        for group in groups:
            first = modules[group[0]]
            if can_stack(module) and can_stack(first) and same_architecture(first, module):
                group.append(position)
                break
        else:
            groups.append([position])
    return groups


def shared_parameters(modules: Sequence[nn.Module]) -> set[int]:
    """Returns the identities of parameters that stand in two places, or beside one that does."""
    seen: set[int] = set()
    shared: set[int] = set()
    for module in modules:
        places = [id(p) for _, p in module.named_parameters(remove_duplicate=False)]
        own = set(places)
        if len(own) != len(places):
            shared |= own
        shared |= own & seen
        seen |= own
    return shared


def _differing_attribute(a: nn.Module, b: nn.Module) -> str:
    own_a, own_b = (
        {name: value for name, value in vars(module).items() if name not in _MODULE_STATE}
        for module in (a, b)
    )
    for name in [*own_a, *(own_b.keys() - own_a.keys())]:
        if name not in own_a or name not in own_b:
            return name
        try:
            if own_a[name] != own_b[name] and not _is_one_function(own_a[name], own_b[name]):
                return name
        except (RuntimeError, ValueError):  # tensors and arrays do not compare to one truth value
            return name
    return ""


def _is_one_function(a: object, b: object) -> bool:
    """Tells whether two functions were made by one line of code, from the same values."""
    if not isinstance(a, FunctionType) or not isinstance(b, FunctionType):
        return False
    values = [
        [
            f.__code__,
            f.__defaults__,
            f.__kwdefaults__,
            [c.cell_contents for c in f.__closure__ or ()],
        ]
        for f in (a, b)
    ]
    return values[0] == values[1]


def _signature(module: nn.Module) -> dict[str, object]:
    tensors: dict[str, Tensor | None] = {**module._parameters, **module._buffers}
    return {
        name: None if t is None else (tuple(t.shape), t.dtype, t.device, t.requires_grad)
        for name, t in tensors.items()
    }
