"""Networks in which each task uses some of the components.

This folder takes sizes, never tasks, settings or files. Modules can be used in any loop:

>>> import torch
>>> from torch import nn
>>> from allotment.network import GumbelMatrix, ModularLayer, MultiTaskNetwork
>>> _ = torch.manual_seed(0)
>>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2, p_init=0.9))
>>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
>>> network(torch.randn(5, 8), "b").shape
torch.Size([5, 3])
>>> network.matrix()
tensor([[1., 1.],
        [1., 1.]])
"""

from ._annealing import Annealing as Annealing
from ._conv_norm import ConvNormReLU as ConvNormReLU
from ._conv_norm import NormReLU as NormReLU
from ._extraction import extract as extract
from ._fused import plain_operations as plain_operations
from ._heads import HeadTable as HeadTable
from ._initial import glorot_ as glorot_
from ._kinds import same_kind as same_kind
from ._layer import ModularLayer as ModularLayer
from ._multitask import MultiTaskNetwork as MultiTaskNetwork
from ._multitask import Noise as Noise
from ._multitask import task_embeddings as task_embeddings
from ._packing import Place as Place
from ._packing import pack as pack
from ._packing import places as places
from ._paper_networks import Allocate as Allocate
from ._paper_networks import clusters_network as clusters_network
from ._paper_networks import digits_network as digits_network
from ._paper_networks import mnist_network as mnist_network
from ._paper_networks import omniglot_network as omniglot_network
from ._paper_networks import pairs_network as pairs_network
from ._paper_networks import transfer_network as transfer_network
from ._penalties import budget_penalty as budget_penalty
from ._penalties import connection_penalty as connection_penalty
from ._penalties import disconnect_penalty as disconnect_penalty
from ._penalties import entropy_penalty as entropy_penalty
from ._same_padding import SameAvgPool2d as SameAvgPool2d
from ._same_padding import SameConv2d as SameConv2d
from ._same_padding import SameMaxPool2d as SameMaxPool2d
from ._side_by_side import cuda_streams as cuda_streams
from ._side_by_side import keep_for_capture as keep_for_capture
from ._side_by_side import side_by_side as side_by_side
from .allocation import Allocation as Allocation
from .allocation import FixedMatrix as FixedMatrix
from .allocation import GumbelMatrix as GumbelMatrix
from .allocation import NoSharing as NoSharing
from .allocation import SharedBottom as SharedBottom
