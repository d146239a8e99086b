"""What turns gradients into steps: Adam on flat tensors, or an optimizer of the user's own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import first_line
from ..modules import TaskNetwork
from ..settings import Optimization
from ._adam import FlatAdam, empty_state
from ._compact import compact, fill
from ._lr_schedule import LRSchedule
from ._parameter_groups import names_by_group
from ._parameters import FlatParameters


class StepTaker(ABC):
    """Takes optimizer steps of ``R`` runs."""

    @abstractmethod
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Takes one step, given the gradients of the flat tensors."""

    @abstractmethod
    def reset(self) -> None:
        """Forgets the steps so far."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Returns copies of all that it remembers."""

    @abstractmethod
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Goes to a state."""


def step_taker(
    parameters: FlatParameters,
    chosen: Sequence[Optimization],
    n_batches: int,
    tasks_per_step: int,
) -> StepTaker:
    """Returns what the settings of each run ask for; they differ in learning rates alone."""
    taker = AdamSteps if chosen[0].optimizer is None else OwnSteps
    return taker(parameters, chosen, (n_batches, tasks_per_step))


def group_rates(group: str, chosen: Optimization) -> tuple[float, float]:
    """Returns the learning rate and the weight decay of a group of parameters."""
    rate = chosen.learning_rate
    if group == "allocation":
        rate = chosen.allocation_learning_rate or rate
    return rate, chosen.weight_decay if group in ("weights", "scales") else 0.0


def parameter_groups(network: TaskNetwork, chosen: Optimization) -> list[dict[str, Any]]:
    """Returns a network's own parameters in groups as `torch.optim` takes them."""
    named = dict(network.named_parameters())
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for group, names in names_by_group(network).items():
        if group != "frozen":
            own = groups.setdefault(group_rates(group, chosen), [])
            own += [named[name] for name in names]
    return [
        {"params": own, "lr": rate, "weight_decay": decay} for (rate, decay), own in groups.items()
    ]


class AdamSteps(StepTaker):
    """Fused Adam on the flat tensors: a few operations, whatever the network.

    A step of Adam is its learning rate times a direction. Where runs have different rates, all
    take the step of the largest, and each run then goes back to its share of it.
    """

    def __init__(
        self, parameters: FlatParameters, chosen: Sequence[Optimization], length: tuple[int, int]
    ) -> None:
        self._parameters = parameters
        self._learnt = dict(parameters.learnt())
        device = parameters.device
        self._rates = {
            group: torch.tensor([group_rates(group, own)[0] for own in chosen], device=device)
            for group in self._learnt
        }
        self._differ = any(len(rates.unique()) > 1 for rates in self._rates.values())
        groups = list(self._groups(chosen))
        self._adam = FlatAdam(groups, fused=True, capturable=device.type == "cuda")
        self._schedule = LRSchedule(chosen[0], torch.optim.Adam(groups), length, device)
        self._schedule.check_rates_alone()
        if not self._schedule.is_constant:
            for group in self._adam.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]), device=device)

    def _groups(self, chosen: Sequence[Optimization]) -> Iterator[dict[str, object]]:
        alike: dict[tuple[float, float], list[Tensor]] = {}  # one call of the optimizer for each
        for group, flat in self._learnt.items():
            alike.setdefault(max(group_rates(group, own) for own in chosen), []).append(flat)
        for (rate, decay), tensors in alike.items():
            yield {"params": tensors, "lr": rate, "weight_decay": decay}

    def step(self, gradients: Sequence[Tensor]) -> None:
        for flat, gradient in zip(self._learnt.values(), gradients, strict=True):
            flat.grad = gradient
        if not self._schedule.is_constant:
            rates = self._schedule.rates(self._parameters.n_batches).unbind()
            for rate, group in zip(rates, self._adam.param_groups, strict=True):
                group["lr"].copy_(rate)
        before = {k: v.detach().clone() for k, v in self._learnt.items()} if self._differ else {}
        self._adam.step()
        for name, old in before.items():
            share = self._rates[name] / self._rates[name].max()
            with torch.no_grad():
                self._learnt[name].copy_(old.lerp(self._learnt[name], share.unsqueeze(1)))

    def reset(self) -> None:
        for state in self._adam.state.values():
            for value in state.values():
                value.zero_()

    def state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for group, flat in self._learnt.items():
            for name, value in self._adam.state[flat].items():
                tensors |= compact(name, {group: value}, self._parameters)
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for group, flat in self._learnt.items():
            state = self._adam.state[flat]
            if not state:  # Adam makes it at its first step
                state |= empty_state(flat)
            for name, value in state.items():
                fill(name, {group: value}, tensors, self._parameters)


