"""Linear maps of an extracted network made one: the same outputs up to rounding, fewer modules."""

from collections.abc import Callable

import torch
from pytest import mark, param
from torch import Tensor, nn
from torch.testing import assert_close

from allotment import MultiTaskModel, MultiTaskNetwork, extract
from allotment.allocation import FixedMatrix, SharedBottom, SoftMatrix
from allotment.modules import ModularLayer


def trained(module: nn.Module) -> nn.Module:
    """Returns a module whose batch normalisations have statistics and weights of their own."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2.0)
            nn.init.normal_(part.weight)
    return module


def of_sum(make: Callable[[], nn.Module], *others: nn.Module) -> nn.Module:
    """Returns a layer of three components, summed."""
    components = [*(make() for _ in range(3 - len(others))), *others]
    return ModularLayer(components, SharedBottom(1, 3, reduce="mean"))


def assert_folds(parts: list[nn.Module], x: Tensor, expected: list[str]) -> None:
    """Asserts what is left of parts in a row, and that outputs stay as they are."""
    layers = parts if any(isinstance(p, ModularLayer) for p in parts) else [_once(), *parts]
    network = MultiTaskNetwork(None, [trained(part) for part in layers], task_names=["a"]).eval()
    own = extract(network, "a", merge=True)
    leaves = [type(m).__name__ for m in own.modules() if not list(m.children())]
    assert leaves == expected, own
    with torch.no_grad():
        assert_close(own(x), network(x, "a"), rtol=1e-4, atol=1e-5)


def _once() -> nn.Module:
    return ModularLayer([nn.Tanh()], SharedBottom(1, 1))


def convolution(size: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, size, padding=size // 2, bias=False), nn.BatchNorm2d(4), nn.ReLU()
    )


IMAGE, ROWS = torch.randn(2, 3, 8, 8), torch.randn(5, 6)


@mark.parametrize(
    ("make", "x", "expected"),
    [
        param(lambda: [of_sum(lambda: nn.Linear(6, 4))], ROWS, ["Linear"], id="sum"),
        param(
            lambda: [of_sum(lambda: nn.Linear(6, 6, bias=False), nn.Identity())],
            ROWS,
            ["Linear"],
            id="sum with an identity",
        ),
        param(
            lambda: [of_sum(lambda: nn.Conv2d(3, 4, 3, padding=1))],
            IMAGE,
            ["Conv2d"],
            id="sum of convolutions",
        ),
        param(
            lambda: [of_sum(lambda: nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1))],
            IMAGE,
            ["Conv2d"] * 3,
            id="convolutions of other forms",
        ),
        param(
            lambda: [of_sum(lambda: nn.Sequential(nn.Linear(6, 4), nn.Softmax(-1)))],
            ROWS,
            ["Linear", "Softmax"] * 3,
            id="what is not linear",
        ),
        param(
            lambda: [of_sum(lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU()))],
            ROWS,
            ["Linear", "ReLU"],
            id="side by side",
        ),
        param(
            lambda: [of_sum(lambda: nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Dropout()))],
            IMAGE,
            ["Linear", "Tanh"],
            id="side by side, in every place",
        ),
        param(
            lambda: [of_sum(lambda: convolution(3), convolution(1))],
            IMAGE,
            ["Conv2d", "ReLU"] * 2,
            id="side by side where forms are the same",
        ),
        param(
            lambda: [of_sum(lambda: nn.Sequential(nn.Conv2d(3, 3, 3, groups=3), nn.ReLU()))],
            IMAGE,
            ["Conv2d", "ReLU"] * 3,
            id="convolutions in groups",
        ),
        param(
            lambda: [of_sum(lambda: nn.Linear(6, 6)), nn.Dropout(0.5), nn.Linear(6, 2)],
            ROWS,
            ["Linear"],
            id="one after another",
        ),
        param(
            lambda: [nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 6))],
            ROWS,
            ["Tanh", "Linear", "Linear"],
            id="a bottleneck",
        ),
        param(
            lambda: [nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU()), nn.Linear(6, 1)],
            ROWS,
            ["Tanh", "Linear", "ReLU", "Linear"],
            id="batch normalisation",
        ),
        param(
            lambda: [
                nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)),
                nn.Conv2d(4, 2, 1),
                nn.Flatten(),
            ],
            IMAGE,
            ["Tanh", "Conv2d", "Flatten"],
            id="convolutions after each other",
        ),
        param(
            lambda: [nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 3, padding=1)],
            IMAGE,
            ["Tanh", "Conv2d", "Conv2d"],
            id="borders would differ",
        ),
        param(
            lambda: [nn.Linear(6, 6), nn.BatchNorm1d(6, track_running_stats=False)],
            ROWS,
            ["Tanh", "Linear", "BatchNorm1d"],
            id="statistics of each batch",
        ),
    ],
)
def test_linear_maps_become_one_where_that_is_exact(
    make: Callable[[], list[nn.Module]], x: Tensor, expected: list[str]
) -> None:
    torch.manual_seed(1)
    parts = make()
    if expected[-1] == "BatchNorm1d":
        network = MultiTaskNetwork(None, [_once(), *parts], task_names=["a"])
        assert [type(m).__name__ for m in extract(network, "a", merge=True).children()] == expected
    else:
        assert_folds(parts, x, expected)


def test_a_head_is_folded_too_and_the_network_stays() -> None:
    layer = ModularLayer([nn.Linear(6, 6) for _ in range(3)], FixedMatrix([[1, 1, 0], [0, 1, 0]]))
    network = MultiTaskNetwork(
        nn.Linear(6, 6), [layer], {"a": nn.Linear(6, 1), "b": nn.Linear(6, 2)}
    )
    before = {name: value.clone() for name, value in network.state_dict().items()}
    own = extract(network, "a", merge=True)
    assert repr(own) == "Layers(\n  (stem): Linear(in_features=6, out_features=1, bias=True)\n)"
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())


def test_several_tasks_have_a_map_for_each_row() -> None:
    rows = [[1, 1, 0], [1, 1, 0], [0, 1, 1]]
    layer = ModularLayer([nn.Linear(6, 6) for _ in range(3)], FixedMatrix(rows))
    network = MultiTaskNetwork(None, [layer, nn.ReLU()], task_names=["a", "b", "c"]).eval()
    own = extract(network, ["a", "b", "c"], merge=True)
    assert sum(isinstance(module, nn.Linear) for module in own.modules()) == 2
    for name, y in own(ROWS).items():
        assert_close(y, network(ROWS, name))
    many = FixedMatrix([[1, 0], [0, 1], [1, 1]])  # three rows of two components
    network = MultiTaskNetwork(None, [ModularLayer([nn.Linear(6, 6), nn.Linear(6, 6)], many)])
    own = extract(network, [0, 1, 2], merge=True)
    assert sum(isinstance(module, nn.Linear) for module in own.modules()) == 2


@mark.parametrize(
    ("rows", "n_maps"),
    [
        param([[1, 1, 0, 0], [0, 0, 1, 1]], 2, id="rows with nothing in common"),
        param([[1, 1, 0, 0], [0, 1, 1, 1]], 4, id="a component in common"),
    ],
)
def test_several_tasks_compute_no_component_twice(rows: list[list[int]], n_maps: int) -> None:
    parts = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(4)]
    network = MultiTaskNetwork(None, [ModularLayer(parts, FixedMatrix(rows))]).eval()
    own = extract(network, [0, 1], merge=True)
    assert sum(isinstance(module, nn.Linear) for module in own.modules()) == n_maps
    for task, y in own(ROWS).items():
        assert_close(y, network(ROWS, int(task)))


def test_components_side_by_side_keep_their_shares() -> None:
    parts = [nn.Sequential(nn.Linear(6, 4), nn.GELU()) for _ in range(3)]
    allocation = SoftMatrix(1, 3)
    nn.init.normal_(next(allocation.parameters()))
    network = MultiTaskNetwork(None, [ModularLayer(parts, allocation)]).eval()
    own = extract(network, 0, merge=True)
    assert sum(isinstance(module, nn.Linear) for module in own.modules()) == 1
    assert_close(own(ROWS), network(ROWS, 0))
    rows = torch.export.Dim("rows")
    program = torch.export.export(own, (ROWS,), dynamic_shapes=({0: rows},))
    assert_close(program.module()(ROWS[:2]), network(ROWS[:2], 0))


def test_what_happens_in_a_hook_is_not_lost() -> None:
    parts = [nn.Sequential(nn.Linear(6, 4), nn.ReLU()) for _ in range(2)]
    for part in parts:
        part[0].register_forward_pre_hook(lambda _, given: (given[0] + 1,))
    layer = ModularLayer(parts, SharedBottom(1, 2))
    network = MultiTaskNetwork(None, [layer, nn.Linear(4, 4)]).eval()
    network.layers[1].register_forward_pre_hook(lambda _, given: (2 * given[0],))
    assert_close(extract(network, 0, merge=True)(ROWS), network(ROWS, 0))


def test_a_component_in_a_model_of_ones_own_is_folded() -> None:
    parts = [trained(convolution(3)), trained(convolution(3))]

    class Body(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = ModularLayer(parts, FixedMatrix([[1, 0], [0, 1]]))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(x)
            return y

    network = MultiTaskModel(Body()).eval()
    for tasks in (0, [0, 1]):
        own = extract(network, tasks, merge=True)
        assert not any(isinstance(module, nn.BatchNorm2d) for module in own.modules())
        found = own(IMAGE) if tasks else {"0": own(IMAGE)}
        for task, y in found.items():
            assert_close(y, network(IMAGE, int(task)), rtol=1e-4, atol=1e-5)


def test_sequences_inside_a_model_of_ones_own_are_left_to_it() -> None:
    class Body(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
            self.layer = ModularLayer([nn.Linear(6, 2) for _ in "ab"], SharedBottom(1, 2))

        def forward(self, x: Tensor) -> Tensor:
            first = self.steps[0](x)
            y: Tensor = self.layer(first + self.steps[1](first))
            return y

    network = MultiTaskModel(Body()).eval()
    own = extract(network, 0, merge=True)
    assert isinstance(own.get_submodule("body.layer"), nn.Linear)
    assert_close(own(ROWS), network(ROWS, 0))
