"""Tasks that are left with nothing of a modular layer."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from .._schema import Floats
from ..modules import TaskNetwork

# As often as this a draw opens no gate, before a task counts as left with nothing while it trains.
# At first gates are undecided, and those of a row may all be just below a half.
OFTEN = 0.5


def dead_layers(
    matrix: Floats,
    task_names: Sequence[str],
    layer_sizes: Sequence[int],
    are_optional: Sequence[bool],
) -> dict[str, list[int]]:
    """Returns, by task, the modular layers of which it uses nothing, but should use something.

    >>> import numpy as np
    >>> matrix = np.array([[1, 0, 0], [1, 0, 1]])  # the first task uses nothing of the second layer
    >>> dead_layers(matrix, ["a", "b"], [2, 1], [False, False])
    {'a': [1]}

    Args:
        matrix: Which components each task uses, ``[T, C]``.
        task_names: The tasks' names.
        layer_sizes: Number of components in each layer.
        are_optional: Of each layer, whether a task may do without it.
    """
    ends = np.cumsum(layer_sizes)[:-1]
    layers = np.split(np.nan_to_num(matrix, nan=1.0), ends, axis=1)
    found = {
        name: [n for n, layer in enumerate(layers) if not (are_optional[n] or layer[task].any())]
        for task, name in enumerate(task_names)
    }
    return {name: numbers for name, numbers in found.items() if numbers}


def are_optional(network: TaskNetwork) -> tuple[bool, ...]:
    """Returns for each modular layer whether a task may use none of its components."""
    layers = network.modular_layers
    return tuple(layer.is_update or layer.allocation.sees_examples for layer in layers)


def dead_sentence(dead: Mapping[str, Sequence[int]], since: str = "") -> str:
    """Returns which tasks use nothing of some layer, and what would help."""
    name, layers = next(iter(dead.items()))
    others = f" (and {len(dead) - 1} more)" if len(dead) > 1 else ""
    return (
        f"Task {name!r}{others} uses no component of modular layer {layers[0]}{since}, which gives "
        "zeros for it. `keeps_one=True` of the gates, where they have it, `disconnect_weight=1.0`, "
        "a larger `budget` or a higher `p_init` keep one open."
    )


class DeadTasks:
    """Sees, while runs train, which tasks are left with nothing, and warns of each once."""

    def __init__(self, network: TaskNetwork, task_names: Sequence[str]) -> None:
        self._names = list(task_names)
        self._sizes = network.layer_sizes
        self._optional = are_optional(network)
        self._told: set[str] = set()

    def look(self, probabilities: Floats, matrix: Floats) -> dict[str, list[int]]:
        """Returns the tasks of one run that are left with nothing now, and of which layers.

        Evaluation gives zeros for them, and so do most draws.
        """
        ends = np.cumsum(self._sizes)[:-1]
        shut = [(1 - layer).prod(axis=1) for layer in np.split(probabilities, ends, axis=1)]
        dead = dead_layers(matrix, self._names, self._sizes, self._optional)
        found = {}
        for name, layers in dead.items():
            task = self._names.index(name)
            found[name] = [layer for layer in layers if shut[layer][task] >= OFTEN]
        return {name: layers for name, layers in found.items() if layers}

    def tell(
        self, gates: Sequence[tuple[Floats, Floats]], since: str
    ) -> list[dict[str, list[int]]]:
        """Looks at each run, warns of the tasks that were not told of before, and returns all."""
        found = [self.look(probabilities, matrix) for probabilities, matrix in gates]
        for dead in found:
            new = {name: layers for name, layers in dead.items() if name not in self._told}
            self._told |= set(new)
            if new:
                warnings.warn(dead_sentence(new, since), stacklevel=3)
        return found
