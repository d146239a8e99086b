"""The training loop."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import ceil

import torch

from .._checks import described
from .._progress import Floats, Outcome, Point, TrainingState
from ._best import Best
from ._checks import check_device, check_runs
from ._evaluation import evaluate
from ._parts import Parts
from ._program import Program
from ._run import Run
from ._settings import ROUNDS_PER_BLOCK
from ._tracker import N_POINTS, Tracker
from ._trial import explain, is_told


@dataclass(frozen=True)
class Progress:
    """What ``R`` runs that train together have done.

    Attributes:
        round: Rounds finished.
        losses: Each run's mean training loss over the last block of ten rounds, shape ``[R]``.
        failed: For each run the task batch at which its loss was not finite, or None.
        points: Losses and gates, one for each run; None between two stretches of rounds.
        outcomes: How each run ended, in the very last progress; None before.
        state: Copies all that is needed to go on from here; call it before asking for the next
            progress. None where all rounds are done.
    """

    round: int
    losses: Floats
    failed: list[int | None]
    points: list[Point] | None = None
    outcomes: list[Outcome] | None = None
    state: Callable[[], TrainingState] | None = field(default=None, repr=False)


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
    """
    if resume_from is not None and not isinstance(resume_from, TrainingState):
        raise TypeError(f"`resume_from` should be a TrainingState. Found {described(resume_from)}.")
    found = check_device(device)
    check_runs(runs)
    return _training(runs, found, n_last_rounds, resume_from)  # so that checks come with the call


def _training(
    runs: Sequence[Run], device: torch.device, n_last_rounds: int, resume_from: TrainingState | None
) -> Iterator[Progress]:
    started = time.perf_counter() - (resume_from.seconds if resume_from else 0.0)
    is_over = resume_from is not None and resume_from.round == runs[0].settings.rounds
    program = _program(runs, device, is_over)
    settings, replicas = program.settings, program.replicas
    tracker = Tracker(replicas, program.n_tasks, n_last_rounds)
    best = Best(replicas)
    parts = Parts(program, tracker, best)
    stretch = ROUNDS_PER_BLOCK * ceil(settings.rounds / (N_POINTS * ROUNDS_PER_BLOCK))
    first_round = parts.load(resume_from, settings.rounds) if resume_from else 0
    # Where no rounds are left, the look and the point that the last one has still are.
    for first in range(first_round, settings.rounds, ROUNDS_PER_BLOCK) or [settings.rounds]:
        done = min(first + ROUNDS_PER_BLOCK, settings.rounds)
        n_steps = (done - first) * program.n_tasks
        if n_steps:
            tracker.add(*program.steps(first // ROUNDS_PER_BLOCK, n_steps))
        is_last = done == settings.rounds
        validations = None
        looks = settings.evaluate_every and (done % settings.evaluate_every == 0 or is_last)
        is_due = done % stretch == 0 or looks or is_last
        with program.averaged() if is_due else nullcontext():
            if looks:
                validations = evaluate(runs, replicas, "validation", program.passes.together)
                if validations and settings.keep_best:
                    best.consider(validations, done)
            points = tracker.points(done, validations) if is_due and tracker.is_amid else None
        state = None if is_last else partial(parts.state, done, started)
        yield Progress(done, tracker.last_block, list(tracker.failed), points, state=state)
    program.settle()
    best.restore()
    outcomes = _outcomes(runs, program, tracker, best, time.perf_counter() - started)
    yield Progress(settings.rounds, tracker.last_block, list(tracker.failed), outcomes=outcomes)


def _program(runs: Sequence[Run], device: torch.device, is_over: bool) -> Program:
    """Returns the program of runs, or says which part of a network or loss fails in it."""
    try:
        return Program(runs, device, is_over=is_over)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a user's module raises
        if not is_told(error):
            explain(runs[0])
        raise


def _outcomes(
    runs: Sequence[Run], program: Program, tracker: Tracker, best: Best, seconds: float
) -> list[Outcome]:
    """Returns how each run ended; the test split is looked at here and nowhere else."""
    replicas, together = program.replicas, program.passes.together
    validations = evaluate(runs, replicas, "validation", together)
    tests = evaluate(runs, replicas, "test", together)
    final_losses = tracker.final_losses()
    probabilities, matrices = replicas.gates()
    return [
        Outcome(
            status="finished" if tracker.failed[run] is None else "failed",
            failed_step=tracker.failed[run],
            rounds=program.settings.rounds,
            seconds=seconds,
            n_together=len(runs),
            final_loss=float(final_losses[run]),
            best_round=best.rounds[run],
            matrix=matrices[run],
            probabilities=probabilities[run],
            validation=validations[run] if validations else None,
            test=tests[run] if tests else None,
            weights=replicas.state_dict(run),
        )
        for run in range(len(runs))
    ]
