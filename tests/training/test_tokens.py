"""Integer inputs: an embedding trains, alone and with several runs, as in a plain loop."""

import torch
from pytest import mark
from torch import Tensor, nn
from torch.testing import assert_close

from allotment.allocation import GumbelMatrix, SharedBottom
from allotment.modules import ModularLayer, MultiTaskNetwork
from allotment.settings import Optimization, TrainingSettings
from allotment.tasks import Task
from allotment.training import Run, fit, train

SETTINGS = TrainingSettings(
    rounds=200, batch_size=16, optimization=Optimization(learning_rate=0.02)
)


class MeanEmbedding(nn.Module):
    """The mean of the tokens' embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.table(tokens)
        return found.mean(dim=1)


def a_network(seed: int, *, learnt: bool) -> MultiTaskNetwork:
    torch.manual_seed(seed)
    allocation = GumbelMatrix(2, 3) if learnt else SharedBottom(2, 3)
    layer = ModularLayer([nn.Linear(8, 8) for _ in range(3)], allocation)
    return MultiTaskNetwork(MeanEmbedding(), [layer], {"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})


def the_tasks(dtype: torch.dtype) -> list[Task]:
    tokens = torch.randint(12, (200, 5), dtype=dtype)
    has_low = (tokens < 2).any(dim=1).long()
    n_high = (tokens > 8).sum(dim=1).clamp(max=2)
    return [
        Task(name, (tokens, y), test=(tokens, y)) for name, y in (("a", has_low), ("b", n_high))
    ]


@mark.parametrize("dtype", [torch.int32, torch.int64])
def test_an_embedding_is_trained(dtype: torch.dtype) -> None:
    network = a_network(0, learnt=False)
    result = fit(network, the_tasks(dtype), SETTINGS)
    assert result.test is not None and result.test.accuracies is not None
    assert result.test.accuracies.min() > 0.95


def test_runs_with_embeddings_train_together_as_they_do_alone() -> None:
    tasks, settings = the_tasks(torch.int64), SETTINGS.changed(rounds=20)
    runs = [Run(a_network(seed, learnt=True), tasks, seed, settings) for seed in range(3)]
    *_, progress = train(runs)
    assert progress.outcomes is not None
    for run, outcome in zip(runs, progress.outcomes, strict=True):
        *_, alone = train([run])
        assert alone.outcomes is not None
        assert_close(outcome.weights, alone.outcomes[0].weights, rtol=1e-4, atol=1e-5)
