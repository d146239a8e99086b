"""Bad input: one sentence with the rule and the value found, a status, nothing half-written."""

from pathlib import Path

import torch
from pytest import MonkeyPatch, mark

from tests.cli.conftest import Command

RUN = ("run", "two_pairs", "--runs", "1", "--out", "out")


BAD = [
    (("run", "nope"), ("`experiment` should be one of", "'transfer', 'two_pairs'", "'nope'")),
    (("run", "two_pair"), ("Found `experiment = 'two_pair'`. Did you mean 'two_pairs'",)),
    ((*RUN, "--method", "gumble"), ("one of 'no_sharing'", "'gumble'`. Did you mean 'gumbel'?")),
    ((*RUN, "--runs", "0"), ("`runs` should be at least 1", "`runs = 0`")),
    ((*RUN, "--runs", "99999999999"), ("`runs` should be at most 100000", "`runs = 99999999999`")),
    ((*RUN, "--set", "crop=2"), ("for images alone", "Found examples of shape [128]")),
    ((*RUN, "--set", "batch_size=999999999999"), ("`batch_size` should be below 2**31",)),
    ((*RUN, "--set", "elastic=1e308"), ("`elastic` should be a finite number", "1e+308")),
    ((*RUN, "--set", "learning_rate=inf"), ("`learning_rate` should be a finite number", "inf")),
    ((*RUN, "--set", "budget_weight=inf"), ("`budget_weight` should be a finite number", "inf")),
    (
        ("run", "digits", "--out", "out", "--set", "crop=99999999999"),
        ("`crop` should be at most 10000",),
    ),
    ((*RUN, "--first-seed", "-1"), ("`first-seed` should be at least 0", "-1")),
    ((*RUN, "--rounds", "0"), ("`rounds` should be at least 1", "`rounds = 0`")),
    ((*RUN, "--set", "batchsize=3"), ("The settings are rounds, batch_size", "'batchsize'")),
    ((*RUN, "--set", "batchsize=3"), ("Did you mean 'batch_size'?",)),
    ((*RUN, "--set", "p_init=0.9"), ("Found 'p_init'. Did you mean 'allocation.p_init'?",)),
    ((*RUN, "--set", "evaluate_every=10"), ("has a validation split", "and none.")),
    ((*RUN, "--set", "batch_size=big"), ("`batch_size` should be of type int", "'big'")),
    ((*RUN, "--set", "batch_size"), ("name=value", "'batch_size'")),
    ((*RUN, "--set", "budget=0"), ("`budget` should be in (0, 1]", "`budget = 0.0`")),
    ((*RUN, "--set", "budget=1.01"), ("`budget` should be in (0, 1]", "`budget = 1.01`")),
    ((*RUN, "--set", "allocation.p_init=1"), ("`p_init` should be strictly between", "1.0")),
    ((*RUN, "--set", "allocation.p_init=1.4"), ("`p_init` should be strictly between", "= 1.")),
    ((*RUN, "--set", "decay=cosine"), ("Found 'decay'. Its name is 'lr_schedule' now.",)),
    ((*RUN, "--set", "penalties.crop=2"), ("Did you mean 'augmentation.crop'",)),
    ((*RUN, "--device", "tpu"), ("`device` should be 'cpu', 'cuda' or", "'tpu'")),
    ((*RUN, "--device", "cuda:x"), ("such as 'cuda:1'. Found", "'cuda:x'")),
    ((*RUN, "--group-size", "0"), ("`group-size` should be at least 1", "0")),
    ((*RUN, "--split", "clean"), ("for an experiment that has several", "'clean'", "'two_pairs'")),
    (("run", "omniglot", "--split", "c"), ("`split` should be one of 'clean', 'published'", "'c'")),
    (("run", "omniglot", "--out", "out"), ("Found no such file", "data prepare omniglot")),
    (("run", "clusters", "--out", "out"), ("Found no such file", "data prepare cifar100")),
    (("run", "mnist", "--out", "out"), ("Found no such file", "allotment data prepare mnist")),
    (("run", "two_pairs", "--resume", "out"), ("the `launch.json` of", "no `out/launch.json`")),
    (("report", "nowhere"), ("should be a folder with runs in it", "nowhere")),
    (("report", "."), ("should hold at least one finished run", "Found none")),
    (("embeddings", "nowhere"), ("should be a folder with runs in it", "nowhere")),
    (("embeddings", "."), ("should hold at least one finished run", "Found none")),
    (("keep", "nowhere"), ("should be a folder with runs in it", "nowhere")),
    (("docs",), ("should be read from a folder that exists", "results")),
    (("data", "prepare", "nmist"), ("one of mnist, fashion_mnist", "`nmist`. Did you mean 'mnist")),
    (("data", "check", "nmist"), ("should be one of mnist, fashion_mnist", "`nmist`")),
]


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def assert_one_sentence(error: str, *parts: str) -> None:
    """Asserts that an error is one line without a traceback, and holds these parts."""
    assert error.startswith("allotment"), error
    assert error.count("\n") == 1 and error.endswith("\n"), error
    for part in parts:
        assert part in error, (part, error)


