"""Modular parts of networks that were written by others: transformers, LSTMs, tied weights."""

from typing import Any

import torch
from pytest import fixture, importorskip, mark, raises, warns
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

import allotment as al
from allotment import FixedMatrix, GumbelMatrix, SharedBottom, extract, modularize
from allotment.modules import ModularLayer, MultiTaskModel

TASKS = ["a", "b"]


@fixture
def bert() -> Any:
    transformers = importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
    )
    return transformers.BertModel(config, add_pooling_layer=False)


def first_token(output: Any) -> Tensor:
    y: Tensor = output.last_hidden_state[:, 0]
    return y


def tokens() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Returns three texts, and the same with padding behind them."""
    ids = torch.randint(1, 50, (3, 5))
    padded = torch.cat([ids, torch.randint(1, 50, (3, 4))], dim=1)
    masks = torch.ones(3, 5, dtype=torch.long), torch.tensor([[1] * 5 + [0] * 4] * 3)
    texts = [
        {"input_ids": i, "attention_mask": m} for i, m in zip((ids, padded), masks, strict=True)
    ]
    return texts[0], texts[1]


WAYS: list[tuple[dict[str, int], str]] = [
    ({"encoder.layer.*.attention.self.*": 3, "encoder.layer.*.output.dense": 2}, "low_rank"),
    ({"embeddings.word_embeddings": 2}, "low_rank"),
    ({"encoder.layer.1.attention": 3}, "copy"),
    ({"encoder.layer.*": 2}, "copy"),
    ({"encoder.layer.0.intermediate": 3}, "new"),
]


def linear_only(parts: dict[str, int], component: str) -> dict[str, int]:
    """Returns parts without a dropout, which has no update."""
    if "encoder.layer.*.attention.self.*" not in parts:
        return parts
    n = parts["encoder.layer.*.attention.self.*"]
    rest = {name: m for name, m in parts.items() if not name.endswith("self.*")}
    return {f"encoder.layer.*.attention.self.{leaf}": n for leaf in ("query", "value")} | rest


@mark.parametrize(("parts", "component"), WAYS, ids=lambda value: str(value)[:40])
def test_padding_does_not_change_what_a_transformer_says(
    bert: Any, parts: dict[str, int], component: str
) -> None:
    network = modularize(
        bert,
        linear_only(parts, component),
        heads={"a": nn.Linear(16, 1), "b": nn.Linear(16, 3)},
        component=component,
        features=first_token,
    )
    for layer in network.modular_layers:
        assert isinstance(layer.allocation, GumbelMatrix)
        nn.init.normal_(layer.allocation.logits)
        layer.allocation.logits.data[:, 0] = torch.tensor([3.0, -3.0])  # nobody without a part
        for parameter in layer.components.parameters():
            nn.init.normal_(parameter, std=0.1)
    short, padded = tokens()
    network.eval()
    for task in TASKS:
        y = network(short, task)
        assert y.shape == (3, 1 if task == "a" else 3)
        assert_close(network(padded, task), y, rtol=1e-3, atol=1e-5)
        unmasked = {"input_ids": padded["input_ids"]}
        assert not torch.allclose(network(unmasked, task), y, rtol=1e-3, atol=1e-5)
        assert torch.equal(extract(network, task)(padded), network(padded, task))


@mark.parametrize(("parts", "component"), WAYS[:3], ids=lambda value: str(value)[:40])
def test_a_transformer_starts_as_it_was(bert: Any, parts: dict[str, int], component: str) -> None:
    bert.eval()
    short, _ = tokens()
    network = modularize(
        bert, linear_only(parts, component), tasks=TASKS, component=component, features=first_token
    ).eval()
    expected = first_token(bert(**short))
    for task in TASKS:
        assert_close(network(short, task), expected, rtol=1e-4, atol=1e-5)


def test_a_transformer_learns_with_a_frozen_base(bert: Any) -> None:
    network = modularize(
        bert,
        {"encoder.layer.*.attention.self.value": 3},
        heads={"a": nn.Linear(16, 2), "b": nn.Linear(16, 2)},
        component="low_rank",
        rank=2,
        features=first_token,
    )
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=0.05)
    ids = torch.randint(1, 50, (32, 5))
    labels = {"a": (ids[:, 1] > 25).long(), "b": (ids[:, 2] > 25).long()}
    losses = []
    for _ in range(30):
        for task, y in labels.items():
            loss = nn.functional.cross_entropy(network({"input_ids": ids}, task), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-4:]) < 0.8 * sum(losses[:4])


def test_what_a_linear_head_cannot_take_is_said(bert: Any) -> None:
    heads = {"a": nn.Linear(16, 1), "b": nn.Linear(16, 1)}
    network = modularize(bert, {"encoder.layer.0": 2}, heads=heads)
    with raises(TypeError, match=r"one tensor; `features` says which.*Found a BaseModelOutput"):
        network(tokens()[0], "a")


@mark.parametrize("component", ["copy", "low_rank", "new"])
@mark.parametrize("part", ["layers.*.linear1", "layers.0.linear2"])
def test_transformers_of_torch_call_modular_parts_in_evaluation(part: str, component: str) -> None:
    one = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=8, batch_first=True)
    model, x = nn.TransformerEncoder(one, 2), torch.randn(3, 5, 8)
    network = modularize(model, {part: 2}, tasks=TASKS, component=component, allocation=one_each)
    for layer in network.modular_layers:
        for parameter in layer.components.parameters():
            nn.init.normal_(parameter)
    network.eval()
    mask = torch.tensor([[False] * 5, [False] * 4 + [True], [False] * 5])
    for task in TASKS:
        expected = network(x, task, src_key_padding_mask=mask)  # with gradients: no fast path
        with torch.no_grad():
            found = network(x, task, src_key_padding_mask=mask)
            own = extract(network, task)(x, src_key_padding_mask=mask)
        assert_close(found[~mask], expected[~mask])
        assert torch.equal(own, found)
    assert not torch.allclose(network(x, "a"), network(x, "b"))


@mark.parametrize("used", [[[1, 0], [0, 1]], [[1, 1], [0, 1]]])
@mark.parametrize("parts", ["layers.0", "layers.*"])
def test_whole_layers_of_torchs_transformers_are_components(
    parts: str, used: list[list[int]]
) -> None:
    one = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=8, batch_first=True)
    model, x = nn.TransformerEncoder(one, 2), torch.randn(3, 5, 8)
    network = modularize(
        model, {parts: 2}, tasks=TASKS, component="new", allocation=lambda *_: FixedMatrix(used)
    )
    network.eval()
    mask = torch.tensor([[False] * 5, [False] * 4 + [True], [False] * 5])
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        both = extract(network, TASKS)(x, src_key_padding_mask=mask)
        for task in TASKS:
            found = network(x, task, src_key_padding_mask=mask)
            own = extract(network, task)(x, src_key_padding_mask=mask)
            assert torch.equal(own, found)
            assert_close(both[task][~mask], found[~mask])
    assert not torch.allclose(both["a"], both["b"])


def one_each(n_tasks: int, n_components: int) -> FixedMatrix:
    return FixedMatrix([[1, 0], [0, 1]])


class Recurrent(nn.Module):
    """An LSTM, of which the last state is used, and the mean of all outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        outputs, (hidden, cell) = self.lstm(x)
        y: Tensor = outputs.mean(1) + hidden[-1] + cell[-1]
        return y


