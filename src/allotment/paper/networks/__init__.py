"""The networks of the paper's experiments, and the blocks they are made of.

>>> from allotment.allocation import SharedBottom
>>> from allotment.paper.networks import clusters_network, digits_network, map_network
>>> from allotment.paper.networks import census_network, mnist_network, omniglot_network
>>> from allotment.paper.networks import pairs_network, transfer_network
>>> def allocate(n_components, **facts):
...     return SharedBottom(2, n_components)
>>> mnist_network(allocate, {"a": 10, "b": 10}).layer_sizes
(4, 4, 4)
>>> makers = [digits_network, clusters_network, pairs_network, transfer_network, omniglot_network]
>>> [len(make(allocate, {"a": 10, "b": 10}).layer_sizes) for make in makers]
[2, 3, 1, 1, 8]
>>> census_network(allocate, {"a": 2, "b": 1}, n_features=9).layer_sizes
(8, 8)
>>> map_network(allocate, {"a": 1, "b": 1}, width=8).layer_sizes
(2,)
"""

from ._blocks import ConvNormReLU as ConvNormReLU
from ._blocks import NormReLU as NormReLU
from ._blocks import TwoColourStem as TwoColourStem
from ._networks import Allocate as Allocate
from ._networks import census_network as census_network
from ._networks import clusters_network as clusters_network
from ._networks import codebooks_network as codebooks_network
from ._networks import digits_network as digits_network
from ._networks import glorot_ as glorot_
from ._networks import map_network as map_network
from ._networks import mnist_network as mnist_network
from ._networks import omniglot_network as omniglot_network
from ._networks import pairs_network as pairs_network
from ._networks import transfer_network as transfer_network
from ._same_padding import SameAvgPool2d as SameAvgPool2d
from ._same_padding import SameConv2d as SameConv2d
from ._same_padding import SameMaxPool2d as SameMaxPool2d
