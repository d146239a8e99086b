"""Named parts of a model made modular."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import check_choice, check_count, check_truth, described, is_list_of
from ..allocation import Allocation, GumbelMatrix
from ._heads import Features, Heads
from ._layer import ModularLayer
from ._low_rank import AdaptedPart, update_of, why_no_update
from ._network import MultiTaskModel
from ._part_names import check_apart, named_parts

Allocate = Callable[..., Allocation]  # from numbers of tasks and of components

COMPONENTS = ("copy", "low_rank", "new")


def modularize(
    model: nn.Module,
    parts: Mapping[str, int],
    *,
    tasks: Sequence[str] | None = None,
    heads: Heads = None,
    allocation: Allocate = GumbelMatrix,
    dropout: float = 0.0,
    component: str = "copy",
    rank: int = 8,
    freeze: bool | None = None,
    features: Features | None = None,
) -> MultiTaskModel:
    """Returns a network in which named parts of a model are modular layers; the model stays.

    What the components of a part are, ``component`` says:

    - ``"copy"``: copies of it, which start from its weights. What a learnt allocation draws tells
      them apart; one without draws should start with weights that differ.
    - ``"low_rank"``: low-rank updates of it (LoRA). The part stays, frozen, and is evaluated once:
      ``part(x) + sum over c of w_c * B_c(A_c(x))``, with the weights ``w`` of the allocation, which
      say how much of each update a task uses and never how much of the part. ``B`` starts at zero,
      so the network starts as the model. For linear layers, convolutions and embeddings.
    - ``"new"``: copies with new weights, as ``reset_parameters`` of their modules draws them.

    A part that stands at several places of the model becomes one layer at all of them. Weights
    tied inside a part are tied in each copy; those tied to something outside are not (a warning).

    >>> from torch import nn, randn
    >>> from allotment import modularize
    >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 4))
    >>> network = modularize(model, {"2": 3}, heads={"a": nn.Linear(4, 1), "b": nn.Linear(4, 5)})
    >>> network(randn(2, 8), "b").shape, network.component_names
    (torch.Size([2, 5]), ('2 A', '2 B', '2 C'))

    Args:
        model: Any module. What it returns enters the heads.
        parts: How many components each part gets, by the part's name in ``model.named_modules()``,
            or by a pattern: ``*`` is any name between two dots, ``**`` any number of names, as in
            ``{"encoder.layer.*.attention.self.query": 4}``.
        tasks: The tasks' names, where the heads do not give them.
        heads: A module for each task, by name, or as a list; None where the model's output is it.
        allocation: From the numbers of tasks and components to a layer's allocation: a class, as
            `GumbelMatrix`, a function, as `recommended`, or what `using` returns. One that takes
            ``n_features`` is given that of the part's first linear layer or convolution. What
            `using` returns is told ``depth`` and ``n_layers`` too: the part's place among all.
        dropout: Probability with which a feature is left out before the head, in training.
        component: What the components of a part are, see above.
        rank: The rank of low-rank updates.
        freeze: Whether the model is frozen outside of the components, so that they, the allocation
            and the heads learn alone. None: with low-rank updates.
        features: From what the model returns to what enters the heads, such as
            ``lambda output: output.last_hidden_state[:, 0]``, where that is not the same.
    """
    n_tasks = _n_tasks(model, tasks, heads)
    _check_makes_allocations(allocation)
    check_choice("component", component, COMPONENTS)
    check_count("rank", rank)
    check_truth("freeze", freeze, or_none=True)
    body = _copied(model)
    counts = named_parts(parts, body)
    check_apart(counts, body)
    layers: dict[nn.Module, nn.Module] = {}
    depths = _depths(counts, body)
    for name, n in counts.items():
        part = body.get_submodule(name)
        if part not in layers:
            place = {"depth": depths[part], "n_layers": len(depths)}
            allocated = _allocated(allocation, n_tasks, n, name, part, place)
            layers[part] = (
                _adapted(body, name, allocated, rank)
                if component == "low_rank"
                else _copies(body, name, allocated, is_new=component == "new")
            )
    if component == "low_rank" if freeze is None else freeze:
        body.requires_grad_(False)
    for name, module in list(body.named_modules(remove_duplicate=False)):
        if module in layers:
            path, _, leaf = name.rpartition(".")
            body.get_submodule(path)._modules[leaf] = layers[module]
    _leave_fast_paths(body)
    return MultiTaskModel(body, heads, dropout=dropout, task_names=tasks, features=features)


def _check_makes_allocations(allocation: object) -> None:
    if isinstance(allocation, Allocation) or not callable(allocation):
        raise TypeError(
            "`allocation` should be a class, such as `GumbelMatrix`, or a function from the "
            "numbers of tasks and components to an allocation, since each part gets its own. "
            f"Found {described(allocation)}."
        )


def _depths(counts: Mapping[str, int], body: nn.Module) -> dict[nn.Module, int]:
    """Returns the place of each part among all of them, in the order of the model."""
    parts = {body.get_submodule(name) for name in counts}
    return {part: n for n, part in enumerate(m for m in body.modules() if m in parts)}


def _allocated(
    allocation: Allocate,
    n_tasks: int,
    n_components: int,
    name: str,
    part: nn.Module,
    place: Mapping[str, int],
) -> Allocation:
    """Returns the allocation of a part, which may have to know its place and its features."""
    wanted = signature(allocation).parameters.get("n_features")
    is_open = wanted is not None and wanted.default in (None, wanted.empty)
    n_features = _n_features(part)
    if getattr(allocation, "takes_facts", False):
        facts = {**place, "n_features": n_features} if n_features else place
        return allocation(n_tasks, n_components, **facts)
    if n_features and is_open:
        return allocation(n_tasks, n_components, n_features=n_features)
    if wanted is not None and wanted.default is wanted.empty:
        kind = getattr(allocation, "__name__", type(allocation).__name__)
        raise ValueError(
            "Parts should have a linear layer or a convolution where `allocation` takes "
            f"`n_features`. Found none in {name!r} ({type(part).__name__}); `lambda n_tasks, "
            f"n_components: {kind}(n_tasks, n_components, n_features=...)` would do."
        )
    return allocation(n_tasks, n_components)


def _n_features(part: nn.Module) -> int:
    """Returns the features, or channels, of a part's input; 0 where they are not known."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            return module.in_features
        if isinstance(module, nn.modules.conv._ConvNd):
            return module.in_channels
    return 0


