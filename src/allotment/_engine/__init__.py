"""How ``R`` runs become one fast program; inside the library, and exported nowhere.

A `Trainer` holds the parameters of all runs as a few flat tensors, draws their batches by blocks of
rounds, and takes optimizer steps. An `ExecutionPlan`, decided once, says how: runs vmapped, on
streams or one by one; a step eager, traced, or captured as a CUDA graph.

>>> from allotment._engine import ExecutionPlan
>>> [field for field in ExecutionPlan.__dataclass_fields__]
['device', 'n_runs', 'runs', 'task', 'step', 'threads', 'annealing']
"""

from ._augmentation import Augmenter as Augmenter
from ._batches import noise_widths as noise_widths
from ._compact import compact as compact
from ._compact import fill as fill
from ._costs import gate_costs as gate_costs
from ._dataset import why_fetched as why_fetched
from ._forward import GradientPass as GradientPass
from ._losses import StreamedLosses as StreamedLosses
from ._losses import check_labels as check_labels
from ._losses import one_number as one_number
from ._optimizer import parameter_groups as parameter_groups
from ._parameters import FlatParameters as FlatParameters
from ._parameters import changes_by_batch as changes_by_batch
from ._penalties import Budgets as Budgets
from ._penalties import PenaltySchedule as PenaltySchedule
from ._plan import ExecutionPlan as ExecutionPlan
from ._precision import rounded as rounded
from ._precision import widened as widened
from ._readers import IndexedReader as IndexedReader
from ._readers import Reader as Reader
from ._readers import shared_reader as shared_reader
from ._readers import task_reader as task_reader
from ._run import Run as Run
from ._run import check_alike as check_alike
from ._run import example_batch as example_batch
from ._run import run_header as run_header
from ._sampler import Epochs as Epochs
from ._sampler import TaskOrder as TaskOrder
from ._sampler import drawn as drawn
from ._sampler import held_out as held_out
from ._sampler import uniform as uniform
from ._stacked_network import StackedForm as StackedForm
from ._stacked_network import locations as locations
from ._stacked_network import unstacked as unstacked
from ._trainer import Trainer as Trainer
