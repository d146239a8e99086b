"""The captured step, where it cannot be captured."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from pytest import MonkeyPatch, mark, raises
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from allotment.training import Run
from allotment._engine._cuda_graph import N_WARM_UPS, GraphSteps
from allotment._engine._trainer import Program

from tests.engine.test_trainer import of_mixed, of_mixed_samples
from tests.training.toy import SETTINGS, a_run, outcomes_of


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
    expected = Program([a_run()], torch.device("cpu")).steps(0, 20)[0]
    program = Program([a_run()], torch.device("cpu"))
    with raises(RuntimeError, match="cannot be captured"), torch.no_grad():
        block = program._blocks.make(0)
        GraphSteps(program._step, block, 1, program.replicas, program._optimizer)
    assert_close(program.steps(0, 20)[0], expected, rtol=0, atol=0)


@mark.parametrize("make", [of_mixed, of_mixed_samples])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_a_step_of_mixed_tasks_needs_no_value_from_the_device(
    make: Callable[[], Run], schedule: str
) -> None:
    runs = [replace(make(), seed=seed) for seed in range(2)]
    settings = replace(runs[0].settings, schedule=schedule)
    program = Program([replace(run, settings=settings) for run in runs], torch.device("cpu"))
    block = program._blocks.make(0)

    def step(learnt: list[Tensor], index: Tensor) -> tuple[Tensor, list[Tensor]]:
        return program._eager(learnt, program._batch(block, index))

    # Tensors without values: whatever would have to wait for one is an error.
    graph = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(
        program._learnt, torch.tensor([3])
    )
    expected = program._losses_and_gradients(program._learnt, program._batch(block, 3))
    found = graph(program._learnt, torch.tensor([3]))
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


@mark.filterwarnings("ignore", "error:Training without")  # torch's compiler has words of its own
@mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_compiled_step_on_a_gpu_equals_the_step_itself() -> None:
    ways = replace(SETTINGS, compile=True), replace(SETTINGS, capture=False)
    compiled, plain = (
        outcomes_of([a_run(settings=settings)], device="cuda")[0].weights for settings in ways
    )
    for name, value in plain.items():
        assert_close(compiled[name], value, rtol=1e-3, atol=1e-4, msg=f"{name}: {{}}".format)
