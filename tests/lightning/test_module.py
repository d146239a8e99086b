"""One process under Lightning's Trainer takes the steps of `fit`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pytest import mark
from torch import nn
from torch.testing import assert_close

import allotment as al
from allotment.allocation import ScoreFunctionByExample
from allotment.lightning import MultiTaskData, MultiTaskModule
from allotment.settings import DynamicWeightAverage, UncertaintyWeighting
from allotment.tasks import MultiLabel
from tests.engine.own_allocations import ToldEach

from .toy import SETTINGS, network, tasks, trainer

pytestmark = mark.filterwarnings("ignore::FutureWarning")

Weights = dict[str, torch.Tensor]


def trained(
    folder: Path,
    settings: al.TrainingSettings,
    own: list[al.Task],
    made: nn.Module | None = None,
    **options: Any,
) -> Weights:
    """Returns the weights after a training in one process."""
    module = MultiTaskModule(made or network(), own, settings, seed=5)
    trainer(folder, **options).fit(module, MultiTaskData(own, settings, seed=5))
    return module.network.state_dict()


def assert_alike(found: Weights, expected: Weights, *, within: float = 1e-5) -> None:
    for name, value in expected.items():
        assert_close(found[name], value, rtol=10 * within, atol=within, msg=name)


@mark.parametrize(
    ("schedule", "balancing"),
    [
        ("alternating", None),
        ("alternating", UncertaintyWeighting(0.1)),
        ("joint", DynamicWeightAverage(2)),
        ("multi_label", None),
    ],
)
def test_it_takes_the_steps_of_fit(schedule: str, balancing: Any, tmp_path: Path) -> None:
    settings = replace(SETTINGS, schedule=schedule, loss_balancing=balancing)
    own = [replace(task, weight=n + 1.0) for n, task in enumerate(tasks())]
    fitted = network()
    al.fit(fitted, own, replace(settings, keep_best=False), seed=5)
    assert_alike(trained(tmp_path, settings, own), fitted.state_dict())


@mark.parametrize("schedule", ["alternating", "multi_label"])
def test_allocations_may_hear_the_loss_of_each_example(schedule: str, tmp_path: Path) -> None:
    made, told, own = network(), ToldEach(3, 3), tasks()
    made.layers[0].allocation = told
    y = own[1].train.targets.clone()
    y[::3] = -100  # not known
    own[1] = replace(own[1], train=(own[1].train.inputs, y))
    settings = al.TrainingSettings(rounds=8, batch_size=8, schedule=schedule)
    trained(tmp_path, settings, own, made)
    assert len(told.losses) == 3 * settings.rounds
    for each, loss in zip(told.each, told.losses, strict=True):
        assert each.shape == (settings.batch_size,)
        assert_close(each.nanmean(), loss)
    some_unknown = any(bool(each.isnan().any()) for each in told.each)
    assert some_unknown == (schedule == "multi_label")  # else batches are of examples with labels


def images() -> tuple[al.MultiTaskNetwork, list[al.Task]]:
    """Returns a network for small images, and two tasks on them."""
    torch.manual_seed(3)
    convolutions = [nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()) for _ in range(2)]
    layer = al.ModularLayer(convolutions, al.GumbelMatrix(2, 2))
    x = torch.rand(40, 1, 6, 6)
    made = [al.Task("a", (x, x.mean((1, 2, 3)))), al.Task("b", (x, x.amax((1, 2, 3))))]
    return al.MultiTaskNetwork(None, [layer], {n: nn.Linear(32, 1) for n in "ab"}), made


def test_masks_of_batches_without_a_label_take_the_steps_of_fit(tmp_path: Path) -> None:
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(2))
    targets = {"a": x[:, 0].clone(), "b": x[:, :3].argmax(dim=1), "c": x[:, 1]}
    targets["a"][2:] = torch.nan  # the second batch has no label of this task
    targets["b"][5:9] = -100
    halves = [slice(0, 8), slice(8, 16)]
    shared = MultiLabel([(x[own], {k: y[own] for k, y in targets.items()}) for own in halves])
    own = [al.Task(name, shared, n_outputs=n) for name, n in zip("abc", (1, 3, 1), strict=True)]
    settings = replace(SETTINGS, schedule="multi_label", penalties=al.Penalties())

    def made() -> al.MultiTaskNetwork:
        found = network()
        masks = ScoreFunctionByExample(3, 3, n_features=6, target_rate=0.3, sparsity_weight=0.5)
        found.layers[0].allocation = masks
        found.number_layers()
        return found

    fitted = made()
    al.fit(fitted, own, settings, seed=5)
    assert_alike(trained(tmp_path, settings, own, made()), fitted.state_dict())


@mark.parametrize("schedule", ["alternating", "multi_label"])
def test_images_are_augmented_as_in_fit(schedule: str, tmp_path: Path) -> None:
    settings = replace(SETTINGS, schedule=schedule).changed(shift=1.0, rotation=20.0, crop=1)
    fitted, own = images()
    al.fit(fitted, own, replace(settings, keep_best=False), seed=5)
    found = trained(tmp_path, settings, own, images()[0])
    assert_alike(found, fitted.state_dict())
    plain = trained(tmp_path, replace(SETTINGS, schedule=schedule), own, images()[0])
    assert not torch.allclose(plain["heads.0.weight"], found["heads.0.weight"], atol=1e-4)


def test_batches_accumulated_over_a_round_are_a_joint_step(tmp_path: Path) -> None:
    # The entropy's weight grows batch by batch, and a joint step has one for all its tasks.
    settings = SETTINGS.changed(entropy_weight=0.0, lr_schedule="cosine", rounds=20)
    joint = trained(tmp_path, replace(settings, schedule="joint"), tasks())
    found = trained(tmp_path, settings, tasks(), accumulate_grad_batches=3)
    assert_alike(found, joint)


def test_mixed_precision_comes_near_full(tmp_path: Path) -> None:
    before, full = network().state_dict(), trained(tmp_path, SETTINGS, tasks())
    mixed = trained(tmp_path, SETTINGS, tasks(), precision="bf16-mixed")
    assert not torch.equal(mixed["heads.0.weight"], full["heads.0.weight"])
    for name in before:
        if before[name].is_floating_point():
            moved = (full[name] - before[name]).norm()
            assert (mixed[name] - full[name]).norm() <= 0.1 * moved + 1e-6, name


def test_budgets_by_task_and_by_cost_are_those_of_fit(tmp_path: Path) -> None:
    settings = SETTINGS.changed(
        budget={"a": 0.2, "c": 0.9}, budget_weight=5.0, cost=(1.0, 5.0, 2.0)
    )
    fitted = network()
    al.fit(fitted, tasks(), settings.changed(keep_best=False), seed=5)
    assert_alike(trained(tmp_path, settings, tasks()), fitted.state_dict())
    assert "gate_costs" not in MultiTaskModule(network(), tasks(), settings).state_dict()


def test_latencies_are_measured_once_and_kept_in_checkpoints() -> None:
    settings = SETTINGS.changed(cost="latency")
    module = MultiTaskModule(network(), tasks(), settings)
    assert module.gate_costs is not None and (module.gate_costs > 0).all()
    again = MultiTaskModule(network(), tasks(), settings)
    again.load_state_dict(module.state_dict())
    assert_close(again.gate_costs, module.gate_costs, rtol=0, atol=0)
