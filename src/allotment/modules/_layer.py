"""Components side by side, combined as an allocation says."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .._checks import described, is_list_of
from .._ops import has_streams, on_streams
from ..allocation import Allocation
from ._architecture import group_by_architecture
from ._context import Noise, Used, current_pass, in_backward_pass
from ._inputs import attention_of
from ._mixing import mixed, summed
from ._stacking import Call, stack_parameters, stacked_forward
from ._structures import each_tensor, shapes, tensors_of

_NOTHING: Any = object()  # no input by place: a call that names all its arguments


class ModularLayer(nn.Module):
    """A layer of ``C`` components, of which each task uses those its allocation gives it.

    Components may be any modules that make outputs of one shape from the layer's input: a tensor,
    or a tuple or a dict, of which each tensor is mixed for itself. Those of one architecture are
    evaluated as one batched operation. In training all are evaluated, since
    the gradient of a shut gate needs its component's output; in evaluation only what the task
    uses. A batch leaves no trace in the buffers of a component that it does not use, such as the
    statistics of a batch normalisation.

    The layer may stand at any depth of a network, which tells it the task by `for_task`.

    Args:
        components: The components, in the order of the allocation's gates.
        allocation: Which task uses which component.
        names: A short name for each component, for figures; made from the classes if left out.
        kinds: What each component is, such as "conv3x3", for tables; from `names` if left out.

    Attributes:
        is_update: Whether its output is added to that of a part which every task has, so that a
            task may well use none of its components.
        skips_unused: Whether evaluation leaves out what the task does not use. It looks at values
            for that, which cannot be done for many runs at once.
        takes_any_allocation: Whether any allocation of as many tasks and components may stand in
            place of its own.
        has_parts: Whether what a task uses of it can be told from the rest.
    """

    skips_unused = True
    takes_any_allocation = True
    has_parts = True
    self_attn = attention_of("components.0")

    def __init__(
        self,
        components: Sequence[nn.Module],
        allocation: Allocation,
        *,
        names: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        _check_parts(components, allocation)
        self.components = nn.ModuleList(components)
        self.allocation = allocation
        self.names = _labels("names", names, components) or _names(components)
        self.kinds = _labels("kinds", kinds, components) or (
            list(self.names) if names else [type(c).__name__.lower() for c in components]
        )
        self.is_stacked = False
        self.is_update = False
        self.span = (0, allocation.n_noise)  # its part of a pass's draws; a network sets it
        self._find_groups()

    def forward(
        self,
        x: Any = _NOTHING,
        *arguments: Any,
        task: int | Tensor | None = None,
        noise: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Returns the weighted sum of the components' outputs, shape ``[B, ...]``.

        ``arguments`` and ``options`` go to every component. ``task`` and ``noise`` are those of
        the pass under way, unless they are given.
        """
        task, noise = self._told(task, noise)
        call = Call(() if x is _NOTHING else (x, *arguments), options)
        weights = self.allocation.weights(task, call.first, noise=noise)  # [C] or [B, C]
        self._take_note(weights)
        if self._may_skip and isinstance(task, int):
            return self._only_what_is_used(call, weights)
        if not self.is_stacked and self._signature() != self._grouped_as:
            self._find_groups()
        if self._mixes_itself(call):
            return self.components[0].forward_mixed(self._stacked(0), weights, x)  # type: ignore[operator]
        outputs = self._all_outputs(call, weights)  # [C, B, ...] each, group after group
        return mixed(self._in_order_of_groups(weights), outputs)

    @property
    def _may_skip(self) -> bool:
        """Whether components that the task does not use may be left out of this pass."""
        return self.skips_unused and not self.training and not self.is_stacked

    @property
    def passes_to(self) -> nn.Module:
        """A module that is given what the layer is given."""
        return self.components[0]

    def _mixes_itself(self, call: Call) -> bool:
        """Tells whether the class of all components computes their sum in one go."""
        can_mix = hasattr(self.components[0], "forward_mixed") and len(self.groups) == 1
        return can_mix and len(self.groups[0]) > 1 and call.is_one_input

    def _told(
        self, task: int | Tensor | None, noise: Tensor | None
    ) -> tuple[int | Tensor, Tensor | None]:
        """Returns the task and the draws that were given, or else those of the pass under way."""
        running = current_pass()
        if running is None:
            if task is None:
                raise ValueError(
                    "A modular layer should be called by a network, or within `for_task(task)`, or "
                    "with `task=`. Found no task." + in_backward_pass()
                )
            return task, noise
        own = self._own_noise(running.noise) if noise is None else noise
        return running.task if task is None else task, own

    def _take_note(self, weights: Tensor) -> None:
        """Leaves the weights in the pass under way; where there is none, counts a batch."""
        running = current_pass()
        if running is not None:
            running.used.append(Used(self.allocation, weights))
        elif self.training:
            self.allocation.advance()

    def _in_order_of_groups(self, weights: Tensor) -> Tensor:
        order = [position for group in self.groups for position in group]
        if order == sorted(order):
            return weights
        # Not `weights[order]`: a list of positions would travel to the device in every pass.
        parts = weights.unbind(-1)
        return torch.stack([parts[position] for position in order], dim=-1)

    def _own_noise(self, noise: Noise) -> Tensor | None:
        whole = noise.examples if self.allocation.sees_examples else noise.gates
        first, last = self.span
        return None if whole is None or first == last else whole[..., first:last]

    def _find_groups(self) -> None:
        """Finds which components have one architecture, as they are now."""
        self.groups = group_by_architecture(list(self.components))
        self._grouped_as = self._signature()

    def _signature(self) -> list[object]:
        """Returns what changes when a component is replaced, or frozen."""
        identities: list[object] = [id(component) for component in self.components]
        return identities + [parameter.requires_grad for parameter in self.components.parameters()]

    def _all_outputs(self, call: Call, weights: Tensor) -> list[Any]:
        places = range(len(self.groups))
        if has_streams():
            calls = [partial(self._group_outputs, place, call, weights) for place in places]
            outputs = on_streams(calls, tensors_of(call))
        else:
            outputs = []
            for place in places:  # a plain loop: a frame less to follow
                outputs.append(self._group_outputs(place, call, weights))
        firsts = [
            (group[0], each_tensor(lambda each: each[0], y))
            for group, y in zip(self.groups, outputs, strict=True)
        ]
        self.check_shapes(firsts)
        return outputs

    def _group_outputs(self, index: int, call: Call, weights: Tensor) -> Any:
        group = self.groups[index]
        module = self.components[index if self.is_stacked else group[0]]
        if len(group) > 1:
            return stacked_forward(module, self._stacked(index), len(group), call)
        # Components with buffers are never stacked.
        if module.training and any(True for _ in module.buffers()):
            y = _output_and_buffers(module, call, weights[..., group[0]])
        else:
            y = module(*call.arguments, **call.options)
        return each_tensor(lambda each: each.unsqueeze(0), y)

    def _stacked(self, index: int) -> dict[str, Tensor]:
        """Returns the parameters of a group of components, each ``[C, ...]``."""
        if self.is_stacked:
            return dict(self.components[index].named_parameters())
        return stack_parameters([self.components[position] for position in self.groups[index]])

    def _only_what_is_used(self, call: Call, weights: Tensor) -> Any:
        used = weights.reshape(-1, weights.shape[-1]).any(0).nonzero().flatten().tolist()
        if not used:
            y = self.components[0](*call.arguments, **call.options)
            return each_tensor(torch.zeros_like, y)
        outputs = [(at, self.components[at](*call.arguments, **call.options)) for at in used]
        self.check_shapes(outputs)
        return summed(weights[..., used], [y for _, y in outputs])

    def check_shapes(self, outputs: list[tuple[int, Any]]) -> None:
        """Raises unless the outputs of components, given by position, have equal shapes."""
        first, reference = outputs[0][0], shapes(outputs[0][1])
        for position, y in outputs[1:]:
            if shapes(y) != reference:
                raise ValueError(
                    "Components of a layer should have equal output shapes. Found "
                    f"{reference} from component {first} ({self.names[first]}) and "
                    f"{shapes(y)} from component {position} ({self.names[position]})."
                )

    def stack_(self) -> None:
        """Makes one module of each group of components, its parameters stacked ``[C, ...]``."""
        self._find_groups()
        self.components = nn.ModuleList(self._stacked_group(group) for group in self.groups)
        self.is_stacked = True

    def _stacked_group(self, group: list[int]) -> nn.Module:
        """Returns a copy of a group's first component, with the parameters of all."""
        if len(group) == 1:
            return self.components[group[0]]
        module = deepcopy(self.components[group[0]])
        for name, value in stack_parameters([self.components[i] for i in group]).items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            requires_grad = owner.get_parameter(leaf).requires_grad
            setattr(owner, leaf, nn.Parameter(value.detach(), requires_grad=requires_grad))
        return module

    def extra_repr(self) -> str:
        return f"n_components={self.allocation.n_components}"


