"""The paper's experiments and our own comparisons, declared; what only one of them needs.

>>> from allotment.paper import EXPERIMENTS
>>> list(EXPERIMENTS)
['transfer', 'two_pairs', 'digits', 'mnist', 'omniglot', 'omniglot_tuned', 'clusters']
>>> [method.name for method in EXPERIMENTS["two_pairs"].methods]
['no_sharing', 'shared_bottom', 'gumbel']
"""

from ._load import load as load
from ._registry import EXPERIMENTS as EXPERIMENTS
from ._registry import experiment_named as experiment_named
