"""The paper's experiments and our own comparisons, declared; what only one of them needs.

>>> from allotment.paper import EXPERIMENTS, KINDS
>>> list(EXPERIMENTS)[:8]
['transfer', 'two_pairs', 'codebooks', 'digits', 'mnist', 'omniglot', 'omniglot_tuned', 'clusters']
>>> list(KINDS)  # on several suites each
['comparison', 'causes', 'remedy']
>>> [method.name for method in EXPERIMENTS["two_pairs"].methods]
['no_sharing', 'shared_bottom', 'gumbel']
"""

from ._causes import CAUSES as CAUSES
from ._causes import causes_page as causes_page
from ._census import census as census
from ._clusters import three_clusters as three_clusters
from ._comparison import COMPARED as COMPARED
from ._comparison import SUITES as SUITES
from ._comparison import WELL_TRAINED as WELL_TRAINED
from ._images import digits as digits
from ._images import four_mnists as four_mnists
from ._map import MAP_PAGE as MAP_PAGE
from ._map import MAPS as MAPS
from ._map import map_summary as map_summary
from ._omniglot import omniglot as omniglot
from ._registry import EXPERIMENTS as EXPERIMENTS
from ._registry import HEADLINES as HEADLINES
from ._registry import KINDS as KINDS
from ._registry import experiment_named as experiment_named
from ._registry import experiment_of as experiment_of
from ._registry import experiment_on as experiment_on
from ._registry import load as load
from ._registry import read_table as read_table
from ._remedy import REMEDIES as REMEDIES
from ._remedy import remedy_page as remedy_page
from ._remedy import remedy_summary as remedy_summary
from ._synthetic import synthetic_pairs as synthetic_pairs
