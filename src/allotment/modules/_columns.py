"""Components that read streams of their own, and mix what they make into the next streams."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._checks import described
from ..allocation import Allocation, row
from ._layer import _NOTHING, ModularLayer
from ._mixing import mixed
from ._stacking import Call, stacked_forward


class ColumnLayer(ModularLayer):
    """A layer whose components read streams, and whose outputs are streams for the next one.

    Several such layers in a network, with plain layers between them, are columns side by side.
    Streams lie one after another in the batch, ``[S * B, ...]``, so a plain layer treats each as
    it would treat examples. The first layer reads ``[B, ...]``, and the last gives the current
    task's row of it, ``[B, ...]``. Every component is computed in every pass.

    Args:
        components: The components, in the order of the allocation's weights.
        allocation: How components are mixed. A `StreamAllocation`, but at the last layer any.
        reads: The stream that each component reads; None at the first layer, where all read the
            layer's input.
        n_inputs: How many streams come in; with ``reads`` only.
        is_last: Whether the layer gives a task's row; else it gives all streams.
        map_channels: Channels of a component's output, where each connection has a learnt linear
            map of its own, a 1x1 convolution for images. They start as the identity.
        names: A short name for each component, for figures.
        kinds: What each component is, for tables.

    Attributes:
        maps: The linear map from each component to each stream, ``[S, C, O, I]``, at the last
            layer to each task; None without ``map_channels``.
    """

    takes_any_allocation = False
    has_parts = False  # all streams take part in what a task gets
    maps: nn.Parameter | None

    def __init__(
        self,
        components: Sequence[nn.Module],
        allocation: Allocation,
        *,
        reads: Sequence[int] | None = None,
        n_inputs: int = 1,
        is_last: bool = False,
        map_channels: int | None = None,
        names: Sequence[str] | None = None,
        kinds: Sequence[str] | None = None,
    ) -> None:
        super().__init__(components, allocation, names=names, kinds=kinds)
        self.reads = None if reads is None else list(reads)
        self.n_inputs = n_inputs
        self.is_last = is_last
        self._check_streams()
        self.register_parameter("maps", None)
        if map_channels is not None:
            n_rows = allocation.n_tasks if is_last else int(getattr(allocation, "n_streams", 0))
            size = (n_rows, len(self.components), map_channels, map_channels)
            self.maps = nn.Parameter(torch.eye(map_channels).expand(size).clone())

    def _check_streams(self) -> None:
        allocation = self.allocation
        if not self.is_last and not getattr(allocation, "n_streams", 0):
            raise ValueError(
                "`allocation` should be a StreamAllocation with streams for the next layer, unless "
                f"`is_last`. Found {type(allocation).__name__}."
            )
        n, reads = self.n_inputs, self.reads
        if reads is None:
            return
        if len(reads) != len(self.components) or not all(0 <= stream < n for stream in reads):
            raise ValueError(
                f"`reads` should have a stream from 0 to {n - 1} for each component. "
                f"Found `reads = {reads}` for {len(self.components)} components."
            )
        if self.is_last and allocation.sees_examples and n < allocation.n_tasks:
            raise ValueError(
                "`n_inputs` should be at least the number of tasks, where the last allocation "
                f"looks at the task's stream. Found {n} streams for {allocation.n_tasks} tasks."
            )

    def forward(
        self,
        x: Any = _NOTHING,
        *arguments: Any,
        task: int | Tensor | None = None,
        noise: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Returns all streams, ``[S * B, ...]``, or at the last layer the task's, ``[B, ...]``."""
        if x is _NOTHING or arguments or options:
            raise TypeError("A column layer should be given one input. Found other arguments.")
        task, noise = self._told(task, noise)
        streams = self._streams(x)
        weights = self._weights(task, streams, noise)  # [S, C] or [S, B, C]; [C] or [B, C] at last
        self._take_note(weights)
        if not self.is_stacked and self._signature() != self._grouped_as:
            self._find_groups()
        outputs = self._together(self._all_outputs(Call(streams), weights))  # [C, B, ...]
        if self.is_last:
            return self._row(outputs, weights, task)
        return self._mixed_streams(outputs, weights).flatten(0, 1)

    def _streams(self, x: Any) -> tuple[Any, ...]:
        """Returns what is read, ``[B, ...]`` each: one thing by all, or one each."""
        if self.reads is None:
            return (x,)
        return x.unflatten(0, (self.n_inputs, -1)).unbind(0)  # type: ignore[no-any-return]

    def _weights(
        self, task: int | Tensor, streams: tuple[Any, ...], noise: Tensor | None
    ) -> Tensor:
        if not self.is_last:
            return self.allocation.stream_weights(streams, noise=noise)  # type: ignore[operator, no-any-return]
        own = streams[0]
        if self.allocation.sees_examples and len(streams) > 1:
            own = row(torch.stack(streams), task)  # the task's stream is the one of its number
        return self.allocation.weights(task, own, noise=noise)

    def _group_outputs(self, index: int, call: Call, weights: Tensor) -> Any:
        if self.reads is None:
            return super()._group_outputs(index, call, weights)
        group = self.groups[index]
        own = [call.arguments[self.reads[position]] for position in group]
        if len(group) == 1:
            return super()._group_outputs(index, Call((own[0],)), weights)
        if torch.compiler.is_exporting():  # batching over components fixes the number of examples
            each = zip(group, own, strict=True)
            return torch.stack([self.components[position](x) for position, x in each])
        module = self.components[index if self.is_stacked else group[0]]
        together = Call((torch.stack(own),))
        return stacked_forward(
            module, self._stacked(index), len(group), together, has_own_inputs=True
        )

    def _together(self, outputs: list[Any]) -> Tensor:
        """Returns the outputs of all components in their order, ``[C, B, ...]``."""
        if not isinstance(outputs[0], Tensor):
            raise TypeError(
                "Components of a column layer should return one tensor. "
                f"Found {described(outputs[0])}."
            )
        y = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        order = [position for group in self.groups for position in group]
        if order == sorted(order):
            return y
        parts = y.unbind(0)
        return torch.stack([parts[order.index(position)] for position in range(len(order))])

    def _row(self, outputs: Tensor, weights: Tensor, task: int | Tensor) -> Tensor:
        if self.maps is None:
            y: Tensor = mixed(weights, [outputs])
            return y
        scaled = weights.to(outputs.dtype)[..., None, None] * row(self.maps, task).to(outputs.dtype)
        return torch.einsum("coi,cbi...->bo...", scaled, outputs)

    def _mixed_streams(self, outputs: Tensor, weights: Tensor) -> Tensor:
        """Returns the mixture of each stream, ``[S, B, ...]``."""
        weights = weights.to(outputs.dtype)
        if self.maps is not None:
            scaled = weights[..., None, None] * self.maps.to(outputs.dtype)
            return torch.einsum("scoi,cbi...->sbo...", scaled, outputs)
        if weights.ndim == 3:
            return torch.einsum("sbc,cb...->sb...", weights, outputs)
        return (weights @ outputs.flatten(1)).view(len(weights), *outputs.shape[1:])
