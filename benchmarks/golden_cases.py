"""The golden cases: short trainings on a CPU that together use each part of the library."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import golden_adapter as al
from benchmarks.golden_toys import ALLOCATIONS, SIDE, of_pictures, of_vectors

Case = Callable[[Path | None], Iterable[al.Seen]]  # from the data folder to what programs tell
Flat = dict[str, Any]

MIXED = ("kind", "size", "place", "count")  # labels, one number, three numbers, and counts

PENALTIES: dict[str, Flat] = {
    "budget": {"budget": 0.5, "budget_weight": 2.0},
    "global budget": {"budget": 0.5, "budget_scope": "global"},
    "entropy": {"entropy_weight": 0.5, "entropy_power": 2.0},
    "connections": {"connection_weight": 0.3},
    "disconnections": {"disconnect_weight": 0.3},
}
STEPS: dict[str, Flat] = {
    "logits' rate": {"allocation_learning_rate": 0.1},
    "cosine": {"lr_schedule": "cosine"},
    "average": {"ema_decay": 0.9},
    "weight decay": {"weight_decay": 0.05},
    "clipping": {"clip_norm": 0.1},
}
OTHERS: dict[str, Flat] = {
    "best": {"evaluate_every": 10, "learning_rate": 0.3},
    "last": {"evaluate_every": 10, "learning_rate": 0.3, "keep_best": False},
    "not recorded": {"trace": False},
}
MOVES: dict[str, Flat] = {
    "crop": {"crop": 1},
    "shift": {"shift": 1.5},
    "rotation": {"rotation": 30.0},
    "zoom": {"zoom": 0.3},
    "slant": {"shear": 0.3},
    "bend": {"elastic": 0.8},
}


def joined(*groups: dict[str, Flat]) -> Flat:
    """Returns settings all at once."""
    return {name: x for group in groups for flat in group.values() for name, x in flat.items()}


# The last weights, so that every step counts.
EVERYTHING = joined(PENALTIES, STEPS, MOVES) | {"evaluate_every": 10, "keep_best": False}

# Recording a step of the network for Omniglot takes ten times as long as a few rounds.
OMNIGLOT: Flat = {"rounds": 2, "batch_size": 2, "evaluate_every": 10, "trace": False}
OMNIGLOT |= {"one_in": 10, "coarse": 8, "n_held_out": 8}
SMALL: dict[str, Flat] = {
    "transfer": {"rounds": 25},
    "two_pairs": {"rounds": 25},
    "digits": {"rounds": 25, "evaluate_every": 10},
    "mnist": {"rounds": 15},
    "omniglot": OMNIGLOT,
    "omniglot_tuned": OMNIGLOT,
    "clusters": {"rounds": 2, "batch_size": 4, "one_in": 10},
}


def experiment(name: str, **changes: Any) -> Case:
    """Returns a case of an experiment, with all methods unless some are named."""
    return lambda data: al.of_experiment(name, data, **SMALL[name] | changes)


def toy(make: Callable[..., list[al.Run]], *arguments: Any, stop: int = 0, **options: Any) -> Case:
    """Returns a case of toy runs that train together, after a stop if one is given."""
    return lambda data: [al.seen(make(*arguments, **options), stop=stop)]


def of_experiments() -> Iterator[tuple[str, Case]]:
    """Yields each experiment run by run, and with three runs of each method, or joint steps."""
    for name in SMALL:
        yield f"{name}, alone", experiment(name, together=1)
        if not name.startswith("omniglot"):
            yield f"{name}, R=3", experiment(name, n_runs=3)
            yield f"{name}, joint", experiment(name, n_runs=2, schedule="joint")
    learnt = partial(experiment, "omniglot", methods=["gumbel"])
    yield "omniglot, R=3", learnt(n_runs=3)
    yield "omniglot, joint", learnt(n_runs=2, schedule="joint")
    yield "omniglot, full size, alone", learnt(rounds=1, coarse=1, n_held_out=2)
    yield "omniglot, full size, R=2", learnt(n_runs=2, rounds=1, coarse=1, n_held_out=2)


def of_toys() -> Iterator[tuple[str, Case]]:
    """Yields allocations, kinds of task and of network, with one run and with three."""
    for n in (1, 3):
        for schedule in ("alternating", "joint"):
            way = f"{schedule}, R={n}"
            options: Flat = {"schedule": schedule}
            for name in ALLOCATIONS:
                yield f"{name}, {way}", toy(of_vectors, n, allocation=name, **options)
            yield f"mixed tasks, {way}", toy(of_vectors, n, MIXED, **options)
            yield f"lines, {way}", toy(of_vectors, n, (), **options)
            yield f"linear heads, {way}", toy(of_pictures, n, "", MIXED, **options)
            yield f"everything, {way}", toy(of_pictures, n, **EVERYTHING | options)
    for special in ("module heads", "batch norm", "inner dropout", "frozen"):
        yield f"{special}, R=1", toy(of_pictures, 1, special, MIXED)
        yield f"{special}, R=3", toy(of_pictures, 3, special)
        yield f"{special}, joint", toy(of_pictures, 1, special, MIXED, schedule="joint")


def of_settings() -> Iterator[tuple[str, Case]]:
    """Yields each setting on its own, and runs that go on from a state."""
    for name, flat in (PENALTIES | STEPS | OTHERS).items():
        yield f"{name}, R=3", toy(of_vectors, 3, **flat)
        yield f"{name}, joint", toy(of_vectors, 1, schedule="joint", **flat)
    for name, flat in MOVES.items():
        yield f"{name}, grey", toy(of_pictures, 1, n_layers=1, **flat)
        yield f"{name}, ink", toy(of_pictures, 1, n_layers=1, ink=True, **flat)
    yield "resumed, R=1", toy(of_pictures, 1, stop=10, **EVERYTHING)
    yield "resumed, R=3", toy(of_pictures, 3, stop=20, **EVERYTHING)
    yield "resumed, joint", toy(of_vectors, 3, MIXED, stop=10, schedule="joint", ema_decay=0.9)
    yield "resumed, best", toy(of_vectors, 3, stop=20, **OTHERS["best"])
    yield "resumed, batch norm", toy(of_pictures, 1, "batch norm", stop=10)


def fitted(data: Path | None) -> list[al.Seen]:
    """Returns what `fit` tells, and what one task's part of the network gives."""
    (run,) = of_pictures(1, "batch norm", MIXED)
    found = al.seen_in_fit(run.network, run.tasks, 5, rounds=25, batch_size=8, evaluate_every=10)
    x = torch.rand(4, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        outputs = [run.network(x, "place"), al.extract(run.network, "place")(x)]
    return [replace(found, curves=[*found.curves, *(y.numpy() for y in outputs)])]


def in_own_loop(data: Path | None) -> list[al.Seen]:
    """Returns what the modules do in a loop that is written out, with all penalties."""
    (run,) = of_pictures(1, "inner dropout")
    network, losses = run.network.train(), []
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    torch.manual_seed(3)
    for step in range(10):
        x, y = torch.rand(8, 1, SIDE, SIDE), torch.randint(3, (8,))
        task = network.task_names[step % 2]
        p = network.probabilities(task)
        loss = torch.nn.functional.cross_entropy(network(x, task), y)
        loss = loss + al.budget_penalty(p, 0.5) + al.entropy_penalty(p, progress=step / 10)
        loss = loss + al.connection_penalty(p) + al.disconnect_penalty(p, network.layer_sizes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    embeddings = network.matrix().numpy()
    return [al.Seen([al.as_in_0_1(network.state_dict())], [embeddings], {"losses": losses}, [])]


CASES: dict[str, Case] = {
    **dict(of_experiments()),
    **dict(of_toys()),
    **dict(of_settings()),
    "fit": fitted,
    "own loop": in_own_loop,
}
