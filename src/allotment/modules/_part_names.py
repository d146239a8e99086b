"""Which parts of a model are meant by names and patterns."""

import re
from collections.abc import Mapping

from torch import nn

from .._checks import check_count, described, nearest


def named_parts(parts: Mapping[str, int], body: nn.Module) -> dict[str, int]:
    """Returns the number of components of each part, patterns replaced by what they name."""
    if not isinstance(parts, Mapping):
        raise TypeError(
            "`parts` should be a dict with the number of components by the name of a part. "
            f"Found {described(parts)}."
        )
    known = [name for name, _ in body.named_modules(remove_duplicate=False) if name]
    found: dict[str, int] = {}
    for given, n in parts.items():
        check_count(f"parts[{given!r}]", n)
        names = [name for name in known if re.fullmatch(_as_expression(given), name)]
        if not names:
            raise ValueError(
                "`parts` should name modules inside the model. "
                f"Found {given!r}, which is not among {known}." + nearest(given, known)
            )
        for name in names:
            if found.setdefault(name, n) != n:
                raise ValueError(
                    "`parts` should give each module one number of components. "
                    f"Found {found[name]} and {n} for {name!r}."
                )
    return found


def _as_expression(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", r"[^.]*")


def check_apart(parts: Mapping[str, int], body: nn.Module) -> None:
    """Raises where one of the parts lies inside another."""
    modules = {name: body.get_submodule(name) for name in parts}
    for outer, module in modules.items():
        inside = set(module.modules()) - {module}
        for inner, other in modules.items():
            if other in inside:
                raise ValueError(
                    f"`parts` should lie outside of each other. Found {inner!r} inside {outer!r}."
                )
