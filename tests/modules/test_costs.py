import torch
from pytest import mark, raises
from torch import Tensor, nn

import allotment as al
from allotment.allocation import SNR, MMoE
from allotment.modules import ColumnLayer, MultiTaskNetwork, component_costs

B, D = 7, 5


def wide(n: int) -> nn.Module:
    return nn.Sequential(nn.Linear(D, n, bias=False), nn.Linear(n, D, bias=False))


def a_network(allocation: al.Allocation | None = None) -> MultiTaskNetwork:
    """Returns a network whose components are of width 2, 3 and 3."""
    allocation = allocation or al.FixedMatrix([[1, 0, 0], [0, 1, 1]])
    layer = al.ModularLayer([wide(2), wide(3), wide(3)], allocation)
    heads = {"a": nn.Linear(D, 1), "b": nn.Linear(D, 4)}
    return MultiTaskNetwork(nn.Linear(D, D), [layer], heads)


def flops(*widths: int) -> int:
    """Returns the operations of two products each, between D and widths."""
    return sum(2 * 2 * B * D * width for width in widths)


STEM = 2 * B * D * D


def test_operations_and_parameters_are_those_of_the_arithmetic() -> None:
    found = al.costs(a_network(), torch.randn(B, D), repeats=1)
    assert [cost.flops for cost in found.components] == [flops(2), flops(3), flops(3)]
    assert [cost.parameters for cost in found.components] == [4 * D, 6 * D, 6 * D]
    assert found.tasks["a"].flops == STEM + flops(2) + 2 * B * D
    assert found.tasks["b"].flops == STEM + flops(3, 3) + 2 * B * D * 4
    assert found.tasks["a"].parameters == D * D + D + 4 * D + D + 1
    head = 2 * B * D * 4  # the larger one
    assert found.full.flops == STEM + flops(2, 3, 3) + head
    assert found.full.parameters == sum(p.numel() for p in a_network().parameters())


def test_operations_are_counted_in_inference_mode_too() -> None:
    parts = [nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 4)) for _ in range(2)]
    network = MultiTaskNetwork(None, [al.ModularLayer(parts, al.FixedMatrix([[1, 0]]))])
    x = torch.randn(B, 1, 6, 6)
    expected = [cost.flops for cost in al.costs(network, x, repeats=1).components]
    with torch.inference_mode():
        found = al.costs(network, x, repeats=1)
    assert [cost.flops for cost in found.components] == expected
    assert expected[0] == 2 * B * (16 * 2 * 9 + 32 * 4)


def test_latencies_are_measured() -> None:
    found = al.costs(a_network(), torch.randn(B, D), repeats=3)
    every = [*found.components, *found.tasks.values(), found.full]
    assert all(cost.latency > 0 for cost in every)
    assert "Latency: median of 3 passes of a batch of 7, on a CPU with 1 thread." in str(found)


def test_a_slow_component_takes_longer() -> None:
    network = a_network()
    network.modular_layers[0].components[1] = nn.Sequential(*[nn.Linear(D, D) for _ in range(60)])
    latency = al.costs(network, torch.randn(B, D)).of_components("latency")
    assert latency[1] > 2 * latency[0]


def test_it_is_printed_as_a_table() -> None:
    lines = str(al.costs(a_network(), torch.randn(B, D), repeats=1)).splitlines()
    assert lines[0].split() == ["parameters", "FLOPs", "latency"]
    assert lines[1] == "layer 0"
    assert lines[2].split()[:4] == ["sequential", "0", "20", f"{flops(2)}"]
    assert [line.split()[0] for line in lines[5:9]] == ["tasks", "a", "b", "full"]


def test_the_network_stays_as_it_is() -> None:
    network = a_network(al.GumbelMatrix(2, 3)).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    al.costs(network, torch.randn(B, D), repeats=1)
    assert network.training and network.modular_layers[0].skips_unused
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())
    assert not network.modular_layers[0]._forward_pre_hooks


@mark.parametrize("kind", ["parameters", "flops"])
def test_costs_of_components_are_found_alone(kind: str) -> None:
    network, x = a_network(al.GumbelMatrix(2, 3, p_init=0.1)), torch.randn(B, D)
    found = al.costs(network, x, repeats=1).of_components(kind)
    assert torch.equal(component_costs(network, x, kind), found)


