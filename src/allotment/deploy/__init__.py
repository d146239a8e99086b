"""Trained networks put to use: exported, asked for predictions, described on a card.

>>> import tempfile
>>> from pathlib import Path
>>> import torch
>>> from allotment import GumbelMatrix, ModularLayer, MultiTaskNetwork
>>> from allotment.deploy import export
>>> layer = ModularLayer([torch.nn.Linear(8, 4) for _ in range(3)], GumbelMatrix(2, 3))
>>> network = MultiTaskNetwork(None, [layer], task_names=["a", "b"])
>>> path = Path(tempfile.mkdtemp()) / "both.pt2"
>>> made = export(network, ["a", "b"], path, torch.randn(10, 8))
>>> made.tasks, made.inputs, made.difference < 1e-5
(('a', 'b'), {'input': 'float32 [N, 8]'}, True)
"""

from ._export import ExportedFile as ExportedFile
from ._export import export as export