@mark.parametrize("is_training", [True, False])
def test_the_states_of_lstms_are_mixed_as_their_outputs(is_training: bool) -> None:
    network = modularize(
        Recurrent(), {"lstm": 3}, tasks=TASKS, component="new", allocation=rows
    ).train(is_training)
    x = torch.randn(5, 6, 3)
    (layer,) = network.modular_layers
    for task, used in enumerate([[0, 1], [1, 2]]):
        expected = []
        for position in used:
            outputs, (hidden, cell) = layer.components[position](x)
            expected.append(outputs.mean(1) + hidden[-1] + cell[-1])
        assert_close(network(x, task), torch.stack(expected).mean(0))


def rows(n_tasks: int, n_components: int) -> FixedMatrix:
    return FixedMatrix([[1, 1, 0], [0, 1, 1]])


@mark.filterwarnings("ignore:Training without a recorded step")  # torch cannot trace it
def test_an_lstm_is_extracted_and_trained_by_fit() -> None:
    x = torch.randn(40, 6, 3)
    tasks = [al.Task(name, (x, x[:, n].sum(1))) for n, name in enumerate(TASKS)]
    heads = {name: nn.Linear(4, 1) for name in TASKS}
    network = modularize(Recurrent(), {"lstm": 2}, heads=heads)
    before = network.modular_layers[0].components[0].weight_hh_l0.clone()  # type: ignore[operator]
    al.fit(network, tasks, al.TrainingSettings(rounds=20, batch_size=8))
    assert not torch.equal(network.modular_layers[0].components[0].weight_hh_l0, before)  # type: ignore[arg-type]
    for task in TASKS:
        assert torch.equal(extract(network, task)(x), network(x, task))


