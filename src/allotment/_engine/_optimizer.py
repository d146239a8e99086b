"""What turns gradients into steps: Adam on flat tensors, or an optimizer of the user's own."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..settings import Optimization
from ._adam import FlatAdam, empty_state
from ._compact import compact, fill
from ._parameters import FlatParameters


class LRSchedule:
    """The factor of the learning rates, as a tensor on the device that follows the batch alone.

    A captured step computes it without the host, and going on from a checkpoint needs nothing.
    """

    def __init__(
        self, chosen: Optimization, n_batches: int, tasks_per_step: int, device: torch.device
    ) -> None:
        self._n_batches = n_batches
        self._tasks_per_step = tasks_per_step
        self._table: Tensor | None = None
        self.is_constant = chosen.lr_schedule == "constant"
        if callable(chosen.lr_schedule):
            self._table = _tabulated(chosen, n_batches // tasks_per_step).to(device)

    def factor(self, batch: Tensor) -> Tensor:
        """Returns the factor at a step, counted in task batches from 0."""
        if self._table is not None:
            step = (batch // self._tasks_per_step).reshape(1)
            return self._table.index_select(0, step).squeeze(0)
        return 0.5 * (1.0 + torch.cos(torch.pi * batch / self._n_batches))


def _tabulated(chosen: Optimization, n_steps: int) -> Tensor:
    """Returns the factor that one of torch's schedulers has at each step."""
    assert callable(chosen.lr_schedule)
    tried = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = chosen.lr_schedule(tried)
    factors = []
    for _ in range(n_steps):
        factors.append(float(tried.param_groups[0]["lr"]))
        tried.step()
        try:
            scheduler.step()
        except TypeError as error:
            raise ValueError(
                "`lr_schedule` should follow the step alone. "
                f"Found {type(scheduler).__name__}, which asks for more: {error}"
            ) from error
    return torch.tensor(factors)


class StepTaker(ABC):
    """Takes optimizer steps of ``R`` runs."""

    can_be_captured: bool

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
    parameters: FlatParameters, chosen: Optimization, n_batches: int, tasks_per_step: int
) -> StepTaker:
    """Returns what the settings ask for."""
    schedule = LRSchedule(chosen, n_batches, tasks_per_step, parameters.device)
    taker = AdamSteps if chosen.optimizer is None else OwnSteps
    return taker(parameters, chosen, schedule)


def _rates(group: str, chosen: Optimization) -> tuple[float, float]:
    """Returns the learning rate and the weight decay of a group of parameters."""
    rate = chosen.learning_rate
    if group == "allocation":
        rate = chosen.allocation_learning_rate or rate
    return rate, chosen.weight_decay if group in ("weights", "scales") else 0.0


class AdamSteps(StepTaker):
    """Fused Adam on the flat tensors: a few operations, whatever the network."""

    can_be_captured = True

    def __init__(
        self, parameters: FlatParameters, chosen: Optimization, schedule: LRSchedule
    ) -> None:
        self._parameters = parameters
        self._schedule = schedule
        self._learnt = dict(parameters.learnt())
        is_gpu = parameters.device.type == "cuda"
        self._adam = FlatAdam(list(self._groups(chosen)), fused=True, capturable=is_gpu)
        self._full = [float(group["lr"]) for group in self._adam.param_groups]
        if not schedule.is_constant:
            for group, rate in zip(self._adam.param_groups, self._full, strict=True):
                group["lr"] = torch.tensor(rate, device=parameters.device)

    def _groups(self, chosen: Optimization) -> Iterator[dict[str, object]]:
        alike: dict[tuple[float, float], list[Tensor]] = {}  # one call of the optimizer for each
        for group, flat in self._learnt.items():
            alike.setdefault(_rates(group, chosen), []).append(flat)
        for (rate, decay), tensors in alike.items():
            yield {"params": tensors, "lr": rate, "weight_decay": decay}

    def step(self, gradients: Sequence[Tensor]) -> None:
        for flat, gradient in zip(self._learnt.values(), gradients, strict=True):
            flat.grad = gradient
        if not self._schedule.is_constant:
            factor = self._schedule.factor(self._parameters.n_batches)
            for full, group in zip(self._full, self._adam.param_groups, strict=True):
                group["lr"].copy_(full * factor)
        self._adam.step()

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

    can_be_captured = False  # what it remembers may be anything

    def __init__(
        self, parameters: FlatParameters, chosen: Optimization, schedule: LRSchedule
    ) -> None:
        self._parameters = parameters
        self._schedule = schedule
        self._chosen = chosen
        self._names = {name: group for group, names in parameters.names.items() for name in names}
        flat = {group: tensor.detach() for group, tensor in parameters.flat.items()}
        self._views = [self._own(flat, run) for run in range(parameters.n_runs)]
        self._optimizers = [self._optimizer(own) for own in self._views]
        self._full = [float(group["lr"]) for group in self._optimizers[0].param_groups]

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

    def _optimizer(self, own: dict[str, Tensor]) -> torch.optim.Optimizer:
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for name, view in own.items():
            group = self._names[self._parameters.locations[name].name]
            groups.setdefault(_rates(group, self._chosen), []).append(view.requires_grad_())
        assert self._chosen.optimizer is not None
        made = [
            {"params": views, "lr": rate, "weight_decay": decay}
            for (rate, decay), views in groups.items()
        ]
        optimizer = self._chosen.optimizer(made)
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
            if not self._schedule.is_constant:
                factor = float(self._schedule.factor(self._parameters.n_batches))
                for full, group in zip(self._full, optimizer.param_groups, strict=True):
                    group["lr"] = full * factor
            optimizer.step()

    def reset(self) -> None:
        for optimizer in self._optimizers:
            optimizer.state.clear()

    def state(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for run, optimizer in enumerate(self._optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                for name, value in values.items():
                    if value is not None:
                        copy = torch.as_tensor(value).detach().to("cpu", copy=True)
                        found[f"optimizer/{run}/{index}/{name}"] = copy
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        for run, optimizer in enumerate(self._optimizers):
            state: dict[int, dict[str, Any]] = {}
            for key, value in tensors.items():
                prefix, *rest = key.split("/")
                if prefix == "optimizer" and rest[0] == str(run):
                    state.setdefault(int(rest[1]), {})[rest[2]] = value.clone()
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
