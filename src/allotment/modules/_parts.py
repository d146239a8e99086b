"""What extracted networks are made of: modules without an allocation."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ._context import current_pass
from ._inputs import attention_of, call_with
from ._mixing import summed
from ._structures import each_tensor

NAMED: Any = object()  # no input by place: the names of a call are a dict of inputs


class Layers(nn.Sequential):
    """A stem, layers and a head; further arguments of a call go to what was a modular layer."""

    def __init__(
        self,
        parts: OrderedDict[str, nn.Module],
        were_modular: Sequence[str] = (),
        *,
        has_stem: bool = False,
    ) -> None:
        super().__init__(parts)
        self.were_modular = frozenset(were_modular)
        self.has_stem = has_stem

    def forward(self, input: Any = NAMED, /, *arguments: Any, **options: Any) -> Any:
        """Returns what they make of an input, one after another."""
        x, options = (options, {}) if input is NAMED else (input, options)
        for place, (name, part) in enumerate(zip(self._modules, self, strict=True)):
            if name in self.were_modular:
                x = part(x, *arguments, **options)
            else:
                x = call_with(part, x) if self.has_stem and place == 0 else part(x)
        return x


class WeightedSum(nn.Module):
    """The sum of some components' outputs, each times its weight."""

    weights: Tensor
    self_attn = attention_of("components.0")

    def __init__(self, components: Sequence[nn.Module], weights: Tensor) -> None:
        super().__init__()
        self.components = nn.ModuleList(components)
        self.register_buffer("weights", weights)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return summed(self.weights, [part(*arguments, **options) for part in self.components])


class Nothing(nn.Module):
    """Zeros, for a layer of which a task uses nothing; one component says in which shape."""

    self_attn = attention_of("component")

    def __init__(self, component: nn.Module) -> None:
        super().__init__()
        self.component = component

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return each_tensor(torch.zeros_like, self.component(*arguments, **options))


class ByTask(nn.Module):
    """The part of the current task; tasks may have one in common, or components of theirs."""

    self_attn = attention_of("parts.0")

    def __init__(self, parts: Sequence[nn.Module], places: Mapping[int, int]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.places = dict(places)  # from a task's index to its part

    @property
    def passes_to(self) -> nn.Module:
        """The part of the current task."""
        running = current_pass()
        assert running is not None
        return self.parts[self.places[int(running.task)]]

    def forward(self, *arguments: Any, **options: Any) -> Any:
        return self.passes_to(*arguments, **options)
