"""What an experiment is, and the way from a declaration to run folders.

An experiment of one's own needs a name, tasks, a network and methods. A new way of sharing is a
class of one's own in a method; nothing in the library has to know it.

>>> import tempfile
>>> import torch
>>> from torch import nn
>>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork, SharedBottom, Task
>>> from allotment import TrainingSettings
>>> from allotment.experiments import Experiment, Method, Sweep, run_sweep, using
>>> def network(allocate, outputs):
...     layer = ModularLayer([nn.Linear(8, 4) for _ in range(3)], allocate(3))
...     heads = {name: nn.Linear(4, n_outputs) for name, n_outputs in outputs.items()}
...     return MultiTaskNetwork(None, [layer], heads)
>>> mine = Experiment(
...     name="mine",
...     tasks=[Task(name, (torch.randn(40, 8), torch.randn(40))) for name in "ab"],
...     network=network,
...     methods=[
...         Method(name="shared", allocation=using(SharedBottom)),
...         Method(name="gumbel", allocation=using(GumbelMatrix, p_init=0.9)),
...     ],
...     training=TrainingSettings(rounds=10),
... )
>>> [folder.parent.name for folder in run_sweep(Sweep(experiment=mine, out=tempfile.mkdtemp()))]
['shared', 'gumbel']
"""

from ._experiment import DataOptions as DataOptions
from ._experiment import Experiment as Experiment
from ._experiment import ReportOptions as ReportOptions
from ._experiment import TaskChoice as TaskChoice
from ._file import ExperimentFile as ExperimentFile
from ._file import is_file_reference as is_file_reference
from ._file import read_experiment as read_experiment
from ._methods import Allocate as Allocate
from ._methods import Method as Method
from ._methods import using as using
from ._overrides import check_free as check_free
from ._overrides import overridden as overridden
from ._python_sweep import sweep as sweep
from ._running import GroupsFailed as GroupsFailed
from ._running import run_sweep as run_sweep
from ._search import RateSearch as RateSearch
from ._stop import Stop as Stop
from ._stop import Stopped as Stopped
from ._sweep import RunGroup as RunGroup
from ._sweep import Sweep as Sweep
from ._sweep import chosen_device as chosen_device
from ._sweep import device_name as device_name
from ._sweep import run_groups as run_groups
from ._varied import varied as varied
from .launchers import choose_launcher as choose_launcher
