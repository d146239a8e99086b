"""Checkpoints: small files, written whole, verified when read."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from allotment._schema import TrainingState
from allotment.records import Checkpoints, RecordError
from allotment.records import _checkpoint as checkpoint_module
from tests.records.test_writer import contents

MIB = 2**20


def a_state(done: int, n: int = 1_000, **changes: Any) -> TrainingState:
    generator = torch.Generator().manual_seed(done)
    tensors = {
        "now/weights": torch.randn(2, n, generator=generator),
        "steps": torch.tensor(4 * done),
        "losses": torch.empty(0, 2, 4, dtype=torch.float64),
    }
    values: dict[str, Any] = {"n_entries": done // 10, "seconds": done / 7, "tensors": tensors}
    return TrainingState(round=done, **values | changes)


def checkpoints(folder: Path, runs: tuple[str, ...] = ("a/seed-000", "a/seed-001")) -> Checkpoints:
    return Checkpoints(folder / "checkpoints" / "a", runs)


def silent(text: str) -> None:
    raise AssertionError(f"nothing should be said, but: {text}")


def assert_same_state(found: TrainingState | None, expected: TrainingState) -> None:
    assert found is not None
    for name in ("round", "n_entries", "seconds"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert found.tensors[name].shape == tensor.shape
        assert torch.equal(found.tensors[name], tensor)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints" / "a").iterdir())


def test_a_state_comes_back_to_the_bit(tmp_path: Path) -> None:
    checkpoints(tmp_path).write(a_state(10))
    assert_same_state(checkpoints(tmp_path).newest(silent), a_state(10))


def test_the_newest_counts_and_the_one_before_it_is_kept(tmp_path: Path) -> None:
    for done in (990, 1_000, 999_990, 1_000_000):
        checkpoints(tmp_path).write(a_state(done))
        assert_same_state(checkpoints(tmp_path).newest(silent), a_state(done))
    assert names(tmp_path) == ["round-1000000", "round-999990"]


def test_without_a_checkpoint_there_is_no_state(tmp_path: Path) -> None:
    assert checkpoints(tmp_path).newest(silent) is None


def test_those_after_the_end_do_not_count(tmp_path: Path) -> None:
    for done in (10, 20):
        checkpoints(tmp_path).write(a_state(done))
    for n_rounds, found in ((30, 20), (20, 20), (19, 10), (10, 10)):
        assert_same_state(checkpoints(tmp_path).newest(silent, n_rounds), a_state(found))
    with pytest.raises(RecordError, match=r"at least 10, where the earliest .* Found `rounds = 9`"):
        checkpoints(tmp_path).newest(silent, 9)
    checkpoints(tmp_path).forget_after(10)
    assert names(tmp_path) == ["round-000010"]


def test_a_whole_one_after_the_end_is_not_given_up_for_a_damaged_one(tmp_path: Path) -> None:
    for done in (10, 20):
        checkpoints(tmp_path).write(a_state(done))
    truncate(tmp_path / "checkpoints" / "a" / "round-000010" / "part-1")
    with pytest.raises(
        RecordError, match=r"at least 20: no checkpoint before is whole\. Found .* 15`"
    ):
        checkpoints(tmp_path).newest(lambda text: None, 15)
    assert_same_state(checkpoints(tmp_path).newest(silent, 20), a_state(20))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = next(i for i in range(len(content) // 2, len(content)) if chr(content[i]).isalnum())
    content[place] ^= 1
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [truncate, flip, empty, delete])
@pytest.mark.parametrize("name", ["part-1", "part-2", "checkpoint.json"])
def test_a_damaged_newest_falls_back_to_the_one_before_it_and_says_so(
    tmp_path: Path, damage: Callable[[Path], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "PART_BYTES", 5_000)
    for done in (10, 20):
        checkpoints(tmp_path).write(a_state(done))
    damage(tmp_path / "checkpoints" / "a" / "round-000020" / name)
    said: list[str] = []
    assert_same_state(checkpoints(tmp_path).newest(said.append), a_state(10))
    assert len(said) == 2
    assert "A record should be" in said[0] and "round-000020" in said[0]
    assert said[1] == "The checkpoint before it is whole: going on after round 10."


@pytest.mark.parametrize("place", range(0, 500, 7))
def test_no_flipped_bit_of_the_manifest_goes_unseen(tmp_path: Path, place: int) -> None:
    checkpoints(tmp_path).write(a_state(10))
    path = tmp_path / "checkpoints" / "a" / "round-000010" / "checkpoint.json"
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 2
    path.write_bytes(content)
    said: list[str] = []
    found = checkpoints(tmp_path).newest(said.append)
    if found is not None:  # a space that became another sign of no meaning
        assert_same_state(found, a_state(10))
    else:
        assert said[-1] == "No checkpoint before it is whole: starting from the beginning."


def test_when_all_are_damaged_it_is_said(tmp_path: Path) -> None:
    for done in (10, 20):
        checkpoints(tmp_path).write(a_state(done))
        truncate(tmp_path / "checkpoints" / "a" / f"round-{done:06d}" / "part-1")
    said: list[str] = []
    assert checkpoints(tmp_path).newest(said.append) is None
    assert said[-1] == "No checkpoint before it is whole: starting from the beginning."


def test_a_damaged_one_is_gone_after_the_next(tmp_path: Path) -> None:
    for done in (10, 20, 30):
        checkpoints(tmp_path).write(a_state(done))
    truncate(tmp_path / "checkpoints" / "a" / "round-000030" / "part-1")
    checkpoints(tmp_path).write(a_state(25))
    assert names(tmp_path) == ["round-000020", "round-000025"]


def test_a_checkpoint_of_other_runs_is_not_taken(tmp_path: Path) -> None:
    checkpoints(tmp_path).write(a_state(10))
    said: list[str] = []
    assert checkpoints(tmp_path, ("a/seed-000", "b/seed-001")).newest(said.append) is None
    assert "it is of other runs" in said[0]


@pytest.mark.parametrize("moment", range(10))
def test_a_crash_at_any_write_leaves_a_state_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Stops at each call that reaches the disk: writing, syncing, renaming, removing."""
    monkeypatch.setattr(checkpoint_module, "PART_BYTES", 5_000)
    for done in (10, 20):
        checkpoints(tmp_path).write(a_state(done))
    left = moment

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def maybe(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return call(*arguments, **options)

        return maybe

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", counted(os.fsync))
        patch.setattr(Path, "replace", counted(Path.replace))
        patch.setattr(Path, "rename", counted(Path.rename))
        patch.setattr(os, "rmdir", counted(os.rmdir))  # the end of a removal
        with pytest.raises(KeyboardInterrupt):
            checkpoints(tmp_path).write(a_state(30))
    found = checkpoints(tmp_path).newest(silent)
    assert found is not None
    assert_same_state(found, a_state(found.round))
    assert found.round == (30 if (tmp_path / "checkpoints/a/round-000030").exists() else 20)
    checkpoints(tmp_path).write(a_state(40))
    assert_same_state(checkpoints(tmp_path).newest(silent), a_state(40))
    assert len(names(tmp_path)) == 2


def test_removal_leaves_what_belongs_to_others(tmp_path: Path) -> None:
    other = Checkpoints(tmp_path / "checkpoints" / "b", ["b"])
    for one in (checkpoints(tmp_path), other):
        one.write(a_state(10))
    checkpoints(tmp_path).remove()
    assert_same_state(other.newest(silent), a_state(10))
    other.remove()
    assert contents(tmp_path) == {} and not (tmp_path / "checkpoints").exists()
    other.remove()  # nothing is there: nothing to do


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(RecordError, match=r"An output path should be writable\. Found `.*round-"):
        checkpoints(tmp_path).write(a_state(10))


def test_one_run_of_omniglot_fits_in_a_few_small_files(tmp_path: Path) -> None:
    """The paper's largest network: eight layers of seven components, 668 characters."""
    sizes = [
        2 * k * 48 * 48 for k in (3 * 3, 5 * 5, 7 * 7, 7)
    ]  # pairs of convolutions, 48 channels
    layer = sum(sizes) + 8 * 3 * 48 + 2 * 48  # a bias, a scale and a shift for each; a last norm
    narrowing = 5 * (48 * 48 + 48)  # 1x1 convolutions in the place of the identity
    trunk = 8 * layer + narrowing + 48 * 4
    n = trunk + 668 * 769 + 8 * 20 * 7 * 2  # heads of 768 features and a bias; logits
    assert 3.3e6 < trunk < 3.4e6
    tensors = {name: torch.randn(1, n) for name in ("now", "exp_avg", "exp_avg_sq", "best")}
    state = a_state(250, tensors=tensors | {"last losses": torch.zeros(300, 1)})
    checkpoints(tmp_path).write(state)
    sizes = [p.stat().st_size for p in (tmp_path / "checkpoints").rglob("*") if p.is_file()]
    assert len(sizes) <= 8
    assert max(sizes) <= 16 * MIB
    assert 55 * MIB < sum(sizes) <= 60 * MIB
    assert_same_state(checkpoints(tmp_path).newest(silent), state)


def test_the_parts_end_to_end_are_one_safetensors_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load

    monkeypatch.setattr(checkpoint_module, "PART_BYTES", 3_000)
    checkpoints(tmp_path).write(a_state(10))
    folder = tmp_path / "checkpoints" / "a" / "round-000010"
    parts = json.loads((folder / "checkpoint.json").read_text())["parts"]
    assert len(parts) == 3
    found = load(b"".join((folder / name).read_bytes() for name in parts))
    assert torch.equal(found["now/weights"], a_state(10).tensors["now/weights"])
