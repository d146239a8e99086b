from pathlib import Path

from tools.one_fit import ROOT, frames_below, functions_run, one_fit


def test_files_are_those_in_which_a_function_ran() -> None:
    from allotment._checks import nearest

    with functions_run(ROOT) as files:
        nearest("a", ["b"])
    assert files == {"_checks.py"}


def outer(root: Path) -> tuple[str, ...]:
    frames = [inner(root) for _ in range(2)]
    return frames[0]


def inner(root: Path) -> tuple[str, ...]:
    return frames_below("outer", root)


def test_frames_are_counted_from_the_named_function_down() -> None:
    here = Path(__file__)
    assert outer(here.parent) == (f"{here.name}: outer", f"{here.name}: inner")
    assert outer(here.parent / "elsewhere") == ()


def test_one_fit_is_followed_from_fit_to_a_component() -> None:
    seen = one_fit()
    for frames in (seen.eager, seen.recorded):
        assert frames[0] == "training/_fit.py: fit"
        assert any(frame.startswith("modules/_layer.py") for frame in frames)
    assert {"training/_fit.py", "training/_train.py", "modules/_layer.py"} <= set(seen.files)
