"""The examples of all tasks on the training device, one copy of each array."""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ..tasks import Split, as_seen


class Store:
    """Arrays that splits refer to, laid one after another; a batch is fetched by row numbers.

    Splits with the same inputs share one copy of them, whatever their targets and views.
    """

    def __init__(self, splits: Sequence[Split], device: torch.device) -> None:
        inputs = {id(split.inputs): split.inputs for split in splits}
        targets = {id(split.targets): split.targets for split in splits}
        self._input_starts = _starts(inputs)
        self._target_starts = _starts(targets)
        self.inputs = _joined(list(inputs.values())).to(device)
        self.targets = _joined(list(targets.values())).to(device)
        if not self.targets.is_floating_point():
            self.targets = self.targets.long()  # the one integer type that losses take
        self.scale = splits[0].scale
        as_it_is = torch.arange(self.inputs[0].numel())
        views = {id(None): as_it_is} | {id(s.view): s.view for s in splits if s.view is not None}
        self._views = torch.stack(list(views.values())).to(device) if len(views) > 1 else None
        # A kind is what a batch needs beside its rows: a view, and how far targets lie from inputs.
        view_numbers = {key: number for number, key in enumerate(views)}
        kinds = {
            self._kind(split): (view_numbers[id(split.view)], self._offset(split))
            for split in splits
        }
        self._kind_numbers = {key: number for number, key in enumerate(kinds)}
        self._kinds = torch.tensor(list(kinds.values()), device=device)  # [K, 2]

    @staticmethod
    def _kind(split: Split) -> tuple[int, int, int]:
        return id(split.inputs), id(split.targets), id(split.view)

    def _offset(self, split: Split) -> int:
        return self._target_starts[id(split.targets)] - self._input_starts[id(split.inputs)]

    def rows(self, split: Split) -> Tensor:
        """Returns the numbers of a split's rows here."""
        rows = torch.arange(len(split.inputs)) if split.rows is None else split.rows
        return rows + self._input_starts[id(split.inputs)]

    def kind(self, split: Split) -> int:
        """Returns the number under which a split's view and targets are known here."""
        return self._kind_numbers[self._kind(split)]

    def fetch(self, rows: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Returns inputs ``[R, B, ...]`` and targets of rows ``[R, B]`` of kinds ``[R]``."""
        x = as_seen(self.inputs.index_select(0, rows.flatten()), None, self.scale)
        views, offsets = self._kinds.index_select(0, kinds).unbind(1)  # [R] each
        if self._views is not None:
            view = self._views.index_select(0, views)  # [R, numbers]
            numbers = x.view(*rows.shape, -1)
            x = numbers.gather(2, view.unsqueeze(1).expand(numbers.shape))
        y = self.targets.index_select(0, (rows + offsets.unsqueeze(1)).flatten())
        return x.view(*rows.shape, *self.inputs.shape[1:]), y.view(*rows.shape, *y.shape[1:])


def _starts(arrays: dict[int, Tensor]) -> dict[int, int]:
    """Returns where each array starts when they are laid one after another."""
    lengths = [len(array) for array in arrays.values()]
    return dict(zip(arrays, accumulate(lengths, initial=0), strict=False))


def fit_together(splits: Sequence[Split]) -> bool:
    """Tells whether splits can lie in one store: equal shapes and types."""
    kinds = {
        (s.inputs.shape[1:], s.inputs.dtype, s.targets.shape[1:], s.targets.dtype, s.scale)
        for s in splits
    }
    return len(kinds) == 1


def _joined(arrays: list[Tensor]) -> Tensor:
    return arrays[0] if len(arrays) == 1 else torch.cat(arrays)
