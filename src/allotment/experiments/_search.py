"""Learning rates chosen on validation before the runs that count, for each method the same way."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._checks import check_at_least
from .._schema import HIGHER_IS_BETTER
from ..records import RunRecord, describe_environment, read_rates, read_run, write_rates
from ..settings import TrainingSettings
from ..tasks import GeneratedDataset, Task
from ._methods import Method

if TYPE_CHECKING:
    from ._sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class RateSearch:
    """A small search over learning rates; both rates of a method move together.

    >>> from allotment.experiments import RateSearch
    >>> RateSearch(factors=(1.0, 0.1), n_runs=3).factors
    (1.0, 0.1)

    Attributes:
        factors: What a method's declared rates are multiplied by; the first of the best is chosen.
        n_runs: With each factor.
        first_seed: Of these runs, which no run that counts should have.
    """

    factors: tuple[float, ...] = (1.0, 1 / 3, 3.0)
    n_runs: int = 2
    first_seed: int = 1_000

    def __post_init__(self) -> None:
        check_at_least("n_runs", self.n_runs, 1)
        if not self.factors or min(self.factors) <= 0:
            raise ValueError(
                f"`factors` should be positive numbers. Found `factors = {self.factors}`."
            )

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.n_runs)


def with_chosen_rates(sweep: "Sweep", run: Callable[["Sweep"], list[Path]]) -> "Sweep":
    """Returns a sweep whose methods have the rates that did best on validation.

    What was chosen, and from what, is written into ``rates.json`` of the sweep's folder; methods
    that stand there already are not searched again. The runs of the search go into a folder beside
    that of the sweep, whose name ends in "-search"; ``run`` makes them.
    """
    search = sweep.experiment.search
    assert search is not None
    shared = sorted(set(search.seeds) & set(sweep.seeds))
    if shared:
        raise ValueError(
            "The seeds of a search should be others than those of the runs that count. "
            f"Found seed {shared[0]} in both."
        )
    known = read_rates(sweep.out)
    new = [method for method in sweep.methods if method.name not in known]
    if new:
        tried = _search_sweep(sweep, new, search)
        records = [read_run(folder) for folder in run(tried)]
        for method in new:
            known[method.name] = _choice(sweep, method, search, records)
        write_rates(sweep.out, sweep.experiment.name, known)
    methods = [_with_rates(sweep, method, known[method.name]) for method in sweep.methods]
    return replace(sweep, methods=methods)


def _search_sweep(sweep: "Sweep", methods: Sequence[Method], search: RateSearch) -> "Sweep":
    experiment = sweep.experiment
    tried = [
        replace(
            method,
            name=_trial_name(method, factor),
            label=f"{method.label}, rates x {factor:.3g}",
            training={**method.training, **_rates(method.settings(experiment.training), factor)},
            paper={},
        )
        for method in methods
        for factor in search.factors
    ]
    report = replace(experiment.report, baseline="", pairs=(), title="")
    name = f"{experiment.name}_search"
    return replace(
        sweep,
        experiment=replace(experiment, name=name, methods=tried, search=None, report=report),
        methods=tried,
        out=sweep.out.with_name(f"{sweep.out.resolve().name}-search"),
        n_runs=search.n_runs,
        first_seed=search.first_seed,
        is_search=True,
        options={},
    )


def check_can_choose(tasks: Sequence[Task]) -> None:
    """Raises unless every task has something to choose by: validation, or generated examples."""
    for task in tasks:
        is_generated = isinstance(task.train, GeneratedDataset)
        if task.held_out("validation") is None and not is_generated:
            raise ValueError(
                "Learning rates should be chosen on validation, which each task has, or on "
                f"examples that are generated. Found task {task.name!r} with neither."
            )


def _trial_name(method: Method, factor: float) -> str:
    return f"{method.name}-x{factor:.3g}"


def _rates(settings: TrainingSettings, factor: float) -> dict[str, float]:
    how = settings.optimization
    rates = {"learning_rate": how.learning_rate * factor}
    if how.allocation_learning_rate is not None:
        rates["allocation_learning_rate"] = how.allocation_learning_rate * factor
    return rates


def _choice(
    sweep: "Sweep", method: Method, search: RateSearch, records: Sequence[RunRecord]
) -> dict[str, Any]:
    """Returns what was tried of a method and which factor did best, for the record."""
    from ..analysis import validation_measure  # here, since its packages take long to import

    tried: list[dict[str, Any]] = []
    for factor in search.factors:
        own = [r for r in records if r.header.method == _trial_name(method, factor)]
        tried.append(
            {
                "factor": factor,
                "seeds": [record.header.seed for record in own],
                "validation": [validation_measure(record) for record in own],
                "rounds": [record.outcome.rounds for record in own],
            }
        )
    sign = 1.0 if records[0].header.measure in HIGHER_IS_BETTER else -1.0
    best = max(tried, key=lambda trial: _score(trial["validation"], sign))
    base = method.settings(sweep.experiment.training)
    return {
        "factor": best["factor"],
        "declared": _rates(base, 1.0),
        "measure": records[0].header.measure,
        "tried": tried,
        "command": sweep.command,
        "commit": describe_environment(sweep.device).short_commit,
    }


def _score(values: Sequence[float], sign: float) -> float:
    """Returns how good a factor is, the larger the better; a run that failed makes it the worst."""
    mean = sum(values) / len(values)
    return sign * mean if math.isfinite(mean) else -math.inf


def _with_rates(sweep: "Sweep", method: Method, choice: dict[str, Any]) -> Method:
    """Returns a method with its chosen rates; raises where others were declared at the search."""
    base = method.settings(sweep.experiment.training)
    declared = _rates(base, 1.0)
    if choice["declared"] != declared:
        raise ValueError(
            f"The learning rates of {method.name!r} should be those its search began with, "
            f"{choice['declared']} in `{sweep.out / 'rates.json'}`. Found {declared}."
        )
    return replace(method, training={**method.training, **_rates(base, choice["factor"])})
