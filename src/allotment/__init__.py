"""Learns which parts of a network each task uses, while it learns the network.

``analysis`` (numbers of embeddings and runs) and ``report`` (figures and pages) are loaded when
they are first used, since they bring SciPy and matplotlib with them.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from .experiments import load as load
from .network import Allocation as Allocation
from .network import Annealing as Annealing
from .network import FixedMatrix as FixedMatrix
from .network import GumbelMatrix as GumbelMatrix
from .network import ModularLayer as ModularLayer
from .network import MultiTaskNetwork as MultiTaskNetwork
from .network import Noise as Noise
from .network import NoSharing as NoSharing
from .network import SharedBottom as SharedBottom
from .network import budget_penalty as budget_penalty
from .network import connection_penalty as connection_penalty
from .network import disconnect_penalty as disconnect_penalty
from .network import entropy_penalty as entropy_penalty
from .network import extract as extract
from .network import task_embeddings as task_embeddings
from .tasks import FreshSamples as FreshSamples
from .tasks import Split as Split
from .tasks import Task as Task
from .training import FitResult as FitResult
from .training import Outcome as Outcome
from .training import Progress as Progress
from .training import Run as Run
from .training import TrainingSettings as TrainingSettings
from .training import fit as fit
from .training import train as train

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import report as report
else:  # not for a type checker, to which every name would then be one of the library

    def __getattr__(name: str) -> ModuleType:
        if name in ("analysis", "report"):
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "analysis", "report"})
