"""One method at several values of a setting: methods of their own, in one program."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from pytest import mark, raises

import allotment as al
from allotment.analysis import used_parameters
from allotment.experiments import Sweep, run_groups, run_sweep, varied
from allotment.paper import EXPERIMENTS
from allotment.records import read_run
from allotment.report import section, tradeoff_figure, tradeoff_table
from tests.experiments.toy import toy


def budgets(over: str) -> list[object]:
    found = varied(EXPERIMENTS["digits"], over)
    return [method.settings(found.training).penalties.budget for method in found.methods]


@mark.parametrize(
    ("over", "expected"),
    [
        ("penalties.budget=0.1..1.0", [round(n / 10, 1) for n in range(1, 11)]),
        ("budget=0.25..1:4", [0.25, 0.5, 0.75, 1.0]),
        ("budget=0.5,none", [0.5, None]),
    ],
)
def test_values_are_a_range_or_a_list(over: str, expected: list[object]) -> None:
    assert budgets(over) == expected


@mark.parametrize(
    ("over", "sentence"),
    [
        ("budget", r"`over` should be a setting with two different values.* Found 'budget'"),
        ("budget=0.5", r"NAME=A..B:N or NAME=A,B,C. Found 'budget=0.5'"),
        ("budget=0.5,0.5", r"two different values"),
        ("budget=0.1..0.5:1", r"two different values"),
        ("budget=0.5,", r"two different values"),
        ("budget=0..1", r"`budget` should be in \(0, 1\]. Found `budget = 0.0`"),
        ("bugdet=0.1..1", r"Did you mean 'budget'"),
    ],
)
def test_what_is_no_range_is_told(over: str, sentence: str) -> None:
    with raises(ValueError, match=sentence):
        varied(EXPERIMENTS["digits"], over)


def test_methods_are_those_that_learn_and_have_no_value_of_their_own() -> None:
    found = varied(EXPERIMENTS["digits"], "budget=0.5,1")
    assert [method.name for method in found.methods] == ["gumbel_budget=0.5", "gumbel_budget=1"]
    named = varied(EXPERIMENTS["digits"], "budget=0.5,1", ["gumbel_budget"])
    settings = [method.settings(named.training).penalties.budget for method in named.methods]
    assert settings == [0.5, 1.0]
    fixed = replace(EXPERIMENTS["digits"], methods=EXPERIMENTS["digits"].methods[:2])
    with raises(ValueError, match=r"no value of its own for the setting. Found none in 'digits'"):
        varied(fixed, "budget=0.5,1")


def test_an_option_of_an_allocation_can_be_varied() -> None:
    found = varied(EXPERIMENTS["digits"], "allocation.p_init=0.2,0.9", ["gumbel"])
    options = [dict(method.allocation.options) for method in found.methods]
    assert [own["p_init"] for own in options] == [0.2, 0.9]


def test_points_train_as_one_program_and_are_loaded_and_reported(tmp_path: Path) -> None:
    experiment = varied(toy("two_pairs", rounds=20), "budget=0.25..1:4")
    sweep = Sweep(experiment=experiment, out=tmp_path, n_runs=2)
    (group,) = run_groups(sweep)
    assert len(group.runs) == 4 * 2
    folders = run_sweep(sweep)
    records = [read_run(folder) for folder in folders]
    assert {record.outcome.n_together for record in records} == {8}
    network = al.load(folders[0])  # by the experiment that it is a variant of
    np.testing.assert_array_equal(network.matrix().numpy(), records[0].outcome.matrix)
    n_own = sum(p.numel() for p in al.extract(network, 0).parameters())
    share = used_parameters(records[0])[0]
    assert share == n_own / sum(p.numel() for p in network.parameters())
    table = tradeoff_table(section(records, experiment.report_spec(records)))
    assert table is not None and len(table.rows) == 4
    assert "yes" in {row[-1] for row in table.rows}


def test_what_to_choose_is_decided_on_validation(tmp_path: Path) -> None:
    experiment = varied(toy("digits", rounds=10), "budget=0.5,1")
    folders = run_sweep(Sweep(experiment=experiment, out=tmp_path, n_runs=1))
    records = [read_run(folder) for folder in folders]

    def choices(validated: list[float | None], tested: list[float]) -> list[str]:
        """What a table says of two runs of one cost with these accuracies."""
        changed = []
        for record, valid, test in zip(records, validated, tested, strict=True):
            seen = record.outcome.test
            assert seen is not None
            n_tasks = len(seen.losses)
            outcome = replace(
                record.outcome,
                n_used=np.ones(n_tasks),
                validation=None
                if valid is None
                else replace(seen, accuracies=np.full(n_tasks, valid)),
                test=replace(seen, accuracies=np.full(n_tasks, test)),
            )
            changed.append(replace(record, outcome=outcome))
        part = section(changed, experiment.report_spec(changed))
        table = tradeoff_table(part)
        assert table is not None
        found = [str(row[-1]) for row in table.rows]
        legend = tradeoff_figure(part).axes[0].get_legend()  # of what is grey, if anything is
        assert (legend is not None) == ("no" in found)
        return found

    assert choices([0.9, 0.8], [0.6, 0.7]) == ["yes", "no"]
    assert choices([0.8, 0.9], [0.7, 0.6]) == ["no", "yes"]
    assert choices([None, None], [0.7, 0.6]) == ["yes", "yes"]
