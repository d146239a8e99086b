"""Training: one loop, for one run or for many at once.

It yields what happens and knows nothing of files.

>>> import torch
>>> from allotment.network import GumbelMatrix, ModularLayer, MultiTaskNetwork
>>> from allotment.tasks import synthetic_pairs
>>> from allotment.training import TrainingSettings, fit
>>> _ = torch.manual_seed(0)
>>> tasks = synthetic_pairs(1, rho=1.0, seed=0)
>>> components = [torch.nn.Linear(128, 1) for _ in range(3)]
>>> network = MultiTaskNetwork(None, [ModularLayer(components, GumbelMatrix(2, 3))])
>>> fit(network, tasks, TrainingSettings(rounds=20)).embeddings.shape
(2, 3)
"""

from .._progress import Outcome as Outcome
from .._progress import TrainingState as TrainingState
from ._fit import FitResult as FitResult
from ._fit import fit as fit
from ._loop import Progress as Progress
from ._loop import train as train
from ._precision import PRECISIONS as PRECISIONS
from ._run import Run as Run
from ._settings import ROUNDS_PER_BLOCK as ROUNDS_PER_BLOCK
from ._settings import TrainingSettings as TrainingSettings