def test_a_layer_inside_a_component_is_counted_with_it_and_by_itself() -> None:
    inner = al.ModularLayer([wide(2), wide(3)], al.FixedMatrix([[1, 0], [1, 0]]))
    layer = al.ModularLayer([inner, wide(4)], al.FixedMatrix([[0, 1], [0, 1]]))
    network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
    found = al.costs(network, torch.randn(B, D), repeats=1)
    assert network.layer_sizes == (2, 2)
    whole = flops(2, 3) + 2 * 2 * B * D  # a weighted sum of two
    assert [cost.flops for cost in found.components] == [whole, flops(4), flops(2), flops(3)]
    assert found.tasks["a"].flops == flops(4)


def test_components_that_stand_in_two_layers_are_counted_in_each() -> None:
    parts = [wide(2), wide(3)]
    layers = [al.ModularLayer(parts, al.SharedBottom(1, 2)) for _ in range(2)]
    network = MultiTaskNetwork(None, layers, task_names=["a"])
    found = al.costs(network, torch.randn(B, D), repeats=1)
    assert [cost.flops for cost in found.components] == [flops(2), flops(3)] * 2


def test_a_layer_that_is_called_twice_costs_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = al.ModularLayer([wide(2), wide(3)], al.SharedBottom(1, 2))

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layer(self.layer(x))
            return y

    found = al.costs(Twice(), torch.randn(B, D), repeats=1)
    assert [cost.flops for cost in found.components] == [2 * flops(2), 2 * flops(3)]


def test_where_examples_decide_a_task_has_the_whole_network() -> None:
    found = al.costs(a_network(MMoE(2, 3, n_features=D)), torch.randn(B, D), repeats=1)
    assert found.tasks["a"].flops >= STEM + flops(2, 3, 3) + 2 * B * D
    assert found.tasks["a"].parameters == found.full.parameters


def test_columns_are_counted() -> None:
    first = ColumnLayer([wide(2), wide(3)], SNR(2, 2, n_streams=2))
    last = ColumnLayer([wide(4), wide(1)], SNR(2, 2), reads=[0, 1], n_inputs=2, is_last=True)
    network = MultiTaskNetwork(None, [first, last], task_names=["a", "b"])
    found = al.costs(network, torch.randn(B, D), repeats=1)
    assert [cost.flops for cost in found.components] == [flops(n) for n in (2, 3, 4, 1)]


def test_each_task_may_have_an_example_of_its_own() -> None:
    stem = al.PerTask({"a": nn.Linear(3, D), "b": nn.Linear(4, D)})
    layer = al.ModularLayer([wide(2)], al.SharedBottom(2, 1))
    network = MultiTaskNetwork(stem, [layer], task_names=["a", "b"])
    found = al.costs(network, {"a": torch.randn(B, 3), "b": torch.randn(B, 4)}, repeats=1)
    assert found.tasks["a"].flops == 2 * B * D * 3 + flops(2)
    assert found.tasks["b"].flops == 2 * B * D * 4 + flops(2)


def test_the_full_network_costs_what_a_task_does_that_uses_all_of_it() -> None:
    found = al.costs(
        a_network(al.FixedMatrix([[1, 0, 0], [1, 1, 1]])), torch.randn(B, D), repeats=1
    )
    # As it trains, the network has the operations of a weighted sum too.
    assert found.full.flops == found.tasks["b"].flops


def test_no_task_has_more_operations_than_the_full_network() -> None:
    wider = {"a": nn.Linear(D, 1), "b": nn.Linear(D, 9)}
    layer = al.ModularLayer([nn.Linear(D, D) for _ in range(2)], al.SharedBottom(2, 2))
    for allocation in (layer.allocation, MMoE(2, 2, n_features=D)):
        layer.allocation = allocation
        found = al.costs(MultiTaskNetwork(None, [layer], wider), torch.randn(B, D), repeats=1)
        assert found.full.flops == found.tasks["b"].flops > found.tasks["a"].flops


def test_an_example_that_the_network_does_not_take_is_told() -> None:
    with raises(ValueError, match=r"`example_input` should be .* Found shapes \[\[7, 6\]\]:"):
        al.costs(a_network(), torch.randn(B, D + 1))
    with raises(ValueError, match="`repeats` should be at least 1"):
        al.costs(a_network(), torch.randn(B, D), repeats=0)
    with raises(ValueError, match="`kind` should be one of 'parameters', 'flops', 'latency'"):
        al.costs(a_network(), torch.randn(B, D), repeats=1).of_components("watts")