class Tied(nn.Module):
    """A language model whose output layer has the weight of its embedding; a block twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.block = nn.Linear(4, 4)
        self.again = self.block
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 9, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        y: Tensor = self.out(self.again(self.norm(self.block(self.embed(ids)))))
        return y


@mark.parametrize("name", ["block", "again"])
@mark.parametrize("component", ["copy", "low_rank", "new"])
def test_a_part_at_two_places_becomes_one_layer_and_ties_outside_stay(
    name: str, component: str
) -> None:
    network = modularize(Tied(), {name: 2}, tasks=TASKS, component=component)
    body: Any = network.body
    assert body.block is body.again and len(network.modular_layers) == 1
    assert body.out.weight is body.embed.weight
    ids = torch.tensor([[1, 2, 3]])
    for task in TASKS:
        network.eval()
        assert torch.equal(extract(network, task)(ids), network(ids, task))
        own: Any = extract(network, task)
        assert own.body.block is own.body.again
    network.train()(ids, "a").sum().backward()


def test_copies_of_a_tied_part_have_weights_of_their_own_and_that_is_said() -> None:
    model, ids = Tied(), torch.tensor([[1, 2, 3]])
    with warns(UserWarning, match=r"copies of 'out' have.*`weight` of it is tied to `embed\.wei"):
        network = modularize(model, {"out": 2}, tasks=TASKS)
    assert_close(network.eval()(ids, "a"), model(ids))
    low_rank = modularize(model, {"out": 2}, tasks=TASKS, component="low_rank")
    body: Any = low_rank.body
    assert body.out.base.weight is body.embed.weight  # the tie stays, frozen


def test_ties_inside_a_part_are_kept_in_each_copy() -> None:
    network = modularize(nn.Sequential(Tied()), {"0": 2}, tasks=TASKS)
    for component in network.modular_layers[0].components:
        own: Any = component
        assert own.out.weight is own.embed.weight


class Residual(nn.Module):
    """A block of a residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.relu(x + self.conv2(torch.relu(self.norm(self.conv1(x)))))
        return y


def mostly_open(n_tasks: int, n_components: int) -> GumbelMatrix:
    return GumbelMatrix(n_tasks, n_components, p_init=0.9)


