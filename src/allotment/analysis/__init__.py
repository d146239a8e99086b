"""Numbers from records: means with their spread, which tasks belong together, methods compared.

Everything here is a function from runs, or from arrays they hold, to a value; nothing needs the
device or the data that the runs were made with.

>>> import numpy as np
>>> without, with_budget = estimate([96.6, 96.8, 97.0]), estimate([96.3, 96.4, 96.5])
>>> print(without)
96.8 ± 0.2 sd (n=3)
>>> disjoint(without, with_budget)
False
>>> rows = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
>>> distinct_groups(rows)
[[0, 1], [2]]
>>> cosine_similarity(rows).round(3).tolist()
[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
>>> cluster(cosine_similarity(rows)).labels
(0, 0, 1)
"""

from ._clusters import cluster as cluster
from ._clusters import cut as cut
from ._clusters import leaf_order as leaf_order
from ._clusters import linkage as linkage
from ._curves import Band as Band
from ._curves import ErrorCurves as ErrorCurves
from ._curves import error_curves as error_curves
from ._curves import late_change as late_change
from ._curves import loss_band as loss_band
from ._curves import validation_loss_curves as validation_loss_curves
from ._difference import PairedDifference as PairedDifference
from ._difference import paired_difference as paired_difference
from ._embeddings import classical_mds as classical_mds
from ._embeddings import cosine_similarity as cosine_similarity
from ._embeddings import distinct_groups as distinct_groups
from ._embeddings import embeddings as embeddings
from ._estimate import Estimate as Estimate
from ._estimate import disjoint as disjoint
from ._estimate import estimate as estimate
from ._estimate import n_decimals as n_decimals
from ._families import between_families as between_families
from ._families import chance_similarity as chance_similarity
from ._families import distinct_by_family as distinct_by_family
from ._families import family_names as family_names
from ._families import own_is_nearest as own_is_nearest
from ._families import permutation_p_values as permutation_p_values
from ._gain import Advantage as Advantage
from ._gain import Gain as Gain
from ._gain import advantage as advantage
from ._gain import best_on_validation as best_on_validation
from ._gain import gain as gain
from ._measure import Summary as Summary
from ._measure import accuracy_by_family as accuracy_by_family
from ._measure import accuracy_by_group as accuracy_by_group
from ._measure import accuracy_by_task as accuracy_by_task
from ._measure import group_runs as group_runs
from ._measure import loss_by_task as loss_by_task
from ._measure import measure as measure
from ._measure import n_suites as n_suites
from ._measure import score_by_task as score_by_task
from ._measure import summarise as summarise
from ._measure import typical_run as typical_run
from ._measure import validation_measure as validation_measure
from ._pareto import pareto as pareto
from ._pareto import used_parameters as used_parameters
from ._ranking import Ranking as Ranking
from ._ranking import critical_difference as critical_difference
from ._ranking import ranked as ranked
from ._ranking import ranking as ranking
from ._relatedness import Family as Family
from ._relatedness import KnownFamilies as KnownFamilies
from ._relatedness import Relatedness as Relatedness
from ._relatedness import relatedness as relatedness
from ._relatedness import stability as stability
from ._usage import Usage as Usage
from ._usage import usage_by_kind as usage_by_kind
from ._usage import used_shares as used_shares
