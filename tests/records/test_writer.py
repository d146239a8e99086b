from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from allotment.records import (
    RecordError,
    RunWriter,
    describe_environment,
    open_runs,
    read_run,
    read_runs,
    read_weights,
    run_folder,
    unfinished_runs,
)
from allotment.records import _writer as writer_module
from tests.records.made_up import a_header, an_entry, an_evaluation, an_outcome, flip


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("", "gumbel/seed-007"),
        ("rho=0", "rho=0/gumbel/seed-007"),
        ("a/b c", "a_b_c/gumbel/seed-007"),
        ("..", "_/gumbel/seed-007"),
    ],
)
def test_a_run_has_its_place(condition: str, expected: str) -> None:
    folder = run_folder(Path("out"), a_header(condition=condition, seed=7))
    assert folder == Path("out") / expected


def test_a_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    seen = an_evaluation(np.array([0.5, 0.6, 0.7, 0.8]), split="validation")
    header = a_header(n_classes=(10, 10, 10, 10), measure="accuracy")
    writer = RunWriter(tmp_path / "run", header, describe_environment("a lamp"))
    writer.add(an_entry(round=50))
    writer.add(an_entry(round=100, share_active=0.25, validation=seen))
    writer.close(an_outcome(test=seen))
    record = read_run(tmp_path / "run")
    assert record.header == header
    assert record.environment.device == "a lamp"
    assert_array_equal(record.rounds, [50, 100])
    assert_array_equal(record.losses, [[0.4, 0.3, 0.2, 0.1]] * 2)
    assert_array_equal(record.share_active, [0.5, 0.25])
    assert [at for at, _ in record.validation] == [100]
    assert_array_equal(record.snapshots.rounds, [50, 100])
    assert record.snapshots.probabilities.shape == (2, 4, 4)
    assert record.outcome.test is not None
    assert record.outcome.test.accuracies is not None
    assert_allclose(record.outcome.test.accuracies, [0.5, 0.6, 0.7, 0.8], rtol=0)
    assert_array_equal(record.outcome.matrix, an_outcome().matrix)


def test_a_test_that_came_later_leaves_damage_visible(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    writer.add(an_entry())
    writer.close(an_outcome(test=None))
    writer.add_test(an_outcome(test=an_evaluation()))
    assert read_run(tmp_path / "run").outcome.test is not None
    flip(tmp_path / "run" / "allocations.npz", 0.5)
    with pytest.raises(RecordError, match=r"allocations.npz` damaged: .* another hash"):
        read_run(tmp_path / "run")


def test_nan_survives(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    writer.add(an_entry(losses=np.array([1.0, np.nan, np.inf, 2.0])))
    writer.close(an_outcome(status="failed", failed_step=9, final_loss=float("nan")))
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    record = read_run(tmp_path / "run")
    assert_array_equal(record.losses, [[1.0, np.nan, np.nan, 2.0]])
    assert np.isnan(record.outcome.final_loss)
    assert record.outcome.failed_step == 9
    assert not record.finished


def test_a_run_that_failed_before_its_first_entry_can_be_read(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run", a_header()).close(an_outcome(status="failed", failed_step=0))
    record = read_run(tmp_path / "run")
    assert record.losses.shape == (0, 4)
    assert record.snapshots.probabilities.shape == (0, 4, 4)


def test_weights_come_back_even_where_runs_share_memory(tmp_path: Path) -> None:
    import torch

    stacked = torch.arange(6.0).reshape(3, 2)
    weights = {"layer.weight": stacked[1], "layer.bias": stacked.T[1], "again": stacked[1]}
    RunWriter(tmp_path / "run", a_header()).close(an_outcome(weights=weights))
    found = read_weights(tmp_path / "run")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)


@pytest.mark.parametrize("last", ["allocations.npz", "weights.safetensors", "summary.json"])
def test_a_run_killed_while_it_closes_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    def die(self: Path, target: Path) -> Path:
        if target.name == last:
            raise KeyboardInterrupt
        self.rename(target)
        return target

    writer = RunWriter(tmp_path / "gumbel" / "seed-000", a_header())
    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        writer.close(an_outcome())
    assert read_runs(tmp_path) == []
    assert unfinished_runs(tmp_path) == [writer.folder]
    with pytest.raises(RecordError, match=r"should have a `summary\.json`"):
        read_run(writer.folder)


def test_the_summary_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    order: list[str] = []
    for name in ("write_bytes", "write_json"):
        monkeypatch.setattr(writer_module, name, lambda path, _: order.append(path.name))
    writer.close(an_outcome())
    assert order == ["allocations.npz", "weights.safetensors", "summary.json"]


def test_an_interrupted_run_says_so_and_is_not_counted(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    writer.add(an_entry())
    writer.interrupt("stopped by hand")
    assert "stopped by hand" in (tmp_path / "run" / "interrupted.json").read_text()
    assert (tmp_path / "run" / "allocations.npz").exists()
    assert read_runs(tmp_path) == []
    assert unfinished_runs(tmp_path) == [tmp_path / "run"]


def test_rounds_inside_a_logging_interval_are_told(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    writer.n_done = 30  # before the first entry
    writer.interrupt("stopped by hand")
    assert '"rounds": 30' in (tmp_path / "run" / "interrupted.json").read_text()


def test_a_closed_run_cannot_be_interrupted(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    writer.close(an_outcome())
    before = contents(tmp_path)
    writer.interrupt()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("end", ["closed", "interrupted", "killed"])
def test_an_existing_run_is_refused_and_left_untouched(tmp_path: Path, end: str) -> None:
    writer = RunWriter(tmp_path / "run", a_header())
    if end == "closed":
        writer.close(an_outcome())
    elif end == "interrupted":
        writer.add(an_entry())
        writer.interrupt()
    before = contents(tmp_path)
    with pytest.raises(RecordError, match=r"A run's folder should be new\. Found `.*run`"):
        RunWriter(tmp_path / "run", a_header(seed=1))
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("out", "expectation"),
    [
        ("new", nullcontext()),
        ("new/deep/deeper", nullcontext()),
        ("file/run", pytest.raises(RecordError, match=r"should be writable\. Found `.*file/run")),
        ("file", pytest.raises(RecordError, match="A run's folder should be new")),
    ],
)
def test_output_path(tmp_path: Path, out: str, expectation: AbstractContextManager[object]) -> None:
    (tmp_path / "file").write_text("a file")
    with expectation:
        RunWriter(tmp_path / out, a_header())


def test_of_many_runs_none_is_opened_where_one_is_refused(tmp_path: Path) -> None:
    headers = [a_header(seed=seed) for seed in range(3)]
    run_folder(tmp_path, headers[2]).mkdir(parents=True)
    with pytest.raises(RecordError, match="seed-002"):
        open_runs(tmp_path, headers, describe_environment("cpu"))
    assert [path.name for path in (tmp_path / "gumbel").iterdir()] == ["seed-002"]


@pytest.mark.parametrize("condition", ["", "rho=0"])
def test_of_a_new_run_stopped_before_its_first_round_nothing_is_left(
    tmp_path: Path, condition: str
) -> None:
    headers = [a_header(seed=seed, condition=condition) for seed in range(2)]
    (tmp_path / "other").touch()
    for writer in open_runs(tmp_path, headers, describe_environment("cpu")):
        writer.interrupt("ValueError")
    assert [path.name for path in tmp_path.rglob("*")] == ["other"]
