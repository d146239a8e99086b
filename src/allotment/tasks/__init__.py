"""Tasks: what is to be learnt, each with its examples; and suites of them.

>>> import torch
>>> from allotment.tasks import Task
>>> task = Task("parity", train=(torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])))
>>> task.n_outputs, task.is_classification
(2, True)
"""

from ._digits import digits as digits
from ._four_mnists import four_mnists as four_mnists
from ._images import rotated as rotated
from ._images import split_rows as split_rows
from ._omniglot import alphabets as alphabets
from ._omniglot import omniglot as omniglot
from ._split import FreshSamples as FreshSamples
from ._split import Split as Split
from ._split import as_seen as as_seen
from ._synthetic import SineSamples as SineSamples
from ._synthetic import synthetic_pairs as synthetic_pairs
from ._task import Loss as Loss
from ._task import Task as Task
from ._task import check_names as check_names
from ._task import mean_squared_error as mean_squared_error
from ._three_clusters import three_clusters as three_clusters
