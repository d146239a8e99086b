"""The ways of sharing that are compared on every suite, in one place: a line adds one."""

from ..allocation import (
    PLE,
    SNR,
    ChampionChallenger,
    CrossStitch,
    DSelectK,
    EntmaxMatrix,
    GumbelByExample,
    GumbelMatrix,
    HardConcreteMatrix,
    MMoE,
    NoSharing,
    PathNet,
    RoutingPolicy,
    ScoreFunctionByExample,
    ScoreFunctionMatrix,
    SettlingMatrix,
    SharedBottom,
    SoftMatrix,
    SoftmaxMatrix,
    StraightThroughMatrix,
    TopKExperts,
)
from ..experiments import Method, structures, using

BASELINE = "shared_bottom_mean"  # that tables compare each method with

SINGLE_TASK = Method(
    name="single_task",
    label="Single task",
    allocation=using(NoSharing),
    structure=structures.single_task,
)
NO_SHARING = Method(name="no_sharing", label="No sharing", allocation=using(NoSharing))
SHARED_BOTTOM = Method(
    name="shared_bottom", label="Shared bottom (sum)", allocation=using(SharedBottom)
)
SHARED_BOTTOM_MEAN = Method(
    name="shared_bottom_mean",
    label="Shared bottom (mean)",
    allocation=using(SharedBottom, reduce="mean"),
)
GUMBEL = Method(
    name="gumbel", label="Gumbel-Matrix", allocation=using(GumbelMatrix, keeps_one=False)
)
GUMBEL_BUDGET = Method(
    name="gumbel_budget",
    label="Gumbel-Matrix, budget 0.75",
    allocation=using(GumbelMatrix, keeps_one=False),
    training={"budget": 0.75},
)

METHODS = (
    # Fixed patterns.
    SINGLE_TASK,
    NO_SHARING,
    SHARED_BOTTOM,
    SHARED_BOTTOM_MEAN,
    Method(
        name="task_routing",
        label="Task routing",
        allocation=using(SharedBottom, reduce="mean"),
        structure=structures.task_routing,
    ),
    # A gate for each task and component, learnt in several ways.
    GUMBEL,
    GUMBEL_BUDGET,
    Method(name="settling", label="Settling gates", allocation=using(SettlingMatrix)),
    Method(
        name="straight_through",
        label="Straight-through gates",
        allocation=using(StraightThroughMatrix, keeps_one=False),
    ),
    Method(name="soft", label="Soft gates (DARTS)", allocation=using(SoftMatrix)),
    Method(name="hard_concrete", label="Hard concrete (L0)", allocation=using(HardConcreteMatrix)),
    Method(name="score_function", label="REINFORCE gates", allocation=using(ScoreFunctionMatrix)),
    Method(name="routing", label="Routing network", allocation=using(RoutingPolicy)),
    Method(
        name="gumbel_held_out",
        label="Gumbel-Matrix on held-out batches",
        allocation=using(GumbelMatrix, keeps_one=False),
        training={"allocation_held_out": 0.2},
    ),
    Method(
        name="pathnet",
        label="PathNet",
        allocation=using(PathNet, n_members=8, n_each=10, reduce="mean"),
    ),
    Method(
        name="cmtr",
        label="CMTR's routing",
        allocation=using(ChampionChallenger, n_each=10),
        training={"allocation_held_out": 0.2},
    ),
    # Shares of components.
    Method(
        name="soft_ordering",
        label="Soft ordering",
        allocation=using(SoftmaxMatrix),
        structure=structures.soft_ordering,
    ),
    Method(name="entmax", label="Entmax", allocation=using(EntmaxMatrix)),
    Method(name="dselect_k", label="DSelect-k", allocation=using(DSelectK, k=2, entropy=0.01)),
    # By example.
    Method(
        name="gumbel_by_example",
        label="Gates by example (AIG)",
        allocation=using(GumbelByExample),
    ),
    Method(
        name="masks_by_example",
        label="REINFORCE masks by example",
        allocation=using(ScoreFunctionByExample),
    ),
    Method(name="mmoe", label="MMoE", allocation=using(MMoE)),
    Method(name="top_k", label="Mixture of experts, top-k", allocation=using(TopKExperts, k=2)),
    Method(name="ple", label="PLE", allocation=using(PLE), structure=structures.ple),
    # Streams between the components.
    Method(
        name="cross_stitch",
        label="Cross-stitch",
        allocation=using(CrossStitch),
        structure=structures.cross_stitch,
    ),
    Method(
        name="snr_trans",
        label="SNR-Trans",
        allocation=using(SNR),
        structure=structures.snr_trans,
    ),
    Method(name="snr_aver", label="SNR-Aver", allocation=using(SNR), structure=structures.snr_aver),
)

# Why a method does not fit a suite, by the names of both.
_TOO_MANY_TASKS = "each task should have components of its own, and there are fewer than tasks"
_SAME = "the same as the mean, under the normalisation behind each layer"
_TOO_LARGE = "a whole network for each task is too large to train as one"
_OF_IMAGES = {
    "no_sharing": _TOO_MANY_TASKS,
    "cross_stitch": _TOO_MANY_TASKS,
    "shared_bottom": _SAME,
    "single_task": _TOO_LARGE,
    "ple": "experts of every kind for each task are too many",
}
LEFT_OUT = {
    "two_pairs": {"task_routing": "its one layer has one output, which leaves nothing to mask"},
    "census": {"no_sharing": _TOO_MANY_TASKS, "cross_stitch": _TOO_MANY_TASKS},
    "clusters": _OF_IMAGES,
}
