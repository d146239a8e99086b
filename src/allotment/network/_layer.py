"""Components side by side, combined as an allocation says."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .._checks import described, is_list_of
from ._conv_norm import ConvNormReLU
from ._drawing import Drawing, has_hooks
from ._fused import for_branches, mix
from ._kinds import group_by_kind
from ._same_padding import SameAvgPool2d, SameConv2d, SameMaxPool2d
from ._side_by_side import side_by_side
from ._stacked import stack_parameters, stacked_forward
from .allocation import Allocation

TAKE_DRAWINGS = (ConvNormReLU, SameConv2d, SameMaxPool2d, SameAvgPool2d)


def _has_parts(module: nn.Module) -> bool:
    """Tells whether a module has others inside, or parameters, which several runs have each."""
    return any(True for _ in module.children()) or any(True for _ in module.parameters())


def _names(components: Sequence[nn.Module]) -> list[str]:
    """Returns the components' classes, with their places where one class stands in several."""
    classes = [type(component).__name__.lower() for component in components]
    return [
        f"{name} {place}" if classes.count(name) > 1 else name for place, name in enumerate(classes)
    ]


def takes_drawings(module: nn.Module) -> bool:
    """Tells whether a layer, or a component, can be given a drawing in place of a tensor."""
    if has_hooks(module):
        return False
    if type(module) is ModularLayer:
        return all(map(takes_drawings, module.components))
    if type(module) is nn.Sequential and len(module):
        return takes_drawings(module[0])
    return type(module) in TAKE_DRAWINGS


def _output(module: nn.Module, x: Tensor | Drawing, weight: Tensor) -> Tensor:
    """Returns what a module makes of ``x``; in training its buffers change where it has a weight.

    The pass has copies of them: autograd keeps some for the backward pass, and they may not change
    before that.
    """
    buffers = dict(module.named_buffers()) if module.training else {}
    copies = {name: buffer.clone() for name, buffer in buffers.items()}
    # It leaves in `copies` what they became. Which of them are constants cannot be told in `vmap`.
    y: Tensor = functional_call(module, copies, (x,)) if copies else module(x)
    with torch.no_grad():
        for name, buffer in buffers.items():
            try:
                buffer.copy_(torch.where(weight == 0, buffer, copies[name]))
            except RuntimeError:  # a joint step: one buffer for the weights of all tasks
                buffer.copy_(copies[name])
    return y


def weighted_sum(weights: Sequence[Tensor], outputs: Sequence[Tensor]) -> Tensor:
    """Returns the sum of outputs, each times its weight."""
    return torch.stack([w * y for w, y in zip(weights, outputs, strict=True)]).sum(0)


