"""What an experiment is, and the way from a declaration to run folders.

>>> from allotment.experiments import GumbelSettings, Method
>>> Method(name="gumbel", label="Gumbel-Matrix", allocation=GumbelSettings()).is_learnt
True
"""

from ._experiment import Experiment as Experiment
from ._experiment import TaskChoice as TaskChoice
from ._launch import Cohort as Cohort
from ._launch import Launch as Launch
from ._launch import cohorts as cohorts
from ._launch import device_name as device_name
from ._methods import AllocationSettings as AllocationSettings
from ._methods import GumbelSettings as GumbelSettings
from ._methods import Method as Method
from ._methods import NoSharingSettings as NoSharingSettings
from ._methods import SharedBottomSettings as SharedBottomSettings
from ._overrides import check_free as check_free
from ._overrides import overridden as overridden
from ._running import run_launch as run_launch
from ._stop import Stop as Stop
from ._stop import Stopped as Stopped
