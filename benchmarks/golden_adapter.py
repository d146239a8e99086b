"""The library as the golden cases see it; where its names change, this file alone does."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from allotment import Allocation as Allocation
from allotment import Annealing as Annealing
from allotment import FixedMatrix as FixedMatrix
from allotment import GeneratedDataset as GeneratedDataset
from allotment import GumbelMatrix as _GumbelMatrix
from allotment import ModularLayer as ModularLayer
from allotment import MultiTaskNetwork as MultiTaskNetwork
from allotment import NoSharing as NoSharing
from allotment import Progress, Split, TrainingSettings, fit, train
from allotment import Run as Run
from allotment import SharedBottom as SharedBottom
from allotment import Task as Task
from allotment import TaskNetwork as TaskNetwork
from allotment import budget_penalty as budget_penalty
from allotment import connection_penalty as connection_penalty
from allotment import disconnect_penalty as disconnect_penalty
from allotment import entropy_penalty as entropy_penalty
from allotment import extract as extract
from allotment.experiments import Sweep, TaskChoice, run_groups
from allotment.paper import EXPERIMENTS
from allotment.paper.networks import Allocate
from allotment.paper.networks import ConvNormReLU as ConvNormReLU
from allotment.paper.networks import NormReLU as NormReLU
from allotment.paper.networks import SameAvgPool2d as SameAvgPool2d
from allotment.paper.networks import SameConv2d as SameConv2d
from allotment.paper.networks import SameMaxPool2d as SameMaxPool2d
from allotment.records import describe_environment

GumbelMatrix = partial(_GumbelMatrix, keeps_one=False)  # as when the cases were recorded

Array = NDArray[Any]


@dataclass(frozen=True)
class Seen:
    """What runs that train together told, and how they ended; lists have an entry for each run.

    Attributes:
        weights: The state dicts at the end.
        embeddings: Who uses what, ``[T, C]`` each.
        numbers: Losses and evaluations by name, of all runs one after another.
        curves: Whatever else was told on the way.
    """

    weights: list[Mapping[str, Tensor]]
    embeddings: list[Array]
    numbers: dict[str, list[float]]
    curves: list[Array]


def run(network: MultiTaskNetwork, tasks: Sequence[Task], seed: int, **flat: Any) -> Run:
    """Returns a run with settings given by their names alone."""
    return Run(network, tasks, seed, TrainingSettings().changed(**{"trace": True} | flat))


def seen(runs: Sequence[Run], *, stop: int = 0, n_last_rounds: int = 300) -> Seen:
    """Trains runs together to their end; with ``stop``, from the state after so many rounds."""
    told = train(runs, n_last_rounds=n_last_rounds)
    if stop:
        middle = next(progress for progress in told if progress.round == stop)
        assert middle.state is not None
        told = train(runs, n_last_rounds=n_last_rounds, resume_from=middle.state())
    progress = list(told)
    ends = progress[-1].outcomes
    assert ends is not None
    entries = [entry for each in progress for entry in each.entries or []]
    numbers = {
        "losses": [float(loss) for each in progress for loss in each.losses],
        "final": [end.final_loss for end in ends],
        "best": [-1.0 if end.best_round is None else float(end.best_round) for end in ends],
        "validation": [score for end in ends for score in _scores(end.validation).tolist()],
        "test": [score for end in ends for score in _scores(end.test).tolist()],
    }
    curves = [x for p in entries for x in (p.losses, p.probabilities, _scores(p.validation))]
    return Seen(
        [as_in_0_1(end.weights) for end in ends], [end.matrix for end in ends], numbers, curves
    )


def seen_in_fit(network: TaskNetwork, tasks: Sequence[Task], seed: int, **flat: Any) -> Seen:
    """Fits a network in place."""
    losses: list[float] = []

    def listen(progress: Progress) -> None:
        losses.append(float(progress.losses[0]))

    settings = TrainingSettings().changed(**{"trace": True} | flat)
    found = fit(network, tasks, settings, seed=seed, on_progress=listen)
    numbers = {
        "losses": losses,
        "validation": _scores(found.validation).tolist(),
        "test": _scores(found.test).tolist(),
    }
    curves = [x for entry in found.history for x in (entry.losses, entry.probabilities)]
    return Seen([as_in_0_1(network.state_dict())], [found.embeddings], numbers, curves)


def as_in_0_1(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns weights under the names of version 0.1, with which the values were recorded."""
    return {name.replace("n_batches", "n_draws"): value for name, value in weights.items()}


def _scores(evaluation: Any) -> Array:
    """Returns losses, then accuracies, of all tasks; nothing where there was no check."""
    if evaluation is None:
        return np.empty(0)
    accuracies = evaluation.accuracies
    return np.concatenate([evaluation.losses, [] if accuracies is None else accuracies])


def of_experiment(
    name: str,
    data: Path | None,
    *,
    n_runs: int = 1,
    together: int | None = None,
    methods: Sequence[str] = (),
    one_in: int = 1,
    n_held_out: int = 40,
    coarse: int = 1,
    **flat: Any,
) -> Iterator[Seen]:
    """Yields what each program of an experiment tells, with settings changed by name.

    Of the tasks, ``one_in`` so many is there, with so many held-out examples at most; of the rows
    and columns of images, one in ``coarse``.
    """
    experiment = EXPERIMENTS[name]
    changed = replace(
        experiment,
        training=experiment.training.changed(**{"trace": True} | flat),
        tasks=lambda choice: _few(experiment.make_tasks, choice, one_in, n_held_out, coarse),
        network=partial(_for_small_images, experiment.network)
        if coarse > 1
        else experiment.network,
    )
    sweep = Sweep(
        experiment=changed,
        methods=tuple(m for m in changed.methods if not methods or m.name in methods),
        out=Path(),  # nothing is written
        n_runs=n_runs,
        group_size=together,
        data_folder=data,
    )
    for group in run_groups(sweep):
        yield seen(group.runs, n_last_rounds=changed.report.n_last_rounds)


@cache
def _all(tasks: Any, choice: TaskChoice) -> list[Task]:
    found: list[Task] = tasks(choice)
    return found


@cache
def _coarse(images: Tensor, step: int) -> Tensor:
    return images[..., ::step, ::step].contiguous()


def _few(tasks: Any, choice: TaskChoice, one_in: int, n: int, step: int) -> list[Task]:
    def cut(split: Any, n: int | None) -> Any:
        if not isinstance(split, Split):  # there is none, or it is drawn
            return split
        inputs = split.inputs if step == 1 else _coarse(split.inputs, step)
        rows = torch.arange(len(inputs)) if split.rows is None else split.rows
        return replace(split, inputs=inputs, rows=rows[:n])

    lengths = {"train": None, "validation": n, "test": n}
    return [
        replace(task, **{part: cut(getattr(task, part), lengths[part]) for part in lengths})
        for task in _all(tasks, choice)[::one_in]
    ]


def _for_small_images(
    build: Any, allocate: Allocate, outputs: Mapping[str, int]
) -> MultiTaskNetwork:
    network: MultiTaskNetwork = build(allocate, outputs)
    # The heads expect the 4 x 4 pixels that larger images end as.
    network.layers[-1] = nn.Sequential(nn.Upsample(size=(4, 4)), nn.Flatten())
    return network


def machine() -> dict[str, Any]:
    """Returns what bits depend on, and the commit."""
    found = describe_environment("cpu")
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": found.torch,
        "threads": found.n_threads,
        "commit": found.short_commit,
    }
