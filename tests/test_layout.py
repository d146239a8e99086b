"""What the repository's shape promises: imports, docstrings."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from pytest import mark

import allotment as al
from allotment._schema import Evaluation, LogEntry, RunHeader, TrainingState
from allotment.deploy import Card, ExportedFile
from allotment.modules import Cost, Costs, Pruned
from allotment.tasks import TablePreprocessing, TableTasks
from allotment.training import Advice, Baselines
from allotment.training._result import Drift
from tools.contributing import RINGS
from tools.imports import Module, Package

REPOSITORY = Path(__file__).parents[1]
ROOT = REPOSITORY / "src" / "allotment"

PUBLIC_VALUES: list[type] = [
    *(TableTasks, TablePreprocessing, ExportedFile, Card),
    *(al.Task, al.Run, al.FitResult, al.Progress, al.Outcome, al.ExecutionPlan),
    *(Advice, Baselines),
    *(al.TrainingSettings, al.Optimization, al.Penalties, al.Augmentation, al.Execution),
    *(Evaluation, LogEntry, RunHeader, TrainingState),
    *(Cost, Costs, Pruned, Drift),
]

_CORE = {"_ops", "allocation", "modules"}

MAY_IMPORT: dict[str, set[str]] = {
    "_ops": set(),
    "allocation": {"_ops"},
    "modules": {"_ops", "allocation"},  # sizes and noise come in as arguments
    "tasks": set(),
    "settings": set(),
    "_engine": {*_CORE, "tasks", "settings"},
    "training": {"allocation", "modules", "tasks", "settings", "_engine"},
    "sklearn": {"allocation", "modules", "tasks", "settings", "training"},
    "records": {"settings"},  # the values it writes are plain dataclasses in a top-level file
    # Trains, and records what it trained; no folder imports it.
    "lightning": {"modules", "tasks", "settings", "_engine", "training", "records"},
    "analysis": {"records"},
    "report": {"records", "analysis"},
    "data": set(),
    "experiments": {
        *("allocation", "modules", "tasks", "settings", "training"),
        *("records", "analysis", "report"),
    },
    "paper": {
        *_CORE,
        *("tasks", "settings", "data", "records", "analysis", "report", "experiments"),
    },
    "deploy": {"modules", "tasks", "training", "records", "report"},
    "cli": {
        *("modules", "tasks", "settings", "training", "data", "records", "analysis", "report"),
        *("experiments", "paper", "deploy"),
    },
}

# What `training` passes on of the private folders.
ENGINE_NAMES = {"ExecutionPlan", "Run", "run_header"}

# Everything the package depends on beside torch and NumPy; torch itself lives without them too.
OTHERS = (
    *("rich", "safetensors", "pooch", "sklearn", "scipy", "matplotlib", "jinja2", "PIL"),
    *("requests", "lightning", "ray", "onnx", "onnxscript", "onnxruntime", "torchmetrics"),
    *("pandas", "polars", "optuna", "torchjd"),
)

TINY_FIT = """
import sys

OTHERS = set(sys.argv[1:])

class Without:  # finds nothing of the other packages, as if they were not installed
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] in OTHERS
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]

import torch
from torch import nn
import allotment as al

layer = al.ModularLayer([nn.Linear(4, 1), nn.Linear(4, 1)], al.GumbelMatrix(2, 2))
network = al.MultiTaskNetwork(None, [layer], task_names=["a", "b"])
x, y = torch.randn(9, 4), torch.randn(9)
tasks = [al.Task(name, (x, y), validation=(x, y), test=(x, y)) for name in "ab"]
result = al.fit(network, tasks, al.TrainingSettings(rounds=20))
print(result)
assert result.embeddings.shape == (2, 2)
assert len(al.extract(network, "a")(x)) == 9
assert not OTHERS & set(sys.modules), OTHERS & set(sys.modules)
"""


def imported_folders(module: Module) -> set[str]:
    """Returns the first name below the package of all that a module imports from it.

    Private top-level files and names such as ``__version__`` are open to all and left out. The bare
    package, which holds everything, is returned under its own name.
    """
    firsts = {each.first for each in module.imports}
    return {first for first in firsts if first in MAY_IMPORT or not first.startswith("_")}


def strangers(module: Module) -> set[str]:
    """Returns what a module imports and should not."""
    if module.folder:
        return imported_folders(module) - MAY_IMPORT[module.folder] - {module.folder}
    is_open_to_all = re.fullmatch(r"_[^_].*\.py", module.path.name)
    return imported_folders(module) if is_open_to_all else set()


def assert_imports_follow_the_rings(root: Path) -> None:
    """Asserts that every file under ``root`` imports only what ``MAY_IMPORT`` grants its folder.

    A private file at the top is open to all folders and imports none.
    """
    modules = Package(root).modules.values()
    for folder in {module.folder for module in modules if module.folder}:
        assert folder in MAY_IMPORT, f"`{folder}` should have a line in MAY_IMPORT."
    found = [f"{m.path} should not import {sorted(strangers(m))}." for m in modules if strangers(m)]
    assert not found, "\n".join(found)


def assert_private_folders_stay_private(root: Path) -> None:
    """Asserts that no public folder exports what is defined in ``_ops`` or ``_engine``."""
    package = Package(root)
    for module in package.modules.values():
        if not module.is_folder or module.folder.startswith("_"):
            continue
        for each in module.imports:
            source = package.defined_in(each.source, each.name).split(".")
            is_private = len(source) > 1 and source[1] in ("_ops", "_engine")
            if each.is_passed_on and is_private and each.name not in ENGINE_NAMES:
                raise AssertionError(f"{module.path} should not export `{each.name}`.")


def assert_folders_say_what_they_are_for(root: Path) -> None:
    """Asserts that every folder of Python files has an ``__init__.py`` with a docstring."""
    for folder in {file.parent for file in root.rglob("*.py")}:
        page = folder / "__init__.py"
        assert page.exists(), f"{folder} should have an __init__.py."
        assert ast.get_docstring(ast.parse(page.read_text())), f"{page} should have a docstring."


def test_imports_follow_the_rings() -> None:
    assert_imports_follow_the_rings(ROOT)


def test_every_folder_lies_in_one_ring_and_imports_no_ring_around_it() -> None:
    rings = {folder: place for place, ring in enumerate(RINGS.values()) for folder in ring}
    assert sorted(rings) == sorted(MAY_IMPORT)
    for folder, others in MAY_IMPORT.items():
        assert all(rings[other] <= rings[folder] for other in others), folder


def test_private_folders_are_exported_nowhere() -> None:
    assert_private_folders_stay_private(ROOT)


def test_core_and_training_need_torch_and_numpy_alone() -> None:
    command = [sys.executable, "-c", TINY_FIT, *OTHERS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_folder_says_what_it_is_for() -> None:
    assert_folders_say_what_they_are_for(ROOT)


@mark.parametrize("value", PUBLIC_VALUES, ids=lambda value: value.__name__)
def test_every_field_is_explained_where_help_shows_it(value: type) -> None:
    _, _, attributes = (value.__doc__ or "").partition("Attributes:\n")
    explained = re.findall(r"^ {8}(\w+): \S", attributes, re.MULTILINE)
    assert explained == [field.name for field in fields(value)]
