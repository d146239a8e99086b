"""The tables an experiment gets, in their order."""

from ._differences import difference_table
from ._relatedness import relatedness_tables
from ._section import Section
from ._tables import Table, section_table
from ._task_tables import by_family, by_group, by_task
from ._usage import usage_tables


def section_tables(part: Section) -> list[Table]:
    """Returns the results, in all, by seed and by group; then embeddings, components, tasks."""
    tables = [
        section_table(part),
        difference_table(part),
        by_family(part),
        by_group(part),
        *relatedness_tables(part),
        *usage_tables(part),
        by_task(part),
    ]
    return [table for table in tables if table is not None]
