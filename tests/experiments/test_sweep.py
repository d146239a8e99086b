from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from pytest import mark, raises
from torch import nn

from allotment.allocation import Annealing, GumbelMatrix
from allotment.experiments import (
    Allocate,
    Method,
    RunGroup,
    Sweep,
    TaskChoice,
    run_groups,
    run_sweep,
    using,
)
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.paper import EXPERIMENTS
from allotment.records import RecordError, read_runs, unfinished_runs
from allotment.tasks import Task
from allotment.training import Progress
from tests.experiments.toy import toy


def a_sweep(out: Path, name: str = "two_pairs", **changes: Any) -> Sweep:
    experiment = toy(name)
    values: dict[str, Any] = {
        "experiment": experiment,
        "methods": experiment.methods,
        "out": out,
        "n_runs": 2,
    }
    return Sweep(**values | changes)


def test_fixed_methods_share_a_program_and_learnt_ones_another(tmp_path: Path) -> None:
    found = list(run_groups(a_sweep(tmp_path, "digits")))
    methods = [list(dict.fromkeys(h.method for h in group.headers)) for group in found]
    assert methods == [
        ["no_sharing", "shared_bottom", "shared_bottom_mean"],
        ["gumbel", "gumbel_budget"],
    ]
    assert [run.settings.penalties.budget for run in found[1].runs] == [None, None, 0.75, 0.75]


def test_settings_that_a_program_has_once_give_a_method_one_of_its_own(tmp_path: Path) -> None:
    sweep = a_sweep(tmp_path, "digits")
    changes: dict[str, dict[str, Any]] = {"gumbel": {"lr_schedule": "cosine"}, "gumbel_budget": {}}
    methods = tuple(
        replace(sweep.experiment.method(name), training=own) for name, own in changes.items()
    )
    found = list(run_groups(replace(sweep, methods=methods)))
    assert [group.headers[0].method for group in found] == ["gumbel", "gumbel_budget"]
    schedules = [group.runs[0].settings.optimization.lr_schedule for group in found]
    assert schedules == ["cosine", "constant"]
    assert {len(group.runs) for group in found} == {2}
    for group in found:
        for run, header in zip(group.runs, group.headers, strict=True):
            recorded = header.settings["training"]["optimization"]["lr_schedule"]
            assert recorded == run.settings.optimization.lr_schedule


def using_gumbel(**options: Any) -> Method:
    name = "-".join(f"{value}" for value in options.values()) or "plain"
    return Method(name=name, allocation=using(GumbelMatrix, **options))


@mark.parametrize(
    ("others", "n_runs"),
    [
        ([{"p_init": 0.9}], [4]),  # numbers alone differ
        ([{"temperature": Annealing(start=5.0)}], [2, 2]),
        (
            [{"temperature": Annealing(start=5.0)}, {"temperature": Annealing(start=5.0, floor=1)}],
            [2, 2, 2],
        ),
        ([{"evaluation": "sampled"}, {"p_init": 0.9}], [4, 2]),
    ],
)
def test_options_that_a_program_has_once_divide_runs_by_themselves(
    others: list[dict[str, Any]], n_runs: list[int], tmp_path: Path
) -> None:
    methods = (using_gumbel(), *(using_gumbel(**options) for options in others))
    experiment = replace(toy("two_pairs"), methods=methods)
    sweep = a_sweep(tmp_path, experiment=experiment, methods=methods)
    assert [len(group.runs) for group in run_groups(sweep)] == n_runs
    folders = run_sweep(sweep)
    assert len(folders) == len(read_runs(tmp_path)) == sum(n_runs)


def test_seeds_whose_networks_differ_in_shape_are_divided_too(tmp_path: Path) -> None:
    def tasks(choice: TaskChoice) -> list[Task]:
        n_outputs = 2 + choice.seed % 2
        return [Task(n, (torch.randn(9, 64), torch.arange(9) % n_outputs)) for n in "abcd"]

    def network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
        layer = ModularLayer([nn.Linear(64, 5) for _ in range(4)], allocate(4))
        return MultiTaskNetwork(None, [layer], {n: nn.Linear(5, k) for n, k in outputs.items()})

    experiment = replace(toy("two_pairs"), tasks=tasks, network=network)
    sweep = Sweep(experiment=experiment, methods=experiment.methods[-1:], out=tmp_path, n_runs=4)
    groups = list(run_groups(sweep))
    assert [[run.seed for run in group.runs] for group in groups] == [[0, 2], [1, 3]]
    assert len(run_sweep(sweep)) == 4


