"""Low-rank updates of frozen parts: what they compute, and what stays as it was."""

from copy import deepcopy
from typing import Any

import torch
from pytest import mark, param, raises
from torch import Tensor, nn
from torch.testing import assert_close

import allotment as al
from allotment import FixedMatrix, GumbelMatrix, extract, modularize
from allotment.allocation import Allocation
from allotment.modules import ModularLayer, MultiTaskModel
from allotment.modules._low_rank import AdaptedPart, LowRankUpdate, update_of
from tests.allocation.made_up import ByExample

TASKS = ["a", "b"]
IMAGES, SIGNALS, VECTORS = torch.randn(5, 3, 6, 6), torch.randn(5, 3, 9), torch.randn(5, 3)
IDS = torch.tensor([[1, 0, 6], [2, 2, 3]])

PARTS = [
    param(nn.Linear(3, 4), VECTORS, id="linear"),
    param(nn.Linear(3, 4, bias=False), torch.randn(2, 7, 3), id="linear on sequences"),
    param(nn.Conv2d(3, 4, 3, stride=2, padding=1), IMAGES, id="images"),
    param(nn.Conv2d(3, 4, (1, 3), padding="same", dilation=2), IMAGES, id="dilated"),
    param(nn.Conv1d(3, 4, 3), SIGNALS, id="signals"),
    param(nn.Embedding(7, 4), IDS, id="embedding"),
    param(nn.Embedding(7, 4, padding_idx=0), IDS, id="embedding with padding"),
]


def learnt(part: nn.Module, allocation: Allocation, rank: int = 2) -> AdaptedPart:
    """Returns a part with updates that are not zero."""
    updates = [update_of(part, rank) for _ in range(allocation.n_components)]
    for update in updates:
        nn.init.normal_(update.up)
    return AdaptedPart(part, ModularLayer(updates, allocation))


def by_hand(adapted: AdaptedPart, weights: Tensor, x: Tensor) -> Tensor:
    """Returns ``base(x) + sum over c of w_c * B_c(A_c(x))``, one update after another."""
    y: Tensor = adapted.base(x)
    for weight, update in zip(weights, adapted.updates.components, strict=True):
        y = y + weight * update(x)
    return y


@mark.parametrize(("part", "x"), PARTS)
@mark.parametrize("is_training", [True, False])
@mark.parametrize("task", [0, 1, 2, torch.tensor(1)], ids=str)
def test_the_output_is_the_base_and_the_weighted_sum_of_updates(
    part: nn.Module, x: Tensor, is_training: bool, task: int | Tensor
) -> None:
    allocation = FixedMatrix([[1, 1, 1], [1, 0, 1], [0, 0, 0]])
    adapted = learnt(part, allocation).train(is_training)
    with al.for_task(int(task)):
        found = adapted(x)
    weights = allocation.weights(int(task))
    assert_close(found, by_hand(adapted, weights, x), rtol=1e-4, atol=1e-5)


@mark.parametrize(("part", "x"), PARTS)
def test_an_update_is_one_of_the_weight(part: nn.Module, x: Tensor) -> None:
    part, update = deepcopy(part), update_of(part, 2)
    nn.init.normal_(update.up)
    expected = part(x) + update(x)
    with torch.no_grad():
        part.weight += update.delta()  # type: ignore[operator]
    assert_close(part(x), expected, rtol=1e-4, atol=1e-5)


@mark.parametrize(("part", "x"), PARTS[:-2])
def test_weights_by_example_count_for_each_example(part: nn.Module, x: Tensor) -> None:
    n_features = x[0].numel()
    adapted = learnt(part, ByExample(2, 3, n_features)).train()
    with al.for_task(1):
        found = adapted(x)
    weights = adapted.updates.allocation.weights(1, x)  # [B, C]
    expected = [by_hand(adapted, own, x[i : i + 1]) for i, own in enumerate(weights)]
    assert_close(found, torch.cat(expected), rtol=1e-4, atol=1e-5)


