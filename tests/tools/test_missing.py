"""What is declared and not kept is listed, with a command that trains just that."""

from collections.abc import Iterable
from pathlib import Path

from allotment.cli._parser import make_parser
from allotment.experiments import Sweep
from allotment.paper import EXPERIMENTS
from allotment.records import RunRecord
from tests.records.made_up import a_header, a_record
from tools.missing import Missing, missing

DECLARED = {
    name: Sweep(experiment=experiment, out=Path()).seeds for name, experiment in EXPERIMENTS.items()
}


def runs(experiment: str, methods: Iterable[str], seeds: Iterable[int]) -> list[RunRecord]:
    conditions = EXPERIMENTS[experiment].data.conditions
    return [
        a_record(a_header(experiment=experiment, condition=condition, method=method, seed=seed))
        for condition in conditions
        for method in methods
        for seed in seeds
    ]


def of(experiment: str, records: list[RunRecord]) -> list[Missing]:
    return [each for each in missing(records) if each.experiment == experiment]


def methods_of(experiment: str) -> list[str]:
    return [method.name for method in EXPERIMENTS[experiment].methods]


def test_without_results_all_is_missing() -> None:
    found = list(missing([]))
    assert [each.experiment for each in found] == list(EXPERIMENTS)
    for each in found:
        assert (each.methods, each.seeds) == ((), DECLARED[each.experiment])


def test_what_is_kept_is_not_missing() -> None:
    whole = runs("two_pairs", methods_of("two_pairs"), DECLARED["two_pairs"])
    assert of("two_pairs", whole) == []


def test_rows_that_lack_the_same_seeds_are_one_command() -> None:
    first, *others = methods_of("causes_digits")
    seeds = DECLARED["causes_digits"]
    records = runs("causes_digits", [first], seeds) + runs("causes_digits", others, seeds[:5])
    (found,) = of("causes_digits", records)
    assert (found.methods, found.seeds) == (tuple(others), seeds[5:])
    named = " ".join(f"--method {name}" for name in others)
    assert found.command == (
        f"allotment run causes --suite digits {named} "
        f"--runs {len(seeds) - 5} --first-seed {seeds[5]} --out runs/causes_digits"
    )


def test_a_run_that_is_kept_among_others_is_not_asked_for_again() -> None:
    seeds = DECLARED["causes_digits"]
    records = runs("causes_digits", methods_of("causes_digits"), [seeds[0], seeds[2]])
    assert [each.seeds for each in of("causes_digits", records)] == [seeds[1:2], seeds[3:]]


def test_a_run_that_one_condition_lacks_is_missing() -> None:
    seeds = DECLARED["transfer"]
    records = runs("transfer", methods_of("transfer"), seeds)
    (found,) = of("transfer", records[:-1])
    assert (found.methods, list(found.seeds)) == ((methods_of("transfer")[-1],), [seeds[-1]])


def test_every_command_is_one_that_the_command_line_takes() -> None:
    for each in missing([]):
        program, *arguments = each.command.split()
        assert program == "allotment"
        make_parser().parse_args(arguments)
