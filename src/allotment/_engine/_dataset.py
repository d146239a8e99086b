"""The examples of all tasks on the training device, one copy of each array."""

from collections.abc import Collection, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ..tasks import GeneratedDataset, Split, TargetSpec, Task, preprocess, target_spec


class DeviceDataset:
    """Arrays that splits refer to, laid one after another; a batch is fetched by row numbers.

    Splits with the same inputs share one copy of them, whatever their targets and
    permutations. Inputs of a type in ``keep`` stay what they are.
    """

    def __init__(
        self, splits: Sequence[Split], device: torch.device, *, keep: Collection[torch.dtype] = ()
    ) -> None:
        self._keep = keep
        inputs = {id(split.inputs): split.inputs for split in splits}
        self._input_starts = _starts(inputs)
        self.inputs = _joined(list(inputs.values())).to(device)
        targets = _by_spec(splits)
        self._specs = list(targets)
        self._target_starts: dict[int, int] = {}
        self.targets: list[Tensor] = []  # one array for each spec
        for spec, arrays in targets.items():
            self._target_starts |= _starts(arrays)
            parts = [array.to(spec.dtype) for array in arrays.values()]
            self.targets.append(_joined(parts).to(device))
        self.scale = splits[0].scale
        as_it_is = torch.arange(self.inputs[0].numel())
        own = {id(s.permutation): s.permutation for s in splits if s.permutation is not None}
        permutations = {id(None): as_it_is} | own
        self._permutations = (
            torch.stack(list(permutations.values())).to(device) if len(permutations) > 1 else None
        )
        # A kind is what a batch needs beside its rows: a permutation, how far targets lie from
        # inputs, and their spec.
        numbers = {key: number for number, key in enumerate(permutations)}
        kinds = {
            self._kind(s): (numbers[id(s.permutation)], self._offset(s), self._spec(s))
            for s in splits
        }
        self._kind_numbers = {key: number for number, key in enumerate(kinds)}
        self._kinds = torch.tensor(list(kinds.values()), device=device)  # [K, 3]

    @staticmethod
    def _kind(split: Split) -> tuple[int, int, int]:
        return id(split.inputs), id(split.targets), id(split.permutation)

    def _offset(self, split: Split) -> int:
        return self._target_starts[id(split.targets)] - self._input_starts[id(split.inputs)]

    def _spec(self, split: Split) -> int:
        return self._specs.index(target_spec(split.targets))

    def rows(self, split: Split) -> Tensor:
        """Returns the numbers of a split's rows here."""
        return split.all_rows() + self._input_starts[id(split.inputs)]

    def kind(self, split: Split) -> int:
        """Returns the number under which a split's permutation and targets are known here."""
        return self._kind_numbers[self._kind(split)]

    def fetch(
        self, rows: Tensor, kinds: Tensor, *, n_alike: int = 1
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns inputs ``[R, B, ...]`` and targets of rows ``[R, B]`` of kinds ``[R]``.

        There are targets of every spec; those of a spec that a kind does not have are any. Where
        ``n_alike`` entries that follow each other have the same inputs, these are fetched once.
        """
        own_rows = rows[::n_alike]
        found = self.inputs.index_select(0, own_rows.flatten())
        x = preprocess(found, None, self.scale, keep=self._keep)
        permutations, offsets, specs = self._kinds.index_select(0, kinds).unbind(1)  # [R] each
        if self._permutations is not None:
            order = self._permutations.index_select(0, permutations[::n_alike])  # [R, numbers]
            numbers = x.view(*own_rows.shape, -1)
            x = numbers.gather(2, order.unsqueeze(1).expand(numbers.shape))
        y = self._fetched_targets(rows + offsets.unsqueeze(1), specs)
        return x.view(*own_rows.shape, *self.inputs.shape[1:]), y

    def _fetched_targets(self, rows: Tensor, specs: Tensor) -> tuple[Tensor, ...]:
        found = []
        for number, targets in enumerate(self.targets):
            own = rows
            if len(self.targets) > 1:  # row 0, which is always there, stands in for others
                own = torch.where((specs == number).unsqueeze(1), rows, 0)
            y = targets.index_select(0, own.flatten())
            found.append(y.view(*rows.shape, *targets.shape[1:]))
        return tuple(found)


class KnownLabels:
    """Which examples of one array each task knows the label of, where not all are known."""

    def __init__(
        self, runs: Sequence[Sequence[Task]], dataset: DeviceDataset, device: torch.device
    ) -> None:
        self._table = torch.zeros(0, len(dataset.inputs), dtype=torch.bool)
        numbers: dict[int, int] = {}  # of rows in the table, by the identity of a split
        for split in [task.train for tasks in runs for task in tasks]:
            if id(split) not in numbers:
                numbers[id(split)] = len(self._table)
                known = torch.zeros(1, len(dataset.inputs), dtype=torch.bool)
                known[0, dataset.rows(split)] = True
                self._table = torch.cat([self._table, known])
        self._numbers = torch.tensor([[numbers[id(t.train)] for t in tasks] for tasks in runs])
        self.rows = [self._table[own].any(dim=0).nonzero().squeeze(1) for own in self._numbers]
        self.are_all = all(
            bool(self._table[own][:, rows].all())
            for own, rows in zip(self._numbers, self.rows, strict=True)
        )
        self._on_device = self._table.to(device), self._numbers.to(device)

    def fetch(self, rows: Tensor, tasks: Tensor) -> Tensor:
        """Returns which labels are known, ``[R, T, B]``, of rows and tasks ``[R, T]``."""
        table, numbers = (
            self._on_device
            if rows.device == self._on_device[0].device
            else (
                self._table,
                self._numbers,
            )
        )
        places = numbers.gather(1, tasks).unsqueeze(2) * table.shape[1] + rows
        return table.view(-1).index_select(0, places.flatten()).view(places.shape)


def why_fetched(tasks: Sequence[Task]) -> str:
    """Returns why batches have to be fetched one by one, or nothing."""
    for task in tasks:
        if not isinstance(task.train, Split | GeneratedDataset):
            return f"the examples of task {task.name!r} are no pair of arrays"
    kinds = [_kind_of_inputs(task) for task in tasks]
    for task, kind in zip(tasks, kinds, strict=True):
        if kind != kinds[0]:
            return (
                f"tasks have different inputs: {kinds[0]} for {tasks[0].name!r} and {kind} for "
                f"{task.name!r}"
            )
    return ""


def device_dataset(
    tasks: Sequence[Task], device: torch.device, *, keep: Collection[torch.dtype] = ()
) -> DeviceDataset | None:
    """Returns the training examples on the device; None where every batch is drawn afresh."""
    splits = [task.train for task in tasks if isinstance(task.train, Split)]
    return DeviceDataset(splits, device, keep=keep) if splits else None


def _kind_of_inputs(task: Task) -> str:
    """Returns in words what the inputs of all tasks should have in common."""
    source = task.train
    if isinstance(source, Split):
        x, name, scale = source.inputs, "arrays", source.scale
    else:
        (x, _), name, scale = source.draw(1, torch.Generator()), "generated", 1.0
    return f"{name} of shape {list(x.shape[1:])}, {x.dtype}, scale {scale:g}"


def _by_spec(splits: Sequence[Split]) -> dict[TargetSpec, dict[int, Tensor]]:
    """Returns the different arrays of targets, by their identity, of each spec."""
    found: dict[TargetSpec, dict[int, Tensor]] = {}
    for split in splits:
        found.setdefault(target_spec(split.targets), {})[id(split.targets)] = split.targets
    return found


def _starts(arrays: dict[int, Tensor]) -> dict[int, int]:
    """Returns where each array starts when they are laid one after another."""
    lengths = [len(array) for array in arrays.values()]
    return dict(zip(arrays, accumulate(lengths, initial=0), strict=False))


def _joined(arrays: list[Tensor]) -> Tensor:
    return arrays[0] if len(arrays) == 1 else torch.cat(arrays)
