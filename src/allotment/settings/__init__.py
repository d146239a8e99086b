"""How to train: frozen values in groups, checked when they are made.

>>> from allotment.settings import Optimization, TrainingSettings
>>> settings = TrainingSettings(rounds=200, optimization=Optimization(learning_rate=0.01))
>>> settings.changed(budget=0.5).penalties.budget
0.5
"""

from ._balancing import DynamicWeightAverage as DynamicWeightAverage
from ._balancing import LossBalancing as LossBalancing
from ._balancing import UncertaintyWeighting as UncertaintyWeighting
from ._groups import GROUPS as GROUPS
from ._groups import Augmentation as Augmentation
from ._groups import Execution as Execution
from ._groups import Optimization as Optimization
from ._groups import Penalties as Penalties
from ._training import OLD_NAMES as OLD_NAMES
from ._training import ROUNDS_PER_BLOCK as ROUNDS_PER_BLOCK
from ._training import TrainingSettings as TrainingSettings
from ._training import from_record as from_record
from ._training import group_of as group_of
from ._training import setting_names as setting_names
