"""Training: one loop, for one run or for many at once.

It yields what happens and knows nothing of files.

>>> import torch
>>> from allotment.allocation import GumbelMatrix
>>> from allotment.modules import ModularLayer, MultiTaskNetwork
>>> from allotment.paper import synthetic_pairs
>>> from allotment.settings import TrainingSettings
>>> from allotment.training import fit
>>> _ = torch.manual_seed(0)
>>> tasks = synthetic_pairs(1, rho=1.0, seed=0)
>>> components = [torch.nn.Linear(128, 1) for _ in range(3)]
>>> network = MultiTaskNetwork(None, [ModularLayer(components, GumbelMatrix(2, 3))])
>>> fit(network, tasks, TrainingSettings(rounds=20)).embeddings.shape
(2, 3)
"""

from .._advice import Advice as Advice
from .._engine import ExecutionPlan as ExecutionPlan
from .._engine import Run as Run
from .._engine import run_header as run_header
from .._schema import Outcome as Outcome
from .._schema import TrainingState as TrainingState
from ._advise import advise as advise
from ._cost import step_operations as step_operations
from ._dead import DeadTasks as DeadTasks
from ._dead import are_optional as are_optional
from ._dead import dead_layers as dead_layers
from ._evaluation import n_known as n_known
from ._fit import fit as fit
from ._inference import evaluate as evaluate
from ._inference import predict as predict
from ._metrics import has_classes as has_classes
from ._metrics import measured as measured
from ._progress import MetricsLogger as MetricsLogger
from ._progress import Progress as Progress
from ._progress import log_to as log_to
from ._result import Baselines as Baselines
from ._result import EvaluationResult as EvaluationResult
from ._result import FitResult as FitResult
from ._signals import asked_by_signals as asked_by_signals
from ._tracker import entry_interval as entry_interval
from ._train import plan as plan
from ._train import train as train
from ._validation import check_device as check_device
from ._validation import check_runs as check_runs
from ._validation import have_like_examples as have_like_examples
