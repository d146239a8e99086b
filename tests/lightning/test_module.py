"""One process under Lightning's Trainer takes the steps of `fit`."""

from dataclasses import replace
from pathlib import Path

from pytest import mark
from torch.testing import assert_close

import allotment as al
from allotment.lightning import MultiTaskData, MultiTaskModule

from .toy import SETTINGS, network, tasks, trainer

pytestmark = mark.filterwarnings("ignore::FutureWarning")


def trained(folder: Path, settings: al.TrainingSettings, own: list[al.Task]) -> MultiTaskModule:
    module = MultiTaskModule(network(), own, settings, seed=5)
    trainer(folder).fit(module, MultiTaskData(own, settings, seed=5))
    return module


@mark.parametrize("schedule", ["alternating", "joint", "multi_label"])
def test_it_takes_the_steps_of_fit(schedule: str, tmp_path: Path) -> None:
    settings = replace(SETTINGS, schedule=schedule)
    fitted = network()
    al.fit(fitted, tasks(), replace(settings, keep_best=False), seed=5)
    module = trained(tmp_path, settings, tasks())
    for name, value in fitted.state_dict().items():
        assert_close(module.network.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_budgets_by_task_and_by_cost_are_those_of_fit(tmp_path: Path) -> None:
    settings = SETTINGS.changed(
        budget={"a": 0.2, "c": 0.9}, budget_weight=5.0, cost=(1.0, 5.0, 2.0)
    )
    fitted = network()
    al.fit(fitted, tasks(), settings.changed(keep_best=False), seed=5)
    module = trained(tmp_path, settings, tasks())
    for name, value in fitted.state_dict().items():
        assert_close(module.network.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)
    assert "gate_costs" not in module.state_dict()


def test_latencies_are_measured_once_and_kept_in_checkpoints(tmp_path: Path) -> None:
    settings = SETTINGS.changed(cost="latency")
    module = trained(tmp_path, settings, tasks())
    assert module.gate_costs is not None and (module.gate_costs > 0).all()
    again = MultiTaskModule(network(), tasks(), settings)
    again.load_state_dict(module.state_dict())
    assert_close(again.gate_costs, module.gate_costs, rtol=0, atol=0)
