"""Learns which parts of a network each task uses, while it learns the network.

``analysis`` (numbers of embeddings and runs), ``report`` (figures and pages), ``sweep`` (runs of an
experiment) and ``load`` (runs on disk) are loaded when they are first used: the core and training
need torch and NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .allocation import Allocation as Allocation
from .allocation import Annealing as Annealing
from .allocation import FixedMatrix as FixedMatrix
from .allocation import GumbelMatrix as GumbelMatrix
from .allocation import NoSharing as NoSharing
from .allocation import SharedBottom as SharedBottom
from .allocation import recommended as recommended
from .modules import ModularLayer as ModularLayer
from .modules import MultiTaskModel as MultiTaskModel
from .modules import MultiTaskNetwork as MultiTaskNetwork
from .modules import Noise as Noise
from .modules import PerTask as PerTask
from .modules import TaskNetwork as TaskNetwork
from .modules import add_task as add_task
from .modules import budget_penalty as budget_penalty
from .modules import connection_penalty as connection_penalty
from .modules import costs as costs
from .modules import disconnect_penalty as disconnect_penalty
from .modules import drop_task as drop_task
from .modules import entropy_penalty as entropy_penalty
from .modules import extract as extract
from .modules import for_task as for_task
from .modules import modularize as modularize
from .modules import prune as prune
from .modules import task_embeddings as task_embeddings
from .settings import Augmentation as Augmentation
from .settings import Execution as Execution
from .settings import LossBalancing as LossBalancing
from .settings import Optimization as Optimization
from .settings import Penalties as Penalties
from .settings import TrainingSettings as TrainingSettings
from .tasks import GeneratedDataset as GeneratedDataset
from .tasks import MultiLabel as MultiLabel
from .tasks import Split as Split
from .tasks import Task as Task
from .tasks import tasks_from_table as tasks_from_table
from .training import EvaluationResult as EvaluationResult
from .training import ExecutionPlan as ExecutionPlan
from .training import FitResult as FitResult
from .training import Outcome as Outcome
from .training import Progress as Progress
from .training import Run as Run
from .training import advise as advise
from .training import evaluate as evaluate
from .training import fit as fit
from .training import plan as plan
from .training import predict as predict
from .training import train as train

__version__ = "0.2.0"

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import report as report
    from .experiments import sweep as sweep
    from .paper import load as load
else:  # not for a type checker, to which every name would then be one of the library

    def __getattr__(name: str) -> Any:
        if name in ("analysis", "report"):
            return import_module(f".{name}", __name__)
        if name == "load":
            return import_module(".paper", __name__).load
        if name == "sweep":
            return import_module(".experiments", __name__).sweep
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "analysis", "load", "report", "sweep"})