def test_gates_learn_by_the_outputs_of_updates(double: None) -> None:
    adapted = learnt(nn.Linear(3, 4).double(), GumbelMatrix(2, 3)).train()
    x, g = torch.randn(5, 3), torch.randn(5, 4)
    weights = torch.rand(3, requires_grad=True)
    layer = adapted.updates
    y = layer.components[0].forward_mixed(layer._stacked(0), weights, x)  # type: ignore[operator]
    (found,) = torch.autograd.grad(y, weights, g)
    assert_close(found, torch.stack([(update(x) * g).sum() for update in layer.components]))


def a_model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4))


def adapters(model: nn.Module | None = None, **options: Any) -> MultiTaskModel:
    usual: dict[str, Any] = {
        "parts": {"0": 3, "2": 2},
        "heads": {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)},
        "component": "low_rank",
        "rank": 2,
    }
    return modularize(a_model() if model is None else model, **usual | options)


@mark.parametrize("is_training", [True, False])
def test_the_network_starts_as_the_model_to_the_bit(is_training: bool) -> None:
    model = a_model()
    network = adapters(model, heads=None, tasks=TASKS).train(is_training)
    for task in TASKS:
        assert torch.equal(network(VECTORS, task), model(VECTORS))


def test_the_base_is_frozen_and_there_once() -> None:
    network = adapters()
    network(VECTORS, "b").sum().backward()
    learning = {name for name, p in network.named_parameters() if p.requires_grad}
    assert all("updates" in name or name.startswith("heads") for name in learning)
    assert all(p.grad is None for p in network.parameters() if not p.requires_grad)
    assert not any(p.requires_grad for p in network.body[3].parameters())  # type: ignore[index]
    n_base = sum(p.numel() for p in a_model().parameters())
    frozen = sum(p.numel() for p in network.parameters() if not p.requires_grad)
    assert frozen == n_base
    bases = [name for name in network.state_dict() if ".base." in name]
    assert bases == [f"body.{n}.base.{leaf}" for n in "02" for leaf in ("weight", "bias")]


@mark.parametrize(
    ("component", "freeze", "expected"),
    [
        ("low_rank", None, False),
        ("low_rank", False, True),
        ("copy", None, True),
        ("new", None, True),
    ]
    + [(component, True, False) for component in ("copy", "low_rank", "new")],
)
def test_what_is_not_modular_learns_or_does_not(
    component: str, freeze: bool | None, expected: bool
) -> None:
    model = a_model()
    network = adapters(model, component=component, freeze=freeze)
    assert {p.requires_grad for p in network.body[3].parameters()} == {expected}  # type: ignore[index]
    components = [layer.components for layer in network.modular_layers]
    assert all(p.requires_grad for own in components for p in own.parameters())
    assert all(p.requires_grad for p in model.parameters())


def test_the_base_is_evaluated_once_a_call() -> None:
    network, calls = adapters(), []
    for module in network.modules():
        if isinstance(module, AdaptedPart):
            module.base.register_forward_hook(lambda *_: calls.append(1))
    for is_training in (True, False):
        network.train(is_training)(VECTORS, "a")
    assert len(calls) == 2 * 2


def trained(network: MultiTaskModel) -> MultiTaskModel:
    """Returns the network with updates and gates that are not those of the start."""
    for layer in network.modular_layers:
        assert isinstance(layer.allocation, GumbelMatrix)
        nn.init.normal_(layer.allocation.logits)
        for update in layer.components:
            nn.init.normal_(update.up)  # type: ignore[arg-type]
    first = network.modular_layers[0].allocation
    assert isinstance(first, GumbelMatrix)
    first.logits.data[1, :, 0] -= 9  # shut for the second task
    return network.eval()


@mark.parametrize("task", TASKS)
def test_an_extracted_network_has_the_same_outputs(task: str) -> None:
    network = trained(adapters())
    expected, own = network(VECTORS, task), extract(network, task)
    assert torch.equal(own(VECTORS), expected)
    assert not any(isinstance(m, ModularLayer | Allocation) for m in own.modules())
    merged = extract(network, task, merge=True)
    assert_close(merged(VECTORS), expected)
    held = (ModularLayer, AdaptedPart, LowRankUpdate)
    assert not any(isinstance(module, held) for module in merged.modules())
    assert torch.equal(network(VECTORS, task), expected)  # the network is as it was
    is_base = torch.equal(merged.body[0].weight, network.body[0].base.weight)  # type: ignore[index, union-attr]
    assert is_base == (task == "b")


