"""Records for people: figures, tables with the paper's value beside ours, pages, a summary text.

The report reads records and is told by a ``ReportSpec`` which rows a table has and what the paper
printed in them. A row without runs stays, as "not run"; a run that no row declares gets one too.

Pictures of an allocation (`allocation_map`, `similarity_map`, `task_tree`, `mds_map`,
`probabilities_over_time`) are drawn from plain arrays and names, of a run or of a network of one's
own, and are matplotlib figures.

>>> spec = ReportSpec(
...     experiment="toy", title="A toy", place="Table I", measure="Test accuracy", unit="%",
...     rows=(ReportRow(method="shared_bottom", label="Shared bottom", paper="95.7 ± 0.5"),),
... )
>>> print(markdown_table(result_table([], spec)))
| Method | Paper | Ours: test accuracy, % | 90 % interval of the mean | Gates open | Failed |
| --- | --- | --- | --- | --- | --- |
| Shared bottom | 95.7 ± 0.5 | not run | – | – | – |
>>> summary_text([], spec)
['Not run yet.']
"""

from ._benchmarks import floor_lines as floor_lines
from ._benchmarks import large_table as large_table
from ._benchmarks import scale_blocks as scale_blocks
from ._benchmarks import speed_summary as speed_summary
from ._benchmarks import speed_table as speed_table
from ._benchmarks import timing_table as timing_table
from ._comparison import comparison_table as comparison_table
from ._comparison import markdown_comparison as markdown_comparison
from ._comparison import ranking_summary as ranking_summary
from ._comparison import ranking_table as ranking_table
from ._curves import probabilities_over_time as probabilities_over_time
from ._deployment import budget_table as budget_table
from ._deployment import deployment_blocks as deployment_blocks
from ._deployment import growth_table as growth_table
from ._deployment import trunk_table as trunk_table
from ._drawing import NamedFigure as NamedFigure
from ._drawing import png as png
from ._drawing import svg as svg
from ._drawing import write_drawing as write_drawing
from ._figures import embeddings_views as embeddings_views
from ._figures import write_figures as write_figures
from ._figures import write_views as write_views
from ._gains import GainPanel as GainPanel
from ._gains import advantage_text as advantage_text
from ._gains import gain_maps as gain_maps
from ._likeness import mds_map as mds_map
from ._likeness import task_tree as task_tree
from ._maps import allocation_map as allocation_map
from ._maps import similarity_map as similarity_map
from ._pages import brief_table as brief_table
from ._pages import html_page as html_page
from ._pages import markdown_page as markdown_page
from ._pages import markdown_part as markdown_part
from ._pages import markdown_results as markdown_results
from ._pages import with_block as with_block
from ._profiles import profile_lines as profile_lines
from ._readme import Headline as Headline
from ._readme import readme_results as readme_results
from ._results import result_table as result_table
from ._section import section as section
from ._spec import ExtraTable as ExtraTable
from ._spec import MakeSection as MakeSection
from ._spec import OwnSection as OwnSection
from ._spec import ReportRow as ReportRow
from ._spec import ReportSpec as ReportSpec
from ._summary import summary_text as summary_text
from ._table import NOTHING as NOTHING
from ._table import Column as Column
from ._table import Place as Place
from ._table import Table as Table
from ._table import make_table as make_table
from ._table import markdown_table as markdown_table
from ._tradeoff import tradeoff_figure as tradeoff_figure
from ._tradeoff import tradeoff_table as tradeoff_table
