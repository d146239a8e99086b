"""What is exported of a network: its inputs as they are stored, some tasks, outputs in units."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from torch import Tensor, nn

from ..modules import TaskNetwork, check_same_in_evaluation, extract, tasks_have_parts
from ..tasks import TablePreprocessing, preprocess
from ._encoding import TableEncoder


class DeployedNetwork(nn.Module):
    """Some tasks of a network, from inputs as they are stored to outputs by the task's name.

    With the preprocessing of a table, inputs are its columns, one after another, and numbers that
    are predicted come in their own units, ``[N]``. All else is what the network gives: of classes,
    a logit each.

    Args:
        network: A network whose evaluations do not differ.
        tasks: Names of tasks.
        preprocessing: Of the table, if the network learnt from one.
        scale: What stored inputs are multiplied by, where it learnt from arrays.
    """

    def __init__(
        self,
        network: TaskNetwork,
        tasks: Sequence[str],
        *,
        preprocessing: TablePreprocessing | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        for layer in network.modular_layers:
            check_same_in_evaluation(layer.allocation)
        self.tasks = list(tasks)
        self.encoder = None if preprocessing is None else TableEncoder(preprocessing)
        self.scale = scale
        units = {t.name: t for t in preprocessing.targets} if preprocessing is not None else {}
        # By task, what turns a number back into its own units.
        self._units = {
            name: (units[name].std, units[name].mean)
            for name in tasks
            if name in units and units[name].classes is None
        }
        self.body = _body(network, tasks)
        self.eval().requires_grad_(False)

    def forward(self, *inputs: Any) -> dict[str, Tensor]:
        if self.encoder is not None:
            x: Any = self.encoder(*inputs)
        elif isinstance(inputs[0], Tensor):
            x = preprocess(inputs[0], None, self.scale)
        else:
            x = inputs[0]
        outputs = self.body(x)
        by_name = outputs if isinstance(outputs, dict) else {self.tasks[0]: outputs}
        return {name: self._in_units(name, y) for name, y in by_name.items()}

    def _in_units(self, task: str, outputs: Tensor) -> Tensor:
        if task not in self._units:
            return outputs
        std, mean = self._units[task]
        return outputs.double().reshape(-1) * std + mean


def _body(network: TaskNetwork, tasks: Sequence[str]) -> nn.Module:
    """Returns the part of tasks, with linear maps made one; or the whole, where tasks have none."""
    if tasks_have_parts(network):
        return extract(network, tasks[0] if len(tasks) == 1 else list(tasks), merge=True)
    return _Whole(network, tasks)


class _Whole(nn.Module):
    """All of a network, where what a task uses depends on examples or is all there is."""

    def __init__(self, network: TaskNetwork, tasks: Sequence[str]) -> None:
        super().__init__()
        self.network = deepcopy(network).eval()
        self.tasks = list(tasks)
        for layer in self.network.modular_layers:
            layer.skips_unused = False  # which components those are is not known beforehand

    def forward(self, x: Any) -> dict[str, Tensor]:
        return {name: self.network(x, name) for name in self.tasks}