def _output_and_buffers(module: nn.Module, call: Call, weight: Tensor) -> Any:
    """Returns a module's output; its buffers change where it has a weight.

    The pass has copies of them: autograd keeps some for the backward pass, and they may not change
    before that.
    """
    buffers = dict(module.named_buffers())
    copies = {name: buffer.clone() for name, buffer in buffers.items()}
    # It leaves in `copies` what they became. Which of them are constants cannot be told in `vmap`.
    y = functional_call(module, copies, call.arguments, call.options)
    is_unused = weight == 0 if weight.ndim == 0 else (weight == 0).all()
    with torch.no_grad():
        for name, buffer in buffers.items():
            try:
                buffer.copy_(torch.where(is_unused, buffer, copies[name]))
            except RuntimeError:  # a joint step: one buffer for the weights of all tasks
                buffer.copy_(copies[name])
    return y


def _check_parts(components: object, allocation: object) -> None:
    if not is_list_of(components, nn.Module):
        raise TypeError(f"`components` should be a list of modules. Found {described(components)}.")
    if not isinstance(allocation, Allocation):
        raise TypeError(f"`allocation` should be an Allocation. Found {described(allocation)}.")
    parts = list(components)  # type: ignore[call-overload]
    if allocation.n_components != len(parts):
        raise ValueError(
            "`allocation` should have one gate per component. Found "
            f"{allocation.n_components} gates for {len(parts)} components."
        )
    for place, part in enumerate(parts):
        first = next(at for at, other in enumerate(parts) if other is part)
        if first != place:
            raise ValueError(
                "`components` should be different modules, each with weights of its own: "
                "`[make() for _ in range(n)]`, not `[module] * n`. Found one module "
                f"({type(part).__name__}) as components {first} and {place}."
            )


def _labels(
    argument: str, labels: Sequence[str] | None, components: Sequence[nn.Module]
) -> list[str]:
    if labels is not None and not is_list_of(labels, str):
        raise TypeError(f"`{argument}` should be a list of texts. Found {described(labels)}.")
    if labels is not None and len(labels) != len(components):
        raise ValueError(
            f"`{argument}` should have one entry per component. Found "
            f"{len(labels)} {argument} for {len(components)} components."
        )
    return [] if labels is None else list(labels)


def _names(components: Sequence[nn.Module]) -> list[str]:
    """Returns the components' classes, with their places where one class stands in several."""
    kinds = [type(component).__name__.lower() for component in components]
    return [f"{kind} {at}" if kinds.count(kind) > 1 else kind for at, kind in enumerate(kinds)]
