"""The state of a whole training, at the end of a block."""

import time
from dataclasses import dataclass

from .._engine import Trainer
from .._schema import TrainingState
from ..settings import ROUNDS_PER_BLOCK
from ._best import BestCheckpoint
from ._tracker import Tracker


@dataclass(frozen=True)
class TrainerState:
    """What has a state while runs train; all else is a function of the seed and the round."""

    trainer: Trainer
    tracker: Tracker
    best: BestCheckpoint

    def state(self, done: int, started: float) -> TrainingState:
        """Returns a copy of the state after ``done`` rounds of a training begun at ``started``."""
        return TrainingState(
            round=done,
            n_entries=self.tracker.n_entries,
            seconds=time.perf_counter() - started,
            tensors={**self.trainer.state(), **self.tracker.state(), **self.best.state()},
        )

    def load(self, state: TrainingState, n_rounds: int) -> int:
        """Goes to a state of the same runs; returns the rounds that are done there."""
        if state.round % ROUNDS_PER_BLOCK or not 0 < state.round <= n_rounds:
            raise ValueError(
                f"`resume_from` should be after a multiple of {ROUNDS_PER_BLOCK} rounds, at most "
                f"{n_rounds}. Found `round = {state.round}`."
            )
        self.trainer.load(state.tensors)
        self.tracker.load(state)
        self.best.load(state.tensors)
        return state.round
