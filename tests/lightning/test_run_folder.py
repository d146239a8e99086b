"""A training under Lightning leaves the folder that `fit`'s own records would have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from pytest import mark, raises

import allotment as al
from allotment.cli import main
from allotment.lightning import MultiTaskData, MultiTaskModule, RunFolder
from allotment.records import RecordError, read_run, unfinished_runs

from .toy import SETTINGS, network, tasks, trainer

LONG = replace(SETTINGS, rounds=25, evaluate_every=10)

pytestmark = [
    mark.filterwarnings("ignore::FutureWarning"),
    mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
]


def trained(out: Path, file: Path | None = None, **options: Any) -> MultiTaskModule:
    """Trains, tests and records."""
    module, data = MultiTaskModule(network(), tasks(), LONG), MultiTaskData(tasks(), LONG)
    callbacks = [RunFolder(out, experiment="toy"), *options.pop("callbacks", [])]
    run = trainer(out.parent, callbacks=callbacks, **options)
    run.fit(module, data, ckpt_path=file)
    run.test(module, data, verbose=False)
    return module


def test_the_record_is_that_of_fit(tmp_path: Path) -> None:
    module = trained(tmp_path / "runs")
    fitted = network()
    result = al.fit(fitted, tasks(), replace(LONG, keep_best=False))
    record = read_run(tmp_path / "runs" / "GumbelMatrix" / "seed-000")
    assert record.header.experiment == "toy" and record.finished
    assert record.rounds.tolist() == [entry.round for entry in result.history] == [10, 20, 25]
    np.testing.assert_allclose(record.losses, [e.losses for e in result.history], rtol=1e-4)
    probabilities = [entry.probabilities for entry in result.history]
    np.testing.assert_allclose(record.snapshots.probabilities, probabilities, atol=1e-4)
    assert [done for done, _ in record.validation] == [10, 20, 25]
    for (_, found), entry in zip(record.validation, result.history, strict=True):
        assert entry.validation is not None
        np.testing.assert_allclose(found.losses, entry.validation.losses, rtol=1e-4)
    outcome = record.outcome
    assert outcome.test is not None and result.test is not None
    np.testing.assert_allclose(outcome.test.losses, result.test.losses, rtol=1e-4)
    means = [entry.losses.mean() * n for entry, n in zip(result.history, (10, 10, 5), strict=True)]
    assert abs(outcome.final_loss - sum(means) / 25) < 1e-4
    loaded = al.load(tmp_path / "runs/GumbelMatrix/seed-000", network=network())
    assert torch.equal(al.task_embeddings(loaded), al.task_embeddings(module.network))


@mark.filterwarnings("ignore:The settings have")  # a limit ends a part of it
# Of a checkpoint after an epoch's last step, Lightning leaves out the validation that follows.
@mark.parametrize(("step", "validated"), [(35, [10, 20, 25]), (60, [10, 25])])
def test_a_resumed_training_goes_on_in_its_folder(
    step: int, validated: list[int], tmp_path: Path
) -> None:
    keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=5, save_top_k=-1)
    trained(tmp_path / "whole", callbacks=[keep], enable_checkpointing=True)
    module, data = MultiTaskModule(network(), tasks(), LONG), MultiTaskData(tasks(), LONG)
    again = ModelCheckpoint(tmp_path / "cut", every_n_train_steps=5)
    folder = RunFolder(tmp_path / "runs", experiment="toy")
    first = trainer(
        tmp_path, callbacks=[folder, again], enable_checkpointing=True, max_steps=step + 2
    )
    first.fit(module, data)
    assert len(unfinished_runs(tmp_path / "runs")) == 1  # the Trainer's limit ended it
    trained(tmp_path / "runs", tmp_path / f"step={step}.ckpt")
    found, whole = (
        read_run(tmp_path / out / "GumbelMatrix" / "seed-000") for out in ("runs", "whole")
    )
    np.testing.assert_array_equal(found.losses, whole.losses)
    np.testing.assert_array_equal(found.snapshots.probabilities, whole.snapshots.probabilities)
    assert [done for done, _ in found.validation] == validated
    assert found.outcome.final_loss == whole.outcome.final_loss
    assert len(found.environment.resumed) == 1


def test_a_completed_run_is_left_alone(tmp_path: Path) -> None:
    trained(tmp_path / "runs")
    with raises(RecordError, match=r"should be new, or of a run that did not reach its end. Found"):
        trained(tmp_path / "runs")


def test_reports_read_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    trained(runs)
    assert main(["report", str(runs), "-o", str(tmp_path / "report.html")]) == 0
    assert "GumbelMatrix" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert main(["embeddings", str(runs), "-o", str(tmp_path / "figures")]) == 0
    assert list((tmp_path / "figures").glob("*.svg"))


def test_a_failed_training_leaves_an_unfinished_run(tmp_path: Path) -> None:
    def failing(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no more")

    made = tasks()
    made[1] = replace(made[1], loss=failing)
    module, data = MultiTaskModule(network(), made, LONG), MultiTaskData(made, LONG)
    with raises(RuntimeError, match="no more"):
        trainer(tmp_path, callbacks=[RunFolder(tmp_path / "runs")]).fit(module, data)
    (folder,) = unfinished_runs(tmp_path / "runs")
    assert "RuntimeError" in (folder / "interrupted.json").read_text()