def _copies(body: nn.Module, name: str, allocation: Allocation, *, is_new: bool) -> nn.Module:
    """Returns a modular layer whose components are copies of a part."""
    part, n = body.get_submodule(name), allocation.n_components
    _warn_of_ties(body, name)
    copies = [deepcopy(part) for _ in range(n)]
    if is_new:
        for copy in copies:
            _draw_anew(copy, name)
    else:
        _warn_of_equal_copies(part, name, allocation)
    return ModularLayer(copies, allocation, names=_labels(name, n), kinds=[name] * n)


def _adapted(body: nn.Module, name: str, allocation: Allocation, rank: int) -> nn.Module:
    """Returns a part, frozen, with low-rank updates beside it."""
    part, n = body.get_submodule(name), allocation.n_components
    reason = why_no_update(part)
    if reason:
        inside = [f"{name}.{path}" for path, m in part.named_modules() if not why_no_update(m)]
        raise ValueError(
            "`parts` should name linear layers, convolutions or embeddings, such as have low-rank "
            f"updates. Found {name!r}, which {reason}"
            + (f"; inside it are {inside}." if inside else ".")
        )
    updates = [update_of(part, rank) for _ in range(n)]
    layer = ModularLayer(updates, allocation, names=_labels(name, n), kinds=[name] * n)
    return AdaptedPart(part.requires_grad_(False), layer)


