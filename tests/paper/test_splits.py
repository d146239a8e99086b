"""One experiment on several splits of its data: which are run, and what they are called."""

from argparse import Namespace
from pathlib import Path

import torch
from pytest import MonkeyPatch, mark, raises

from allotment.cli._parser import make_parser
from allotment.cli._run import make_sweep
from allotment.experiments import Experiment, RateSearch, Sweep, TaskChoice, run_groups
from allotment.paper import COMPARED, EXPERIMENTS, SUITES, experiment_on, four_mnists
from allotment.paper._methods import BASELINE, LEFT_OUT, METHODS
from tests.experiments.toy import make_small_data, toy

OMNIGLOT = EXPERIMENTS["omniglot"]
CLEAN, PUBLISHED = OMNIGLOT.data.conditions


@mark.parametrize(
    ("names", "conditions"),
    [
        ((), (CLEAN,)),
        (("clean",), (CLEAN,)),
        (("published",), (PUBLISHED,)),
        (("published", "clean"), (CLEAN, PUBLISHED)),
        (("clean", "clean"), (CLEAN,)),
    ],
)
def test_the_first_split_is_run_unless_others_are_named(
    names: tuple[str, ...], conditions: tuple[str, ...]
) -> None:
    assert OMNIGLOT.on_splits(names).data.conditions == conditions
    options = [part for name in names for part in ("--split", name)]
    sweep = make_sweep(_parsed("run", "omniglot", *options))
    assert sweep.experiment.data.conditions == conditions


def _parsed(*arguments: str) -> Namespace:
    options = make_parser().parse_args(arguments)
    options.command = ""
    return options


def test_an_experiment_with_one_split_stays_as_it_is() -> None:
    transfer = EXPERIMENTS["transfer"]
    assert transfer.on_splits(()) is transfer
    with raises(ValueError, match=r"`split` should be named for an experiment that has several\."):
        transfer.on_splits(("clean",))


def test_an_unknown_split_is_answered_with_the_known_ones() -> None:
    with raises(ValueError, match=r"one of 'clean', 'published'\. Found `split = 'leaky'`"):
        OMNIGLOT.on_splits(("clean", "leaky"))


def test_the_published_split_is_called_leaking_wherever_it_appears() -> None:
    assert PUBLISHED == "published split (leaks)"
    rows = OMNIGLOT.report_spec().rows
    assert {row.condition for row in rows} == {CLEAN, PUBLISHED}
    assert all((row.paper is not None) == (row.condition == PUBLISHED) for row in rows)


def test_each_condition_trains_on_its_own_split(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    data = make_small_data(tmp_path / "data", monkeypatch, *OMNIGLOT.data.sets)
    for condition, split in OMNIGLOT.data.splits.items():
        sanskrit = OMNIGLOT.make_tasks(TaskChoice(condition, 0, data))[7]
        n_copies = 2 if split == "published" else 1
        assert sanskrit.name == "Sanskrit"
        assert len(sanskrit.train) == n_copies * 2 * 2  # two of four drawings of two characters


def test_runs_are_recorded_under_the_name_of_their_split(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    data = make_small_data(tmp_path / "data", monkeypatch, *OMNIGLOT.data.sets)
    experiment = toy("omniglot").on_splits(("published",))
    sweep = Sweep(
        experiment=experiment,
        methods=experiment.methods[1:],
        out=tmp_path,
        n_runs=1,
        data_folder=data,
    )
    (group,) = run_groups(sweep)
    assert group.headers[0].condition == PUBLISHED
    assert torch.equal(group.runs[0].network.probabilities()[0, :1], torch.tensor([0.97]))


@mark.parametrize("suite", [name for name in SUITES if name != "two_pairs"])
def test_comparisons_hold_out_examples_to_choose_by(
    suite: str, tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    experiment = experiment_on("comparison", suite)
    data = make_small_data(tmp_path / "data", monkeypatch, *experiment.data.sets)
    for task in experiment.make_tasks(TaskChoice(experiment.data.conditions[0], 0, data)):
        train, validation, test = (task.split(part) for part in ("train", "validation", "test"))
        assert train is not None and validation is not None and test is not None
        assert train.rows is not None and validation.rows is not None
        assert validation.inputs.data_ptr() == train.inputs.data_ptr()
        assert not set(train.rows.tolist()) & set(validation.rows.tolist())


def test_a_sixth_of_mnist_is_held_out(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    data = make_small_data(tmp_path, monkeypatch, "mnist")
    for tasks, sizes in ((four_mnists(data), (50, 0)), (four_mnists(data, held_out=0.2), (40, 10))):
        for task in tasks:
            found = [task.split(part) for part in ("train", "validation")]
            assert tuple(0 if split is None else len(split) for split in found) == sizes


@mark.parametrize("experiment", COMPARED.values(), ids=lambda experiment: experiment.name)
def test_a_method_is_compared_or_left_out_for_a_reason(experiment: Experiment) -> None:
    suite = experiment.name.removeprefix("comparison_")
    names = {method.name for method in experiment.methods}
    assert names | set(LEFT_OUT.get(suite, {})) == {method.name for method in METHODS}
    assert not names & set(LEFT_OUT.get(suite, {}))
    assert len(experiment.report.left_out) == len(LEFT_OUT.get(suite, {}))
    assert experiment.search is not None
    assert experiment.search.factors == RateSearch().factors  # on all suites the same
    assert experiment.report.measure and experiment.report.baseline == BASELINE