class OwnSteps(StepTaker):
    """An optimizer for each run, of any class, on the parameters as the user's network has them.

    They are views of the flat tensors, so that optimizers which look at whole parameters, or at
    all of a network's, see what they would see in a loop of one's own.
    """

    def __init__(
        self, parameters: FlatParameters, chosen: Sequence[Optimization], length: tuple[int, int]
    ) -> None:
        self._parameters = parameters
        self._names = {name: group for group, names in parameters.names.items() for name in names}
        flat = {group: tensor.detach() for group, tensor in parameters.flat.items()}
        self._views = [self._own(flat, run) for run in range(parameters.n_runs)]
        runs = list(zip(self._views, chosen, strict=True))
        self._optimizers = [self._optimizer(views, own) for views, own in runs]
        self._starts = [[_numbers(g) for g in own.param_groups] for own in self._optimizers]
        self._schedules = [
            LRSchedule(own, self._optimizer(views, own), length, parameters.device)
            for views, own in runs
        ]

    def _own(self, flat: Mapping[str, Tensor], run: int) -> dict[str, Tensor]:
        """Returns one run's learnt parameters, under the user's names, as views."""
        views = {name: v[run] for name, v in self._parameters.views(flat).items()}
        learnt = {
            name: location
            for name, location in self._parameters.locations.items()
            if self._names.get(location.name, "frozen") != "frozen"
        }
        unique = {location: name for name, location in reversed(learnt.items())}
        return {name: location.read(views) for location, name in reversed(unique.items())}

    def _optimizer(self, own: dict[str, Tensor], chosen: Optimization) -> torch.optim.Optimizer:
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for name, view in own.items():
            group = self._names[self._parameters.locations[name].name]
            groups.setdefault(group_rates(group, chosen), []).append(view.requires_grad_())
        assert chosen.optimizer is not None
        made = [
            {"params": views, "lr": rate, "weight_decay": decay}
            for (rate, decay), views in groups.items()
        ]
        try:
            optimizer = chosen.optimizer(made)
        except Exception as error:  # whatever an optimizer says to these parameters
            raise ValueError(
                "`optimizer` should make an optimizer of torch's from parameter groups. "
                f"Found that it does not: {first_line(error)}"
            ) from error
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                "`optimizer` should return an optimizer of torch's. "
                f"Found {type(optimizer).__name__}."
            )
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("`optimizer` should take a step from one gradient. Found LBFGS.")
        return optimizer

    def step(self, gradients: Sequence[Tensor]) -> None:
        flat = {
            **self._parameters.flat,
            **dict(zip(dict(self._parameters.learnt()), gradients, strict=True)),
        }
        for run, optimizer in enumerate(self._optimizers):
            for name, gradient in self._own(flat, run).items():
                self._views[run][name].grad = gradient
            schedule = self._schedules[run]
            if not schedule.is_constant:
                options = schedule.options(self._parameters.n_batches)
                for group, own in zip(optimizer.param_groups, options, strict=True):
                    group.update(own)
            optimizer.step()

    def reset(self) -> None:
        for optimizer in self._optimizers:
            optimizer.state.clear()

    def state(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for run, optimizer in enumerate(self._optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                for name, value in values.items():
                    found |= _saved(f"optimizer/{run}/{index}/{name}", value)
            # Some count, or estimate a rate, in their groups.
            for index, group in enumerate(optimizer.param_groups):
                for name, value in _numbers(group).items():
                    if value != self._starts[run][index].get(name):
                        found |= _saved(f"optimizer groups/{run}/{index}/{name}", value)
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for run, optimizer in enumerate(self._optimizers):
            state: dict[int, dict[str, Any]] = {}
            for key, tensor in tensors.items():
                place, *rest = key.split("/")
                if not place.startswith("optimizer") or rest[0] != str(run):
                    continue
                index, name, *kind = rest[1:]
                value = tensor.item() if kind else tensor.clone()
                if place == "optimizer":
                    state.setdefault(int(index), {})[name] = value
                else:
                    optimizer.param_groups[int(index)][name] = value
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _numbers(group: Mapping[str, Any]) -> dict[str, float | int]:
    return {name: value for name, value in group.items() if isinstance(value, bool | int | float)}


def _saved(name: str, value: Any) -> dict[str, Tensor]:
    """Returns a copy of a tensor, or of a number of Python's, which its name then says."""
    if isinstance(value, Tensor):
        return {name: value.detach().to("cpu", copy=True)}
    if not isinstance(value, bool | int | float):
        return {}
    dtype = torch.float64 if isinstance(value, float) else None
    return {f"{name}/number": torch.tensor(value, dtype=dtype)}
