"""Every declared experiment takes a few rounds at toy size."""

from pathlib import Path

import numpy as np
from pytest import MonkeyPatch, mark, param

from allotment.analysis import measure
from allotment.experiments import Sweep, run_sweep
from allotment.paper import CAUSES, EXPERIMENTS, MAPS, REMEDIES
from allotment.records import read_run
from tests.experiments.toy import make_small_data, toy

# Of these one method is enough every day: the others are seen on `comparison_two_pairs` and
# `comparison_digits`, and gates on the network of Omniglot in `omniglot_tuned`.
COMPARISONS = [f"comparison_{name}" for name in ("mnist", "census", "clusters")]
WHEN = [each.name for each in (*MAPS, *CAUSES, *REMEDIES)]
SLOW = ["omniglot", "omniglot_tuned", *COMPARISONS, *WHEN]
# Their networks and tasks are those of comparisons, their gates those of `test_changes`.
SLOWEST = [
    "causes_two_pairs",
    "causes_census",
    "remedy_mnist",
    "remedy_clusters",
    "remedy_omniglot",
]
EVERY = [
    param(name, method.name, marks=[mark.slow] * ((name in SLOW and place > 0) or name in SLOWEST))
    for name, experiment in EXPERIMENTS.items()
    for place, method in enumerate(experiment.methods)
]


@mark.parametrize(("name", "method"), EVERY)
def test_every_method_of_every_experiment_leaves_a_complete_record(
    name: str, method: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    experiment = toy(name)
    sweep = Sweep(
        experiment=experiment,
        methods=(experiment.method(method),),
        out=tmp_path / "runs",
        n_runs=2,
        data_folder=make_small_data(tmp_path / "data", monkeypatch, *experiment.data.sets),
    )
    folders = run_sweep(sweep)
    assert len(folders) == 2 * len(experiment.data.conditions)
    for folder in folders:
        record = read_run(folder)
        n_tasks, n_components = len(record.header.task_names), sum(record.header.layer_sizes)
        assert record.finished
        assert record.outcome.rounds == 3
        assert record.outcome.matrix.shape == (n_tasks, n_components)
        assert len(record.header.component_names) == n_components
        assert experiment.report.shown_task in ("", *record.header.task_names)
        assert np.isfinite(record.losses).all()
        is_tested = record.outcome.test is not None
        natural = "accuracy" if is_tested else "loss"
        assert record.header.measure == (experiment.report.measure or natural)
        assert np.isfinite(measure(record))
        assert record.header.n_parameters > 0
        assert record.header.n_operations > 0


@mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_expects_a_row_for_each_method_and_condition(name: str) -> None:
    experiment = EXPERIMENTS[name]
    rows = {(row.condition, row.method) for row in experiment.report_spec().rows}
    assert rows == {(c, m.name) for c in experiment.data.conditions for m in experiment.methods}
    for method in experiment.methods:
        assert set(method.paper) <= set(experiment.data.conditions), method.name