def test_a_sweep_is_of_all_methods_and_as_many_runs_as_declared(tmp_path: Path) -> None:
    sweep = Sweep(experiment=toy("digits"), out=tmp_path)
    assert (sweep.methods, sweep.seeds) == (toy("digits").methods, range(2))


def test_a_device_that_is_not_there_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with raises(ValueError, match=r"`device` should be .*'cuda:1'\. Found `device = 'tpu'`"):
        a_sweep(tmp_path, device="tpu")


def test_a_program_holds_at_most_so_many_runs(tmp_path: Path) -> None:
    whole = list(run_groups(a_sweep(tmp_path, "digits", n_runs=3)))
    found = list(run_groups(a_sweep(tmp_path, "digits", n_runs=3, group_size=4)))
    assert [len(group.runs) for group in whole] == [9, 6]
    assert [len(group.runs) for group in found] == [4, 4, 1, 4, 2]

    def made(some: list[RunGroup]) -> list[tuple[str, int]]:
        return [(header.method, header.seed) for group in some for header in group.headers]

    assert made(found) == made(whole)
    assert found[2].label == "Shared bottom (mean)"


def test_each_condition_has_tasks_of_its_own(tmp_path: Path) -> None:
    found = list(run_groups(a_sweep(tmp_path, "transfer")))
    assert [group.headers[0].condition for group in found] == ["rho=0", "rho=1"]
    for group, rho in zip(found, (0.0, 1.0), strict=True):
        first, second = (task.train.direction for task in group.runs[0].tasks)
        torch.testing.assert_close(first @ second, torch.tensor(rho), atol=1e-5, rtol=0)


def test_methods_with_one_seed_start_from_the_same_weights_and_tasks(tmp_path: Path) -> None:
    runs = list(chain(*(group.runs for group in run_groups(a_sweep(tmp_path, first_seed=4)))))
    assert [run.seed for run in runs] == [4, 5] * 3
    for run in runs[2::2]:
        assert run.tasks is runs[0].tasks
        for name, weight in run.network.modular_layers[0].components.state_dict().items():
            assert torch.equal(weight, runs[0].network.state_dict()[f"layers.0.components.{name}"])
    first, second = (run.network.state_dict()["layers.0.components.0.0.weight"] for run in runs[:2])
    assert not torch.equal(first, second)


def test_images_are_held_once_for_all_runs(tmp_path: Path) -> None:
    sweep = replace(a_sweep(tmp_path, "digits"), methods=EXPERIMENTS["digits"].methods[:1])
    (group,) = run_groups(sweep)
    tensors = {id(task.train.inputs) for run in group.runs for task in run.tasks}
    assert len(tensors) == 1


@mark.parametrize(
    ("field", "value"), [("n_runs", 0), ("n_runs", -3), ("first_seed", -1), ("group_size", 0)]
)
def test_a_sweep_needs_runs_and_a_seed(field: str, value: int, tmp_path: Path) -> None:
    with raises(ValueError, match=rf"should be at least [01]\. Found `[\w-]+ = {value}`"):
        replace(a_sweep(tmp_path), **{field: value})  # type: ignore[arg-type]


def test_a_run_that_was_made_before_stops_the_sweep_before_anything_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "gumbel" / "seed-001").mkdir(parents=True)
    with raises(RecordError, match=r"should be new.*gumbel/seed-001"):
        run_sweep(a_sweep(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["gumbel", "seed-001"]


def test_a_sweep_that_is_stopped_marks_the_runs_under_way(tmp_path: Path) -> None:
    def stop(group: RunGroup, progress: Progress) -> None:
        raise KeyboardInterrupt

    with raises(KeyboardInterrupt):
        run_sweep(a_sweep(tmp_path), stop)
    folders = unfinished_runs(tmp_path)
    assert [folder.relative_to(tmp_path).as_posix() for folder in folders] == [
        f"{method}/seed-{seed:03d}"  # learnt ones come later and have no folder yet
        for method in ("no_sharing", "shared_bottom")
        for seed in range(2)
    ]
    assert all("KeyboardInterrupt" in (f / "interrupted.json").read_text() for f in folders)


def test_a_method_alone_sees_the_tasks_that_it_sees_among_others(tmp_path: Path) -> None:
    together = a_sweep(tmp_path)

    def examples(sweep: Sweep, method: str) -> list[torch.Tensor]:
        found = []
        for group in run_groups(sweep):
            for header, run in zip(group.headers, group.runs, strict=True):
                if header.method == method:
                    generator = torch.Generator().manual_seed(0)
                    found += [task.train.draw(3, generator)[1] for task in run.tasks]
        return found

    for method in together.experiment.methods:
        alone = replace(together, methods=(method,))
        pairs = zip(examples(alone, method.name), examples(together, method.name), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
