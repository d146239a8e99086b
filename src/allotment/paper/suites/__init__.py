"""Suites of tasks: those of the paper, and one on digits that come with scikit-learn.

>>> from allotment.paper.suites import synthetic_pairs
>>> [task.name for task in synthetic_pairs(2, 1.0, seed=0)]
['1a', '1b', '2a', '2b']
"""

from ._images import digits as digits
from ._images import four_mnists as four_mnists
from ._images import rotated as rotated
from ._images import split_rows as split_rows
from ._omniglot import alphabets as alphabets
from ._omniglot import omniglot as omniglot
from ._synthetic import SineSamples as SineSamples
from ._synthetic import synthetic_pairs as synthetic_pairs
from ._three_clusters import three_clusters as three_clusters
