"""The step as a CUDA graph: what a capture needs, and where it cannot be captured."""

import gc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from pytest import MonkeyPatch, mark, raises
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from allotment._engine._batch import Block
from allotment._engine._recording import N_WARM_UPS, GraphSteps, without_collector
from allotment._engine._trainer import Trainer
from allotment.training import Run
from tests.engine.test_trainer import of_mixed, of_mixed_samples
from tests.training.toy import SETTINGS, a_run, outcomes_of

CPU = torch.device("cpu")


def refuse(*arguments: Any) -> None:
    raise RuntimeError("this operation cannot be captured")


def warm_up(steps: GraphSteps) -> None:
    for _ in range(N_WARM_UPS):
        steps._next()


def test_where_a_step_cannot_be_captured_training_starts_from_the_beginning(
    monkeypatch: MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    monkeypatch.setattr(GraphSteps, "_warm_up", warm_up)
    expected = Trainer([a_run()], CPU).steps(0, 20)[0]
    trainer = Trainer([a_run()], CPU)
    found = trainer._captured(trainer._batches.make(0))
    assert found.value == "eager" and found.is_slower
    assert found.reason == "this operation cannot be captured"
    assert_close(trainer.steps(0, 20)[0], expected, rtol=0, atol=0)


def test_no_garbage_is_collected_during_a_capture(monkeypatch: MonkeyPatch) -> None:
    """An older graph that is freed meanwhile would spoil it."""
    was_on: list[bool] = []

    def step(block: Block, index: Tensor) -> Tensor:
        was_on.append(gc.isenabled())
        return torch.zeros(1, 1)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: nullcontext())
    monkeypatch.setattr(GraphSteps, "_warm_up", warm_up)
    block = Block(torch.zeros(N_WARM_UPS + 1, 1, dtype=torch.int64), {})
    GraphSteps(step, block, (N_WARM_UPS + 1, 1, 1))
    assert was_on == [True] * N_WARM_UPS + [False]
    assert gc.isenabled()


@mark.parametrize("was_on", [True, False])
def test_the_collector_is_left_as_it_was(was_on: bool) -> None:
    loop: list[object] = []
    loop.append(loop)
    try:
        gc.enable() if was_on else gc.disable()
        with raises(KeyError), without_collector():
            assert not gc.isenabled()
            assert gc.collect() == 0  # what there was has gone before
            raise KeyError
        assert gc.isenabled() is was_on
    finally:
        gc.enable()


@mark.slow
@mark.parametrize("make", [of_mixed, of_mixed_samples])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_a_step_of_mixed_tasks_needs_no_value_from_the_device(
    make: Callable[[], Run], schedule: str
) -> None:
    runs = [replace(make(), seed=seed) for seed in range(2)]
    settings = runs[0].settings.changed(schedule=schedule)
    trainer = Trainer([replace(run, settings=settings) for run in runs], CPU)
    untraced = [replace(run, settings=settings.changed(trace=False)) for run in runs]
    block, eager = trainer._batches.make(0), Trainer(untraced, CPU)._gradients

    def step(learnt: list[Tensor], index: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        return eager(learnt, trainer._batches.batch(block, index))

    # Tensors without values: whatever would have to wait for one is an error.
    graph = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(
        trainer._learnt, torch.tensor([3])
    )
    expected = trainer._gradients(trainer._learnt, trainer._batches.batch(block, 3))
    found = graph(trainer._learnt, torch.tensor([3]))
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


@mark.filterwarnings("ignore", "error:Training without")  # torch's compiler has words of its own
@mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_compiled_step_on_a_gpu_equals_the_step_itself() -> None:
    ways = SETTINGS.changed(compile=True), SETTINGS.changed(trace=False)
    compiled, plain = (
        outcomes_of([a_run(settings=settings)], device="cuda")[0].weights for settings in ways
    )
    for name, value in plain.items():
        assert_close(compiled[name], value, rtol=1e-3, atol=1e-4, msg=f"{name}: {{}}".format)