@mark.parametrize("component", ["copy", "low_rank", "new"])
def test_layers_inside_the_blocks_of_a_residual_network(component: str) -> None:
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model = nn.Sequential(nn.Conv2d(1, 4, 3), Residual(), Residual(), pool)
    heads = {name: nn.Linear(4, 2) for name in TASKS}
    network = modularize(
        model, {"*.conv2": 2}, heads=heads, component=component, rank=2, allocation=mostly_open
    )
    assert {layer.is_update for layer in network.modular_layers} == {component == "low_rank"}
    assert network.component_names == ("1.conv2 A", "1.conv2 B", "2.conv2 A", "2.conv2 B")
    x, y = torch.randn(30, 1, 8, 8), torch.randint(2, (30,))
    tasks = [al.Task(name, (x, y)) for name in TASKS]
    settings = al.TrainingSettings(rounds=10, batch_size=8)
    plan = al.plan([al.Run(network, tasks, seed, settings) for seed in range(2)])
    assert plan.runs.value == "vmapped"
    al.fit(network, tasks, settings)
    for task in TASKS:
        assert torch.equal(extract(network, task)(x), network(x, task))


@mark.parametrize(
    ("pattern", "expected"),
    [
        ("1.*", ["1.conv1", "1.norm", "1.conv2"]),
        ("*.conv1", ["1.conv1", "2.conv1"]),
        ("**.conv1", ["1.conv1", "2.conv1"]),
        ("*onv*", []),
        ("**conv2", ["1.conv2", "2.conv2"]),
    ],
)
def test_a_pattern_names_what_lies_at_its_depth(pattern: str, expected: list[str]) -> None:
    model = nn.Sequential(nn.ReLU(), Residual(), Residual())
    if not expected:
        with raises(ValueError, match=r"Found '\*onv\*', which is not among"):
            modularize(model, {pattern: 2}, tasks=TASKS)
        return
    network = modularize(model, {pattern: 2}, tasks=TASKS)
    found = [name for layer in network.modular_layers for name in layer.names[:1]]
    assert found == [f"{name} A" for name in expected]


def test_two_numbers_for_one_part_are_refused() -> None:
    with raises(ValueError, match=r"one number of components\. Found 2 and 3 for '0\.conv1'"):
        modularize(nn.Sequential(Residual()), {"*.conv1": 2, "0.conv1": 3}, tasks=TASKS)


def test_new_components_have_weights_of_their_own() -> None:
    model = nn.Sequential(nn.MultiheadAttention(4, 2), Residual(), nn.BatchNorm2d(4))
    model[1].requires_grad_(False)
    model.requires_grad_(False)
    parts = {str(n): 3 for n in range(3)}
    network = modularize(
        model, parts, tasks=TASKS, component="new", allocation=lambda t, c: SharedBottom(t, c)
    )
    weights = [part.conv1.weight for part in network.modular_layers[1].components]  # type: ignore[union-attr]
    assert len({weight.flatten()[0].item() for weight in weights}) == 3  # type: ignore[operator]
    assert all(p.requires_grad for layer in network.modular_layers for p in layer.parameters())


class Gain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


def test_a_part_that_cannot_start_anew_is_named() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), Gain()))
    with raises(ValueError, match=r"`reset_parameters`.*Found '0\.1' \(Gain\), which has none"):
        modularize(model, {"0": 2}, tasks=TASKS, component="new")


@mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")
def test_a_model_that_cannot_be_copied_is_told_by_its_part() -> None:
    model = nn.Sequential(nn.ReLU(), nn.utils.weight_norm(nn.Conv1d(3, 4, 3)))
    with raises(ValueError, match=r"can be copied\. Found .* in '1' \(Conv1d\).*parametrizations"):
        modularize(model, {"1": 2}, tasks=TASKS)


