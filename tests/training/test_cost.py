"""What a step costs: operations of products, counted without computing anything."""

from dataclasses import replace

import torch
from pytest import mark
from torch import Tensor, nn

from allotment.allocation import SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.settings import TrainingSettings
from allotment.tasks import Task
from allotment.training import Run, step_operations

B, D, H, C = 8, 5, 4, 3


class Looks(nn.Linear):
    """A component that looks at values, which are not there when nothing is computed."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if float(x.sum()) < 1e9 else x


def a_run(kind: type[nn.Linear] = nn.Linear, schedule: str = "alternating") -> Run:
    layer = ModularLayer([kind(D, H, bias=False) for _ in range(C)], SharedBottom(2, C))
    heads = {name: nn.Linear(H, 1, bias=False) for name in "ab"}
    tasks = [Task(name, (torch.randn(20, D), torch.randn(20))) for name in "ab"]
    settings = TrainingSettings(batch_size=B, schedule=schedule)
    return Run(MultiTaskNetwork(None, [layer], heads), tasks, 0, settings)


# Two operations for each product. The inputs of the first layer need no gradient.
FORWARD = 2 * B * D * H * C + 2 * B * H
BACKWARD = 2 * B * D * H * C + 2 * (2 * B * H)
MIXING = 2 * B * H * C  # the weighted sum is a product too


@mark.parametrize("kind", [nn.Linear, Looks])
def test_operations_are_those_of_products_forward_and_backward(kind: type[nn.Linear]) -> None:
    found = step_operations(a_run(kind))
    least = FORWARD + BACKWARD
    assert least <= found <= least + 3 * MIXING


def test_a_joint_step_has_a_batch_of_every_task() -> None:
    assert step_operations(a_run(schedule="joint")) == 2 * step_operations(a_run())


def test_held_out_batches_are_counted() -> None:
    run = a_run()
    held_out = replace(run, settings=run.settings.changed(allocation_held_out=0.2))
    # Nothing learns in a shared bottom: the second batch has a forward pass alone.
    forward = step_operations(held_out) - step_operations(run)
    assert FORWARD <= forward <= FORWARD + MIXING


def test_counting_changes_nothing() -> None:
    run = a_run()
    before = {name: value.clone() for name, value in run.network.state_dict().items()}
    state = torch.get_rng_state()
    step_operations(run)
    assert all(torch.equal(value, before[n]) for n, value in run.network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in run.network.parameters())
    assert next(run.network.parameters()).device.type == "cpu"


def test_what_cannot_be_counted_is_not() -> None:
    class Broken(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no")

    assert step_operations(a_run(Broken)) == 0
