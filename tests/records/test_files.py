"""What becomes of values on their way into JSON."""

from dataclasses import dataclass
from functools import reduce
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytest import mark

from allotment.records import plain


@dataclass
class Pair:
    first: float
    second: Any


class Doubling:
    def __init__(self) -> None:
        self.start, self.name = inf, "doubling"
        self.table = [1, 2]
        self._hidden = 1


@mark.parametrize(
    ("value", "expected"),
    [
        (inf, None),
        (True, True),
        (np.int64(3), 3),
        (np.array([0.5, nan]), [0.5, None]),
        (torch.tensor([[1.0, nan]]), [[1.0, None]]),
        (Pair(nan, {1: (2, 3)}), {"first": None, "second": {"1": [2, 3]}}),
        (Path("a/b"), "a/b"),
        (torch.float32, "torch.float32"),
        (reduce, "reduce"),
        (Pair, "Pair"),
        (Doubling(), {"kind": "Doubling", "start": None, "name": "doubling"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_becomes_what_json_can_hold(value: Any, expected: Any) -> None:
    assert plain(value) == expected
