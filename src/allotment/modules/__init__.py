"""Networks in which each task uses some of the components, for any training loop.

>>> import torch
>>> from torch import nn
>>> from allotment.allocation import GumbelMatrix
>>> from allotment.modules import ModularLayer, MultiTaskNetwork
>>> _ = torch.manual_seed(0)
>>> layer = ModularLayer([nn.Linear(8, 4), nn.Linear(8, 4)], GumbelMatrix(2, 2, p_init=0.9))
>>> network = MultiTaskNetwork(None, [layer], {"a": nn.Linear(4, 1), "b": nn.Linear(4, 3)})
>>> network(torch.randn(5, 8), "b").shape
torch.Size([5, 3])
>>> network.matrix()
tensor([[1., 1.],
        [1., 1.]])
"""

from ._architecture import difference as difference
from ._architecture import group_by_architecture as group_by_architecture
from ._columns import ColumnLayer as ColumnLayer
from ._context import Noise as Noise
from ._context import Pass as Pass
from ._context import for_task as for_task
from ._costs import COSTS as COSTS
from ._costs import Cost as Cost
from ._costs import Costs as Costs
from ._costs import component_costs as component_costs
from ._costs import cost_of as cost_of
from ._costs import costs as costs
from ._counting import Operations as Operations
from ._extraction import check_same_in_evaluation as check_same_in_evaluation
from ._extraction import extract as extract
from ._extraction import tasks_have_parts as tasks_have_parts
from ._extraction import with_every_component as with_every_component
from ._growth import Pruned as Pruned
from ._growth import add_task as add_task
from ._growth import drop_task as drop_task
from ._growth import keep_tasks as keep_tasks
from ._growth import own_modules as own_modules
from ._growth import prune as prune
from ._heads import HeadTable as HeadTable
from ._heads import are_linear as are_linear
from ._layer import ModularLayer as ModularLayer
from ._modularize import modularize as modularize
from ._network import MultiTaskModel as MultiTaskModel
from ._network import MultiTaskNetwork as MultiTaskNetwork
from ._network import TaskNetwork as TaskNetwork
from ._network import as_network as as_network
from ._network import task_embeddings as task_embeddings
from ._penalties import budget_penalty as budget_penalty
from ._penalties import connection_penalty as connection_penalty
from ._penalties import disconnect_penalty as disconnect_penalty
from ._penalties import entropy_penalty as entropy_penalty
from ._per_task import PerTask as PerTask
from ._stacking import split_components as split_components
from ._task_mask import TaskMask as TaskMask
