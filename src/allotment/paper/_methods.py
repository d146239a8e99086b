"""The ways of sharing that are compared on every suite, in one place: a line adds one."""

from ..allocation import GumbelMatrix, NoSharing, SharedBottom
from ..experiments import Method, using

BASELINE = "shared_bottom"  # that tables compare each method with

METHODS = (
    Method(name="no_sharing", label="No sharing", allocation=using(NoSharing)),
    Method(name="shared_bottom", label="Shared bottom (sum)", allocation=using(SharedBottom)),
    Method(
        name="shared_bottom_mean",
        label="Shared bottom (mean)",
        allocation=using(SharedBottom, reduce="mean"),
    ),
    Method(name="gumbel", label="Gumbel-Matrix", allocation=using(GumbelMatrix)),
    Method(
        name="gumbel_budget",
        label="Gumbel-Matrix, budget 0.75",
        allocation=using(GumbelMatrix),
        training={"budget": 0.75},
    ),
)

# Why a method does not fit a suite, by the names of both.
_TOO_MANY_TASKS = "each task should have components of its own, and there are fewer than tasks"
_SAME = "the same as the sum, under the normalisation behind each layer"
LEFT_OUT = {
    "census": {"no_sharing": _TOO_MANY_TASKS},
    "clusters": {"no_sharing": _TOO_MANY_TASKS, "shared_bottom_mean": _SAME},
    "omniglot": {"no_sharing": _TOO_MANY_TASKS, "shared_bottom_mean": _SAME},
}
