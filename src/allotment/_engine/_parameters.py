"""The parameters of several runs, laid out so that one operation serves them all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from math import prod
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .._schema import Floats
from ..allocation import Allocation
from ..modules import TaskNetwork
from ._parameter_groups import names_by_group
from ._precision import arithmetic, rounded
from ._stacked_network import locations, stack_alike

Result = TypeVar("Result")


class FlatParameters:
    """The networks of ``R`` runs as a few flat tensors ``[R, P]``, one for each optimizer group.

    Flat, because clipping, the optimizer, checkpoints and the choice of the best weights are then
    one operation each, whatever the network; an operation that needs a parameter sees a view.
    They are float32. In ``bfloat16`` a pass sees a rounded copy of the weights; normalisations and
    heads have a group of their own, and biases too, since rounding them would save nothing.
    Allocations are told of the ``n_batches`` to come.
    """

    def __init__(
        self,
        networks: "Sequence[TaskNetwork]",
        device: torch.device,
        mixed_precision: str = "off",
        *,
        n_batches: int = 0,
    ) -> None:
        stacked = stack_alike(networks, n_batches)
        self.n_runs = len(networks)
        self.device = device
        # Not on a CPU, where shorter products save nothing and some processors cannot make them.
        self.mixed_precision = mixed_precision if device.type == "cuda" else "off"
        self.network = stacked[0].train()
        self._share_clock(stacked)
        self.locations = locations(networks[0])
        self._shapes = {name: p.shape for name, p in self.network.named_parameters()}
        self.names = names_by_group(self.network)
        self.flat: dict[str, Tensor] = {}
        for group, names in self.names.items():
            flat = torch.stack([_flattened(network, names) for network in stacked]).to(device)
            self.flat[group] = flat.requires_grad_(group != "frozen")
        self.buffers = {
            name: torch.stack([network.get_buffer(name) for network in stacked]).to(device)
            for name, buffer in self.network.named_buffers()
            if buffer is not self.clock
        }
        self.network.to(device)

    def _share_clock(self, networks: "Sequence[TaskNetwork]") -> None:
        """Gives allocations that do nothing but count batches one count, for all runs.

        It begins where the networks stand, so that annealing goes on.
        """
        starts = {_n_batches(network) for network in networks}
        if len(starts) > 1:
            found = " and ".join(f"{n:,}" for n in sorted(starts))
            raise ValueError(
                "Networks that train together should stand at one point of their annealing. "
                f"Found networks after {found} batches."
            )
        self.first_batch = starts.pop()
        self.clock = torch.tensor(self.first_batch, device=self.device)
        self.clock_names = []
        for path, module in self.network.named_modules():
            is_plain = isinstance(module, Allocation) and not changes_by_batch(module)
            if is_plain and module.n_batches is not None:
                module.n_batches = self.clock
                self.clock_names.append(f"{path}.n_batches")

    @property
    def n_batches(self) -> Tensor:
        """The task batches of this training so far."""
        return self.clock - self.first_batch if self.first_batch else self.clock

    def rewind(self) -> None:
        """Sets the count of batches back to where training began."""
        self.clock.fill_(self.first_batch)

    def arithmetic(self) -> AbstractContextManager[None]:
        """Computes products in the precision of these runs, for a while."""
        return arithmetic(self.mixed_precision) if self.device.type == "cuda" else nullcontext()

    def parameters(self, learnt: Sequence[Tensor] = ()) -> dict[str, Tensor]:
        """Returns every parameter of the stacked network as a view ``[R, ...]`` of the flat ones.

        ``learnt`` may stand in for the flat tensors that the optimizer changes.
        """
        return self.views(self._with(learnt))

    def _with(self, learnt: Sequence[Tensor]) -> dict[str, Tensor]:
        return {**self.flat, **dict(zip(dict(self.learnt()), learnt, strict=False))}

    def views(self, flat: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns the parts of flat tensors ``[..., P]`` in the shapes of parameters."""
        views: dict[str, Tensor] = {}
        for group, tensor in flat.items():
            names = self.names[group]
            sizes = [prod(self._shapes[name]) for name in names]
            for name, part in zip(names, tensor.split(sizes, dim=-1), strict=True):
                views[name] = _as_shape(part, self._shapes[name])
        return views

    def _for_a_pass(self, flat: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Returns parameters as a pass takes them: on a CPU, kernels with channels in front."""
        views = self.views(flat)
        return {k: v.contiguous() for k, v in views.items()} if self.device.type == "cpu" else views

    def _seen(self, learnt: Sequence[Tensor]) -> dict[str, Tensor]:
        """Returns the flat tensors as a pass sees them: weights in the precision of products."""
        seen = self._with(learnt)
        if "weights" in seen:
            seen["weights"] = rounded(seen["weights"], self.mixed_precision)
        return seen

    def state(self, prefix: str = "", learnt: Sequence[Tensor] = ()) -> dict[str, Tensor]:
        """Returns all parameters and buffers for a pass, ``[R, ...]``, under prefixed names."""
        both = {**self._for_a_pass(self._seen(learnt)), **self.buffers}
        return {f"{prefix}{name}": value for name, value in both.items()}

    def states(self, prefix: str = "", learnt: Sequence[Tensor] = ()) -> list[dict[str, Tensor]]:
        """Returns the same for each run on its own.

        The flat tensors are divided first, so that a gradient is put together once for each run
        and not once for each parameter.
        """
        rows = {group: _rows(tensor) for group, tensor in self._seen(learnt).items()}
        states = []
        for run in range(self.n_runs):
            own = self._for_a_pass({group: parts[run] for group, parts in rows.items()})
            own |= {name: buffer[run] for name, buffer in self.buffers.items()}
            states.append({f"{prefix}{name}": value for name, value in own.items()})
        return states

    @torch.no_grad()
    def gates(self) -> tuple[Floats, Floats]:
        """Returns each run's probabilities and evaluation matrix, both ``[R, T, C]``."""
        within = Within(self.network)

        def both(network: TaskNetwork) -> tuple[Tensor, Tensor]:
            return network.probabilities(), network.matrix()

        def one(state: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
            found: tuple[Tensor, Tensor] = functional_call(within, state, (both,))
            return found

        probabilities, matrices = vmap(one)(self.state("network."))
        return probabilities.cpu().double().numpy(), matrices.cpu().double().numpy()

    def learnt(self) -> Iterator[tuple[str, Tensor]]:
        """Yields the flat tensors that the optimizer changes, with the name of their group."""
        return ((group, flat) for group, flat in self.flat.items() if group != "frozen")

    def snapshot(self) -> dict[str, Tensor]:
        """Returns a copy of all that training changes."""
        with torch.no_grad():
            return {name: value.detach().clone() for name, value in self.changing().items()}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Puts a snapshot back."""
        with torch.no_grad():
            for name, value in self.changing().items():
                value.copy_(snapshot[name])

    @property
    def keeps_statistics(self) -> bool:
        """Whether a pass changes buffers, as batch normalisation does."""
        norms = nn.modules.batchnorm._NormBase
        return any(isinstance(m, norms) and m.track_running_stats for m in self.network.modules())

    def changing(self) -> dict[str, Tensor]:
        """Returns the tensors that training changes, themselves."""
        learnt = dict(self.learnt())
        return {**learnt, **{f"buffer {name}": buffer for name, buffer in self.buffers.items()}}

    @cached_property
    def real(self) -> dict[str, Tensor]:
        """Which numbers of a flat tensor are the user's, ``[P]``, where narrow heads are padded."""
        marks = {
            group: torch.zeros(flat.shape[1:], dtype=torch.bool) for group, flat in self.learnt()
        }
        for group, mark in marks.items():
            names = self.names[group]
            parts = mark.split([prod(self._shapes[name]) for name in names])
            views = {n: part.view(self._shapes[n]) for n, part in zip(names, parts, strict=True)}
            for location in self.locations.values():
                if location.name in views:
                    location.read(views).fill_(True)
        return {group: mark for group, mark in marks.items() if not mark.all()}

    def state_dict(self, run: int) -> dict[str, Tensor]:
        """Returns one run's weights under the names of the network the user built."""
        stacked = {name: value[run].detach() for name, value in self.parameters().items()}
        stacked |= {name: buffer[run] for name, buffer in self.buffers.items()}
        stacked |= dict.fromkeys(self.clock_names, self.clock)
        return {
            name: location.read(stacked).cpu().clone(memory_format=torch.contiguous_format)
            for name, location in self.locations.items()
        }


class Within(nn.Module):
    """A network inside a module: its state has a prefix, and any call of it is a forward pass.

    That is the form in which a call can be batched over runs.
    """

    def __init__(self, network: TaskNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, call: "Callable[[TaskNetwork], Result]") -> Result:
        return call(self.network)


def changes_by_batch(allocation: Allocation) -> bool:
    """Tells whether a batch changes more of an allocation than a count."""
    own = ("advance", "observe")
    return any(getattr(type(allocation), name) is not getattr(Allocation, name) for name in own)


def _n_batches(network: TaskNetwork) -> int:
    """Returns how many training batches have passed, as the allocations count."""
    counts = (layer.allocation.n_batches for layer in network.modular_layers)
    return max((int(count) for count in counts if count is not None), default=0)


def _rows(tensor: Tensor) -> Sequence[Tensor]:
    """Returns each run's row; of one run alone a view whose gradient needs no copy."""
    return [tensor.squeeze(0)] if len(tensor) == 1 else tensor.unbind(0)


def _flattened(network: nn.Module, names: Sequence[str]) -> Tensor:
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}
    laid_out = [
        parameters[name].movedim(-3, -1) if _is_kernel(parameters[name].shape) else parameters[name]
        for name in names
    ]
    return torch.cat([parameter.flatten() for parameter in laid_out])


def _as_shape(part: Tensor, shape: torch.Size) -> Tensor:
    """Returns a parameter as a view of its part of a flat tensor."""
    runs = part.shape[:-1]
    if not _is_kernel(shape):
        return part.view(*runs, *shape)
    *outer, n_inputs, height, width = shape
    return part.view(*runs, *outer, height, width, n_inputs).movedim(-1, -3)


def _is_kernel(shape: torch.Size) -> bool:
    """Tells whether a parameter is a kernel of many channels, stacked or not.

    These lie with the channels last, as the fastest convolutions of a GPU take them.
    """
    return len(shape) in (4, 5) and shape[-3] >= 8
