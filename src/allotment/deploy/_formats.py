"""The two kinds of file: a program of torch.export, and a model of ONNX."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._checks import first_line
from ..tasks import TablePreprocessing
from ._encoding import is_text
from ._examples import Rows

_ML = "ai.onnx.ml"  # the operators of ONNX for other than numbers
Run = Callable[[Rows], list[Tensor]]  # from rows to the outputs of tasks


@dataclass(frozen=True)
class Traced:
    """The operations of some tasks of a network, before they are a file.

    Attributes:
        program: For any number of rows.
        tasks: One output each, in this order.
        preprocessing: Of the table, if the network learnt from one.
        input_names: One for each input.
    """

    program: torch.export.ExportedProgram
    tasks: list[str]
    preprocessing: TablePreprocessing | None
    input_names: list[str]

    def told(self) -> str:
        """Returns what a file tells of itself, as JSON."""
        if self.preprocessing is None:
            return json.dumps({"tasks": self.tasks})
        own = self.preprocessing.to_dict()
        targets = [target for target in own["targets"] if target["name"] in self.tasks]
        return json.dumps({"tasks": self.tasks, "inputs": own["inputs"], "targets": targets})


def _as_pt2(traced: Traced, path: Path) -> Run:
    torch.export.save(traced.program, path, extra_files={"allotment.json": traced.told()})
    loaded = torch.export.load(path).module()
    return lambda rows: list(loaded(*rows.inputs).values())


def _as_onnx(traced: Traced, path: Path) -> Run:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  (torch asks for it when it is needed)
    except ImportError as error:
        raise ValueError(
            "For ONNX files, onnx, onnxscript and onnxruntime should be installed: "
            f"`pip install 'allotment[onnx]'`. Found no {error.name}."
        ) from error
    model = _converted(traced)
    if traced.preprocessing is not None:
        _take_texts(onnx, model, traced.preprocessing)
    _name_rows(model.graph)
    onnx.helper.set_model_props(model, {"allotment": traced.told()})
    onnx.checker.check_model(model)
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda rows: [torch.from_numpy(y) for y in session.run(traced.tasks, rows.feed)]


def _converted(traced: Traced) -> Any:
    """Returns a model of ONNX; raises where ONNX lacks an operation."""
    names: dict[str, Any] = {"input_names": traced.input_names, "output_names": traced.tasks}
    try:
        made = torch.onnx.export(traced.program, **names, verbose=False)
    except torch.onnx.OnnxExporterError:
        try:  # what it has in part, such as attention of 4-D tensors alone, in smaller operations
            simpler = traced.program.run_decompositions()
            made = torch.onnx.export(simpler, **names, verbose=False)
        except Exception as error:  # whatever a conversion raises
            raise ValueError(
                "`network` should be made of operations that ONNX has. Found: "
                f"{_cause(error)}. A file that ends in .pt2 takes any."
            ) from error
    assert made is not None
    return made.model_proto


def _cause(error: BaseException) -> str:
    """Returns what the last in a chain of causes says in its first line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error).rstrip(".")


def _name_rows(graph: Any) -> None:
    """Calls the number of rows N, which torch gives a name of its own such as s21."""
    name = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = dim.dim_param.replace(name, "N")


def _take_texts(onnx: Any, model: Any, preprocessing: TablePreprocessing) -> None:
    """Lets a model take texts, where a column holds them, in place of their places."""
    graph = model.graph
    by_name = {given.name: given for given in graph.input}
    texts = {column.name: column for column in preprocessing.inputs if is_text(column)}
    places = {name: f"{name} (place)" for name in texts}
    for node in graph.node:
        node.input[:] = [places.get(name, name) for name in node.input]
    for name, column in texts.items():
        categories = list(column.categories)  # type: ignore[attr-defined]
        encoder = onnx.helper.make_node(
            "LabelEncoder",
            [name],
            [places[name]],
            domain=_ML,
            keys_strings=categories,
            values_int64s=list(range(len(categories))),
            default_int64=len(categories),
        )
        graph.node.insert(0, encoder)
        by_name[name].type.tensor_type.elem_type = onnx.TensorProto.STRING
    if texts:
        _allow(onnx, model, _ML)


def _allow(onnx: Any, model: Any, domain: str) -> None:
    """Lets a model have operators of a domain."""
    if not any(each.domain == domain for each in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(domain, 2))


FORMATS = {".onnx": _as_onnx, ".pt2": _as_pt2}
