"""Runs of several conditions as one program."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.testing import assert_allclose, assert_array_equal
from pytest import TempPathFactory, fixture, raises

import allotment as al
from allotment.experiments import Stop, Stopped, Sweep, run_groups, run_sweep
from allotment.records import RunRecord, read_run, read_runs
from allotment.training import have_like_examples
from tests.experiments.test_running import records_in
from tests.experiments.toy import CONDITIONS, toy

METHODS = ("no_sharing-0.01", "oracle-0.003", "gumbel-0.01", "gumbel-0.003")
FEW, MORE, UNLIMITED, NARROW = CONDITIONS["map"]


def a_map(out: Path, *conditions: str, **changes: Any) -> Sweep:
    # Recording a step takes longer than these few rounds.
    experiment = toy("map", rounds=20, evaluate_every=10, trace=False)
    methods = tuple(experiment.method(name) for name in METHODS)
    if conditions:
        experiment = replace(experiment, data=replace(experiment.data, conditions=conditions))
    values: dict[str, Any] = {"methods": methods, "out": out, "n_runs": 1}
    return Sweep(experiment=experiment, **values | changes)


def names(sweep: Sweep) -> list[set[tuple[str, str]]]:
    return [{(h.condition, h.method) for h in group.headers} for group in run_groups(sweep)]


def test_conditions_and_rates_join_where_examples_and_networks_allow(tmp_path: Path) -> None:
    fixed, learnt = METHODS[:2], METHODS[2:]
    assert names(a_map(tmp_path)) == [
        {(condition, method) for condition in conditions for method in methods}
        for conditions in ((FEW, MORE), (UNLIMITED,), (NARROW,))
        for methods in (fixed, learnt)
    ]
    first, *_ = run_groups(a_map(tmp_path))
    assert first.label.startswith("2 conditions  No sharing")


def test_conditions_and_rates_stay_apart_unless_the_experiment_joins_them(tmp_path: Path) -> None:
    sweep = a_map(tmp_path, FEW, MORE)
    data = replace(sweep.experiment.data, joined=False)
    found = names(replace(sweep, experiment=replace(sweep.experiment, data=data)))
    assert found == [{(c, m)} for c in (FEW, MORE) for m in METHODS]


def by_name(out: Path) -> dict[tuple[str, str, int], RunRecord]:
    found = read_runs(out)
    return {(r.header.condition, r.header.method, r.header.seed): r for r in found}


@fixture(scope="module")
def joined(tmp_path_factory: TempPathFactory) -> Path:
    """A sweep of two conditions, in two programs."""
    out = tmp_path_factory.mktemp("joined")
    run_sweep(a_map(out, FEW, MORE))
    return out


def test_a_run_in_a_large_program_is_the_run_alone(joined: Path, tmp_path: Path) -> None:
    run_sweep(a_map(tmp_path, FEW, MORE, group_size=1))
    whole, alone = by_name(joined), by_name(tmp_path)
    assert len(whole) == 2 * len(METHODS)
    assert whole.keys() == alone.keys()
    assert {record.outcome.n_together for record in alone.values()} == {1}
    assert {record.outcome.n_together for record in whole.values()} == {4}
    for name, record in whole.items():
        other = alone[name]
        assert record.header == other.header
        assert_allclose(record.losses, other.losses, rtol=1e-4)
        assert record.outcome.best_round == other.outcome.best_round
        assert_array_equal(record.outcome.matrix, other.outcome.matrix)
        for part in ("validation", "test"):
            found, expected = getattr(record.outcome, part), getattr(other.outcome, part)
            assert_allclose(found.losses, expected.losses, rtol=1e-4)


def test_runs_of_different_rates_and_sizes_differ(joined: Path) -> None:
    losses = [float(r.outcome.test.losses.sum()) for r in read_runs(joined) if r.outcome.test]
    assert len(set(losses)) == len(losses) == 2 * len(METHODS)


def test_a_joined_program_goes_on_where_it_was_stopped(joined: Path, tmp_path: Path) -> None:
    stopped = a_map(tmp_path, FEW, MORE)
    with raises(Stopped):
        run_sweep(stopped, stop=Stop(minutes=1e-9))
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
    run_sweep(replace(stopped, resume=True))
    assert records_in(tmp_path) == records_in(joined)


def test_the_network_of_a_condition_is_loaded_as_it_was_trained(tmp_path: Path) -> None:
    sweep = a_map(tmp_path, NARROW)
    (folder,) = run_sweep(replace(sweep, methods=sweep.methods[:1]))
    network = al.load(folder, experiment=sweep.experiment)
    widths = {p.shape[0] for n, p in network.named_parameters() if "components" in n}
    assert widths == {4}  # of both layers, weights and biases
    assert read_run(folder).header.n_parameters == sum(p.numel() for p in network.parameters())


def test_generated_examples_and_arrays_are_not_alike(tmp_path: Path) -> None:
    runs = {group.headers[0].condition: group.runs[0] for group in run_groups(a_map(tmp_path))}
    assert have_like_examples(runs[FEW], runs[NARROW])
    assert have_like_examples(runs[UNLIMITED], runs[UNLIMITED])
    assert not have_like_examples(runs[FEW], runs[UNLIMITED])
