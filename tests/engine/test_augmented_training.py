"""Training on augmented images: what the network sees, and when."""

from typing import Any, ClassVar

import torch
from pytest import fixture, mark, raises
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import Allocation, GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.tasks import GeneratedDataset, Split, Task
from allotment.training import Run
from tests.training import toy
from tests.training.toy import a_run, crops, outcomes_of, weights_of

SETTINGS = toy.SETTINGS.changed(rounds=20, batch_size=4, evaluate_every=10)


class Watch(nn.Module):
    """Remembers the images that come to the network, in training and in evaluation."""

    seen: ClassVar[dict[bool, list[Tensor]]]

    def forward(self, x: Tensor) -> Tensor:
        self.seen[self.training].append(x.detach().clone())
        return x.flatten(1)


@fixture(autouse=True)
def seen() -> dict[bool, list[Tensor]]:
    Watch.seen = {True: [], False: []}
    return Watch.seen


def image_tasks() -> list[Task]:
    """Returns two tasks on one set of images, each in all three splits."""
    x = torch.arange(1.0, 10 * 25 + 1).view(10, 1, 5, 5) / 250
    splits = [Split(x, torch.arange(10) % width) for width in (2, 3)]
    return [Task(str(t), split, split, split) for t, split in enumerate(splits)]


def image_run(
    seed: int = 0, *, allocation: Allocation | None = None, watch: bool = False, **chosen: Any
) -> Run:
    settings = SETTINGS.changed(trace=not watch).changed(**chosen)

    def build() -> MultiTaskNetwork:
        gates = allocation or GumbelMatrix(2, 3)
        components = [nn.Linear(25, 4) for _ in range(gates.n_components)]
        stem = Watch() if watch else nn.Flatten()
        heads = [nn.Linear(4, 2), nn.Linear(4, 3)]
        return MultiTaskNetwork(stem, [ModularLayer(components, gates)], heads, dropout=0.5)

    return a_run(seed, settings, tasks=image_tasks(), build=build)


def rows(pictures: list[Tensor]) -> set[tuple[float, ...]]:
    return {tuple(picture.flatten().tolist()) for picture in pictures}


def test_training_sees_crops_and_evaluation_the_images_themselves(
    seen: dict[bool, list[Tensor]],
) -> None:
    outcomes_of([image_run(watch=True, crop=2)])
    raw = list(image_tasks()[0].train.inputs)
    possible = rows([cut for picture in raw for cut in crops(picture, 2)])
    trained = rows(list(torch.cat(seen[True])))
    assert trained <= possible
    assert not trained <= rows(raw)
    assert len(seen[False]) == 2 * (2 + 2)  # two checks, and validation and test at the end
    for evaluated in seen[False]:
        assert_close(evaluated, torch.stack(raw), rtol=0, atol=0)


def test_methods_with_one_seed_see_the_same_crops(seen: dict[bool, list[Tensor]]) -> None:
    pictures = []
    for seed, allocation in ((0, GumbelMatrix(2, 3)), (0, SharedBottom(2, 2)), (1, None)):
        seen[True].clear()
        weights_of(image_run(seed, allocation=allocation, watch=True, crop=2, rotation=20.0))
        pictures.append(torch.cat(seen[True]))
    assert_close(pictures[0], pictures[1], rtol=0, atol=0)
    assert not torch.equal(pictures[0], pictures[2])


def test_augmentation_leaves_the_other_draws_as_they_were(
    seen: dict[bool, list[Tensor]],
) -> None:
    pictures = []
    for rotation in (0.0, 1e-6):  # too little to be seen
        seen[True].clear()
        weights_of(image_run(watch=True, rotation=rotation))
        pictures.append(torch.cat(seen[True]))
    assert_close(pictures[0], pictures[1], rtol=0, atol=1e-4)


@mark.slow
@mark.usefixtures("double")
@mark.parametrize(
    "chosen",
    [
        {"crop": 2},
        {"shift": 1.0, "rotation": 30.0, "zoom": 0.2, "shear": 0.2, "elastic": 0.5},
        {"crop": 2, "rotation": 30.0, "schedule": "joint"},
    ],
)
def test_runs_that_train_together_end_as_they_would_alone(
    chosen: dict[str, Any], device: torch.device
) -> None:
    together = outcomes_of([image_run(seed, **chosen) for seed in range(3)], device=device)
    for seed, outcome in enumerate(together):
        alone = weights_of(image_run(seed, **chosen), device=device)
        assert_close(outcome.weights, alone, rtol=1e-6, atol=1e-8)


def test_augmentation_changes_what_is_learnt() -> None:
    plain, moved = weights_of(image_run()), weights_of(image_run(crop=2))
    assert not torch.equal(plain["heads.0.weight"], moved["heads.0.weight"])


class Pictures(GeneratedDataset):
    """Images of ones, drawn anew."""

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return torch.ones(n, 1, 5, 5), torch.zeros(n)


def test_generated_images_are_augmented_too(seen: dict[bool, list[Tensor]]) -> None:
    layer = ModularLayer([nn.Linear(25, 1)], SharedBottom(1, 1))
    network = MultiTaskNetwork(Watch(), [layer])
    settings = SETTINGS.changed(rounds=10, evaluate_every=None, trace=False, crop=1)
    weights_of(Run(network, [Task("ones", Pictures())], 0, settings))
    assert (torch.cat(seen[True]) == 0).any()


@mark.parametrize(
    "chosen",
    [
        {"crop": 1},
        {"shift": 1.0},
        {"rotation": 1.0},
        {"zoom": 0.1},
        {"shear": 0.1},
        {"elastic": 0.1},
    ],
)
def test_examples_that_are_no_images_cannot_be_augmented(chosen: dict[str, Any]) -> None:
    rule = r"^`augmentation` should be set for images alone, examples of "
    with raises(ValueError, match=rule + r"shape \[C, H, W\]\. Found examples of shape \[6\]\.$"):
        weights_of(a_run(settings=toy.SETTINGS.changed(**chosen)))
