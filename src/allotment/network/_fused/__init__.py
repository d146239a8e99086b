"""Operations of large networks that go through memory in as few passes as they can.

On a GPU with Triton each is a kernel or two, written here; elsewhere the same mathematics in
torch's own operations. Both are differentiable and can be batched by `torch.func.vmap`.

>>> import torch
>>> from allotment.network._fused import mix
>>> mix(torch.tensor([0.5, 0.5, 0.0]), [torch.ones(2, 1), torch.zeros(2, 1), torch.ones(2, 1)])
tensor([[0.5000],
        [0.5000]])
"""

from ._mix import mix as mix
from ._norm import norm_relu as norm_relu
from ._pool import pool3x3 as pool3x3
