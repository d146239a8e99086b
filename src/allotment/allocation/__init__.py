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
from ._champion import ChampionChallenger as ChampionChallenger
from ._fixed import FixedMatrix as FixedMatrix
from ._fixed import NoSharing as NoSharing
from ._fixed import SharedBottom as SharedBottom
from ._gumbel import Annealing as Annealing
from ._gumbel import GumbelMatrix as GumbelMatrix
from ._pathnet import PathNet as PathNet
