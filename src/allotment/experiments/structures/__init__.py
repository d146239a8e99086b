"""Ways of sharing that need another network, not only another allocation.

A structure is a function ``(build, allocate, outputs) -> network``, where ``build(allocate,
outputs)`` makes the experiment's own network anew. It is given to a method beside an allocation.

>>> from allotment.allocation import NoSharing
>>> from allotment.experiments import Method, using
>>> from allotment.experiments.structures import single_task
>>> from allotment.paper.networks import digits_network
>>> alone = Method(name="single_task", allocation=using(NoSharing), structure=single_task)
>>> def allocate(n_components, **facts):
...     return NoSharing(2, n_components)
>>> single_task(digits_network, allocate, {"a": 4, "b": 3}).layer_sizes
(8, 8)

Each has allocations that it is for:

>>> from functools import partial
>>> from allotment.allocation import SNR, CrossStitch, SharedBottom, SoftmaxMatrix
>>> from allotment.experiments.structures import cross_stitch, snr_aver, snr_trans
>>> from allotment.experiments.structures import soft_ordering, task_routing
>>> kinds = {cross_stitch: CrossStitch, snr_aver: SNR, snr_trans: SNR}
>>> kinds |= {soft_ordering: SoftmaxMatrix, task_routing: SharedBottom}
>>> for structure, kind in kinds.items():
...     network = structure(digits_network, partial(using(kind), 2), {"a": 4, "b": 3})
...     print(structure.__name__, network.layer_sizes)
cross_stitch (4, 4)
snr_aver (4, 4)
snr_trans (4, 4)
soft_ordering (4, 4)
task_routing (4, 4)
"""

from ._cross_stitch import cross_stitch as cross_stitch
from ._ple import ple as ple
from ._single_task import single_task as single_task
from ._snr import snr_aver as snr_aver
from ._snr import snr_trans as snr_trans
from ._soft_ordering import soft_ordering as soft_ordering
from ._task_routing import task_routing as task_routing
