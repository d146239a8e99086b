"""Networks and tasks under Lightning's Trainer: several devices, several machines, its checkpoints.

`MultiTaskModule` trains a network and `MultiTaskData` gives it the batches that `fit` would. The
callback `AllocationLogger` logs gates, and `RunFolder` writes what reports read. Needs Lightning:
``pip install "allotment[lightning]"``.

>>> import torch
>>> from torch import nn
>>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, Task
>>> from allotment.lightning import MultiTaskModule
>>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2))
>>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 1)})
>>> tasks = [Task(name, (torch.randn(9, 8), torch.randn(9))) for name in "ab"]
>>> MultiTaskModule(network, tasks).n_steps
2000
"""

try:
    import lightning as _lightning  # noqa: F401
except ImportError as error:
    raise ImportError(
        "`allotment.lightning` should have Lightning beside it, which "
        '`pip install "allotment[lightning]"` brings. Found none.'
    ) from error

from ._callbacks import AllocationLogger as AllocationLogger
from ._data import MultiTaskData as MultiTaskData
from ._module import MultiTaskModule as MultiTaskModule
from ._run_folder import RunFolder as RunFolder
