"""Command lines put together at random: each ends with a status and one sentence at most."""

import random
from pathlib import Path

from pytest import mark

from tests.cli.conftest import Command

N_CASES, N_SLOW = 40, 3_000
VALUES = [
    *("-1", "0", "1", "2", "10", "1e3", "99999999999999999999", "nan", "inf", "-inf", "1e308"),
    *("", " ", "x", "none", "true", "None", "../x", "\x1b[31m", "é\u2028", "a=b=c", "%s", "{}"),
]
SETTINGS = [
    *("rounds", "batch_size", "schedule", "sampling_power", "evaluate_every", "keep_best"),
    *("patience", "learning_rate", "allocation_learning_rate", "lr_schedule", "weight_decay"),
    *("clip_norm", "ema_decay", "budget", "budget_weight", "budget_scope", "entropy_weight"),
    *("connection_weight", "disconnect_weight", "crop", "shift", "rotation", "zoom", "shear"),
    *("elastic", "mixed_precision", "trace", "compile", "accumulate", "allocation_held_out"),
    *("optimization.learning_rate", "allocation.p_init", "allocation.reduce", "nonsense", ""),
]
OPTIONS = [
    *("--method", "--split", "--runs", "--first-seed", "--rounds", "--out", "--resume"),
    *("--device", "--data-dir", "--group-size", "--minutes", "--checkpoint-every", "--suite"),
]


def a_command(chance: random.Random) -> list[str]:
    """Returns words that may be a command, most often one that trains."""
    if chance.random() < 0.2:
        name = chance.choice(["list", "report", "embeddings", "keep", "docs", "data", "nonsense"])
        return [name, *(chance.choice([*VALUES, "-o", "--results", "check"]) for _ in range(2))]
    # A method and few rounds, unless a later word says otherwise: what is accepted is trained.
    words = ["run", chance.choice(["two_pairs", "two_pairs", "mnist", "comparison", "x", ""])]
    words += ["--runs", "1", "--method", "gumbel", "--rounds", "10", "--minutes", "1e-9"]
    for _ in range(chance.randrange(1, 4)):
        if chance.random() < 0.6:
            words += ["--set", f"{chance.choice(SETTINGS)}={chance.choice(VALUES)}"]
        else:
            words += [chance.choice(OPTIONS), chance.choice(VALUES)]
    return words


def check(numbers: range, allotment: Command, folder: Path) -> None:
    for number in numbers:
        words = a_command(random.Random(number))
        if "compile=true" in " ".join(words):
            continue  # it takes a minute
        answer = allotment(*words)
        told = answer.error.splitlines()
        assert answer.status in (0, 1, 2), (number, words, answer)
        assert (len(told) == 1) == (answer.status != 0), (number, words, answer)
        assert "Traceback" not in answer.error, (number, words)
        assert "\x1b" not in answer.error + answer.out, (number, words)
        for path in folder.glob("runs/*/*"):  # a next command may have the same runs
            if path.name != "launch.json":
                path.rename(folder / f"old-{number}-{path.name}")


def test_a_command_line_ends_with_a_sentence_at_most(allotment: Command, tmp_path: Path) -> None:
    check(range(N_CASES), allotment, tmp_path)


@mark.slow
@mark.parametrize("first", range(N_CASES, N_SLOW, 250))
def test_many_command_lines_end_with_a_sentence_at_most(
    first: int, allotment: Command, tmp_path: Path
) -> None:
    check(range(first, first + 250), allotment, tmp_path)
