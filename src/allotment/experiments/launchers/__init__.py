"""Where run groups train: here one after another, in processes, or on a Ray cluster.

A worker trains and sends messages. Records and checkpoints are written by the one process that
started the sweep, so no file system has to be shared, and a sweep can be resumed by any launcher.

>>> from allotment.experiments.launchers import choose_launcher
>>> choose_launcher("cpu", workers=2)  # for `run_sweep(sweep, launcher=...)`
Processes(n=2)
"""

from ._choice import choose_launcher as choose_launcher
from ._launcher import Failure as Failure
from ._launcher import Launcher as Launcher
from ._launcher import Message as Message
from ._processes import Processes as Processes
from ._ray import RayCluster as RayCluster
from ._training import InTurn as InTurn
from ._training import determinism as determinism
