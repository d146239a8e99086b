"""Budgets by task, and budgets in what components cost."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from pytest import approx, mark, raises
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import allotment as al
from allotment._engine import gate_costs
from allotment.analysis._relatedness import _budget
from allotment.experiments._overrides import parse_value
from allotment.records._files import plain
from allotment.settings import Penalties, TrainingSettings
from tests.engine.test_trainer import assert_one_program_of_plain_loops
from tests.training.toy import (
    N_INPUTS,
    SETTINGS,
    a_run,
    assert_resumed_to_the_bit,
    lines,
    n_different,
    weights_of,
)

CHARGED = SETTINGS.changed(rounds=10, budget_weight=3.0, connection_weight=0.2)
WIDTHS = (2, 9, 4)


def uneven() -> al.MultiTaskNetwork:
    """Returns a network whose components are of three widths."""
    parts = [nn.Sequential(nn.Linear(N_INPUTS, n), nn.Linear(n, 4)) for n in WIDTHS]
    layer = al.ModularLayer(parts, al.GumbelMatrix(2, 3, p_init=0.8))
    return al.MultiTaskNetwork(None, [layer, nn.Linear(4, 1)], task_names=["line 0", "line 1"])


FLOPS = tuple(float(2 * 8 * (N_INPUTS * n + n * 4)) for n in WIDTHS)
PARAMETERS = tuple(float(N_INPUTS * n + n + n * 4 + 4) for n in WIDTHS)


@mark.usefixtures("double")
@mark.parametrize("schedule", ["alternating", "joint"])
def test_runs_with_budgets_of_their_own_are_one_program_of_plain_loops(schedule: str) -> None:
    budgets: Sequence[Any] = [(0.3, 0.7), 0.4, None]
    settings = CHARGED.changed(schedule=schedule, cost=(1.0, 5.0, 2.0))
    runs = [a_run(n, settings.changed(budget=own), build=uneven) for n, own in enumerate(budgets)]
    assert_one_program_of_plain_loops(runs)


def trained(**changes: Any) -> dict[str, torch.Tensor]:
    return weights_of(a_run(0, CHARGED.changed(**changes), build=uneven))


@mark.parametrize(("kind", "numbers"), [("flops", FLOPS), ("parameters", PARAMETERS)])
def test_a_cost_by_name_is_the_same_cost_in_numbers(kind: str, numbers: tuple[float, ...]) -> None:
    run = a_run(0, CHARGED.changed(budget=0.3, cost=kind), build=uneven)
    found = gate_costs(run, torch.device("cpu"))
    assert found is not None and tuple(found.tolist()) == numbers
    by_name, by_number = (trained(budget=0.3, cost=cost) for cost in (kind, numbers))
    assert n_different(by_name, by_number) == 0
    assert n_different(by_name, trained(budget=0.3)) > 0


def test_budgets_by_name_are_those_in_order_and_the_same_for_all() -> None:
    by_name = trained(budget={"line 1": 0.2})
    assert n_different(by_name, trained(budget=[1.0, 0.2])) == 0
    assert n_different(trained(budget=[0.3, 0.3]), trained(budget=0.3)) == 0


def test_latencies_that_were_measured_stay_when_a_run_resumes() -> None:
    settings = CHARGED.changed(rounds=20, budget=0.3, cost="latency")
    run = a_run(0, settings, build=uneven)
    progress = next(al.train([run]))
    assert progress.state is not None
    tensors = progress.state().tensors
    assert (tensors["costs"] > 0).all()
    (outcome,) = list(al.train([run], resume_from=progress.state()))[-1].outcomes or []
    again = tuple(float(cost) for cost in tensors["costs"])
    assert n_different(outcome.weights, weights_of(_with_cost(run, again))) == 0


def _with_cost(run: al.Run, cost: tuple[float, ...]) -> al.Run:
    return al.Run(run.model, run.tasks, run.seed, run.settings.changed(cost=cost))


def test_budgets_by_task_are_resumed_to_the_bit() -> None:
    settings = CHARGED.changed(rounds=20, budget=(0.3, 0.6), cost="flops")
    assert_resumed_to_the_bit(lambda: [a_run(n, settings, build=uneven) for n in range(2)])


def test_costs_are_not_looked_for_where_nothing_is_charged() -> None:
    run = a_run(0, SETTINGS.changed(cost="latency"), build=uneven)
    assert gate_costs(run, torch.device("cpu")) is None


def test_streamed_batches_are_charged_alike() -> None:
    def loaded(task: al.Task) -> al.Task:
        x, y = task.train.draw(32, torch.Generator().manual_seed(0))
        return al.Task(task.name, DataLoader(TensorDataset(x, y), batch_size=8), n_outputs=1)

    def streamed(**changes: Any) -> dict[str, torch.Tensor]:
        tasks = [loaded(task) for task in lines()]
        settings = CHARGED.changed(budget={"line 0": 0.1}, **changes)
        return weights_of(a_run(0, settings, tasks=tasks, build=uneven))

    by_operations = streamed(cost="flops")
    assert n_different(by_operations, streamed(cost=FLOPS)) == 0
    assert n_different(by_operations, streamed()) > 0


@mark.slow
def test_a_budget_in_operations_is_kept_where_one_by_count_is_not() -> None:
    settings = SETTINGS.changed(
        rounds=300, allocation_learning_rate=0.1, budget=0.5, budget_weight=10.0
    )
    costs = torch.tensor(FLOPS)
    for seed in range(3):
        run = a_run(seed, settings.changed(cost="flops"), build=uneven)
        (outcome,) = list(al.train([run]))[-1].outcomes or []
        rows = torch.tensor(outcome.probabilities).float()
        assert ((rows @ costs) / costs.sum() <= 0.55).all(), rows


def test_what_is_not_a_budget_is_told() -> None:
    with raises(ValueError, match=r"`budget` should be by tasks of the network, \['line 0', 'li"):
        a_run(0, CHARGED.changed(budget={"z": 0.5}))
    with raises(ValueError, match=r"`budget` should be one number, or one for each task. Found 3"):
        a_run(0, CHARGED.changed(budget=[0.5] * 3))
    run = a_run(0, CHARGED.changed(budget=0.5, cost=[1.0, 2.0]))
    with raises(ValueError, match=r"`cost` should have a number for each component.*Found 2 for 3"):
        al.plan([run])
    layer = al.ModularLayer([nn.Identity(), nn.ReLU()], al.GumbelMatrix(2, 2))
    bare = al.MultiTaskNetwork(None, [layer, nn.Linear(N_INPUTS, 1)])
    with raises(ValueError, match=r"`cost` should be one that some component has. Found flops"):
        gate_costs(a_run(0, CHARGED.changed(cost="flops"), build=lambda: bare), torch.device("cpu"))


@mark.parametrize(
    ("values", "message"),
    [
        ({"budget": {"a": 0.0}}, r"`budget\['a'\]` should be in \(0, 1\]"),
        ({"budget": [0.5, 1.5]}, r"`budget\[1\]` should be in \(0, 1\]"),
        ({"budget": [0.5], "budget_scope": "global"}, '`budget_scope` should be "task"'),
        ({"cost": "watts"}, "`cost` should be one of 'count', 'parameters', 'flops', 'latency'"),
        ({"cost": [0.0, 0.0]}, "`cost` should be one of .* and not all 0"),
        ({"cost": [1.0, -1.0]}, "`cost` should be one of .* or numbers from 0 on"),
        ({"cost": torch.tensor([[1.0, 2.0]])}, "`cost` should be one of"),
        ({"cost": 3.0}, "`cost` should be one of"),
    ],
)
def test_settings_that_are_none_are_told(values: dict[str, Any], message: str) -> None:
    with raises(ValueError, match=message):
        Penalties(**values)


def test_costs_and_budgets_are_compared_recorded_and_given_as_text() -> None:
    made = Penalties(budget={"a": 0.5}, cost=torch.tensor([1.0, 2.5]))
    assert made == Penalties(budget={"a": 0.5}, cost=[1.0, 2.5])
    settings = TrainingSettings(penalties=made)
    record = json.loads(json.dumps(plain(settings)))["penalties"]
    assert (record["budget"], record["cost"]) == ({"a": 0.5}, [1.0, 2.5])
    assert Penalties(**record) == made
    kinds = {"budget": Penalties.__annotations__["budget"], "cost": str}
    assert parse_value("budget", "0.5", kinds["budget"]) == approx(0.5)
    assert parse_value("cost", "flops", Penalties.__annotations__["cost"]) == "flops"


def test_a_report_names_a_budget_that_is_a_share_of_gates() -> None:
    assert _budget({"budget": 0.5}) == 0.5
    assert _budget({"budget": 0.5, "cost": "flops"}) is None
    assert _budget({"budget": {"a": 0.5}}) is None
    assert _budget({"budget": None}) is None
