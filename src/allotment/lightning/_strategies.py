"""What strategies need: a loss that reaches all parameters (DDP), and these divided (FSDP)."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

_STEPS = ("training_step", "validation_step", "test_step")


def reaching(loss: Tensor, module: LightningModule, learnt: Sequence[nn.Parameter]) -> Tensor:
    """Returns a loss whose backward pass comes to every parameter, as DDP wants.

    Those that it does not depend on, such as other tasks' heads, get no gradient. With
    ``find_unused_parameters=True`` DDP looks for them by itself.
    """
    parallel = module.trainer.strategy.model
    if not isinstance(parallel, DistributedDataParallel) or parallel.find_unused_parameters:
        return loss
    reached: Tensor = _Reaching.apply(loss, *learnt)  # type: ignore[no-untyped-call]
    return reached


class _Reaching(torch.autograd.Function):
    """The same loss, with further inputs that get no gradient."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *parameters: Tensor) -> Tensor:
        ctx.n = len(parameters)
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], *[None] * ctx.n


def check_is_one_training(trainer: Trainer) -> None:
    """Raises where torchrun started several processes, and each would train by itself."""
    n_started = int(os.environ.get("WORLD_SIZE", "1"))
    if torch.distributed.is_torchelastic_launched() and trainer.world_size != n_started:
        raise ValueError(
            "`devices` times `num_nodes` of the Trainer should be the number of processes that "
            f"torchrun started, {n_started}. Found {trainer.world_size}."
        )


def leave_at_exit() -> None:
    """Has this process leave its group before it ends, where gloo is what connects the group.

    Lightning sees to that with NCCL alone. A group of gloo that is still there when the interpreter
    has ended may abort the process: torchrun then calls a finished training a failed one.
    """
    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        atexit.unregister(_leave)  # one is enough, however many trainings there are
        atexit.register(_leave)


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def shard(module: LightningModule) -> None:
    """Divides a module's parameters among processes where its strategy is `ModelParallelStrategy`.

    All of them are one unit of `fully_shard`, whole during a step: penalties look at gates outside
    of any layer's pass. Parts that were divided before stay units of their own.
    """
    strategy = module.trainer.strategy
    if not isinstance(strategy, ModelParallelStrategy) or isinstance(module, FSDPModule):
        return
    assert module.device_mesh is not None
    mesh = module.device_mesh["data_parallel"]
    if mesh.size() != strategy.world_size:
        raise ValueError(
            "`data_parallel_size` of ModelParallelStrategy should be the number of processes. "
            f"Found {mesh.size()} for {strategy.world_size}."
        )
    fully_shard(module, mesh=mesh)
    for step in _STEPS:
        register_fsdp_forward_method(module, step)


@contextmanager
def whole(trainer: Trainer, module: LightningModule) -> Iterator[None]:
    """Lets every process have all parameters for a while; all processes should ask for it."""
    if isinstance(trainer.strategy, FSDPStrategy):
        assert trainer.strategy.model is not None
        with FullyShardedDataParallel.summon_full_params(trainer.strategy.model, writeback=False):
            yield
    elif isinstance(module, FSDPModule):
        module.unshard()
        try:
            yield
        finally:
            module.reshard()
    else:
        yield


def whole_weights(trainer: Trainer, module: Any) -> dict[str, Tensor]:
    """Returns copies of the weights of a module's network, under the names it was given with.

    All processes should ask for them.
    """
    is_gathered = isinstance(trainer.strategy, FSDPStrategy)
    with whole(trainer, module) if is_gathered else nullcontext():
        found = {name: _copy(value) for name, value in module.network.state_dict().items()}
    return {name: value.clone() for name, value in module.form.own(found).items()}


def _copy(value: Tensor) -> Tensor:
    found = value.full_tensor() if isinstance(value, DTensor) else value
    return found.detach().to("cpu", copy=True)
