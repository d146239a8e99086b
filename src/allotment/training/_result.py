"""What training or evaluating a network gave, and how it reads."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch import nn

from .._advice import best_run, means_by_way
from .._checks import check_choice
from .._schema import Evaluation, Floats, LogEntry, Outcome
from ..modules import as_network
from ._advise import advise
from ._dead import dead_layers, dead_sentence
from ._table import table


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Three ways of sharing trained side by side, a run of each for every seed.

    `print` shows what they are compared by: each task's mean over the seeds, a column for each way.
    All runs of one seed have the same batches, and all start from the weights that the network
    came with.

    Attributes:
        task_names: One for each task.
        outcomes: How the runs ended, by way: "learnt gates", "shared bottom", "separate networks".
        models: The network of each way, as it was before its runs.
        by: What they are compared by, as `keep_best` says it; empty: the error where all tasks
            classify, and else the loss.
        has_own_splits: Whether all tasks had validation splits; else training examples of those
            that had none were held out, and "learnt gates" were trained anew without them.
        shares_rest: Whether parts that learn lie outside of modular layers and heads, which all
            three ways share.
    """

    task_names: tuple[str, ...]
    outcomes: Mapping[str, Sequence[Outcome]]
    models: Mapping[str, nn.Module]
    by: str
    has_own_splits: bool
    shares_rest: bool

    def network(self, way: str | None = None) -> nn.Module:
        """Returns the trained network that does best on validation, of one way or of all.

        Its numbers on validation, by which it was chosen, flatter it; those on tests do not.

        Args:
            way: "learnt gates", "shared bottom" or "separate networks"; None: the best of all.
        """
        if way is not None:
            check_choice("way", way, list(self.outcomes))
        chosen = self.outcomes if way is None else {way: self.outcomes[way]}
        best, place = best_run(chosen, self.by)
        model, outcome = deepcopy(self.models[best]), chosen[best][place]
        as_network(model).load_state_dict(outcome.weights)
        return model.eval()

    def __str__(self) -> str:
        what, means = means_by_way(self.outcomes, self.by)  # [T] each
        n_seeds = len(next(iter(self.outcomes.values())))
        title = f"Validation {what}, mean over {n_seeds} seeds"
        return "\n".join([title, "", *table(self.task_names, means.items())])


