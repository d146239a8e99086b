"""The form in which a network trains, and the user's own, in which it is given and saved."""

from copy import deepcopy
from functools import partial
from typing import Any

from lightning import Trainer
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import Tensor, optim

from .._engine import StackedForm, locations, parameter_groups, unstacked
from ..modules import TaskNetwork
from ..settings import Optimization

# What these make of a number depends on its own gradients alone, wherever it lies.
_ELEMENTWISE = (
    optim.Adadelta,
    optim.Adagrad,
    optim.Adam,
    optim.Adamax,
    optim.AdamW,
    optim.ASGD,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.Rprop,
    optim.SGD,
)
_PREFIX = "network."  # of its weights in a module's state
_MARK = "is_stacked"  # of a checkpoint


class NetworkForm:
    """Stacks a network for as long as it trains; the host then handles a few large tensors.

    An optimizer that may look at whole parameters gets them as the user's network has them.
    """

    def __init__(self, network: TaskNetwork) -> None:
        self._network = network
        self._form: StackedForm | None = None

    def stack(self, trainer: Trainer, chosen: Optimization) -> None:
        """Stacks the network where the Trainer trains it, or divides its parameters."""
        is_due = trainer.state.fn == "fit" or _divides(trainer)
        if is_due and self._form is None and _is_elementwise(self._network, chosen):
            self._form = StackedForm(self._network)

    def undo(self, trainer: Trainer) -> None:
        """Gives the network its own form; not where it is divided, and stays so."""
        if self._form is not None and not _divides(trainer):
            self._form.undo()
            self._form = None

    def copy(self, trainer: Trainer) -> TaskNetwork:
        """Returns a copy of the network in its own form."""
        if self._form is None:
            return deepcopy(self._network)
        if _divides(trainer):
            raise ValueError(
                "A network should be copied where processes have it whole; RunFolder and "
                f"checkpoints have its weights. Found {type(trainer.strategy).__name__}."
            )
        form = deepcopy(self._form)
        form.undo()
        return form.network

    def own(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns weights under the user's names and in the user's shapes."""
        return weights if self._form is None else self._form.own(weights)

    def saved(self, trainer: Trainer, checkpoint: dict[str, Any]) -> None:
        """Puts the user's own weights into a checkpoint; a strategy that divides keeps its own."""
        checkpoint[_MARK] = self._form is not None and _divides(trainer)
        if self._form is not None and not _divides(trainer):
            checkpoint["state_dict"] = _changed(checkpoint["state_dict"], self._form.own)

    def loaded(self, checkpoint: dict[str, Any]) -> None:
        """Puts the weights of a checkpoint into the form that the network has now."""
        is_stacked = checkpoint.get(_MARK, False)
        if "state_dict" not in checkpoint or is_stacked == (self._form is not None):
            return  # a strategy that divides has loaded it by itself
        change = self._form.stacked if self._form else partial(unstacked, locations(self._network))
        checkpoint["state_dict"] = _changed(checkpoint["state_dict"], change)


def _divides(trainer: Trainer) -> bool:
    return isinstance(trainer.strategy, FSDPStrategy | ModelParallelStrategy)


def _is_elementwise(network: TaskNetwork, chosen: Optimization) -> bool:
    if chosen.optimizer is None:
        return True
    return type(chosen.optimizer(parameter_groups(network, chosen))) in _ELEMENTWISE


def _changed(state: dict[str, Tensor], change: Any) -> dict[str, Tensor]:
    """Returns a module's state with other weights of its network."""
    weights = {k.removeprefix(_PREFIX): v for k, v in state.items() if k.startswith(_PREFIX)}
    rest = {k: v for k, v in state.items() if not k.startswith(_PREFIX)}
    return rest | {f"{_PREFIX}{name}": value for name, value in change(weights).items()}
