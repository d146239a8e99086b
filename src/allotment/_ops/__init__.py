"""Operations of large networks that go through memory in as few passes as they can.

On a GPU with Triton each is a kernel or two, written here; elsewhere the same mathematics in
torch's own operations. Both are differentiable and can be batched by `torch.func.vmap`.

>>> import torch
>>> from allotment._ops import mix
>>> mix(torch.tensor([0.75, 0.25]), [torch.ones(1, 2, 3), torch.zeros(1, 2, 3)])
tensor([[0.7500, 0.7500, 0.7500],
        [0.7500, 0.7500, 0.7500]])
"""

from ._available import plain_operations as plain_operations
from ._conv import Window as Window
from ._conv import can_convolve as can_convolve
from ._conv import few_channels as few_channels
from ._conv import many_channels as many_channels
from ._conv import own_kernels as own_kernels
from ._gates import can_draw as can_draw
from ._gates import drawn_weights as drawn_weights
from ._mix import mix as mix
from ._norm import norm_relu as norm_relu
from ._pool import pool3x3 as pool3x3
from ._streams import cuda_streams as cuda_streams
from ._streams import has_streams as has_streams
from ._streams import keep_for_capture as keep_for_capture
from ._streams import on_streams as on_streams
