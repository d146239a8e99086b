from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from pytest import mark, raises

from allotment.paper import EXPERIMENTS
from allotment.experiments import Cohort, Launch, cohorts, run_launch
from allotment.records import RecordError, unfinished_runs
from allotment.training import Progress
from tests.experiments.toy import toy


def a_launch(out: Path, name: str = "two_pairs", **changes: Any) -> Launch:
    experiment = toy(name)
    values: dict[str, Any] = {
        "experiment": experiment,
        "methods": experiment.methods,
        "out": out,
        "n_runs": 2,
    }
    return Launch(**values | changes)


def test_fixed_methods_share_a_program_and_learnt_ones_another(tmp_path: Path) -> None:
    found = list(cohorts(a_launch(tmp_path, "digits")))
    methods = [list(dict.fromkeys(h.method for h in cohort.headers)) for cohort in found]
    assert methods == [
        ["no_sharing", "shared_bottom", "shared_bottom_mean"],
        ["gumbel", "gumbel_budget"],
    ]
    assert [run.settings.budget for run in found[1].runs] == [None, None, 0.75, 0.75]


def test_settings_that_a_program_has_once_give_a_method_one_of_its_own(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, "digits")
    changes: dict[str, dict[str, Any]] = {"gumbel": {"decay": "cosine"}, "gumbel_budget": {}}
    methods = tuple(
        replace(launch.experiment.method(name), training=own) for name, own in changes.items()
    )
    found = list(cohorts(replace(launch, methods=methods)))
    assert [cohort.headers[0].method for cohort in found] == ["gumbel", "gumbel_budget"]
    assert [cohort.runs[0].settings.decay for cohort in found] == ["cosine", "none"]
    assert {len(cohort.runs) for cohort in found} == {2}
    for cohort in found:
        for run, header in zip(cohort.runs, cohort.headers, strict=True):
            assert header.settings["training"]["decay"] == run.settings.decay


def test_a_program_holds_at_most_so_many_runs(tmp_path: Path) -> None:
    whole = list(cohorts(a_launch(tmp_path, "digits", n_runs=3)))
    found = list(cohorts(a_launch(tmp_path, "digits", n_runs=3, together=4)))
    assert [len(cohort.runs) for cohort in whole] == [9, 6]
    assert [len(cohort.runs) for cohort in found] == [4, 4, 1, 4, 2]

    def made(some: list[Cohort]) -> list[tuple[str, int]]:
        return [(header.method, header.seed) for cohort in some for header in cohort.headers]

    assert made(found) == made(whole)
    assert found[2].label == "Shared bottom (mean)"


def test_each_condition_has_tasks_of_its_own(tmp_path: Path) -> None:
    found = list(cohorts(a_launch(tmp_path, "transfer")))
    assert [cohort.headers[0].condition for cohort in found] == ["rho=0", "rho=1"]
    for cohort, rho in zip(found, (0.0, 1.0), strict=True):
        first, second = (task.train.direction for task in cohort.runs[0].tasks)
        torch.testing.assert_close(first @ second, torch.tensor(rho), atol=1e-5, rtol=0)


def test_methods_with_one_seed_start_from_the_same_weights_and_tasks(tmp_path: Path) -> None:
    runs = list(chain(*(cohort.runs for cohort in cohorts(a_launch(tmp_path, first_seed=4)))))
    assert [run.seed for run in runs] == [4, 5] * 3
    for run in runs[2::2]:
        assert run.tasks is runs[0].tasks
        for name, weight in run.network.modular_layers[0].components.state_dict().items():
            assert torch.equal(weight, runs[0].network.state_dict()[f"layers.0.components.{name}"])
    first, second = (run.network.state_dict()["layers.0.components.0.0.weight"] for run in runs[:2])
    assert not torch.equal(first, second)


def test_images_are_held_once_for_all_runs(tmp_path: Path) -> None:
    launch = replace(a_launch(tmp_path, "digits"), methods=EXPERIMENTS["digits"].methods[:1])
    (cohort,) = cohorts(launch)
    tensors = {id(task.train.inputs) for run in cohort.runs for task in run.tasks}
    assert len(tensors) == 1


@mark.parametrize(
    ("field", "value"), [("n_runs", 0), ("n_runs", -3), ("first_seed", -1), ("together", 0)]
)
def test_a_launch_needs_runs_and_a_seed(field: str, value: int, tmp_path: Path) -> None:
    with raises(ValueError, match=rf"should be at least [01]\. Found `[\w-]+ = {value}`"):
        replace(a_launch(tmp_path), **{field: value})  # type: ignore[arg-type]


def test_a_run_that_was_made_before_stops_the_launch_before_anything_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "gumbel" / "seed-001").mkdir(parents=True)
    with raises(RecordError, match=r"should be new.*gumbel/seed-001"):
        run_launch(a_launch(tmp_path), lambda cohort, progress: None)
    assert [path.name for path in tmp_path.rglob("*")] == ["gumbel", "seed-001"]


def test_a_launch_that_is_stopped_marks_the_runs_under_way(tmp_path: Path) -> None:
    def stop(cohort: Cohort, progress: Progress) -> None:
        raise KeyboardInterrupt

    with raises(KeyboardInterrupt):
        run_launch(a_launch(tmp_path), stop)
    folders = unfinished_runs(tmp_path)
    assert [folder.relative_to(tmp_path).as_posix() for folder in folders] == [
        f"{method}/seed-{seed:03d}"  # learnt ones come later and have no folder yet
        for method in ("no_sharing", "shared_bottom")
        for seed in range(2)
    ]
    assert all("KeyboardInterrupt" in (f / "interrupted.json").read_text() for f in folders)
