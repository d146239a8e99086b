"""A small network to put together in other ways, and what holds however that is done."""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from allotment.experiments import Allocate
from allotment.experiments._methods import AllocationSpec, Structure
from allotment.modules import ModularLayer, MultiTaskNetwork, TaskNetwork
from allotment.tasks import Task
from allotment.training import Run
from tests.engine.test_trainer import assert_one_program_of_plain_loops, assert_trained_plainly
from tests.training.toy import N_INPUTS, SETTINGS, classes, outcomes_of

WIDTHS = (3, 3)  # classes of each task
OUTPUTS = {f"classes {task}": width for task, width in enumerate(WIDTHS)}


def small_network(allocate: Allocate, outputs: Mapping[str, int]) -> MultiTaskNetwork:
    """A stem, two modular layers of two components with a plain one between them, and heads."""

    def layer(depth: int) -> ModularLayer:
        components = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)]
        return ModularLayer(components, allocate(2, n_features=4, depth=depth, n_layers=2))

    layers = [layer(0), nn.Linear(4, 4), nn.ReLU(), layer(1)]
    heads = {name: nn.Linear(4, width) for name, width in outputs.items()}
    return MultiTaskNetwork(nn.Linear(N_INPUTS, 4), layers, heads)


def put_together(
    structure: Structure,
    spec: AllocationSpec,
    *,
    network: object = small_network,
    outputs: Mapping[str, int] = OUTPUTS,
) -> TaskNetwork:
    """Returns a network as a method with this structure and allocation would have it."""

    def allocate(n_components: int, **offered: object) -> object:
        return spec(len(outputs), n_components, **offered)

    made = structure(network, allocate, outputs)  # type: ignore[arg-type]
    assert isinstance(made, TaskNetwork)
    return made


def a_run(
    structure: Structure,
    spec: AllocationSpec,
    seed: int = 0,
    *,
    tasks: Sequence[Task] | None = None,
    **changes: object,
) -> Run:
    """Returns a run of the small network in this structure; its start follows from the seed."""
    torch.manual_seed(seed)
    settings = SETTINGS.changed(**{"rounds": 6, "weight_decay": 0.1} | changes)
    return Run(put_together(structure, spec), tasks or classes(*WIDTHS), seed, settings)


def assert_runs_train_together(structure: Structure, spec: AllocationSpec) -> None:
    """Asserts that several runs are one program, and end as plainly written loops do."""
    runs = [a_run(structure, spec, seed) for seed in range(2)]
    assert_one_program_of_plain_loops(runs)
    (alone,) = outcomes_of([a_run(structure, spec)])
    assert_trained_plainly(runs[0], alone.weights, atol=1e-9)
