"""Python that comes out differently in each pass, which a recorded step would freeze."""

import random
from typing import Any

import numpy as np
from torch import nn

_PLAIN = (bool, int, float, complex, str, type(None))


class SideEffects:
    """What the modules of a network hold beside tensors, and Python's and NumPy's generators.

    A step is recorded as operations on tensors. A module that counts its passes, or draws from
    `random`, would do so once, and every later step would use what it found then.
    """

    def __init__(self, network: nn.Module) -> None:
        self._modules = dict(network.named_modules())
        self._values = self._plain_values()
        self._random = random.getstate()
        self._numpy = np.random.get_state()  # noqa: NPY002  (the generator that modules would use)

    def what_changed(self) -> str:
        """Returns what a pass has changed since, in words; nothing where it changed nothing."""
        now = self._plain_values()
        for (path, name), value in self._values.items():
            if now.get((path, name), value) != value:
                kind = type(self._modules[path]).__name__
                return f"a pass changes `{name}` of {kind}"
        if random.getstate() != self._random:
            return "a pass draws from Python's `random`"
        state = np.random.get_state()  # noqa: NPY002
        if repr(state) != repr(self._numpy):
            return "a pass draws from NumPy's generator"
        return ""

    def undo(self) -> None:
        """Undoes what was changed."""
        for (path, name), value in self._values.items():
            setattr(self._modules[path], name, value)
        random.setstate(self._random)
        np.random.set_state(self._numpy)  # noqa: NPY002

    def _plain_values(self) -> dict[tuple[str, str], Any]:
        return {
            (path, name): value
            for path, module in self._modules.items()
            for name, value in vars(module).items()
            if isinstance(value, _PLAIN)
        }
