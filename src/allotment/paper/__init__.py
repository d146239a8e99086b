"""The paper's experiments and our own comparisons, declared; what only one of them needs.

>>> from allotment.paper import EXPERIMENTS
>>> [name for name in EXPERIMENTS if not name.startswith("comparison")]
['transfer', 'two_pairs', 'digits', 'mnist', 'omniglot', 'omniglot_tuned', 'clusters', 'map', \
'map_census', 'map_mnist']
>>> [method.name for method in EXPERIMENTS["two_pairs"].methods]
['no_sharing', 'shared_bottom', 'gumbel']
"""

from ._census import census as census
from ._clusters import three_clusters as three_clusters
from ._comparison import COMPARISONS as COMPARISONS
from ._comparison import SUITES as SUITES
from ._images import digits as digits
from ._images import four_mnists as four_mnists
from ._load import experiment_of as experiment_of
from ._load import load as load
from ._load import read_table as read_table
from ._map import MAP_PAGE as MAP_PAGE
from ._map import MAPS as MAPS
from ._map import map_summary as map_summary
from ._omniglot import omniglot as omniglot
from ._registry import EXPERIMENTS as EXPERIMENTS
from ._registry import comparison_of as comparison_of
from ._registry import experiment_named as experiment_named
from ._synthetic import synthetic_pairs as synthetic_pairs