@mark.parametrize(
    ("allocate", "part", "is_told"),
    [
        (SharedBottom, nn.Linear(4, 4), True),
        (GumbelMatrix, nn.Linear(4, 4), False),
        (al.NoSharing, nn.Linear(4, 4), False),
        (SharedBottom, nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)), False),
        (SharedBottom, nn.ReLU(), False),
    ],
)
@mark.filterwarnings("error")
def test_copies_that_would_stay_equal_are_told(
    allocate: Any, part: nn.Module, is_told: bool
) -> None:
    model = nn.Sequential(part)
    if is_told:
        with warns(UserWarning, match=r"Copies of '0' stay equal.*SharedBottom draws nothing"):
            modularize(model, {"0": 2}, tasks=TASKS, allocation=allocate)
    else:
        modularize(model, {"0": 2}, tasks=TASKS, allocation=allocate)


class Pair(nn.Module):
    """A component that returns more than a tensor, and takes its input by name."""

    def __init__(self, extra: Any = None) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.extra = extra

    def forward(self, hidden: Tensor, scale: float = 1.0) -> dict[str, Any]:
        y = self.linear(hidden) * scale
        return {"y": y, "pair": (y.sum(0), None), "extra": self.extra}


@mark.parametrize("is_training", [True, False])
@mark.parametrize("is_stacked", [True, False])
def test_every_tensor_that_components_return_is_mixed(is_training: bool, is_stacked: bool) -> None:
    parts: list[nn.Module] = [Pair() for _ in range(2)]
    components = parts if is_stacked else [*parts[:1], nn.Sequential(parts[1])]
    layer = ModularLayer(components, SharedBottom(2, 2, reduce="mean")).train(is_training)
    x = torch.randn(5, 4)
    found = layer(x, task=0)
    expected = [part(x) for part in parts]
    assert_close(found["y"], (expected[0]["y"] + expected[1]["y"]) / 2)
    assert_close(found["pair"][0], (expected[0]["pair"][0] + expected[1]["pair"][0]) / 2)
    assert found["pair"][1] is None and found["extra"] is None
    if is_stacked:
        assert_close(layer(task=0, hidden=x, scale=2.0)["y"], 2 * found["y"])


@mark.parametrize("extra", [torch.tensor([1]), object()])
def test_what_cannot_be_mixed_is_said(extra: Any) -> None:
    layer = ModularLayer([Pair(extra), Pair(extra)], SharedBottom(2, 2))
    with raises(TypeError, match=r"floating-point tensor, or a tuple or a dict of them\. Found a"):
        layer.eval()(torch.randn(5, 4), task=0)


def test_tuples_have_no_weights_by_example() -> None:
    from tests.allocation.made_up import ByExample

    layer = ModularLayer([Pair(), Pair()], ByExample(2, 2, 4))
    for is_training in (True, False):
        with raises(TypeError, match=r"one tensor where the allocation looks at examples.*a dict"):
            layer.train(is_training)(torch.randn(5, 4), task=0)


def test_a_checkpointed_block_finds_its_task_in_a_context() -> None:
    from contextvars import copy_context
    from functools import partial

    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self, keeps: bool) -> None:
            super().__init__()
            self.keeps = keeps
            self.layer = ModularLayer([nn.Linear(4, 4), nn.Linear(4, 4)], rows_of_two())

        def forward(self, x: Tensor) -> Tensor:
            call = partial(copy_context().run, self.layer) if self.keeps else self.layer
            y: Tensor = checkpoint(call, x, use_reentrant=False)
            return y

    x = torch.randn(5, 4)
    with raises(ValueError, match=r"Found no task\. Activation checkpointing calls the lay"):
        MultiTaskModel(Checkpointed(False))(x, 1).sum().backward()
    kept = MultiTaskModel(Checkpointed(True))
    kept(x, 1).sum().backward()
    plain = MultiTaskModel(kept.body.layer)  # type: ignore[arg-type]
    expected = torch.autograd.grad(plain(x, 1).sum(), plain.body.components[1].weight)  # type: ignore[index, union-attr]
    assert_close(kept.body.layer.components[1].weight.grad, expected[0])  # type: ignore[index, union-attr]


def rows_of_two() -> FixedMatrix:
    return FixedMatrix([[1, 0], [1, 1]])
