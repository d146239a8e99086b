import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from allotment.records import RecordError, keep, read_kept
from allotment.records._record import Snapshots
from tests.records.made_up import (
    ENVIRONMENT,
    SETTINGS,
    a_header,
    a_record,
    accuracy_run,
    an_evaluation,
    an_outcome,
    failed_run,
    loss_run,
)


def test_a_kept_run_is_the_same_record_but_for_its_length(tmp_path: Path) -> None:
    record = accuracy_run([0.91, 0.92, 0.93, 0.94])
    keep([record], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert kept.header == record.header
    assert kept.environment == record.environment
    assert kept.outcome.final_loss == record.outcome.final_loss
    assert_array_equal(kept.outcome.matrix, record.outcome.matrix)
    assert_allclose(kept.outcome.probabilities, record.outcome.probabilities, atol=0.005)
    assert kept.outcome.test is not None
    assert kept.outcome.test.accuracies is not None
    assert_array_equal(kept.outcome.test.accuracies, [0.91, 0.92, 0.93, 0.94])
    assert kept.outcome.weights == {}


def test_without_curves_only_the_end_of_a_run_is_kept(tmp_path: Path) -> None:
    checks = tuple((at, an_evaluation(np.full(4, 0.5), "validation")) for at in (50, 100))
    record = replace(accuracy_run([0.91, 0.92, 0.93, 0.94]), validation=checks)
    (path,) = keep([record], tmp_path, with_curves=False)
    (kept,) = read_kept(tmp_path)
    assert kept.header == record.header
    assert kept.outcome.test is not None and kept.outcome.test.accuracies is not None
    assert_array_equal(kept.outcome.test.accuracies, [0.91, 0.92, 0.93, 0.94])
    assert_array_equal(kept.rounds, record.rounds[-1:])
    assert len(kept.snapshots.rounds) == 1
    assert kept.validation == ()
    short = path.stat().st_size
    keep([record], tmp_path)
    assert path.stat().st_size > short + 2_000


def test_where_a_kept_run_went_on_is_kept_too(tmp_path: Path) -> None:
    pieces = tuple(replace(ENVIRONMENT, device=name, round=n) for name, n in (("a", 10), ("b", 20)))
    environment = replace(ENVIRONMENT, resumed=pieces)
    keep([a_record(environment=environment)], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert kept.environment == environment


def test_each_condition_and_method_has_its_file(tmp_path: Path) -> None:
    runs = [
        loss_run(1.0, 0, condition=condition, method=method)
        for condition in ("", "rho=0")
        for method in ("a", "b")
    ]
    paths = keep(runs, tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in paths]
    stems = ["a", "b", "rho=0-a", "rho=0-b"]
    assert names == [f"two_pairs/{stem}.json" for stem in stems]


def test_a_seed_that_ran_again_replaces_the_old_and_others_stay(tmp_path: Path) -> None:
    keep([loss_run(1.0, 0), loss_run(2.0, 1)], tmp_path)
    keep([loss_run(20.0, 1), loss_run(30.0, 2)], tmp_path)
    found = {record.header.seed: record.outcome.final_loss for record in read_kept(tmp_path)}
    assert found == {0: 1.0, 1: 20.0, 2: 30.0}


def test_each_launch_is_kept_once(tmp_path: Path) -> None:
    keep([loss_run(1.0, seed) for seed in range(3)], tmp_path)
    (path,) = keep([loss_run(1.0, 3, command="allotment run two_pairs --runs 1")], tmp_path)
    assert path.read_text().count('"command"') == 2
    assert [record.header.command for record in read_kept(tmp_path)] == [
        *["allotment run two_pairs"] * 3,
        "allotment run two_pairs --runs 1",
    ]


def test_keeping_again_changes_nothing(tmp_path: Path) -> None:
    (path,) = keep([loss_run(1.23456789, seed) for seed in range(3)], tmp_path)
    before = path.read_bytes()
    keep(read_kept(tmp_path), tmp_path)
    assert path.read_bytes() == before


def test_thirty_runs_take_kilobytes(tmp_path: Path) -> None:
    (path,) = keep([loss_run(1.0, seed) for seed in range(30)], tmp_path)
    assert path.stat().st_size < 90_000


def test_runs_with_other_settings_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (path,) = keep([loss_run(1.0, 0)], tmp_path)
    before = path.read_bytes()
    settings = {"training": SETTINGS | {"batch_size": 8}}
    others = [loss_run(1.0, 0, method="another"), loss_run(1.0, 1, settings=settings)]
    other = (
        r"`settings.training.batch_size = 8` in seed 1 and 64 in seed 0 for `.*gumbel\.json`; "
        "remove that file to begin anew"
    )
    with pytest.raises(RecordError, match=other):
        keep(others, tmp_path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_a_run_of_an_older_version_is_kept_beside_later_ones(tmp_path: Path) -> None:
    (path,) = keep([loss_run(1.0, 0)], tmp_path)
    content = json.loads(path.read_text())
    header = content["header"]
    for name in ("component_kinds", "is_binary"):  # as of version 0.1, whose settings were flat
        del header[name]
    header["settings"] = {"training": {"batch_size": 64, "learning_rate": 0.01, "decay": "none"}}
    path.write_text(json.dumps(content))
    keep([loss_run(2.0, 1)], tmp_path)
    assert [run.header.settings for run in read_kept(tmp_path)] == [{"training": SETTINGS}] * 2
    other = {"training": SETTINGS | {"schedule": "joint"}}
    with pytest.raises(RecordError, match=r"schedule = 'joint'` in seed 2 and 'alternating'"):
        keep([loss_run(1.0, 2, settings=other)], tmp_path)


def test_shares_of_components_are_kept_with_their_digits(tmp_path: Path) -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(4), size=4)
    record = a_record(a_header(is_binary=False), an_outcome(matrix=shares, probabilities=shares))
    (path,) = keep([record], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert not kept.header.is_binary
    assert_allclose(kept.outcome.matrix, shares, rtol=1e-5)
    before = path.read_bytes()
    keep([kept], tmp_path)
    assert path.read_bytes() == before


def test_no_file_is_to_be_removed_where_there_is_none(tmp_path: Path) -> None:
    both = [loss_run(1.0, 0), loss_run(1.0, 1, families=())]
    with pytest.raises(
        RecordError, match=r"`families = \[\]` in seed 1 and .* in seed 0 .*json`\.$"
    ):
        keep(both, tmp_path)


def test_a_failed_run_is_kept_as_failed(tmp_path: Path) -> None:
    keep([failed_run()], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert not kept.finished
    assert np.isnan(kept.outcome.final_loss)


def test_a_long_curve_becomes_means_of_its_intervals(tmp_path: Path) -> None:
    rounds = np.arange(1, 601)
    losses = np.repeat(rounds[:, None].astype(float), 4, axis=1)
    changes = {"rounds": rounds, "losses": losses, "share_active": rounds / 600}
    keep([a_record(a_header(), an_outcome(rounds=600), **changes)], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert_array_equal(kept.rounds, np.arange(10, 601, 10))
    assert_allclose(kept.losses[:, 0], np.arange(5.5, 600, 10))
    assert kept.share_active[-1] == 1.0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (path,) = keep([loss_run(1.0, 0)], tmp_path)
    path.write_text(path.read_text().replace('"matrix"', '"matrices"'))
    with pytest.raises(RecordError, match=r"gumbel\.json"):
        read_kept(tmp_path)


def test_only_the_first_seed_keeps_its_gates_over_time(tmp_path: Path) -> None:
    runs = [loss_run(1.0, seed) for seed in (4, 2, 3)]
    keep(runs, tmp_path)
    first, *others = read_kept(tmp_path)
    assert first.header.seed == 2
    assert_array_equal(first.snapshots.rounds, runs[1].snapshots.rounds)
    expected = runs[1].snapshots.probabilities
    assert_allclose(first.snapshots.probabilities, expected, rtol=0, atol=0.005 + 1e-9)
    assert [run.snapshots.probabilities.shape for run in others] == [(1, 4, 4)] * 2


def test_gates_that_never_move_are_kept_once(tmp_path: Path) -> None:
    fixed = Snapshots(rounds=np.array([10, 20]), probabilities=np.ones((2, 4, 4)))
    (path,) = keep([a_record(snapshots=fixed)], tmp_path)
    assert '"gates"' not in path.read_text()
    (kept,) = read_kept(tmp_path)
    assert kept.snapshots.probabilities.shape == (1, 4, 4)


def test_many_gates_have_fewer_entries_and_the_last_stays(tmp_path: Path) -> None:
    rounds = np.arange(10, 1001, 10)
    gates = np.linspace(0.0, 1.0, 100)[:, None, None] * np.ones((40, 48))
    header = a_header(
        task_names=tuple(map(str, range(40))),
        families=(),
        layer_sizes=(48,),
        component_names=tuple(map(str, range(48))),
        component_kinds=("dense",) * 48,
    )
    outcome = an_outcome(matrix=np.ones((40, 48)), probabilities=np.ones((40, 48)))
    snapshots = Snapshots(rounds=rounds, probabilities=gates)
    keep([a_record(header, outcome, snapshots=snapshots)], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert len(kept.snapshots.rounds) == 20
    assert kept.snapshots.rounds[-1] == 1000
    assert_allclose(kept.snapshots.probabilities[-1], 1.0)


def test_validation_checks_are_kept(tmp_path: Path) -> None:
    checks = tuple(
        (at, an_evaluation(np.full(4, at / 1000), "validation")) for at in (250, 500, 750)
    )
    (path,) = keep([a_record(validation=checks)], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert [at for at, _ in kept.validation] == [250, 500, 750]
    for (_, found), (_, expected) in zip(kept.validation, checks, strict=True):
        assert found.split == "validation"
        assert found.accuracies is not None and expected.accuracies is not None
        assert_allclose(found.accuracies, expected.accuracies)
        assert_allclose(found.losses, expected.losses)
    before = path.read_bytes()
    keep(read_kept(tmp_path), tmp_path)
    assert path.read_bytes() == before


def test_those_who_keep_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    def one(seed: int) -> None:
        keep([a_record(a_header(seed=seed))], tmp_path / "results")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(16)))
    assert [run.header.seed for run in read_kept(tmp_path / "results")] == list(range(16))
    assert not list((tmp_path / "results").glob(".*"))


def test_what_is_kept_of_each_split_is_that_of_the_split(tmp_path: Path) -> None:
    seen = {
        name: replace(an_evaluation(np.full(4, share), name), losses=np.full(4, 1 - share))
        for name, share in (("validation", 0.25), ("test", 0.75))
    }
    keep([a_record(outcome=an_outcome(**seen))], tmp_path)
    (kept,) = read_kept(tmp_path)
    for name, expected in seen.items():
        found = getattr(kept.outcome, name)
        assert found.split == name
        assert_array_equal(found.accuracies, expected.accuracies)
        assert_array_equal(found.losses, expected.losses)


def test_a_thinned_loss_is_the_mean_over_its_rounds(tmp_path: Path) -> None:
    # 120 entries become 60: of 10 rounds with loss 1, and of 30 with loss 5, the mean is 4.
    rounds = np.cumsum(np.tile([10, 30], 60))
    losses = np.tile(np.array([[1.0], [5.0]]), (60, 4))
    shares, outcome = np.full(120, 0.5), an_outcome(rounds=int(rounds[-1]))
    keep([a_record(outcome=outcome, rounds=rounds, losses=losses, share_active=shares)], tmp_path)
    (kept,) = read_kept(tmp_path)
    assert_array_equal(kept.rounds, rounds[1::2])
    assert_array_equal(kept.losses, np.full((60, 4), 4.0))