@mark.parametrize(("arguments", "parts"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_is_answered_and_nothing_is_written(
    arguments: tuple[str, ...], parts: tuple[str, ...], allotment: Command, tmp_path: Path
) -> None:
    answer = allotment(*arguments)
    assert answer.status == 1
    assert_one_sentence(answer.error, *parts)
    assert answer.out == ""
    assert files(tmp_path) == []


@mark.parametrize(
    ("arguments", "part"),
    [
        ((), "COMMAND"),
        (("train",), "invalid choice: 'train'"),
        (("reports",), "Did you mean 'report' or 'export'?"),
        (("data", "prepar"), "Did you mean 'prepare'?"),
        (("run",), "EXPERIMENT"),
        ((*RUN, "--runs", "many"), "argument --runs: invalid int value: 'many'"),
        ((*RUN, "--round", "3", "--colour", "red"), "unrecognized arguments: --colour red"),
    ],
)
def test_a_command_that_cannot_be_read_is_answered_in_one_line(
    arguments: tuple[str, ...], part: str, allotment: Command, tmp_path: Path
) -> None:
    answer = allotment(*arguments)
    assert answer.status == 2
    assert_one_sentence(answer.error, part, "--help")
    assert files(tmp_path) == []


@mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there(allotment: Command, tmp_path: Path) -> None:
    answer = allotment(*RUN, "--device", "cuda")
    assert answer.status == 1
    assert_one_sentence(answer.error, "`device` should be on this machine", "no CUDA device")
    assert files(tmp_path) == []


def test_a_run_that_is_there_already_stops_the_new_ones(allotment: Command, tmp_path: Path) -> None:
    assert allotment(*RUN, "--method", "gumbel").status == 0
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in files(tmp_path)}
    answer = allotment(*RUN, "--runs", "2")  # two methods and one seed would be new
    assert answer.status == 1
    assert_one_sentence(answer.error, "A run's folder should be new", "out/gumbel/seed-000")
    assert "another folder (`--out`; in Python `out=`)" in answer.error
    assert "(`--resume`; in Python `resume=True`)" in answer.error
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in files(tmp_path)} == before


@mark.parametrize("out", ["file", "file/beneath", "file/beneath/it"])
def test_an_output_path_beneath_a_file(out: str, allotment: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the user's own")
    answer = allotment("run", "two_pairs", "--runs", "1", "--out", out)
    assert answer.status == 1
    assert_one_sentence(answer.error, "An output path should be writable", out)
    assert files(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "the user's own"


def test_a_page_that_cannot_be_written(allotment: Command, tmp_path: Path) -> None:
    assert allotment(*RUN, "--method", "no_sharing").status == 0
    (tmp_path / "file").write_text("the user's own")
    before = files(tmp_path)
    answer = allotment("report", "out", "-o", "file/page.html")
    assert answer.status == 1
    assert_one_sentence(answer.error, "file")
    answer = allotment("report", "out", "-o", "out")
    assert answer.status == 1
    assert_one_sentence(answer.error, "`output` should be a file", "out")
    assert files(tmp_path) == before


def test_runs_that_did_not_reach_their_end_are_counted(allotment: Command, tmp_path: Path) -> None:
    assert allotment(*RUN, "--method", "no_sharing").status == 0
    (tmp_path / "out" / "no_sharing" / "seed-000" / "summary.json").unlink()
    answer = allotment("report", "out")
    assert answer.status == 1
    assert_one_sentence(answer.error, "Found none in out, and 1 that did not reach their end")
    assert not (tmp_path / "report.html").exists()


def test_runs_that_do_not_fit_together(allotment: Command, monkeypatch: MonkeyPatch) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise torch.OutOfMemoryError("Tried to allocate 9 GiB.\nMore on this.")

    monkeypatch.setattr("allotment.experiments.launchers._training.train", fails)
    answer = allotment(*RUN)
    assert answer.status == 1
    assert_one_sentence(answer.error, "should fit on the device", "`--group-size N`", "9 GiB")


def test_a_method_named_twice_is_run_once(allotment: Command) -> None:
    assert allotment(*RUN, "--method", "no_sharing", "--method", "no_sharing").status == 0


@mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("Storage size calculation overflowed with sizes=[32, 99999999999]"),
    ],
)
def test_too_little_memory_is_one_sentence_and_leaves_no_folder(
    error: Exception, allotment: Command, monkeypatch: MonkeyPatch, tmp_path: Path
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr("allotment.training._train.Trainer", full)
    answer = allotment(*RUN)
    assert answer.status == 1
    assert_one_sentence(answer.error, "should fit on the device; `--group-size N`")
    assert files(tmp_path) == []