def _leave_fast_paths(body: nn.Module) -> None:
    """Lets torch's own transformers call their parts in evaluation, where one is modular.

    They would otherwise hand the weights of their parts to one kernel and call none of them.
    """
    for module in body.modules():
        if any(isinstance(part, ModularLayer) for part in module.modules()):
            if isinstance(module, nn.TransformerEncoderLayer):
                module.activation_relu_or_gelu = 0  # as with an activation the kernel has not
            elif isinstance(module, nn.TransformerEncoder):
                module.use_nested_tensor = False


def _labels(name: str, n: int) -> list[str]:
    return [f"{name} {chr(ord('A') + position)}" for position in range(n)]


def _n_tasks(model: object, tasks: Sequence[str] | None, heads: Heads) -> int:
    if not isinstance(model, nn.Module):
        raise TypeError(f"`model` should be a module. Found {described(model)}.")
    if isinstance(tasks, str):
        raise TypeError(f"`tasks` should be a list of names, such as {[tasks]}. Found {tasks!r}.")
    if tasks is not None and not is_list_of(tasks, str):
        raise TypeError(f"`tasks` should be a list of names. Found {described(tasks)}.")
    sized = tasks if heads is None else heads
    if sized is None:
        raise ValueError("`tasks` or `heads` should say how many tasks there are. Found neither.")
    if not hasattr(sized, "__len__"):
        raise TypeError(
            "`heads` should be a dict or a list with a module for each task. "
            f"Found {described(sized)}."
        )
    return len(sized)


def _copied(model: nn.Module) -> nn.Module:
    try:
        return deepcopy(model)
    except RuntimeError as error:  # torch copies no tensor that was computed with gradients
        for name, module in model.named_modules():
            if any(isinstance(v, Tensor) and not v.is_leaf for v in vars(module).values()):
                raise ValueError(
                    "`model` should be a module that can be copied. Found a tensor that was "
                    f"computed in {name!r} ({type(module).__name__}), as the older "
                    "`torch.nn.utils.weight_norm` has it; that of "
                    "`torch.nn.utils.parametrizations` would do."
                ) from error
        raise


def _draw_anew(copy: nn.Module, name: str) -> None:
    for path, module in copy.named_modules():
        own: dict[str, Any] = {**module._parameters}
        if not any(parameter is not None for parameter in own.values()):
            continue
        reset = getattr(module, "reset_parameters", getattr(module, "_reset_parameters", None))
        if reset is None:
            place = f"{name}.{path}" if path else name
            raise ValueError(
                "Parts should have a `reset_parameters` where they have parameters, to start "
                f"anew. Found {place!r} ({type(module).__name__}), which has none."
            )
        reset()
    copy.requires_grad_(True)


def _warn_of_ties(body: nn.Module, name: str) -> None:
    part = body.get_submodule(name)
    inside = {id(parameter): leaf for leaf, parameter in part.named_parameters()}
    within = set(part.modules())
    for path, module in body.named_modules():
        for leaf, parameter in module.named_parameters(recurse=False):
            if id(parameter) in inside and module not in within:
                warnings.warn(
                    f"The copies of {name!r} have weights of their own. In the model "
                    f"`{inside[id(parameter)]}` of it is tied to `{path}.{leaf}`.",
                    stacklevel=4,
                )
                return


@torch.no_grad()
def _warn_of_equal_copies(part: nn.Module, name: str, allocation: Allocation) -> None:
    """Warns where nothing tells copies apart: all gradients of two of them would be the same."""
    drops = any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in part.modules())
    if allocation.n_noise or allocation.sees_examples or drops:
        return
    columns = {tuple(column) for column in allocation.matrix().T.tolist()}
    if len(columns) < allocation.n_components and any(True for _ in part.parameters()):
        warnings.warn(
            f"Copies of {name!r} stay equal where the same tasks use them alike, since "
            f"{type(allocation).__name__} draws nothing. `component='new'` tells them apart.",
            stacklevel=4,
        )
