"""Rows of parameters in Triton, one for each run: as they lie, with whatever is between them."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def read_row(table, row, stride, channels, known, HAS_ROWS: tl.constexpr):
    """Returns the parameters of a row in float32; zeros where there is no table."""
    if HAS_ROWS:
        place = table + row.to(tl.int64) * stride + channels
        return tl.load(place, mask=known, other=0.0).to(tl.float32)
    return tl.zeros_like(channels).to(tl.float32)


def rows_of(*tables: Tensor | None) -> tuple[list[Tensor | None], list[int]]:
    """Returns tables ``[K, C]`` whose rows have no gaps inside, and how far rows are apart."""
    found = [
        table if table is None or table.stride(1) == 1 else table.contiguous() for table in tables
    ]
    return found, [0 if table is None else table.stride(0) for table in found]
