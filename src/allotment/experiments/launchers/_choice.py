"""Which launcher options mean."""

from ._launcher import Launcher
from ._processes import Processes, visible_gpus
from ._ray import RayCluster
from ._training import InTurn


def choose_launcher(
    device: str,
    *,
    workers: int | str | None = None,
    ray: str | None = None,
    gpus_per_group: float | None = None,
) -> Launcher:
    """Returns the launcher for these options; ``device`` may be "auto".

    Without any, several GPUs get a process each. A CPU has one process then: more would share its
    cores, and the times on record would no longer compare.

    >>> choose_launcher("cpu")
    InTurn()
    >>> choose_launcher("cpu", workers=4)
    Processes(n=4)
    >>> choose_launcher("cpu", workers="auto")
    Processes(n=None)
    >>> choose_launcher("cuda", ray="auto", gpus_per_group=0.5)
    RayCluster(address='auto', gpus_per_group=0.5)

    Args:
        device: "cpu", "cuda", "cuda:1" or "auto".
        workers: How many processes; "auto": one for each GPU, or for each core.
        ray: The address of a Ray cluster; "auto": the one that runs on this machine.
        gpus_per_group: With ``ray``: a share of a GPU for each run group.
    """
    _check(workers, ray, gpus_per_group)
    if ray is not None:
        # Nodes may have GPUs where this machine has none, so that only a wish for a CPU counts.
        is_on_cpus = device == "cpu" and gpus_per_group is None
        return RayCluster(ray, 0.0 if is_on_cpus else gpus_per_group)
    if workers is None:
        several = device in ("auto", "cuda") and len(visible_gpus()) > 1
        return Processes() if several else InTurn()
    if isinstance(workers, str):
        return Processes()
    return InTurn() if workers == 1 else Processes(workers)


def _check(workers: int | str | None, ray: str | None, gpus_per_group: float | None) -> None:
    """Raises unless the options go with each other."""
    if ray is not None and workers is not None:
        raise ValueError(
            "`workers` should be left out where a Ray cluster trains, which has its own. Found "
            f"`workers = {workers}` and `ray = {ray!r}`."
        )
    if ray is None and gpus_per_group is not None:
        raise ValueError(
            "`gpus-per-group` should come with `ray`. Found `gpus-per-group = "
            f"{gpus_per_group:g}` without it."
        )
    if isinstance(workers, str) and workers != "auto":
        raise ValueError(f"`workers` should be a number or 'auto'. Found `workers = {workers!r}`.")
