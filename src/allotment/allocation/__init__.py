"""Who uses what: one gate for each pair of a task and a component.

Every way of sharing is an `Allocation`, so that a comparison differs in one argument.

>>> from allotment.allocation import FixedMatrix
>>> allocation = FixedMatrix([[True, True, False], [False, True, True]])
>>> allocation.matrix()
tensor([[1., 1., 0.],
        [0., 1., 1.]])
>>> allocation.weights(0)
tensor([0.5000, 0.5000, 0.0000])
>>> allocation
FixedMatrix(n_tasks=2, n_components=3)
"""

from ._base import Allocation as Allocation
from ._base import row as row
from ._by_example import GumbelByExample as GumbelByExample
from ._cgc import CGC as CGC
from ._champion import ChampionChallenger as ChampionChallenger
from ._conditional_masks import ScoreFunctionByExample as ScoreFunctionByExample
from ._cross_stitch import CrossStitch as CrossStitch
from ._dselect_k import DSelectK as DSelectK
from ._entmax import EntmaxMatrix as EntmaxMatrix
from ._fixed import FixedMatrix as FixedMatrix
from ._fixed import NoSharing as NoSharing
from ._fixed import SharedBottom as SharedBottom
from ._gumbel import Annealing as Annealing
from ._gumbel import GumbelMatrix as GumbelMatrix
from ._hard_concrete import HardConcreteMatrix as HardConcreteMatrix
from ._hard_concrete import hard_concrete as hard_concrete
from ._hard_concrete import hard_concrete_mean as hard_concrete_mean
from ._hard_concrete import hard_concrete_open as hard_concrete_open
from ._metadata import MetadataMatrix as MetadataMatrix
from ._mmoe import MMoE as MMoE
from ._pathnet import PathNet as PathNet
from ._ple import PLE as PLE
from ._routing import RoutingPolicy as RoutingPolicy
from ._score_function import ScoreFunctionMatrix as ScoreFunctionMatrix
from ._settling import SettlingMatrix as SettlingMatrix
from ._settling import recommended as recommended
from ._snr import SNR as SNR
from ._soft import SoftMatrix as SoftMatrix
from ._softmax import SoftmaxMatrix as SoftmaxMatrix
from ._straight_through import StraightThroughMatrix as StraightThroughMatrix
from ._streams import StreamAllocation as StreamAllocation
from ._top_k import TopKExperts as TopKExperts
