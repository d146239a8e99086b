"""A shared bottom and separate networks, trained beside a network that learns what to share."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from torch import nn

from .._advice import LEARNT, SEPARATE, SHARED
from .._checks import check_count
from .._engine import Run, drawn, held_out
from .._schema import Outcome
from .._streams import stream
from ..allocation import FixedMatrix, SharedBottom
from ..modules import ModularLayer, TaskNetwork, as_network, difference
from ..tasks import GeneratedDataset, Split, Task
from ._progress import bar
from ._result import Baselines
from ._train import train
from ._validation import check_runs

N_SEEDS = 5  # of `baselines=True`
SHARE = 0.2  # of the training examples of a task without a validation split
N_DRAWN = 1_000  # held-out examples of a task that draws its own


def runs_beside(run: Run, baselines: bool | int) -> dict[str, list[Run]]:
    """Returns the runs to compare with ``run``, by way, of which the first learnt one is itself.

    It is called before training, and raises where they could not be trained.
    """
    n_seeds = N_SEEDS if baselines is True else baselines
    check_count("baselines", n_seeds, 2)
    if len(run.tasks) < 2 or not _learnt_layers(run.network):
        raise ValueError(
            "`baselines` should be given for several tasks and a network that learns what they "
            f"share. Found {len(run.tasks)} task{'s' * (len(run.tasks) > 1)} and "
            f"{len(_learnt_layers(run.network))} layers with gates that learn."
        )
    tasks = _with_validation(run.tasks)
    fixed = run.settings.changed(allocation_held_out=0.0)  # their weights learn from all examples
    settings = {LEARNT: run.settings, SHARED: fixed, SEPARATE: fixed}
    models = {way: _changed(run.model, change) for way, change in _CHANGES.items()}
    seeds = range(run.seed, run.seed + n_seeds)
    runs = {
        way: [Run(model, tasks, seed, settings[way]) for seed in seeds]
        for way, model in models.items()
    }
    for group in _groups(runs):
        check_runs([run for _, run in group])
    return runs


def train_beside(
    own: Outcome,
    tasks: Sequence[Task],
    runs: Mapping[str, Sequence[Run]],
    *,
    device: torch.device | str,
    show: bool | None,
    asked: Sequence[str],
) -> Baselines | None:
    """Trains the runs, but for the first learnt one, of which ``own`` is the outcome.

    That one is trained too where its tasks are others. Returns None where it was ``asked`` to stop.
    """
    first = runs[LEARNT][0]
    has_own_splits = _are_the_same(tasks, first.tasks)
    to_train = {**runs, LEARNT: runs[LEARNT][1:]} if has_own_splits else runs
    outcomes: dict[str, list[Outcome]] = {way: [] for way in runs}
    if has_own_splits:
        outcomes[LEARNT].append(own)
    for group in _groups(to_train):
        ended = _trained([run for _, run in group], device, show, asked)
        if ended is None:
            return None
        for (way, _), outcome in zip(group, ended, strict=True):
            outcomes[way].append(outcome)
    return Baselines(
        task_names=tuple(task.name for task in tasks),
        outcomes=outcomes,
        models={way: own[0].model for way, own in runs.items()},
        by=first.settings.best_by,
        has_own_splits=has_own_splits,
        shares_rest=_shares_rest(first.network),
    )


def _are_the_same(tasks: Sequence[Task], others: Sequence[Task]) -> bool:
    return all(a is b for a, b in zip(tasks, others, strict=True))


def _trained(
    runs: Sequence[Run], device: torch.device | str, show: bool | None, asked: Sequence[str]
) -> list[Outcome] | None:
    """Returns how runs that train together ended; None where they were ``asked`` to stop."""
    with bar(runs[0].settings.rounds, show) as shown:
        for progress in train(runs, device=device):
            shown(progress)
            if asked:
                return None
    return progress.outcomes


def _groups(runs: Mapping[str, Sequence[Run]]) -> list[list[tuple[str, Run]]]:
    """Returns the runs that train as one program together: fixed allocations, where they can."""
    groups: list[list[tuple[str, Run]]] = []
    for way, own in runs.items():
        for group in groups:
            is_learnt = LEARNT in (way, group[0][0])
            if own and not is_learnt and not difference(group[0][1].network, own[0].network):
                group += [(way, run) for run in own]
                break
        else:
            groups += [[(way, run) for run in own]] if own else []
    return groups


def _learnt_layers(network: TaskNetwork) -> list[ModularLayer]:
    return [layer for layer in network.modular_layers if layer.allocation.is_learnt]


def _changed(model: nn.Module, change: Callable[[ModularLayer], None]) -> nn.Module:
    """Returns a copy of a model with another way of sharing in each layer that learns one."""
    copy = deepcopy(model)
    network = as_network(copy)
    for layer in reversed(_learnt_layers(network)):  # what lies inside a component comes first
        if not layer.takes_any_allocation:
            raise ValueError(
                "`baselines` should be given for layers that take any allocation. "
                f"Found a {type(layer).__name__}."
            )
        change(layer)
    network.number_layers()
    return copy


def _share_all(layer: ModularLayer) -> None:
    n_tasks, n = layer.allocation.n_tasks, layer.allocation.n_components
    like = layer.allocation.matrix()
    layer.allocation = SharedBottom(n_tasks, n, reduce="mean").to(like)


def _share_nothing(layer: ModularLayer) -> None:
    """Gives each task components of its own; copies of them where there are too few."""
    like, n_tasks = layer.allocation.matrix(), layer.allocation.n_tasks
    n = len(layer.components)
    for place in range(n, n_tasks):
        layer.components.append(deepcopy(layer.components[place % n]))
        layer.names.append(f"{layer.names[place % n]}, copy {place // n}")
        layer.kinds.append(layer.kinds[place % n])
    n = max(n, n_tasks)
    owners = torch.arange(n) * n_tasks // n
    layer.allocation = FixedMatrix(nn.functional.one_hot(owners, n_tasks).T).to(like)


_CHANGES: dict[str, Callable[[ModularLayer], None]] = {
    LEARNT: lambda layer: None,
    SHARED: _share_all,
    SEPARATE: _share_nothing,
}


def _with_validation(tasks: Sequence[Task]) -> list[Task]:
    """Returns tasks to compare by their validation splits; raises where none can have one."""
    found = [_with_own_validation(task) for task in tasks]
    if all(task.validation is None for task in found):
        raise ValueError(
            "`baselines` should be given where a task has a validation split to compare by, or "
            "arrays of which a part can be held out. Found neither."
        )
    return found


def _with_own_validation(task: Task) -> Task:
    """Returns the task itself where it has a validation split, or can have none.

    Else a part of its training examples becomes one; tasks that share inputs leave out the same.
    """
    if task.validation is not None:
        return task
    if isinstance(task.train, GeneratedDataset):
        return replace(task, validation=drawn(task, N_DRAWN, stream(0, f"baselines/{task.name}")))
    if not isinstance(task.train, Split):
        return task
    rows = task.train.all_rows()
    if len(rows.unique()) < 2:
        return task
    is_held_out = held_out(task, SHARE, seed=0)
    return replace(
        task,
        train=replace(task.train, rows=rows[~is_held_out]),
        validation=replace(task.train, rows=rows[is_held_out]),
    )


def _shares_rest(network: TaskNetwork) -> bool:
    own = [*network.modular_layers, *([network.heads] if network.heads is not None else [])]
    known = {id(parameter) for part in own for parameter in part.parameters()}
    return any(p.requires_grad and id(p) not in known for p in network.parameters())
