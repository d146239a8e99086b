"""Records for people: figures, tables with the paper's value beside ours, one page, plain words.

The report reads records and is told by an ``Expectation`` which rows a table has and what the paper
printed in them. A row without runs stays, as "not run"; a run nobody expected gets a row too.

Pictures of an allocation (`allocation_map`, `similarity_map`, `task_tree`, `plane_map`,
`probabilities_over_time`) are drawn from plain arrays and names, of a run or of a network of one's
own, and are matplotlib figures.

>>> expectation = Expectation(
...     experiment="toy", title="A toy", place="Table I", measure="Test accuracy", unit="%",
...     rows=(ExpectedRow(method="shared_bottom", label="Shared bottom", paper="95.7 ± 0.5"),),
... )
>>> print(markdown_table(result_table([], expectation)))
| Method | Paper | Ours: test accuracy, % | 90 % interval of the mean | Gates open | Failed |
| --- | --- | --- | --- | --- | --- |
| Shared bottom | 95.7 ± 0.5 | not run | – | – | – |
>>> words([], expectation)
['Not run yet.']
"""

from ._drawing import png as png
from ._drawing import svg as svg
from ._embeddings import EmbeddingsView as EmbeddingsView
from ._embeddings import embeddings_views as embeddings_views
from ._embeddings import write_views as write_views
from ._error_curves import error_figure as error_figure
from ._expectation import Expectation as Expectation
from ._expectation import ExpectedRow as ExpectedRow
from ._figures import write_figures as write_figures
from ._loss_bands import loss_bands as loss_bands
from ._maps import allocation_map as allocation_map
from ._maps import similarity_map as similarity_map
from ._markdown import markdown_results as markdown_results
from ._markdown import markdown_table as markdown_table
from ._page import html_page as html_page
from ._plane_map import plane_map as plane_map
from ._probabilities import probabilities_over_time as probabilities_over_time
from ._readme import readme_results as readme_results
from ._readme import with_block as with_block
from ._speed import Floor as Floor
from ._speed import SpeedRecord as SpeedRecord
from ._speed import Timing as Timing
from ._speed import floor_lines as floor_lines
from ._speed import read_speed as read_speed
from ._speed import speed_summary as speed_summary
from ._speed import speed_table as speed_table
from ._speed import timing_table as timing_table
from ._tables import Table as Table
from ._tables import brief_table as brief_table
from ._tables import result_table as result_table
from ._tree import task_tree as task_tree
from ._words import words as words
