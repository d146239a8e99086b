"""The state of a whole training, at the end of a block."""

import time
from dataclasses import dataclass

from .._progress import TrainingState
from ._best import Best
from ._program import Program
from ._settings import ROUNDS_PER_BLOCK
from ._tracker import Tracker


@dataclass(frozen=True)
class Parts:
    """What has a state while runs train; all else is a function of the seed and the round."""

    program: Program
    tracker: Tracker
    best: Best

    def state(self, done: int, started: float) -> TrainingState:
        """Returns a copy of the state after ``done`` rounds of a training begun at ``started``."""
        return TrainingState(
            round=done,
            n_points=self.tracker.n_points,
            seconds=time.perf_counter() - started,
            tensors={**self.program.state(), **self.tracker.state(), **self.best.state()},
        )

    def load(self, state: TrainingState, n_rounds: int) -> int:
        """Goes to a state of the same runs; returns the rounds that are done there."""
        if state.round % ROUNDS_PER_BLOCK or not 0 < state.round <= n_rounds:
            raise ValueError(
                f"`resume_from` should be after a multiple of {ROUNDS_PER_BLOCK} rounds, at most "
                f"{n_rounds}. Found `round = {state.round}`."
            )
        self.program.load(state.tensors)
        self.tracker.load(state)
        self.best.load(state.tensors)
        return state.round
