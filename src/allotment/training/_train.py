"""The training loop."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import torch
from torch import nn

from .._checks import check_count, described
from .._engine import ExecutionPlan, Run, Trainer
from .._schema import Evaluation, LogEntry, Outcome, TrainingState
from ..modules import as_network
from ..settings import ROUNDS_PER_BLOCK
from ._dead import DeadTasks, are_optional, dead_layers
from ._diagnostics import explain, is_told
from ._evaluation import evaluate
from ._progress import Progress
from ._statistics import warn_of_shared_statistics
from ._tracker import BestCheckpoint, Tracker, entry_interval
from ._validation import check_device, check_runs


def train(
    runs: Sequence[Run],
    *,
    device: torch.device | str = "cpu",
    n_last_rounds: int = 300,
    resume_from: TrainingState | None = None,
) -> Iterator[Progress]:
    """Trains runs together, and yields what they do, one block of rounds after another.

    The networks of the runs stay as they are, so that several runs may start from one. What they
    became is in the outcomes of the last progress: ``network.load_state_dict(outcome.weights)``.

    ``resume_from`` is a state that an earlier training of the same runs yielded. Training goes on
    from there and ends, on a CPU to the last bit, as if it had never stopped. The runs may have
    another number of rounds now: as many as are done ends them where they are.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> x = torch.randn(50, 8)
    >>> def build():
    ...     layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], al.GumbelMatrix(1, 3))
    ...     return al.MultiTaskNetwork(None, [layer], task_names=["sum"])
    >>> tasks, settings = [al.Task("sum", (x, x.sum(1)))], al.TrainingSettings(rounds=20)
    >>> runs = [al.Run(build(), tasks, seed, settings) for seed in range(3)]
    >>> for progress in al.train(runs):  # every ten rounds
    ...     pass
    >>> [outcome.status for outcome in progress.outcomes]
    ['finished', 'finished', 'finished']

    Args:
        runs: What to train together: their settings agree but for learning rates and budgets.
        device: Where, such as "cpu", "cuda" or "cuda:1".
        n_last_rounds: Over how many rounds, the last ones, an outcome's ``final_loss`` is a mean.
        resume_from: The ``state()`` of a progress of the same runs, to go on from.
    """
    if resume_from is not None and not isinstance(resume_from, TrainingState):
        raise TypeError(f"`resume_from` should be a TrainingState. Found {described(resume_from)}.")
    check_count("n_last_rounds", n_last_rounds)
    found = check_device(device)
    check_runs(runs)
    warn_of_shared_statistics(runs[0])
    return _training(runs, found, n_last_rounds, resume_from)  # so that checks come with the call


def plan(runs: Sequence[Run], *, device: torch.device | str = "cpu") -> ExecutionPlan:
    """Returns how `train` would compute these runs, with its reasons; nothing is trained.

    >>> from torch import nn, randn
    >>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, Run, Task, plan
    >>> layer = ModularLayer([nn.Linear(8, 1), nn.Linear(8, 1)], GumbelMatrix(2, 2))
    >>> network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    >>> tasks = [Task(name, (randn(9, 8), randn(9))) for name in "ab"]
    >>> plan([Run(network, tasks, seed) for seed in range(3)]).runs.value
    'vmapped'

    Args:
        runs: What would train together.
        device: Where, such as "cpu", "cuda" or "cuda:1".
    """
    found = check_device(device)
    check_runs(runs)
    return _trainer(runs, found, is_over=False).plan


def _training(
    runs: Sequence[Run], device: torch.device, n_last_rounds: int, resume_from: TrainingState | None
) -> Iterator[Progress]:
    whole = _Training(runs, device, n_last_rounds, resume_from)
    trainer, tracker, best = whole.trainer, whole.tracker, whole.best
    n_rounds = trainer.settings.rounds
    asked: list[bool] = []  # filled by `stop`
    # Where no rounds are left, the check and the entry that the last one has still are.
    for first in range(whole.first_round, n_rounds, ROUNDS_PER_BLOCK) or [n_rounds]:
        done = min(first + ROUNDS_PER_BLOCK, n_rounds)
        n_batches = (done - first) * trainer.n_tasks
        if n_batches:
            with _explained(runs[0]):
                taken = trainer.steps(first // ROUNDS_PER_BLOCK, n_batches)
            tracker.add(*taken)
        entries = whole.entries(done)
        dead = whole.watch.tell(tracker.gates, f" at round {done:,}") if entries else None
        can_go_on = None in tracker.failed and done < n_rounds  # else nothing more is to be learnt
        yield Progress(
            done,
            tracker.last_block,
            list(tracker.failed),
            entries,
            dead,
            state=partial(whole.state, done) if can_go_on else None,
            network=whole.model,
            stop=partial(asked.append, True),
        )
        if asked or not can_go_on or None not in best.over:
            break
    trainer.settle()
    tracker.see_weights()
    best.restore(tracker.failed)
    outcomes = whole.outcomes(done)
    rest = tracker.entries(done)  # where it was stopped between two entries
    yield Progress(done, tracker.last_block, list(tracker.failed), rest, outcomes=outcomes)


class _Training:
    """Runs under way: all that has a state; the rest is a function of the seed and the round."""

    def __init__(
        self,
        runs: Sequence[Run],
        device: torch.device,
        n_last_rounds: int,
        state: TrainingState | None,
    ) -> None:
        self.runs = runs
        self._started = time.perf_counter() - (state.seconds if state else 0.0)
        n_rounds = runs[0].settings.rounds
        self.first_round = state.round if state else 0
        self.trainer = _trainer(runs, device, self.first_round == n_rounds, state)
        self.tracker = Tracker(self.trainer.parameters, self.trainer.n_tasks, n_last_rounds)
        tasks, network = runs[0].tasks, self.trainer.parameters.network
        self.best = BestCheckpoint(self.trainer.parameters, tasks, runs[0].settings)
        self.watch = DeadTasks(network, [task.name for task in tasks])
        if state:
            self._load(state, n_rounds)

    def _load(self, state: TrainingState, n_rounds: int) -> None:
        """Goes to a state of the same runs, which now have so many rounds."""
        if state.round % ROUNDS_PER_BLOCK or not 0 < state.round <= n_rounds:
            raise ValueError(
                f"`resume_from` should be after a multiple of {ROUNDS_PER_BLOCK} rounds, at most "
                f"{n_rounds}. Found `round = {state.round}`."
            )
        self.trainer.load(state.tensors)
        self.tracker.load(state)
        self.best.load(state.tensors)

    def state(self, done: int) -> TrainingState:
        """Returns a copy of the state after ``done`` rounds."""
        return TrainingState(
            round=done,
            n_entries=self.tracker.n_entries,
            seconds=time.perf_counter() - self._started,
            tensors={**self.trainer.state(), **self.tracker.state(), **self.best.state()},
        )

    def model(self, run: int = 0) -> nn.Module:
        """Returns a copy of a run's model with its present weights, ready for evaluation."""
        model = deepcopy(self.runs[run].model)
        network = as_network(model, [task.name for task in self.runs[run].tasks])
        with self.trainer.averaged():
            network.load_state_dict(self.trainer.parameters.state_dict(run))
        return model.eval()

    def entries(self, done: int) -> list[LogEntry] | None:
        """Returns log entries, and makes the validation check they tell of, where they are due."""
        settings, is_last = self.trainer.settings, done == self.trainer.settings.rounds
        interval = entry_interval(settings.rounds)
        every = settings.evaluate_every
        is_checked = every is not None and (done % every == 0 or is_last)
        if not (is_checked or is_last or done % interval == 0):
            return None
        validations = None
        with self.trainer.averaged():
            if is_checked:
                validations = self._evaluations("validation")
                if validations and settings.keep_best:
                    self.best.consider(validations, done)
            return self.tracker.entries(done, validations)

    def _evaluations(self, split: str) -> list[Evaluation] | None:
        return evaluate(self.runs, self.trainer.parameters, split, self.trainer.plan.is_vmapped)

    def outcomes(self, done: int) -> list[Outcome]:
        """Returns how each run ended; the test split is evaluated here and nowhere else."""
        seconds = time.perf_counter() - self._started
        parameters, failed = self.trainer.parameters, self.tracker.failed
        validations, tests = self._evaluations("validation"), self._evaluations("test")
        final_losses = self.tracker.final_losses()
        probabilities, matrices = parameters.gates()
        sizes, optional = parameters.network.layer_sizes, are_optional(parameters.network)
        names = [task.name for task in self.runs[0].tasks]
        return [
            Outcome(
                status="finished" if failed[run] is None else "failed",
                failed_step=failed[run],
                failed_cause="" if failed[run] is None else self.trainer.blame(run),
                rounds=self.best.over[run] or done,
                seconds=seconds,
                n_together=len(self.runs),
                final_loss=float(final_losses[run]),
                best_round=self.best.rounds[run],
                matrix=matrices[run],
                probabilities=probabilities[run],
                validation=validations[run] if validations else None,
                test=tests[run] if tests else None,
                weights=parameters.state_dict(run),
                dead=dead_layers(matrices[run], names, sizes, optional),
            )
            for run in range(len(self.runs))
        ]


def _trainer(
    runs: Sequence[Run], device: torch.device, is_over: bool, state: TrainingState | None = None
) -> Trainer:
    tensors = None if state is None else state.tensors
    with _explained(runs[0]):
        return Trainer(runs, device, is_over=is_over, resume_from=tensors)


@contextmanager
def _explained(run: Run) -> Iterator[None]:
    """Says which part of a network or loss fails in what is done here, if anything does."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a user's module raises
        if not is_told(error):
            explain(run)
        raise
