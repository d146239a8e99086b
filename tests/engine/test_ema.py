import torch
from numpy.testing import assert_allclose
from pytest import mark, raises
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from allotment._engine._trainer import Trainer
from allotment.allocation import GumbelMatrix
from allotment.modules import MultiTaskNetwork
from allotment.settings import Optimization, TrainingSettings
from allotment.training import Run, train
from tests.training.toy import SETTINGS, a_network, a_run, classes, n_different, progress_of

AVERAGED = SETTINGS.changed(rounds=40, ema_decay=0.95)


def test_the_mean_is_that_of_the_weights_after_each_step() -> None:
    trainer = Trainer([a_run(settings=AVERAGED)], torch.device("cpu"))
    mean = trainer.parameters.snapshot()["weights"]
    for step in range(1, 21):
        before = int(trainer.parameters.n_batches)
        _one_step(trainer, before)
        share = max(9.0 / (10.0 + step), 0.05)
        mean += share * (trainer.parameters.snapshot()["weights"] - mean)
    with trainer.averaged():
        assert_close(trainer.parameters.snapshot()["weights"], mean)
    assert not torch.allclose(trainer.parameters.snapshot()["weights"], mean, atol=1e-4)


def _one_step(trainer: Trainer, step: int) -> None:
    """Takes one step of the block that a step lies in."""
    block = trainer._batches.make(step // 20)
    with torch.no_grad():
        trainer._step(block, step % 20)


def test_averaging_leaves_the_training_itself_as_it_is() -> None:
    plain = progress_of([a_run(settings=AVERAGED.changed(ema_decay=0.0))])
    averaged = progress_of([a_run(settings=AVERAGED)])
    assert [p.losses.tolist() for p in plain] == [p.losses.tolist() for p in averaged]


def a_classifier(settings: TrainingSettings) -> Run:
    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])

    return a_run(settings=settings, tasks=classes(3, 4), build=build)


def means_by_hand(run: Run, keep: float) -> list[dict[str, Tensor]]:
    """Returns the averaged weights after each block of ten rounds, under the network's names."""
    trainer = Trainer([run], torch.device("cpu"))
    is_joint = run.settings.schedule == "joint"
    n_steps = 10 if is_joint else 20  # of a block, for two tasks
    means, mean = [], trainer.parameters.snapshot()
    for step in range(2 * n_steps):
        with torch.no_grad():
            trainer._step(trainer._batches.make(step // n_steps), step % n_steps)
        share = max(9.0 / (10.0 + step + 1), 1.0 - keep)
        weights = trainer.parameters.snapshot()
        mean = {name: old + share * (weights[name] - old) for name, old in mean.items()}
        if step % n_steps == n_steps - 1:
            trainer.parameters.restore(mean)
            means.append(trainer.parameters.state_dict(0))
            trainer.parameters.restore(weights)
    return means


@mark.usefixtures("double")
@mark.parametrize("keep_best", [True, False])
@mark.parametrize("schedule", ["alternating", "joint"])
def test_the_mean_is_what_is_validated_and_kept(schedule: str, keep_best: bool) -> None:
    settings = AVERAGED.changed(
        rounds=20, evaluate_every=10, schedule=schedule, keep_best=keep_best
    )
    run = a_classifier(settings)
    told = progress_of([run])
    outcome = (told[-1].outcomes or [])[0]
    means = means_by_hand(run, AVERAGED.optimization.ema_decay)
    for weights, progress in zip(means, told, strict=False):
        network = a_classifier(settings).network.eval()
        network.load_state_dict(weights)
        (entry,) = progress.entries or []
        assert_allclose(entry.probabilities, network.probabilities().detach())
        assert entry.validation is not None
        for task in (0, 1):
            split = run.tasks[task].split("validation")
            assert split is not None and split.rows is not None
            x = split.inputs[split.rows]
            x = x if split.permutation is None else x[:, split.permutation]
            loss = cross_entropy(network(x.double(), task), split.targets[split.rows])
            assert_allclose(entry.validation.losses[task], loss.detach())
    assert outcome.best_round in ((10, 20) if keep_best else (None,))
    kept = means[0] if outcome.best_round == 10 else means[1]
    for name, value in outcome.weights.items():
        if not name.endswith("n_batches"):
            assert_close(value, kept[name], msg=f"{name}: {{}}".format)


@mark.parametrize("evaluate_every", [None, 10])
def test_going_on_from_a_state_ends_the_same(evaluate_every: int | None) -> None:
    settings = AVERAGED.changed(evaluate_every=evaluate_every)

    def build() -> MultiTaskNetwork:
        return a_network(GumbelMatrix(2, 3), [nn.Linear(4, 3), nn.Linear(4, 4)])

    def runs() -> list[Run]:
        return [a_run(settings=settings, tasks=classes(3, 4), build=build)]

    whole = list(train(runs()))
    halfway = train(runs())
    for progress in halfway:
        if progress.round == 20:
            assert progress.state is not None
            state = progress.state()
            break
    resumed = list(train(runs(), resume_from=state))
    assert whole[-1].outcomes is not None and resumed[-1].outcomes is not None
    assert n_different(whole[-1].outcomes[0].weights, resumed[-1].outcomes[0].weights) == 0


@mark.parametrize("decay", [-0.1, 1.0])
def test_the_range_of_the_decay(decay: float) -> None:
    with raises(ValueError, match=r"`ema_decay` should be in \[0, 1\)"):
        Optimization(ema_decay=decay)