@dataclass(frozen=True)
class FitResult:
    """What training a network gave; ``T`` tasks, ``C`` components, the layers side by side.

    `print` shows it as a table, with who uses what and what to do next.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> x = torch.randn(50, 8)
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(3)], al.GumbelMatrix(1, 3))
    >>> network = al.MultiTaskNetwork(None, [layer], task_names=["sum"])
    >>> task = al.Task("sum", train=(x, x.sum(1)), test=(x, x.sum(1)))
    >>> result = al.fit(network, [task], al.TrainingSettings(rounds=10))
    >>> result.test.losses.shape, result.probabilities.shape, result.task_names
    ((1,), (1, 3), ('sum',))

    Attributes:
        embeddings: Who uses what, 0 or 1 or shares, ``[T, C]``; tasks in the network's order.
        probabilities: Of each gate to be open, shape ``[T, C]``.
        history: Losses and gates over time: every ten rounds, or about 300 entries of a long run.
        validation: Losses, accuracies and metrics on the validation splits, where there are any; of
            a task without one they are NaN.
        test: The same on the test splits; they are looked at once, at the end.
        best_round: Where the weights come from, if chosen on validation.
        failed_step: The task batch, counted from 0, whose loss was not finite, if any.
        rounds: Rounds done.
        rounds_planned: Rounds that the settings asked for.
        was_interrupted: Whether Ctrl-C ended the training.
        task_names: One for each task.
        component_names: One for each component.
        layer_sizes: Components in each modular layer.
        are_optional: Whether a task may use none of a layer's components: the layer adds to a part
            that every task has, or its gates depend on the example.
        is_learnt: Whether some layer learns who uses what.
        is_binary: Whether tasks use components or do not, whatever the example; else shares.
        n_examples: Training examples by task; None where that is not known.
        failed_cause: Why the loss was not finite, where the examples are to blame.
        drift: How the tasks that were not trained did before and after, where some were trained
            alone and what tasks share has learnt with them.
        baselines: Other ways of sharing that were trained beside it, if any; see `advise`.
    """

    embeddings: Floats
    probabilities: Floats
    history: list[LogEntry]
    validation: Evaluation | None
    test: Evaluation | None
    best_round: int | None
    failed_step: int | None
    rounds: int
    rounds_planned: int
    was_interrupted: bool
    task_names: tuple[str, ...]
    component_names: tuple[str, ...]
    layer_sizes: tuple[int, ...]
    are_optional: tuple[bool, ...]
    is_learnt: bool
    is_binary: bool
    n_examples: dict[str, int | None]
    failed_cause: str = ""
    drift: "Drift | None" = None
    baselines: Baselines | None = None

    def dead(self) -> dict[str, list[int]]:
        """Returns, by task, the modular layers that give zeros for it: it uses nothing of them."""
        return dead_layers(self.embeddings, self.task_names, self.layer_sizes, self.are_optional)

    def warnings(self) -> list[str]:
        """Returns what should not stay unsaid, a sentence each."""
        if self.failed_step is not None:
            hint = "A smaller `learning_rate` or `clip_norm=1.0` may help."
            if self.failed_cause:
                hint = f"It may be that {self.failed_cause}."
            weights = f"of round {self.best_round}" if self.best_round else "that it came with"
            return [
                f"The loss was not finite at task batch {self.failed_step}, and nothing was learnt "
                f"from there on. The network has the weights {weights}. {hint}"
            ]
        dead = self.dead()
        return [*self._of_unseen(), *([dead_sentence(dead)] if dead else [])]

    def _of_unseen(self) -> list[str]:
        """Returns which tasks were in no batch, if any."""
        are_unseen = np.isnan(self.training_losses())
        unseen = [name for name, own in zip(self.task_names, are_unseen, strict=True) if own]
        if not unseen or not self.history:
            return []
        others = f" (and {len(unseen) - 1} more)" if len(unseen) > 1 else ""
        return [
            f"Task {unseen[0]!r}{others} was in no batch of {self.rounds:,} rounds: it is drawn "
            "too seldom, or none of its labels is known. A larger `sampling` or more "
            "`rounds` may help."
        ]

    def __str__(self) -> str:
        uses = ["uses", *map(self._uses, range(len(self.task_names)))]
        rows = zip(table(self.task_names, self._columns()), uses, strict=True)
        lines = ["  ".join(cells).rstrip() for cells in rows]
        best = f", weights of round {self.best_round:,}" if self.best_round else ""
        planned = f" of {self.rounds_planned:,}" if self.rounds < self.rounds_planned else ""
        how = ", stopped by Ctrl-C" if self.was_interrupted else ""
        title = f"{self.rounds:,}{planned} rounds{how}{best}"
        told = [f"! {sentence}" for sentence in self.warnings()]
        drift = [] if self.drift is None else [str(self.drift)]
        return "\n".join([title, "", *lines, "", *told, *drift, *self._next()])

    def _columns(self) -> list[tuple[str, Floats]]:
        """Returns the numbers of each task, with their headings."""
        found = [("training loss", self.training_losses())]
        for name, seen in (("validation", self.validation), ("test", self.test)):
            if seen is None:
                continue
            found.append((f"{name} loss", seen.losses))
            if seen.accuracies is not None:
                found.append((f"{name} accuracy", seen.accuracies))
            found += [(f"{name} {metric}", values) for metric, values in seen.metrics.items()]
        return found

    def training_losses(self) -> Floats:
        """Returns each task's loss around the round of the kept weights: the best one, or the last.

        It is that of the nearest entry that has one; a task that is drawn seldom is not in all.
        """
        kept = self.best_round or self.rounds
        losses = np.full(len(self.task_names), np.nan)
        for entry in sorted(self.history, key=lambda entry: abs(entry.round - kept)):
            losses = np.where(np.isnan(losses), entry.losses, losses)
        return losses

    def _uses(self, task: int) -> str:
        """Returns which components a task uses, layer by layer: ``#`` is one, ``.`` is none."""
        row = self.embeddings[task]
        if np.isnan(row).any():
            return "by example"
        marks = ["#" if share > 0.5 else "+" if share > 0 else "." for share in row]
        starts = np.cumsum([0, *self.layer_sizes])
        return " ".join("".join(marks[first:end]) for first, end in pairwise(starts))

    def _next(self) -> list[str]:
        if self.failed_step is not None:
            return []
        first = self.task_names[0]
        lines = [f"`al.extract(network, {first!r})` is the network of one task alone."]
        if self.validation is None:
            lines.append(
                "With `Task(validation=...)` and `evaluate_every` the best round is kept, and "
                "overfitting is seen."
            )
        if self.is_learnt and len(self.task_names) > 1:
            lines.append(advise(self).line)
        return lines


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """How well a network does on held-out examples; `print` shows it as a table.

    >>> import torch
    >>> from torch import nn
    >>> import allotment as al
    >>> layer = al.ModularLayer([nn.Linear(8, 1) for _ in range(2)], al.SharedBottom(1, 2))
    >>> network, x = al.MultiTaskNetwork(None, [layer], task_names=["sum"]), torch.randn(9, 8)
    >>> found = al.evaluate(network, [al.Task("sum", (x, x.sum(1)), test=(x, x.sum(1)))])
    >>> found.split, found.losses.shape
    ('test', (1,))

    Attributes:
        split: "train", "validation" or "test".
        task_names: One for each task.
        losses: Each task's mean loss, ``[T]``; NaN for a task without this split.
        accuracies: Each task's share of right answers, 0 to 1, ``[T]``; NaN for a regression, and
            None where all are.
        metrics: By name, what each task's own metric is, ``[T]``; NaN for a task without it.
    """

    split: str
    task_names: tuple[str, ...]
    losses: Floats
    accuracies: Floats | None
    metrics: dict[str, Floats]

    def by_task(self) -> dict[str, dict[str, float]]:
        """Returns the numbers of each task, those that it has: its loss, accuracy and metrics."""
        return {
            name: {what: float(of[t]) for what, of in self._columns() if not np.isnan(of[t])}
            for t, name in enumerate(self.task_names)
        }

    def __str__(self) -> str:
        columns = [(f"{self.split} {head}", values) for head, values in self._columns()]
        return "\n".join(table(self.task_names, columns))

    def _columns(self) -> list[tuple[str, Floats]]:
        shares = [] if self.accuracies is None else [("accuracy", self.accuracies)]
        return [("loss", self.losses), *shares, *self.metrics.items()]


@dataclass(frozen=True)
class Drift:
    """How tasks did on validation before others were trained, and after it.

    Attributes:
        before: Of the network as it came.
        after: Of the network as it is left.
    """

    before: EvaluationResult
    after: EvaluationResult

    def __str__(self) -> str:
        before, after = self.before.by_task(), self.after.by_task()
        lines = ["Drift of the other tasks on validation:"]
        for name, numbers in before.items():
            moves = [f"{k} {v:.4g} to {after[name][k]:.4g}" for k, v in numbers.items()]
            lines.append(f"  {name}: {', '.join(moves) or 'not known'}")
        return "\n".join(lines)
