"""Docstrings as the site shows them: examples become blocks of code."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.MULTILINE)


def with_blocks(text: str) -> str:
    """Returns a docstring whose examples, up to the next empty line, are fenced."""
    return _EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", text).replace("<BLANKLINE>", "")


class FencedExamples(griffe.Extension):
    """Fences the examples of every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **others: Any) -> None:
        """Changes the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = with_blocks(obj.docstring.value)
