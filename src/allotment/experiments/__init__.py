"""The paper's experiments and our own, as declarations; and the way from one to run folders.

>>> from allotment.experiments import EXPERIMENTS
>>> list(EXPERIMENTS)
['transfer', 'two_pairs', 'digits', 'mnist', 'omniglot', 'omniglot_tuned', 'clusters']
>>> [method.name for method in EXPERIMENTS["two_pairs"].methods]
['no_sharing', 'shared_bottom', 'gumbel']
"""

from ._experiment import Experiment as Experiment
from ._experiment import TaskChoice as TaskChoice
from ._launch import Cohort as Cohort
from ._launch import Launch as Launch
from ._launch import cohorts as cohorts
from ._launch import device_name as device_name
from ._load import load as load
from ._methods import AllocationSettings as AllocationSettings
from ._methods import GumbelSettings as GumbelSettings
from ._methods import Method as Method
from ._methods import NoSharingSettings as NoSharingSettings
from ._methods import SharedBottomSettings as SharedBottomSettings
from ._overrides import check_free as check_free
from ._overrides import overridden as overridden
from ._registry import EXPERIMENTS as EXPERIMENTS
from ._registry import experiment_named as experiment_named
from ._running import run_launch as run_launch
from ._stop import Stop as Stop
from ._stop import Stopped as Stopped
