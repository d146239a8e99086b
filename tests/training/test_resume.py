"""Going on from a state: the end is, to the last bit, that of a training which never stopped."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal
from pytest import MonkeyPatch, fixture, mark, param, raises
from torch import nn

from allotment._schema import Evaluation, Outcome
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.training import Progress, Run, TrainingState, _tracker, train
from tests.training.test_train import (
    of_batch_norms,
    of_classes,
    of_fixed_gates,
    of_lines,
    of_mixed,
    of_own_tasks,
)
from tests.training.toy import (
    SETTINGS,
    a_network,
    a_run,
    classes,
    lines,
    n_different,
    picture_network,
    pictures,
)

ROUNDS = 55  # the last block is a short one
N_LAST = 23  # rounds whose losses are averaged at the end: neither one block nor all


def of_failures(seed: int) -> Run:
    """Returns runs whose losses are soon not finite, but for the first."""
    return a_run(seed, tasks=lines(scale=1e30 if seed else 1.0))


def of_dropout_in_components(seed: int) -> Run:
    """Returns runs that draw by themselves, outside of the blocks."""
    return a_run(seed, build=lambda: a_network(GumbelMatrix(2, 3), make=lambda: dropping()))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.3))


def of_other_heads(seed: int) -> Run:
    """Returns runs with heads that cannot be put into a table."""

    def build() -> MultiTaskNetwork:
        heads = [nn.Sequential(nn.Linear(4, width), nn.Tanh()) for width in (3, 3)]
        return a_network(GumbelMatrix(2, 3), heads)

    return a_run(seed, SETTINGS.changed(evaluate_every=20), tasks=classes(3, 3), build=build)


def of_joint_pictures(seed: int) -> Run:
    """Returns runs with one step a round, on kernels that lie with their channels last."""
    settings = SETTINGS.changed(schedule="joint")
    return a_run(seed, settings, tasks=pictures(3, 2), build=lambda: picture_network(3, 2))


KINDS = [
    param(of_lines, id="learnt gates, generated examples"),
    param(of_classes, id="stored data, dropout, padded heads, best kept"),
    param(of_mixed, id="mixed targets, best kept"),
    param(of_fixed_gates, id="ways of sharing"),
    param(of_own_tasks, id="tasks of their own"),
    param(of_failures, id="failures"),
    param(of_dropout_in_components, id="modules that draw"),
    param(of_joint_pictures, id="joint steps, convolutions with norms", marks=mark.slow),
]
ONE_BY_ONE = [
    param(of_batch_norms, id="batch normalisation"),
    param(of_other_heads, id="other heads"),
]


def made(of: Callable[[int], Run], seeds: Sequence[int]) -> list[Run]:
    """Returns fresh runs, as another process would make them."""
    return [replace(run, settings=run.settings.changed(rounds=ROUNDS)) for run in map(of, seeds)]


def going_on(runs: Sequence[Run], state: TrainingState | None = None) -> Iterator[Progress]:
    return train(runs, n_last_rounds=N_LAST, resume_from=state)


def state_of(progress: Progress) -> TrainingState:
    assert progress.state is not None
    return progress.state()


def assert_same_evaluation(a: Evaluation | None, b: Evaluation | None) -> None:
    assert (a is None) == (b is None)
    if a is not None and b is not None:
        assert_array_equal(a.losses, b.losses)
        assert (a.accuracies is None) == (b.accuracies is None)
        assert_array_equal(np.array(a.accuracies), np.array(b.accuracies))


def assert_same_outcomes(a: Sequence[Outcome] | None, b: Sequence[Outcome] | None) -> None:
    """Asserts that runs ended alike to the last bit, in all but time."""
    assert a is not None and b is not None
    for one, other in zip(a, b, strict=True):
        for name, weight in other.weights.items():  # as bytes, since NaN should equal itself
            assert one.weights[name].numpy().tobytes() == weight.numpy().tobytes(), name
        for name in ("final_loss", "matrix", "probabilities"):
            assert_array_equal(getattr(one, name), getattr(other, name))
        for name in ("status", "failed_step", "rounds", "n_together", "best_round"):
            assert getattr(one, name) == getattr(other, name), name
        assert_same_evaluation(one.validation, other.validation)
        assert_same_evaluation(one.test, other.test)


def assert_same_news(a: Sequence[Progress], b: Sequence[Progress]) -> None:
    """Asserts that two trainings told the same."""
    assert [news.round for news in a] == [news.round for news in b]
    for one, other in zip(a, b, strict=True):
        assert_array_equal(one.losses, other.losses)
        assert one.failed == other.failed
        assert (one.entries is None) == (other.entries is None)
        for here, there in zip(one.entries or [], other.entries or [], strict=True):
            assert_array_equal(here.losses, there.losses)
            assert_array_equal(here.probabilities, there.probabilities)
            assert here.share_active == there.share_active
            assert_same_evaluation(here.validation, there.validation)
    assert_same_outcomes(a[-1].outcomes, b[-1].outcomes)


@mark.parametrize("of", KINDS)
@mark.parametrize(
    "seeds", [param((3,), id="alone", marks=mark.slow), param((0, 1, 2), id="together")]
)
def test_going_on_tells_and_ends_the_same(
    of: Callable[[int], Run], seeds: Sequence[int], monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(_tracker, "N_ENTRIES", 3)  # entries are two blocks apart
    whole, states = [], []
    for progress in going_on(made(of, seeds)):
        whole.append(progress)
        states += [progress.state()] if progress.state else []
    has_failed = None not in whole[0].failed  # and so it ends, with nothing to go on with
    assert [state.round for state in states] == ([] if has_failed else [10, 20, 30, 40, 50])
    for state in states[::3]:  # in the middle of a logging interval, and at the end of one
        rest = list(going_on(made(of, seeds), state))
        assert_same_news(rest, [news for news in whole if news.round > state.round])


@mark.parametrize("of", ONE_BY_ONE)
@mark.parametrize("seeds", [(3,), (0, 1)], ids=["alone", "beside each other"])
@mark.filterwarnings("ignore:Training one run at a time")
def test_runs_that_are_computed_one_by_one_go_on_too(
    of: Callable[[int], Run], seeds: Sequence[int]
) -> None:
    whole = list(going_on(made(of, seeds)))
    first = going_on(made(of, seeds))
    next(first)
    state = state_of(next(first))
    assert_same_news(list(going_on(made(of, seeds), state)), whole[2:])


@mark.slow
def test_a_training_may_stop_after_every_block() -> None:
    whole = list(going_on(made(of_classes, (0, 1))))
    state, told = None, []
    for _ in range(5):
        progress = next(going_on(made(of_classes, (0, 1)), state))
        told.append(progress)
        state = state_of(progress)
    assert_same_news([*told, *going_on(made(of_classes, (0, 1)), state)], whole)


def test_a_state_is_a_copy_that_later_steps_leave_alone() -> None:
    training = going_on(made(of_classes, (0, 1)))
    state = state_of(next(training))
    before = {name: tensor.clone() for name, tensor in state.tensors.items()}
    list(training)
    assert n_different(state.tensors, before) == 0


def test_taking_a_state_changes_nothing() -> None:
    watched = []
    for progress in going_on(made(of_classes, (0, 1))):
        watched.append(progress)
        if progress.state:
            progress.state()
    assert_same_news(watched, list(going_on(made(of_classes, (0, 1)))))


def test_time_adds_up() -> None:
    state = replace(state_of(next(going_on(made(of_lines, [0])))), seconds=1_000.0)
    last = list(going_on(made(of_lines, [0]), state))[-1]
    assert last.outcomes is not None
    assert 1_000.0 < last.outcomes[0].seconds < 1_100.0


def test_a_state_holds_each_number_once_and_no_padding() -> None:
    (run,) = made(of_classes, [0])  # heads of 2 and 4 classes, in a table for 4
    state = None
    for progress in going_on([run]):
        state = progress.state() if progress.state else state
    assert state is not None
    n_parameters = sum(p.numel() for p in run.network.parameters())
    held = {name: t for name, t in state.tensors.items() if "buffer" not in name and t.ndim == 2}
    for prefix in ("now", "exp_avg", "exp_avg_sq", "best"):
        of_prefix = [t for name, t in held.items() if name.startswith(f"{prefix}/")]
        assert sum(t.numel() for t in of_prefix) == n_parameters, prefix


def test_frozen_weights_are_left_out() -> None:
    (run,) = made(of_lines, [0])
    run.network.get_submodule("layers.1").requires_grad_(False)
    state = state_of(next(going_on([run])))
    n_learnt = sum(p.numel() for p in run.network.parameters() if p.requires_grad)
    now = [t for name, t in state.tensors.items() if name.startswith("now/") and t.ndim == 2]
    assert sum(t.numel() for t in now) == n_learnt


def with_rounds(runs: Sequence[Run], rounds: int) -> list[Run]:
    return [replace(run, settings=run.settings.changed(rounds=rounds)) for run in runs]


@mark.slow
@mark.parametrize("of", [*KINDS, *ONE_BY_ONE])
@mark.parametrize("done", [20, 30])  # at the end of a logging interval, and in the middle of one
@mark.filterwarnings("ignore:Training one run at a time")
def test_a_training_can_end_where_it_stopped(
    of: Callable[[int], Run], done: int, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(_tracker, "N_ENTRIES", 3)
    meant_to_be = list(going_on(with_rounds(made(of, (0, 1)), done)))
    states = [news.state() for news in going_on(made(of, (0, 1))) if news.state]
    state = next(state for state in states if state.round == done)
    every = made(of, [0])[0].settings.evaluate_every
    was_checked = every is not None and done % every == 0
    told = list(going_on(with_rounds(made(of, (0, 1)), done), state))
    assert_same_outcomes(told[-1].outcomes, meant_to_be[-1].outcomes)
    assert_allclose(told[-1].losses, meant_to_be[-1].losses, rtol=1e-12)
    n_untold = len(state.tensors["losses since the last entry"])
    assert n_untold == (10 if done == 30 and not was_checked else 0)
    assert (told[0].entries is not None) == (n_untold > 0)
    if told[0].entries is not None:
        assert meant_to_be[-2].entries is not None
        for here, there in zip(told[0].entries, meant_to_be[-2].entries, strict=True):
            assert_array_equal(here.losses, there.losses)
            assert_same_evaluation(here.validation, there.validation)


def test_a_training_can_become_longer() -> None:
    states = [news.state() for news in going_on(made(of_classes, (0, 1))) if news.state]
    longer = with_rounds(made(of_classes, (0, 1)), 70)
    whole = list(going_on(longer))
    assert_same_news(list(going_on(longer, states[-1])), [n for n in whole if n.round > 50])


@fixture(scope="module")
def early() -> TrainingState:
    """A state after ten rounds of a run alone."""
    torch.set_num_threads(1)
    return state_of(next(going_on(unrecorded(made(of_lines, [0])))))


def unrecorded(runs: Sequence[Run]) -> list[Run]:
    """Returns runs whose steps are not recorded, where none is to be taken or only a few are."""
    return [replace(run, settings=run.settings.changed(trace=False)) for run in runs]


@mark.parametrize("done", [0, 15, 60, 55, -10])
def test_a_state_has_to_lie_at_the_end_of_a_block(done: int, early: TrainingState) -> None:
    state = replace(early, round=done)
    with raises(ValueError, match=rf"multiple of 10 rounds, at most 55\. Found `round = {done}`"):
        next(going_on(unrecorded(made(of_lines, [0])), state))


@mark.parametrize(
    ("others", "found"),
    [
        (lambda: made(of_lines, [0, 1]), r"of shape \[2, \d+\]\. Found one of shape \[1, \d+\]"),
        (lambda: made(of_fixed_gates, [0]), r"Found one of shape"),
        (lambda: made(of_classes, [0]), r"Found one of shape"),
    ],
    ids=["more runs", "another network", "other tasks"],
)
def test_a_state_of_other_runs_is_refused(
    others: Callable[[], list[Run]], found: str, early: TrainingState
) -> None:
    with raises(ValueError, match=rf"A state should be one of the same runs.*{found}"):
        next(going_on(unrecorded(others()), early))


def test_a_state_that_lacks_something_is_refused(early: TrainingState) -> None:
    left = {name: t for name, t in early.tensors.items() if name != "exp_avg/weights"}
    with raises(ValueError, match=r"with `exp_avg/weights` of shape \[1, \d+\]\. Found none"):
        next(going_on(unrecorded(made(of_lines, [0])), replace(early, tensors=left)))


@mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_step_goes_on_from_a_state() -> None:
    """A graph reads fixed addresses, so a state has to be copied into them."""
    runs = made(of_lines, [0, 1])
    whole = list(train(runs, device="cuda", n_last_rounds=N_LAST))
    state = state_of(next(train(made(of_lines, [0, 1]), device="cuda", n_last_rounds=N_LAST)))
    rest = list(
        train(made(of_lines, [0, 1]), device="cuda", n_last_rounds=N_LAST, resume_from=state)
    )
    assert_same_news(rest, whole[1:])