def test_a_state_dict_goes_round() -> None:
    network, other = trained(adapters()), adapters().eval()
    other.load_state_dict(network.state_dict())
    for task in TASKS:
        assert torch.equal(other(VECTORS, task), network(VECTORS, task))


def tasks() -> list[al.Task]:
    x = torch.randn(60, 3)
    return [al.Task("a", (x, x.sum(1))), al.Task("b", (x, x.argmax(1)))]


SETTINGS = al.TrainingSettings(
    rounds=20, batch_size=8, optimization=al.Optimization(learning_rate=0.02)
)


def test_fit_moves_updates_alone() -> None:
    network = adapters()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    al.fit(network, tasks(), SETTINGS)
    moved = {name for name, value in network.state_dict().items() if not value.equal(before[name])}
    assert not any("base" in name or name.startswith("body.3") for name in moved)
    assert any(".up" in name for name in moved) and any(".down" in name for name in moved)


def test_several_runs_train_as_one_program_and_as_alone() -> None:
    def run(seed: int) -> al.Run:
        torch.manual_seed(seed)
        return al.Run(adapters(), shared, seed, SETTINGS)

    shared = tasks()
    assert al.plan([run(0), run(1)]).runs.value == "vmapped"
    *_, together = al.train([run(0), run(1)])
    *_, alone = al.train([run(1)])
    assert together.outcomes is not None and alone.outcomes is not None
    for name, value in alone.outcomes[0].weights.items():
        assert_close(together.outcomes[1].weights[name], value, rtol=1e-3, atol=1e-4)


class Gated(nn.Module):
    """A part with linear layers inside, such as a block's feed-forward layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.first(x) * self.second(x)
        return y


@mark.parametrize(
    ("part", "words"),
    [
        (Gated(), r"Found '0', which is of class Gated; inside it are \['0\.first', '0\.second'\]"),
        (nn.LayerNorm(3), r"such as have low-rank updates\. Found '0', .* class LayerNorm\."),
        (nn.Conv2d(4, 4, 3, groups=2), r"is a convolution in groups"),
        (nn.Conv1d(4, 4, 3, padding_mode="reflect"), r"padded with other numbers than zeros"),
        (nn.Embedding(4, 4, max_norm=1.0), r"an embedding with `max_norm`"),
        (nn.MultiheadAttention(4, 2).out_proj, r"an nn\.MultiheadAttention, which uses its weight"),
    ],
)
def test_parts_without_low_rank_updates_are_refused(part: nn.Module, words: str) -> None:
    with raises(ValueError, match=words):
        modularize(nn.Sequential(part), {"0": 2}, tasks=TASKS, component="low_rank")


@mark.parametrize(
    ("arguments", "words"),
    [
        ({"rank": 0}, r"`rank` should be at least 1"),
        ({"component": "low rank"}, r"one of 'copy', 'low_rank', 'new'.*Did you mean 'low_rank'"),
    ],
)
def test_bad_input(arguments: dict[str, Any], words: str) -> None:
    with raises(ValueError, match=words):
        adapters(**arguments)


def test_a_weight_that_is_computed_is_not_merged() -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)))
    network = modularize(model, {"0": 2}, tasks=TASKS, component="low_rank").eval()
    for update in network.modular_layers[0].components:
        nn.init.normal_(update.up)  # type: ignore[arg-type]
    merged = extract(network, "a", merge=True)
    assert torch.equal(merged(VECTORS), network(VECTORS, "a"))


class _Tied(nn.Module):
    """An embedding whose weight the output uses too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = self.out(self.embedding(ids).mean(1))
        return y


def test_merging_leaves_weights_that_are_tied_to_the_part() -> None:
    network = al.modularize(_Tied(), {"embedding": 2}, tasks=["a", "b"], component="low_rank")
    for name, parameter in network.named_parameters():
        if name.endswith("up"):
            nn.init.normal_(parameter)
    ids = torch.randint(0, 7, (5, 3))
    network.eval()
    assert_close(al.extract(network, "a", merge=True)(ids), network(ids, "a"))
