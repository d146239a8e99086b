"""How ``R`` runs become one fast program; inside the library, and exported nowhere.

A `Trainer` holds the parameters of all runs as a few flat tensors, draws their batches by blocks of
rounds, and takes optimizer steps. An `ExecutionPlan`, decided once, says how: runs vmapped, on
streams or one by one; a step eager, traced, or captured as a CUDA graph.

>>> from allotment._engine import ExecutionPlan
>>> [field for field in ExecutionPlan.__dataclass_fields__]
['device', 'n_runs', 'runs', 'task', 'step', 'threads', 'annealing']
"""

from ._compact import compact as compact
from ._compact import fill as fill
from ._dataset import why_fetched as why_fetched
from ._losses import check_labels as check_labels
from ._parameters import FlatParameters as FlatParameters
from ._plan import ExecutionPlan as ExecutionPlan
from ._plan import Operations as Operations
from ._precision import rounded as rounded
from ._precision import widened as widened
from ._run import Run as Run
from ._run import check_alike as check_alike
from ._trainer import Trainer as Trainer
