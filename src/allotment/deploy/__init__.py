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

from ._card import Card as Card
from ._card import card_of as card_of
from ._examples import Examples as Examples
from ._examples import examples_of as examples_of
from ._export import ExportedFile as ExportedFile
from ._export import export as export
from ._prediction import predictions as predictions
from ._prediction import read_inputs as read_inputs
from ._prediction import write_predictions as write_predictions
