"""Sums of shares in Triton, for the gradients that many programs have a part in."""

import triton
import triton.language as tl
from torch import Tensor

SHARES_AT_ONCE = 32  # at most
SUMS_AT_ONCE = 64


@triton.jit
def _add_up(shares, sums, n_shares, n_numbers, BLOCK_S: tl.constexpr, BLOCK_N: tl.constexpr):
    """Writes some of the sums of one row, always added in the same order."""
    row = tl.program_id(1).to(tl.int64)
    numbers = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    own = shares + row * n_shares * n_numbers
    total = tl.zeros([BLOCK_S, BLOCK_N], tl.float32)
    for start in range(0, n_shares, BLOCK_S):
        some = start + tl.arange(0, BLOCK_S)
        known = (some < n_shares)[:, None] & (numbers < n_numbers)[None, :]
        places = some[:, None] * n_numbers + numbers[None, :]
        total += tl.load(own + places, mask=known, other=0.0)
    sums += row * n_numbers
    tl.store(sums + numbers, tl.sum(total, axis=0), mask=numbers < n_numbers)


def add_up(shares: Tensor) -> Tensor:
    """Returns shares ``[K, S, ...]`` in float32 summed over S, in one launch."""
    n_rows, n_shares, *rest = shares.shape
    sums = shares.new_empty(n_rows, *rest)
    n_numbers = sums[0].numel()
    block = min(SHARES_AT_ONCE, triton.next_power_of_2(max(n_shares, 1)))
    _add_up[(triton.cdiv(n_numbers, SUMS_AT_ONCE), n_rows)](
        shares, sums, n_shares, n_numbers, block, SUMS_AT_ONCE
    )
    return sums
