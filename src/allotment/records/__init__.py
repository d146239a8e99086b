"""Runs on disk: what training yields is written as it comes, and read back as values.

A run is a folder that its ``summary.json`` closes; one without it was stopped and is never counted.
Results worth keeping with the source are merged into small files by ``keep``. Runs from either
place come back as the same ``RunRecord``, so whatever is computed or drawn works on both.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> from allotment._schema import LogEntry, Outcome, RunHeader
>>> header = RunHeader(
...     experiment="toy", condition="", method="gumbel", seed=3, task_names=("a", "b"), families=(),
...     layer_sizes=(2,), component_names=("wide", "deep"), measure="loss", n_last_rounds=10,
... )
>>> gates = np.array([[1.0, 0.0], [1.0, 1.0]])
>>> outcome = Outcome(
...     status="finished", failed_step=None, rounds=10, seconds=0.5, n_together=1, final_loss=0.25,
...     best_round=None, matrix=gates, probabilities=gates, validation=None, test=None, weights={},
... )
>>> out = Path(tempfile.mkdtemp())
>>> writer = RunWriter(run_folder(out, header), header)
>>> losses = np.array([0.2, 0.3])
>>> writer.add(LogEntry(round=10, losses=losses, probabilities=gates, share_active=0.75))
>>> [folder.relative_to(out).as_posix() for folder in unfinished_runs(out)]
['gumbel/seed-003']
>>> writer.close(outcome)
>>> [(record.header.seed, record.outcome.final_loss) for record in read_runs(out)]
[(3, 0.25)]
"""

from ._benchmarks import BudgetRecord as BudgetRecord
from ._benchmarks import BudgetRow as BudgetRow
from ._benchmarks import Floor as Floor
from ._benchmarks import GrowthRecord as GrowthRecord
from ._benchmarks import GrowthRow as GrowthRow
from ._benchmarks import LargeRecord as LargeRecord
from ._benchmarks import LargeWay as LargeWay
from ._benchmarks import ScalingRecord as ScalingRecord
from ._benchmarks import ScalingRow as ScalingRow
from ._benchmarks import SpeedRecord as SpeedRecord
from ._benchmarks import Timing as Timing
from ._benchmarks import read_budgets as read_budgets
from ._benchmarks import read_growth as read_growth
from ._benchmarks import read_large as read_large
from ._benchmarks import read_scaling as read_scaling
from ._benchmarks import read_speed as read_speed
from ._checkpoint import Checkpoints as Checkpoints
from ._declaration import find_copy as find_copy
from ._declaration import read_declarations as read_declarations
from ._declaration import read_preprocessing as read_preprocessing
from ._declaration import write_copy as write_copy
from ._declaration import write_declaration as write_declaration
from ._declaration import write_preprocessing as write_preprocessing
from ._environment import Environment as Environment
from ._environment import describe_environment as describe_environment
from ._files import RecordError as RecordError
from ._files import file_name as file_name
from ._files import plain as plain
from ._files import write_bytes as write_bytes
from ._kept import keep as keep
from ._kept import read_kept as read_kept
from ._launches import close_options as close_options
from ._launches import read_options as read_options
from ._launches import remove_options as remove_options
from ._launches import write_options as write_options
from ._profiles import ProfilePart as ProfilePart
from ._profiles import ProfileRecord as ProfileRecord
from ._profiles import read_profile as read_profile
from ._rates import keep_rates as keep_rates
from ._rates import read_kept_rates as read_kept_rates
from ._rates import read_rates as read_rates
from ._rates import write_rates as write_rates
from ._reader import read_environment as read_environment
from ._reader import read_run as read_run
from ._reader import read_runs as read_runs
from ._reader import read_weights as read_weights
from ._reader import unfinished_runs as unfinished_runs
from ._record import RunRecord as RunRecord
from ._writer import RunWriter as RunWriter
from ._writer import check_new as check_new
from ._writer import check_same as check_same
from ._writer import open_runs as open_runs
from ._writer import reopen_runs as reopen_runs
from ._writer import rounds_of as rounds_of
from ._writer import run_folder as run_folder
