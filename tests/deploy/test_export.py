"""Exported networks give what the network gives, for any number of rows, from columns on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytest import LogCaptureFixture, MonkeyPatch, fixture, mark, raises
from torch import Tensor, nn

import allotment as al
from allotment.allocation import MMoE
from allotment.deploy import export
from allotment.tasks import TablePreprocessing

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed here")
onnxruntime: Any = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed here")


def network(n_features: int = 6, **heads: int) -> al.MultiTaskNetwork:
    """Returns two layers with learnt gates of which tasks have others open."""
    outputs = heads or {"a": 3, "b": 1}

    def layer(n: int) -> al.ModularLayer:
        gates = al.GumbelMatrix(len(outputs), 3)
        gates.logits.data.normal_()
        return al.ModularLayer([nn.Sequential(nn.Linear(n, 8), nn.ReLU()) for _ in "abc"], gates)

    own = {name: nn.Linear(8, n) for name, n in outputs.items()}
    return al.MultiTaskNetwork(None, [layer(n_features), layer(8)], own).eval()


@fixture(scope="module")
def table() -> al.tasks.TableTasks:
    """Returns tasks of a table with all kinds of columns, and with values that are not known."""
    rng = np.random.default_rng(0)
    n = 200
    columns: dict[str, Any] = {
        "year": np.where(rng.random(n) < 0.2, -1.0, rng.integers(1900, 2020, n)),
        "town (UK)": rng.choice(["York", "Bath", "Hull", "?"], n),
        "code": rng.choice([7, 11, 40], n),
        "rents": rng.random(n) < 0.5,
        "home": rng.choice(["owns", "rents"], n),
        "income": rng.normal(30_000, 5_000, n),
    }
    return al.tasks_from_table(
        columns, ["home", "income"], unknown={"year": -1, "town (UK)": "?"}, categorical=["code"]
    )


ROWS: dict[str, Any] = {
    "year": [1950.0, -1.0, np.nan],
    "town (UK)": ["Bath", "Oslo", "?"],
    "code": [11, 12, 7],
    "rents": [True, False, True],
}


def expected(net: nn.Module, preprocessing: TablePreprocessing, task: str) -> Any:
    y = al.predict(net, preprocessing.transform(ROWS), task)
    target = preprocessing.target(task)
    return y.numpy() if target.classes else target.decoded(y)


def test_an_onnx_file_takes_the_rows_of_a_table(table: Any, tmp_path: Path) -> None:
    net = network(table.n_features, home=2, income=1)
    made = export(
        net,
        ["home", "income"],
        tmp_path / "two.onnx",
        table[0].test.examples()[0],
        preprocessing=table.preprocessing,
    )
    assert made.inputs["town (UK)"] == "text [N]" and made.inputs["code"] == "float64 [N]"
    session = onnxruntime.InferenceSession(made.path)
    feed = {n: np.array(v, object if n == "town (UK)" else np.float64) for n, v in ROWS.items()}
    home, income = session.run(["home", "income"], feed)
    np.testing.assert_allclose(home, expected(net, table.preprocessing, "home"), atol=1e-5)
    np.testing.assert_allclose(income, expected(net, table.preprocessing, "income"), rtol=1e-6)
    told = json.loads(session.get_modelmeta().custom_metadata_map["allotment"])
    assert [t["classes"] for t in told["targets"]] == [["owns", "rents"], None]
    assert [path.name for path in tmp_path.iterdir()] == ["two.onnx"]


def test_tasks_of_an_earlier_and_a_later_table_are_exported_together(
    table: Any, tmp_path: Path
) -> None:
    later = al.tasks_from_table(
        ROWS | {"pays": [100.0, 400.0, 700.0]},
        ["pays"],
        validation=None,
        test=None,
        preprocessing=table.preprocessing,
    )
    net = network(table.n_features, home=2, income=1)
    al.add_task(net, "pays", nn.Linear(8, 1))
    given = {"examples": later[0].train.examples()[0], "preprocessing": later.preprocessing}
    made = export(net, ["pays", "home", "income"], tmp_path / "all.pt2", **given)
    assert made.tasks == ("pays", "home", "income")
    with raises(ValueError, match=r"a target for each of `tasks`\. Found no 'pays' among \['home'"):
        export(
            net,
            ["home", "pays"],
            tmp_path / "x.pt2",
            **given | {"preprocessing": table.preprocessing},
        )


def test_a_pt2_file_takes_places_of_texts(table: Any, tmp_path: Path) -> None:
    net = network(table.n_features, home=2, income=1)
    made = export(
        net,
        "income",
        tmp_path / "income.pt2",
        table[0].test.examples()[0],
        preprocessing=table.preprocessing,
    )
    assert made.difference < 1e-2  # of about 30,000
    assert made.inputs["town (UK)"] == "place among its categories, int64 [N]"
    files = {"allotment.json": ""}
    loaded = torch.export.load(made.path, extra_files=files).module()
    towns = next(c for c in json.loads(files["allotment.json"])["inputs"] if "town" in c["name"])
    places = [
        towns["categories"].index(t) if t in towns["categories"] else -1 for t in ROWS["town (UK)"]
    ]
    columns = [torch.tensor(places if "town" in n else v).double() for n, v in ROWS.items()]
    columns[1] = columns[1].long()
    y = loaded(*columns)["income"].numpy()
    np.testing.assert_allclose(y, expected(net, table.preprocessing, "income"), rtol=1e-6)


@mark.parametrize("suffix", ["onnx", "pt2"])
def test_stored_bytes_are_rescaled_by_the_file(suffix: str, tmp_path: Path) -> None:
    net = al.MultiTaskNetwork(nn.Flatten(), list(network().layers), task_names=["a", "b"])
    images = torch.randint(256, (9, 1, 2, 3), dtype=torch.uint8)
    made = export(net, "b", tmp_path / f"b.{suffix}", images, scale=1 / 255)
    assert made.inputs == {"input": "uint8 [N, 1, 2, 3]"} and made.n_real == 9
    if suffix == "onnx":
        (y,) = onnxruntime.InferenceSession(made.path).run(None, {"input": images[:1].numpy()})
        wanted = net.eval()(images[:1] / 255, "b").detach().numpy()
        np.testing.assert_allclose(y, wanted, atol=1e-6)


class TwoInputs(nn.Module):
    """A body that takes token ids and a mask by name."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.layer = network().layers[0]

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        y: Tensor = self.layer((self.embed(ids) * mask.unsqueeze(-1)).mean(1))
        return y


