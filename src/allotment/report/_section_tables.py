"""The tables an experiment gets, in their order."""

from ._differences import difference_table
from ._relatedness import relatedness_tables
from ._section import Section
from ._tables import Table, section_table
from ._task_tables import task_tables
from ._usage import usage_tables


def section_tables(part: Section) -> list[Table]:
    """Returns the results, methods by seed, tasks one by one, embeddings, and components."""
    differences = difference_table(part)
    return [
        section_table(part),
        *([differences] if differences else []),
        *task_tables(part),
        *relatedness_tables(part),
        *usage_tables(part),
    ]
