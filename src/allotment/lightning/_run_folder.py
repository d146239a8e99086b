"""A training under Lightning as a run's folder, which reports read."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning import Callback, LightningModule, Trainer

from .._engine import Run
from .._schema import Evaluation, Floats, LogEntry, Outcome, RunHeader, TrainingState
from ..records import (
    RecordError,
    RunWriter,
    describe_environment,
    plain,
    reopen_runs,
    run_folder,
)
from ..training import are_optional, dead_layers, entry_interval, run_header
from ._batch import StepBatch
from ._callbacks import check_module
from ._losses import KeptLosses
from ._module import MultiTaskModule
from ._strategies import whole, whole_weights

N_LAST_ROUNDS = 300  # whose mean loss a report takes


class RunFolder(Callback):
    """Writes a training as a run's folder, ``OUT/METHOD/seed-000``, beside Lightning's checkpoints.

    `allotment report` and `allotment embeddings` read it, and `al.load(folder, network=...)` its
    weights. It has entries as often as `fit` would, and those of validation. The end of the
    training closes it, with the last weights; ``trainer.test(module, data)`` adds the test splits.
    A training that goes on from a checkpoint goes on in its folder, and one that did not reach its
    end begins anew there where there is no checkpoint. One that was closed is refused.

    >>> from allotment.lightning import RunFolder
    >>> callbacks = [RunFolder("runs", experiment="mine")]  # of a Trainer

    Args:
        out: Where runs are recorded, for all seeds and methods of an experiment.
        experiment: What reports call it.
        method: Of sharing; empty: the class of the first modular layer's allocation.
        command: What was typed, for the record.
    """

    def __init__(
        self,
        out: Path | str,
        *,
        experiment: str = "lightning",
        method: str = "",
        command: str = "",
    ) -> None:
        self._out = Path(out)
        self._told = {"experiment": experiment, "method": method, "command": command}
        self._writer: RunWriter | None = None  # of the first process, once training starts
        self._outcome: Outcome | None = None
        self._losses: Floats | None = None  # sums and counts of the last rounds, [2, K, T]
        self._end = self._last_entry = 0  # rounds that have losses, and that an entry told
        self._due = 0  # the round of an entry that waits for a validation, if any
        self._n_entries = self._n_rounds = 0
        self._seconds = 0.0
        self._failed: int | None = None
        self._is_resumed = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        check_module(self, pl_module)
        assert isinstance(pl_module, MultiTaskModule)
        self._trainer, self._kept = trainer, KeptLosses(len(pl_module.tasks))
        self._header = self._header_of(pl_module)  # before a strategy changes the parameters

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Opens the folder, at the place where a checkpoint stood if the training goes on."""
        assert isinstance(pl_module, MultiTaskModule)
        self._started = time.monotonic() - self._seconds
        if not trainer.is_global_zero:
            return
        folder = run_folder(self._out, self._header)
        if (folder / "summary.json").exists() and not self._is_resumed:
            raise RecordError(
                f"A run's folder should be new, or of a run that did not reach its end. Found "
                f"`{folder}`, a completed run. Another seed or `out` has a folder of its own."
            )
        state = TrainingState(
            round=self._n_rounds, n_entries=self._n_entries, seconds=self._seconds, tensors={}
        )
        now = describe_environment(str(pl_module.device))
        (self._writer,) = reopen_runs(
            self._out, [self._header], state if self._is_resumed else None, now
        )

    def _header_of(self, module: MultiTaskModule) -> RunHeader:
        kind = type(module.network.modular_layers[0].allocation).__name__
        run = Run(module.network, module.tasks, module.seed, module.settings)
        # A Trainer ends with its last weights, whatever the settings say of the best ones.
        followed = module.settings.changed(keep_best=False)
        settings = {"training": followed, "allocation": {"kind": kind}}
        return run_header(
            run,
            condition="",
            n_last_rounds=N_LAST_ROUNDS,
            settings=plain(settings),
            **self._told | {"method": self._told["method"] or kind},
        )

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._write_due(pl_module, None)  # no validation came

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: StepBatch,
        batch_idx: int,
    ) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        self._kept.add(batch, outputs["losses"])
        done, rest = divmod((batch.step + 1) * len(batch.parts), len(pl_module.tasks))
        if rest:
            return
        self._n_rounds = done
        settings = pl_module.settings
        every, interval = (
            settings.evaluate_every or settings.rounds,
            entry_interval(settings.rounds),
        )
        if done % interval == 0 or done % every == 0 or done == settings.rounds:
            self._due = done

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        if not trainer.sanity_checking:
            self._write_due(pl_module, pl_module.evaluations.get("validation"))

    @torch.no_grad()
    def _write_due(self, module: LightningModule, validation: Evaluation | None) -> None:
        """Writes the entry that waits, if one does."""
        if not self._due:
            return
        self._gather()
        probabilities, matrix = self._gates(module)
        assert self._losses is not None
        done, n_new = self._due, self._end - self._last_entry
        sums, counts = self._losses[:, -n_new:].sum(axis=1)
        with np.errstate(invalid="ignore"):  # a task that was not drawn has no loss
            entry = LogEntry(
                round=done,
                losses=sums / counts,
                probabilities=probabilities,
                share_active=float(matrix.mean()),
                validation=validation,
            )
        self._last_entry, self._due = done, 0
        self._n_entries += 1
        if self._writer is not None:
            self._writer.n_done = done
            self._writer.add(entry)

    def _gather(self) -> None:
        """Takes the losses of all processes since the last time."""
        found = self._kept.take(self._trainer)
        new = np.stack([found.sums, found.counts])
        if self._losses is None:
            self._losses = new[:, :0]
        if new.shape[1] and found.first < self._end:  # the rest of a round
            self._losses[:, -1] += new[:, 0]
            new = new[:, 1:]
        self._losses = np.concatenate([self._losses, new], axis=1)
        self._end += new.shape[1]
        n_kept = max(N_LAST_ROUNDS, self._end - self._last_entry)
        self._losses = self._losses[:, -n_kept:]
        self._failed = found.first_bad if self._failed is None else self._failed

    def _final_loss(self) -> float:
        """Returns the mean loss over tasks and the last rounds."""
        assert self._losses is not None
        sums, counts = self._losses[:, -N_LAST_ROUNDS:].sum(axis=2)
        return float((sums / np.maximum(counts, 1)).mean()) if len(sums) else float("nan")

    def _gates(self, module: LightningModule) -> tuple[Floats, Floats]:
        assert isinstance(module, MultiTaskModule)
        with whole(self._trainer, module):
            found = module.network.probabilities(), module.network.matrix()
            return found[0].float().cpu().numpy(), found[1].float().cpu().numpy()

    @torch.no_grad()
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the folder; one whose training the Trainer's own limits ended can go on."""
        assert isinstance(pl_module, MultiTaskModule)
        self._write_due(pl_module, None)
        self._gather()
        outcome = self._outcome_of(pl_module)
        if self._writer is None:
            return
        self._outcome = outcome
        if self._n_rounds < pl_module.settings.rounds and not trainer.should_stop:
            self._writer.interrupt("a limit of the Trainer")
        else:
            self._writer.close(outcome)

    def _outcome_of(self, module: MultiTaskModule) -> Outcome:
        """Returns where a training stands; all processes should ask for it."""
        weights = whole_weights(self._trainer, module)
        probabilities, matrix = self._gates(module)
        network = module.network
        names, sizes = network.task_names, network.layer_sizes
        return Outcome(
            status="finished" if self._failed is None else "failed",
            failed_step=self._failed,
            rounds=self._n_rounds,
            seconds=time.monotonic() - self._started,
            n_together=1,
            final_loss=self._final_loss(),
            best_round=None,
            matrix=matrix,
            probabilities=probabilities,
            validation=module.evaluations.get("validation"),
            test=None,
            weights=weights,
            dead=dead_layers(matrix, names, sizes, are_optional(network)),
        )

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, MultiTaskModule)
        if self._writer is not None and self._outcome is not None:
            found = pl_module.evaluations.get("test")
            self._writer.add_test(replace(self._outcome, test=found))

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        if self._writer is not None:
            self._writer.interrupt(type(exception).__name__)

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps; the entries before it are on the disk by then."""
        self._gather()
        assert self._losses is not None
        if self._writer is not None:
            self._writer.sync()
        return {
            "n_rounds": self._n_rounds,
            "n_entries": self._n_entries,
            "seconds": time.monotonic() - self._started,
            "due": self._due,
            "failed": self._failed,
            "losses": torch.from_numpy(self._losses),
            "end": self._end,
            "last_entry": self._last_entry,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes to where the training stood."""
        self._is_resumed = True
        self._losses = state_dict["losses"].cpu().numpy()
        self._end, self._last_entry = state_dict["end"], state_dict["last_entry"]
        self._n_rounds, self._n_entries = state_dict["n_rounds"], state_dict["n_entries"]
        self._seconds, self._due = state_dict["seconds"], state_dict["due"]
        self._failed = state_dict["failed"]
