"""The kernels, in Triton; imported only where they are used, on a GPU."""

from ._conv import convolve as convolve
from ._conv import image_gradients as image_gradients
from ._conv import kernel_gradients as kernel_gradients
from ._gates import draw as draw
from ._gates import draw_backward as draw_backward
from ._mix import add_weighted as add_weighted
from ._mix import add_weighted_backward as add_weighted_backward
from ._norm import normalise as normalise
from ._norm import normalise_backward as normalise_backward
from ._pool import pool as pool
from ._pool import pool_backward as pool_backward
