"""The networks of the paper's experiments, and the blocks they are made of.

>>> from allotment.allocation import SharedBottom
>>> from allotment.paper.networks import mnist_network
>>> mnist_network(lambda n, **_: SharedBottom(2, n), {"a": 10, "b": 10}).layer_sizes
(4, 4, 4)
"""

from ._networks import Allocate as Allocate
from ._networks import ConvNormReLU as ConvNormReLU
from ._networks import NormReLU as NormReLU
from ._networks import TwoColourStem as TwoColourStem
from ._networks import census_network as census_network
from ._networks import clusters_network as clusters_network
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
