"""Training one network of one's own."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._checks import check_truth, described
from .._engine import Run
from .._schema import LogEntry, Outcome
from ..modules import as_network
from ..settings import TrainingSettings
from ..tasks import Task, n_examples
from ._baselines import runs_beside, train_beside
from ._dead import are_optional, dead_sentence
from ._new_tasks import NewTasks
from ._progress import Progress, bar
from ._result import Baselines, FitResult
from ._signals import asked_by_signals
from ._train import train


def fit(
    network: nn.Module,
    tasks: Sequence[Task],
    settings: TrainingSettings = TrainingSettings(),
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_progress: Callable[[Progress], None] = lambda progress: None,
    show: bool | None = None,
    only: Sequence[str] | None = None,
    shared_learns: bool = False,
    baselines: bool | int = False,
) -> FitResult:
    """Trains ``network`` on ``tasks`` in place and returns what was learnt; `print` it.

    It may be any module with modular layers in it; tasks are found by their names, where the
    network has them. A network that was trained before goes on: its annealing does not begin anew.
    The network is left in evaluation mode: a task then runs only what it uses, without draws.

    Ctrl-C ends the training after the block of rounds under way, and what was learnt is kept.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> x = torch.randn(50, 8)
    >>> tasks = [al.Task("sum", (x, x.sum(1))), al.Task("first", (x, x[:, 0]))]
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], al.GumbelMatrix(2, 3))
    >>> network = al.MultiTaskNetwork(None, [layer], task_names=["sum", "first"])
    >>> result = al.fit(network, tasks, al.TrainingSettings(rounds=10))
    >>> result.embeddings.shape, network(x, "sum").shape
    ((2, 3), torch.Size([50, 1]))

    Args:
        network: What to train.
        tasks: What to train it on, one for each of its tasks.
        settings: How to train.
        seed: Of every draw.
        device: Where, such as "cpu", "cuda" or "cuda:1".
        on_progress: Called after every ten rounds. It may look at ``progress.network(0)``, a copy
            of the network as it is then, and end the training by ``progress.stop()``.
        show: Whether to show a bar; None: in a terminal or a notebook.
        only: Names of tasks to train alone, such as one that `add_task` added: their gates, heads
            and what else is theirs. All else stays the same to the bit, and needs no tasks here.
        shared_learns: With ``only``: whether components and what else tasks share learn too. Then
            ``tasks`` should be all, and the result says how far the others drift on validation.
        baselines: Of how many seeds to train a shared bottom, separate networks and learnt gates
            for `advise` to compare, each from the weights that the network came with; True: 5.
            The network itself is trained as without.
    """
    check_truth("show", show, or_none=True)
    check_truth("shared_learns", shared_learns)
    if not callable(on_progress):
        raise TypeError(f"`on_progress` should be a function. Found {described(on_progress)}.")
    if only is not None:
        if baselines is not False:
            raise ValueError(
                "`baselines` should be left out where `only` some tasks are trained: they train "
                f"all. Found `baselines = {baselines!r}`."
            )
        part = NewTasks(network, tasks, only, shared_learns)
        try:
            result = fit(
                part.network,
                part.tasks,
                settings,
                seed=seed,
                device=device,
                on_progress=on_progress,
                show=show,
            )
        finally:
            part.write_back()
        return replace(result, drift=part.drift())
    run = Run(network, tasks, seed, settings)
    beside = runs_beside(run, baselines) if baselines is not False else None
    asked: list[str] = []
    compared = None
    with asked_by_signals(asked.append, terminates=False):
        trained = _trained(run, device, on_progress, show, asked)
        was_interrupted = bool(asked)
        if beside is not None and _is_whole(trained.outcome, settings):
            compared = train_beside(
                trained.outcome, run.tasks, beside, device=device, show=show, asked=asked
            )
    if trained.outcome.status == "finished" or _are_finite(trained.outcome.weights):
        run.network.load_state_dict(trained.outcome.weights)
    network.eval()
    result = _result(run, trained, was_interrupted=was_interrupted, baselines=compared)
    _warn(result, trained.told)
    return result


class _Trained(NamedTuple):
    """One run after its training."""

    outcome: Outcome
    history: list[LogEntry]
    told: set[str]  # tasks that were left with nothing on the way, which was said then


def _trained(
    run: Run,
    device: torch.device | str,
    on_progress: Callable[[Progress], None],
    show: bool | None,
    asked: Sequence[str],
) -> _Trained:
    """Trains a run to its end, or until it is ``asked`` to stop."""
    history: list[LogEntry] = []
    told: set[str] = set()
    with bar(run.settings.rounds, show) as shown:
        for progress in train([run], device=device):
            history += progress.entries or []
            told |= {name for dead in progress.dead or [] for name in dead}
            shown(progress)
            if progress.outcomes is None:  # the last one repeats the round before it
                _tell(on_progress, progress, run)
                if asked:
                    progress.stop()
    assert progress.outcomes is not None
    return _Trained(progress.outcomes[0], history, told)


def _result(
    run: Run, trained: _Trained, *, was_interrupted: bool, baselines: Baselines | None
) -> FitResult:
    network, outcome = run.network, trained.outcome
    allocations = [layer.allocation for layer in network.modular_layers]
    return FitResult(
        embeddings=outcome.matrix,
        probabilities=outcome.probabilities,
        history=trained.history,
        validation=outcome.validation,
        test=outcome.test,
        best_round=outcome.best_round,
        failed_step=outcome.failed_step,
        failed_cause=outcome.failed_cause,
        rounds=outcome.rounds,
        rounds_planned=run.settings.rounds,
        was_interrupted=was_interrupted,
        task_names=tuple(task.name for task in run.tasks),
        component_names=network.component_names,
        layer_sizes=network.layer_sizes,
        are_optional=are_optional(network),
        is_learnt=any(own.is_learnt for own in allocations),
        is_binary=all(own.is_binary and not own.sees_examples for own in allocations),
        n_examples={task.name: n_examples(task.train) for task in run.tasks},
        baselines=baselines,
    )


def _warn(result: FitResult, told: set[str]) -> None:
    """Warns of what the result says, but for dead tasks that were told of on the way."""
    dead = result.dead()
    known = dead_sentence(dead) if dead and set(dead) <= told else ""
    for sentence in result.warnings():
        if sentence != known:
            warnings.warn(sentence, stacklevel=3)


def _is_whole(outcome: Outcome, settings: TrainingSettings) -> bool:
    """Tells whether a training ended by itself, so that others can be set beside it."""
    is_over = outcome.rounds == settings.rounds or settings.patience is not None
    return outcome.status == "finished" and is_over


def _are_finite(weights: Mapping[str, Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for value in weights.values())


def _tell(on_progress: Callable[[Progress], None], progress: Progress, run: Run) -> None:
    """Calls the user's function; should it fail, the network keeps what was learnt."""
    try:
        on_progress(progress)
    except BaseException as error:
        learnt = as_network(progress.network(0), [task.name for task in run.tasks])
        run.network.load_state_dict(learnt.state_dict())
        run.model.eval()
        error.add_note(f"The network has the weights of round {progress.round}.")
        raise
