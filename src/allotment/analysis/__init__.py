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

The same from records, here of two methods with two seeds each:

>>> import tempfile
>>> import allotment as al
>>> from allotment.experiments import overridden
>>> from allotment.paper import experiment_named
>>> short = overridden(experiment_named("digits"), ["rounds=10", "evaluate_every=10"])
>>> out, methods = tempfile.mkdtemp(), ["shared_bottom", "gumbel"]
>>> records = al.sweep(short, out, methods=methods, n_runs=2, device="cpu", say=str)
>>> by_method = {method: runs for (_, _, method), runs in group_runs(records).items()}
>>> learnt, shared = by_method["gumbel"], by_method["shared_bottom"]
>>> summarise(learnt).n_runs, paired_difference(learnt, shared).n
(2, 2)
>>> embeddings(learnt[0]).shape, used_shares(learnt[0]).shape, used_parameters(learnt[0]).shape
((4, 8), (4,), (4,))
>>> 0 <= measure(learnt[0]) <= 1, 0 <= validation_measure(learnt[0]) <= 1
(True, True)
>>> typical_run(learnt) in learnt, n_suites(learnt)
(True, 1)
>>> list(accuracy_by_task(learnt)) == list(loss_by_task(learnt))
True
>>> groups = {"all": learnt[0].header.task_names}
>>> list(accuracy_by_family(learnt)), list(accuracy_by_group(learnt, groups))
(['upright', 'rotated'], ['all'])
>>> error_curves(learnt).rounds.shape, loss_band(learnt, window=1).n_runs
((1,), 2)
>>> validation_loss_curves(learnt).rounds.shape, late_change(learnt).n  # too short for a change
((1,), 0)
>>> accuracy_by_checkpoint(learnt)  # of one check there is nothing to choose
{}
>>> relatedness(learnt).n_distinct.n, usage_by_kind(learnt).kinds
(2, ('conv3x3',))
>>> gain(by_method, "gumbel", ["shared_bottom"]).baseline
'shared_bottom'
>>> advantage(learnt, shared).n, best_on_validation([learnt, shared]) in (learnt, shared)
(2, True)
"""

from ._clusters import cluster as cluster
from ._clusters import cut as cut
from ._clusters import leaf_order as leaf_order
from ._clusters import linkage as linkage
from ._curves import Band as Band
from ._curves import ErrorCurves as ErrorCurves
from ._curves import accuracy_by_checkpoint as accuracy_by_checkpoint
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
from ._ranking import leaders as leaders
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
