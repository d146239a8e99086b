"""Tasks: what is to be learnt, each with its examples.

>>> import torch
>>> from allotment.tasks import Task
>>> task = Task("parity", train=(torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])))
>>> task.n_outputs, task.is_classification
(2, True)

`tasks_from_table` fits what turns the columns of a table into inputs. Written by hand it is:

>>> from allotment.tasks import CategoryColumn, NumberColumn, TablePreprocessing, TargetColumn
>>> age = NumberColumn("age", mean=40.0, std=10.0, has_unknown=True)
>>> town = CategoryColumn("town", ("Bath", "York"), has_unknown=False)
>>> columns = TablePreprocessing((age, town), (TargetColumn("rent", mean=900.0, std=100.0),))
>>> columns.transform({"age": [50.0, None], "town": ["York", "Bath"]})
tensor([[1., 0., 0., 1.],
        [0., 1., 1., 0.]])
"""

from ._labels import MultiLabel as MultiLabel
from ._labels import TaskLabels as TaskLabels
from ._labels import n_examples as n_examples
from ._preprocessing import CategoryColumn as CategoryColumn
from ._preprocessing import InputColumn as InputColumn
from ._preprocessing import NumberColumn as NumberColumn
from ._preprocessing import TablePreprocessing as TablePreprocessing
from ._preprocessing import TargetColumn as TargetColumn
from ._split import UNKNOWN as UNKNOWN
from ._split import GeneratedDataset as GeneratedDataset
from ._split import Split as Split
from ._split import TargetSpec as TargetSpec
from ._split import preprocess as preprocess
from ._split import some_targets as some_targets
from ._split import target_spec as target_spec
from ._stream import IndexedExamples as IndexedExamples
from ._stream import Stream as Stream
from ._stream import as_dicts as as_dicts
from ._stream import as_inputs as as_inputs
from ._stream import as_source as as_source
from ._stream import as_targets as as_targets
from ._stream import on_device as on_device
from ._table import TableTasks as TableTasks
from ._table import tasks_from_table as tasks_from_table
from ._task import HeldOut as HeldOut
from ._task import Loss as Loss
from ._task import Metric as Metric
from ._task import Task as Task
from ._task import check_names as check_names
from ._task import mean_squared_error as mean_squared_error
from ._task import two_examples as two_examples
