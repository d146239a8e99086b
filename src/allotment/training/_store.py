"""The examples of all tasks on the training device, one copy of each array."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..tasks import Split, as_seen


class Store:
    """Arrays that splits refer to, laid one after another; a batch is fetched by row numbers."""

    def __init__(self, splits: Sequence[Split], device: torch.device) -> None:
        pairs = {(id(split.inputs), id(split.targets)): split for split in splits}
        self._starts: dict[tuple[int, int], int] = {}
        start = 0
        for key, split in pairs.items():
            self._starts[key] = start
            start += len(split.inputs)
        arrays = list(pairs.values())
        self.inputs = _joined([split.inputs for split in arrays]).to(device)
        self.targets = _joined([split.targets for split in arrays]).to(device)
        self.scale = splits[0].scale
        views = {id(split.view): split.view for split in splits if split.view is not None}
        self._view_numbers = {key: number + 1 for number, key in enumerate(views)}
        self._views: Tensor | None = None
        if views:
            as_it_is = torch.arange(self.inputs[0].numel())
            self._views = torch.stack([as_it_is, *views.values()]).to(device)  # [V, numbers]

    def rows(self, split: Split) -> Tensor:
        """Returns the numbers of a split's rows here."""
        start = self._starts[id(split.inputs), id(split.targets)]
        rows = torch.arange(len(split.inputs)) if split.rows is None else split.rows
        return rows + start

    def view(self, split: Split) -> int:
        """Returns the number of a split's view here; 0 is the view that changes nothing."""
        return self._view_numbers.get(id(split.view), 0)

    def fetch(self, rows: Tensor, views: Tensor) -> tuple[Tensor, Tensor]:
        """Returns inputs ``[R, B, ...]`` and targets of rows ``[R, B]`` under views ``[R]``."""
        flat = rows.flatten()
        x = as_seen(self.inputs.index_select(0, flat), None, self.scale)
        if self._views is not None:
            view = self._views.index_select(0, views)  # [R, numbers]
            numbers = x.view(*rows.shape, -1)
            x = numbers.gather(2, view.unsqueeze(1).expand(numbers.shape))
        y = self.targets.index_select(0, flat)
        return x.view(*rows.shape, *self.inputs.shape[1:]), y.view(*rows.shape, *y.shape[1:])


def fit_together(splits: Sequence[Split]) -> bool:
    """Tells whether splits can lie in one store: equal shapes and types."""
    kinds = {
        (s.inputs.shape[1:], s.inputs.dtype, s.targets.shape[1:], s.targets.dtype, s.scale)
        for s in splits
    }
    return len(kinds) == 1


def _joined(arrays: list[Tensor]) -> Tensor:
    return arrays[0] if len(arrays) == 1 else torch.cat(arrays)
