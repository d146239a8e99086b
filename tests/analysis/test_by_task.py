from dataclasses import replace

import numpy as np
from pytest import approx, raises

from allotment.analysis import accuracy_by_family, accuracy_by_group, accuracy_by_task
from tests.records.made_up import a_record, accuracy_run, failed_run

RUNS = [accuracy_run([0.9, 0.7, 0.5, 0.1], 0), accuracy_run([0.7, 0.7, 0.3, 0.1], 1)]


def test_each_task_has_its_mean_over_runs() -> None:
    found = accuracy_by_task(RUNS)
    assert list(found) == ["a1", "a2", "b1", "b2"]
    assert [each.mean for each in found.values()] == approx([0.8, 0.7, 0.4, 0.1])
    assert found["a1"].sd == approx(np.sqrt(0.02))


def test_the_spread_of_a_family_is_that_of_its_means() -> None:
    found = accuracy_by_family(RUNS)
    assert {name: each.mean for name, each in found.items()} == approx(
        {"pair a": 0.75, "pair b": 0.25}
    )
    assert found["pair a"].sd == approx(np.std([0.8, 0.7], ddof=1))


def test_families_may_be_scattered_or_unknown() -> None:
    families = ("x", "y", "y", "x")
    scattered = accuracy_by_family([accuracy_run([0.9, 0.7, 0.5, 0.1], families=families)])
    assert {name: each.mean for name, each in scattered.items()} == approx({"x": 0.5, "y": 0.6})
    assert accuracy_by_family([accuracy_run([0.9, 0.7, 0.5, 0.1], families=())]) == {}


def test_groups_of_tasks_are_named_freely() -> None:
    found = accuracy_by_group(RUNS, {"ends": ["b2", "a1"], "one": ["b1"], "all": {"a1", "b1"}})
    assert list(found) == ["ends", "one", "all"]
    assert [each.mean for each in found.values()] == approx([0.45, 0.4, 0.6])
    assert found["ends"].sd == approx(np.std([0.5, 0.4], ddof=1))
    assert accuracy_by_group([failed_run()], {"one": ["b1"]}) == {}


def test_a_group_has_tasks_and_only_those_of_the_records() -> None:
    for members in (["a1", "z"], []):
        with raises(ValueError, match=r"Groups should name tasks of the records. Found `'odd': "):
            accuracy_by_group(RUNS, {"odd": members})


def test_runs_without_accuracies_do_not_count() -> None:
    assert accuracy_by_task([failed_run(), a_record()]) == {}
    assert accuracy_by_family([]) == {}
    assert accuracy_by_task([*RUNS, failed_run(2)])["a1"].n == 2
    collapsed = replace(failed_run(3), outcome=replace(RUNS[0].outcome, status="failed"))
    assert accuracy_by_task([*RUNS, collapsed])["a1"].n == 2
    mixed = [accuracy_run([0.9, float("nan"), 0.5, 0.1])]
    assert (accuracy_by_task(mixed)["a1"].n, accuracy_by_task(mixed)["a2"].n) == (1, 0)
    assert accuracy_by_family(mixed)["pair a"].mean == approx(0.9)


def test_names_are_those_of_runs_that_reached_their_end() -> None:
    failed = failed_run(0, task_names=("w", "x", "y", "z"), families=())
    assert list(accuracy_by_task([failed, *RUNS])) == ["a1", "a2", "b1", "b2"]
    assert list(accuracy_by_family([failed, *RUNS])) == ["pair a", "pair b"]


def test_runs_of_other_tasks_are_not_mixed() -> None:
    other = accuracy_run([0.9, 0.7, 0.5, 0.1], task_names=("a", "b", "c", "d"))
    with raises(ValueError, match="Found 2 finished runs of 2 suites of tasks"):
        accuracy_by_task([RUNS[0], other])