class ModularLayer(nn.Module):
    """A layer of ``C`` components, of which each task uses those its allocation gives it.

    Components may be any modules that make outputs of one shape from the layer's input. Those of
    one kind are evaluated as one batched operation. In training all are evaluated, since the
    gradient of a shut gate needs its component's output; in evaluation only what the task uses.
    A batch leaves no trace in the buffers of a component that it does not use, such as the
    statistics of a batch normalisation.

    Args:
        components: The components, in the order of the allocation's gates.
        allocation: Which task uses which component.
        names: A short name for each component, for figures; made from the classes if left out.
    """

    def __init__(
        self,
        components: Sequence[nn.Module],
        allocation: Allocation,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if not is_list_of(components, nn.Module):
            raise TypeError(
                f"`components` should be a list of modules. Found {described(components)}."
            )
        if not isinstance(allocation, Allocation):
            raise TypeError(f"`allocation` should be an Allocation. Found {described(allocation)}.")
        if allocation.n_components != len(components):
            raise ValueError(
                "`allocation` should have one gate per component. Found "
                f"{allocation.n_components} gates for {len(components)} components."
            )
        if names is not None and len(names) != len(components):
            raise ValueError(
                "`names` should have one entry per component. Found "
                f"{len(names)} names for {len(components)} components."
            )
        self.components = nn.ModuleList(components)
        self.allocation = allocation
        self.names = list(names) if names else _names(components)
        self.is_packed = False
        self._find_groups()

    def forward(
        self, x: Tensor | Drawing, task: int | Tensor, *, noise: Tensor | None = None
    ) -> Tensor:
        """Returns the weighted sum of the components' outputs, shape ``[B, ...]``."""
        weights = self.allocation.weights(task, noise=noise)  # [C], already normalised
        if not self.training and not self.is_packed and isinstance(task, int):
            return self._only_what_is_used(x, weights)
        if not self.is_packed and self._signature() != self._grouped_as:
            self._find_groups()
        outputs = self._all_outputs(x, weights)  # [C, B, ...] each, kind after kind
        order = [position for group in self.groups for position in group]
        if order != sorted(order):
            # Not `weights[order]`: a list of positions would travel to the device in every pass.
            parts = weights.unbind(0)
            weights = torch.stack([parts[position] for position in order])
        return mix(weights, outputs)

    def _find_groups(self) -> None:
        """Finds which components are of one kind, as they are now."""
        self.groups = group_by_kind(list(self.components))
        self._grouped_as = self._signature()

    def _signature(self) -> list[object]:
        """Returns what changes when a component is replaced, or frozen."""
        identities: list[object] = [id(component) for component in self.components]
        return identities + [parameter.requires_grad for parameter in self.components.parameters()]

    def _all_outputs(self, x: Tensor | Drawing, weights: Tensor) -> list[Tensor]:
        n = len(self.groups)
        inputs = [x] * n if isinstance(x, Drawing) else for_branches(x, n)
        calls = [
            partial(self._group_outputs, index, group, inputs[index], weights)
            for index, group in enumerate(self.groups)
        ]
        shared = x if isinstance(x, Drawing) else [x]
        outputs = side_by_side(calls, shared, undivided=self._single_operations())
        self.check_shapes([(group[0], y[0]) for group, y in zip(self.groups, outputs, strict=True)])
        return outputs

    def _single_operations(self) -> list[int]:
        """Returns the groups whose components have nothing inside that streams could share."""
        firsts = [self._module(index, group) for index, group in enumerate(self.groups)]
        return [index for index, first in enumerate(firsts) if not _has_parts(first)]

    def _module(self, index: int, group: list[int]) -> nn.Module:
        """Returns the first of a group of components, or all of them packed as one."""
        return self.components[index if self.is_packed else group[0]]

    def _group_outputs(
        self, index: int, group: list[int], x: Tensor | Drawing, weights: Tensor
    ) -> Tensor:
        module = self._module(index, group)
        if len(group) == 1:  # as is every component with buffers
            return _output(module, x, weights[group[0]]).unsqueeze(0)
        if self.is_packed:
            stacked: dict[str, Tensor] = dict(module.named_parameters())
        else:
            stacked = stack_parameters([self.components[position] for position in group])
        return stacked_forward(module, stacked, x, len(group))

    def _only_what_is_used(self, x: Tensor | Drawing, weights: Tensor) -> Tensor:
        used = weights.nonzero().flatten().tolist()
        if not used:
            return torch.zeros_like(self.components[0](x))
        outputs = [(position, self.components[position](x)) for position in used]
        self.check_shapes(outputs)
        return weighted_sum([weights[position] for position in used], [y for _, y in outputs])

    def check_shapes(self, outputs: list[tuple[int, Tensor]]) -> None:
        """Raises unless the outputs of components, given by position, have equal shapes."""
        first, reference = outputs[0]
        for position, y in outputs:
            if y.shape != reference.shape:
                raise ValueError(
                    "Components of a layer should have equal output shapes. Found "
                    f"{list(reference.shape)} from component {first} ({self.names[first]}) and "
                    f"{list(y.shape)} from component {position} ({self.names[position]})."
                )

    def packed(self) -> "ModularLayer":
        """Returns a copy in which each kind is one module, its parameters stacked ``[C, ...]``."""
        layer = deepcopy(self)
        layer._find_groups()
        groups = layer.groups
        layer.components = nn.ModuleList(layer._packed_group(group) for group in groups)
        layer.is_packed = True
        return layer

    def _packed_group(self, group: list[int]) -> nn.Module:
        """Returns a group's first component with the parameters of all, changed in place."""
        module = self.components[group[0]]
        if len(group) == 1:
            return module
        for name, value in stack_parameters([self.components[i] for i in group]).items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            requires_grad = owner.get_parameter(leaf).requires_grad
            setattr(owner, leaf, nn.Parameter(value.detach(), requires_grad=requires_grad))
        return module
