"""One method at several values of a setting, as methods of their own."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..settings import group_of
from ._experiment import Experiment, ReportOptions
from ._methods import Method
from ._overrides import overridden

N_POINTS = 10  # of a range, unless it says how many
_NUMBER = r"[-+]?[0-9][-+0-9.e_]*?"
_RANGE = re.compile(rf"(?P<first>{_NUMBER})\.\.(?P<last>{_NUMBER})(:(?P<n>[0-9]+))?")


def varied(experiment: Experiment, over: str, methods: Sequence[str] = ()) -> Experiment:
    """Returns an experiment with some methods at several values of a setting.

    Runs that differ in a budget or in learning rates alone train as one program.

    >>> from allotment.paper import experiment_named
    >>> several = varied(experiment_named("digits"), "penalties.budget=0.5,1", ["gumbel"])
    >>> len(several.methods)
    2

    Args:
        experiment: What to vary.
        over: ``penalties.budget=0.1..1.0``, for ten values at equal distances; ``=0.1..1.0:4`` for
            four of them; or ``=0.1,0.5,1.0``. Names are those of `allotment run --set`.
        methods: Names of methods; none: those that learn their allocation and have no value of
            their own for the setting.
    """
    name, texts = _values(over)
    short = name.rpartition(".")[2]
    chosen = [experiment.method(each) for each in methods] or [
        each for each in experiment.methods if each.is_learnt and short not in each.training
    ]
    if not chosen:
        raise ValueError(
            "`method` should be one that has no value of its own for the setting. "
            f"Found none in {experiment.name!r} for `{short}`."
        )
    found = [_at(experiment, method, name, text) for method in chosen for text in texts]
    told = experiment.report
    report = ReportOptions(
        title=f"{experiment.title}: {short} {texts[0]} to {texts[-1]}",
        **{each: getattr(told, each) for each in ("measure", "label", "shows", "least", "groups")},
        n_last_rounds=told.n_last_rounds,
        shows_allocation=False,
        baseline=found[-1].name,
        over=short,
    )
    return replace(
        experiment,
        name=f"{experiment.name}_sweep",
        variant_of=experiment.name,
        methods=found,
        report=report,
        search=None,
    )


def _at(experiment: Experiment, method: Method, name: str, text: str) -> Method:
    """Returns a method at one value of a setting."""
    changed = overridden(experiment, [f"{name}={text}"])
    prefix, _, short = name.rpartition(".")
    training = dict(method.training)
    if prefix != "allocation":
        group = group_of(short)
        training[short] = getattr(
            getattr(changed.training, group) if group else changed.training, short
        )
    return replace(
        method,
        name=f"{method.name}_{short}={text}",
        label=f"{method.label}, {short} {text}",
        allocation=changed.method(method.name).allocation,
        training=training,
        paper={},
        paper_distinct=None,
        variant_of=method.name,
    )


def _values(over: str) -> tuple[str, list[str]]:
    """Returns the name of a setting, and two different values of it or more, as texts."""
    name, _, text = over.partition("=")
    spread = _RANGE.fullmatch(text)
    if spread is not None:
        n = int(spread["n"] or N_POINTS)
        points = np.linspace(float(spread["first"]), float(spread["last"]), n).tolist()
        texts = [f"{point:.6g}" for point in points]
    else:
        texts = [each.strip() for each in text.split(",")]
    if not name or len(set(texts)) < 2 or len(set(texts)) < len(texts) or not all(texts):
        raise ValueError(
            "`over` should be a setting with two different values at least: NAME=A..B, "
            f"NAME=A..B:N or NAME=A,B,C. Found {over!r}."
        )
    return name, texts