def test_inputs_by_name(tmp_path: Path) -> None:
    net = al.MultiTaskModel(TwoInputs(), {"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})
    batch = {"ids": torch.randint(20, (5, 7)), "mask": torch.ones(5, 7)}
    made = export(net, ["a", "b"], tmp_path / "x.onnx", batch)
    found = onnxruntime.InferenceSession(made.path).run(
        ["b"], {n: x[:2].numpy() for n, x in batch.items()}
    )
    two = {name: x[:2] for name, x in batch.items()}
    np.testing.assert_allclose(found[0], net.eval()(two, "b").detach(), atol=1e-6)


class Attention(nn.Linear):
    """Attends in three dimensions, where ONNX has an operation for four."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = super().forward(x).chunk(3, dim=-1)
        y: Tensor = nn.functional.scaled_dot_product_attention(q, k, v)
        return y


class Bessel(nn.Linear):
    """Has an operation that ONNX lacks."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.special.bessel_j0(super().forward(x))
        return y


def of_parts(part: type[nn.Linear], n_outputs: int) -> al.MultiTaskNetwork:
    layer = al.ModularLayer([part(6, n_outputs) for _ in "ab"], al.SharedBottom(1, 2))
    return al.MultiTaskNetwork(None, [layer])


def test_attention_of_three_dimensions_becomes_simpler_operations(tmp_path: Path) -> None:
    made = export(of_parts(Attention, 12), "0", tmp_path / "x.onnx", torch.randn(5, 7, 6))
    assert made.inputs == {"input": "float32 [N, 7, 6]"} and made.difference < 1e-5


def test_an_operation_that_onnx_lacks_is_told_in_a_sentence(
    tmp_path: Path, caplog: LogCaptureFixture
) -> None:
    net, x = of_parts(Bessel, 3), torch.randn(5, 6)
    sentence = r"operations that ONNX has\. Found: .*bessel_j0.*\. A file that ends in \.pt2 takes"
    with caplog.at_level("ERROR"), raises(ValueError, match=sentence) as refusal:
        export(net, "0", tmp_path / "x.onnx", x)
    assert "\n" not in str(refusal.value) and refusal.value.__cause__ is not None
    assert not list(tmp_path.iterdir())
    assert export(net, "0", tmp_path / "x.pt2", x).n_real == 5


def test_what_tasks_share_is_in_the_file_once(tmp_path: Path) -> None:
    net = network()
    gates = net.modular_layers[0].allocation
    gates.logits.data[1] = gates.logits.data[0]  # type: ignore[operator, index]
    made = export(net, ["a", "b"], tmp_path / "x.onnx", torch.randn(5, 6))
    nodes = onnx.load(made.path).graph.node
    by_task = net.modular_layers[1].allocation.matrix()
    n_products = sum(node.op_type in ("Gemm", "MatMul") for node in nodes)
    # The first layer is one wide product; of the second, tasks have a component in common.
    assert n_products == 1 + int(by_task.amax(0).sum()) + len(net.task_names)


GATES = al.GumbelMatrix(1, 2, evaluation="sampled")


def drawn() -> nn.Module:
    return al.MultiTaskNetwork(None, [al.ModularLayer([nn.Linear(6, 2) for _ in "ab"], GATES)])


@mark.parametrize(
    ("arguments", "sentence"),
    [
        ((network(), "c", "x.onnx", torch.randn(5, 6)), r"one of \['a', 'b'\]. Found 'c'"),
        (
            (network(), "a", "x.tflite", torch.randn(5, 6)),
            r"end in .onnx or .pt2. Found `x.tflite`",
        ),
        (
            (network(), "a", "x.onnx", torch.randn(5, 7)),
            r"network takes. Found shapes \[\[5, 7\]\]: ",
        ),
        (
            (network(), "a", "x.onnx", torch.randn(1, 6)),
            r"two examples at least. Found shape \[1, 6",
        ),
        (
            (network(), "a", "x.onnx", {"x": torch.randn(5, 6), "mask": torch.ones(6, 6)}),
            r"row for each example in all inputs.*Found shapes \[\[5, 6\], \[6, 6\]\]\.$",
        ),
        ((network(), "a", "x.onnx", "rows"), r"two examples at least. Found a str"),
        ((drawn(), "0", "x.onnx", torch.randn(5, 6)), r"GumbelMatrix, which is drawn anew"),
        (
            (nn.Linear(6, 2), "0", "x.onnx", torch.randn(5, 6)),
            r"at least one ModularLayer. Found none",
        ),
    ],
)
def test_bad_input_is_told_in_a_sentence(
    arguments: tuple[Any, ...], sentence: str, tmp_path: Path, caplog: LogCaptureFixture
) -> None:
    net, task, name, x = arguments
    with caplog.at_level("ERROR"), raises(ValueError, match=sentence) as refusal:
        export(net, task, tmp_path / name, x)
    assert "\n" not in str(refusal.value)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert not list(tmp_path.iterdir())


class Counting(nn.Linear):
    """Takes batches of two examples alone, which torch.export finds out."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.view(2, -1))


def test_a_network_that_cannot_be_followed_is_told_in_a_sentence(
    tmp_path: Path, caplog: LogCaptureFixture
) -> None:
    layer = al.ModularLayer([Counting(6, 2)], al.SharedBottom(1, 1))
    net = al.MultiTaskNetwork(None, [layer])
    with caplog.at_level("ERROR"), raises(ValueError, match=r"torch.export can follow") as refusal:
        export(net, "0", tmp_path / "x.onnx", torch.randn(2, 6))
    assert "\n" not in str(refusal.value)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_file_may_go_into_a_new_folder_and_calls_its_rows_n(tmp_path: Path) -> None:
    made = export(network(), ["a", "b"], tmp_path / "new" / "x.onnx", torch.randn(5, 6))
    session = onnxruntime.InferenceSession(made.path)
    assert [value.shape for value in session.get_inputs()] == [["N", 6]]
    assert {value.shape[0] for value in session.get_outputs()} == {"N"}


def test_a_file_that_gives_something_else_is_not_left(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    real = onnxruntime.InferenceSession.run
    monkeypatch.setattr(
        onnxruntime.InferenceSession, "run", lambda *a: [y + 0.01 for y in real(*a)]
    )
    with raises(ValueError, match=r"up to rounding. Found a difference of 0.01 in .* 'a'"):
        export(network(), "a", tmp_path / "x.onnx", torch.randn(5, 6))
    assert not list(tmp_path.iterdir())


def test_without_onnx_it_says_what_to_install(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with raises(ValueError, match=r"pip install 'allotment\[onnx\]'`. Found no onnxruntime"):
        export(network(), "a", tmp_path / "x.onnx", torch.randn(5, 6))


def test_networks_that_look_at_examples_are_exported_whole(tmp_path: Path) -> None:
    layer = al.ModularLayer([nn.Linear(6, 4) for _ in "abc"], MMoE(2, 3, n_features=6))
    nn.init.normal_(next(layer.allocation.parameters()))
    net = al.MultiTaskNetwork(
        None, [layer, nn.ReLU()], {"a": nn.Linear(4, 2), "b": nn.Linear(4, 1)}
    )
    made = export(net, ["a", "b"], tmp_path / "x.onnx", torch.randn(5, 6))
    assert made.difference < 1e-5
    assert net.modular_layers[0].skips_unused  # the network stays as it is
