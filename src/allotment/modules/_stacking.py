"""Modules of one architecture evaluated on one input as one batched operation.

Linear layers and convolutions on a shared input become one product with ``C`` times the
outputs, and later ones a batched product; what is not known here goes through `vmap`. A class may
say itself how it is stacked: ``forward_stacked(stacked, x)`` returns ``[C, B, ...]``, given its
parameters stacked, by name.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from .._checks import described, first_line
from ._structures import by_tensor, each_tensor, tensors_of

# Modules that treat every number alike, so that a further leading dimension changes nothing.
_ELEMENTWISE = (nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid)

Stacked = Mapping[str, Tensor]


class Call(NamedTuple):
    """What a component is called with."""

    arguments: tuple[Any, ...]
    options: dict[str, Any] = {}  # by name  # noqa: RUF012  (never changed)

    @property
    def first(self) -> Any:
        """The input: the first argument, or where all have names, the first of those."""
        return self.arguments[0] if self.arguments else next(iter(self.options.values()), None)

    @property
    def is_one_input(self) -> bool:
        """Whether there is one input and nothing else."""
        return len(self.arguments) == 1 and not self.options


# Modules that `vmap` was seen to fail with, such as those that look at values to decide what to do.
_unmappable: WeakSet[nn.Module] = WeakSet()

# A kernel of at most so many numbers goes over its input as a product with patches. Libraries are
# slow where channels are few, above all when a batch over runs makes each run a group of channels:
# on the 4-MNISTs network patches took 0.8 of the time for one run and 0.6 for 120 on a GPU.
PATCH_NUMBERS = 64


def stack_parameters(modules: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Returns the parameters of modules of one architecture, each stacked to ``[C, ...]``."""
    columns = [dict(module.named_parameters()) for module in modules]
    return {name: torch.stack([column[name] for column in columns]) for name in columns[0]}


def stacked_forward(
    module: nn.Module, stacked: Stacked, n_stacked: int, call: Call, *, has_own_inputs: bool = False
) -> Any:
    """Returns what ``C`` modules of the architecture of ``module`` make of a call, ``[C, B, ...]``.

    Of a tuple or a dict each tensor has the components in front. Modules that ``has_own_inputs``
    take one part each of an input ``[C, B, ...]``; the others take the same.
    """
    x = call.first
    way = _way(module, x, has_own_inputs) if call.is_one_input else None
    if way is None:
        y = _mapped(module, stacked, call, has_own_inputs, n_stacked)
        is_stacked = has_own_inputs or bool(stacked)
    else:
        y, is_stacked = way(module, stacked, x, has_own_inputs, n_stacked)
    return y if is_stacked else each_tensor(lambda y: y.expand(n_stacked, *y.shape), y)


_HELP = {  # by whether it is one array
    True: "`torch.as_tensor` makes a tensor of it.",
    False: "Inputs of several arrays go to a stem, or a model, that takes them by name; all "
    "batches of a task have one form.",
}
# From a module, its stacked parameters, an input, whether that is stacked, and how many there are,
# to the output, and whether it has a component dimension in front.
_Way = Callable[[Any, Stacked, Any, bool, int], tuple[Tensor, bool]]


def _way(module: nn.Module, x: Any, is_stacked: bool) -> _Way | None:
    """Returns how modules of this class are stacked, where that is known."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return _dropout
    if type(module) not in _WAYS:
        return _own if hasattr(module, "forward_stacked") and not is_stacked else None
    way, n_dims = _WAYS[type(module)]
    if n_dims is not None and not isinstance(x, Tensor):
        raise ValueError(
            f"A component should be given what it takes, a tensor for {type(module).__name__}. "
            f"Found {described(x)}. {_HELP[hasattr(x, '__array__')]}"
        )
    is_taken = n_dims is None or x.ndim == n_dims + is_stacked
    if is_taken and getattr(module, "padding_mode", "zeros") == "zeros":
        return way
    return None


def _elementwise(
    module: nn.Module, stacked: Stacked, x: Any, is_stacked: bool, n: int
) -> tuple[Tensor, bool]:
    return module(x), is_stacked


def _dropout(
    module: nn.Module, stacked: Stacked, x: Any, is_stacked: bool, n: int
) -> tuple[Tensor, bool]:
    # Each component draws for itself, as it would alone; components in front of examples would
    # be one dimension too many for those that drop whole channels.
    alike = x if is_stacked else x.expand(n, *x.shape)
    return module(alike.flatten(0, 1)).unflatten(0, alike.shape[:2]), True


def _sequence(
    module: nn.Sequential, stacked: Stacked, x: Any, is_stacked: bool, n: int
) -> tuple[Tensor, bool]:
    for name, child in module._modules.items():  # a repeated child counts each time
        assert child is not None
        own, way = _below(stacked, name), _way(child, x, is_stacked)
        if way is not None:
            x, is_stacked = way(child, own, x, is_stacked, n)
        else:
            x = _mapped(child, own, Call((x,)), is_stacked, n)
            is_stacked = is_stacked or bool(own)
    return x, is_stacked


def _own(module: Any, stacked: Stacked, x: Any, is_stacked: bool, n: int) -> tuple[Tensor, bool]:
    return module.forward_stacked(stacked, x), True


def _below(stacked: Stacked, name: str) -> dict[str, Tensor]:
    prefix = f"{name}."
    return {key[len(prefix) :]: value for key, value in stacked.items() if key.startswith(prefix)}


def _linear(
    module: nn.Linear, stacked: Stacked, x: Tensor, is_stacked: bool, n: int
) -> tuple[Tensor, bool]:
    weight, bias = stacked["weight"], stacked.get("bias")  # [C, O, I], [C, O]
    # Product and sum apart: batched over runs, `baddbmm` and `linear` take more operations.
    if is_stacked:
        y = torch.bmm(x, weight.transpose(1, 2))
    else:
        y = split_components(x @ weight.flatten(0, 1).T, weight)
    return y if bias is None else y + bias.unsqueeze(1), True


def _convolution(
    module: nn.Conv2d, stacked: Stacked, x: Tensor, is_stacked: bool, n: int
) -> tuple[Tensor, bool]:
    weight, bias = stacked["weight"], stacked.get("bias")  # [C, O, I, H, W], [C, O]
    if not is_stacked and _goes_by_patches(module):
        return _patch_convolution(module, weight, bias, x), True
    n_groups = module.groups
    if is_stacked:
        x = x.transpose(0, 1).flatten(1, 2)  # the components' channels one after another
        n_groups *= n
    elif n_groups > 1:
        x, n_groups = x.repeat(1, n, 1, 1), n_groups * n
    y = F.conv2d(
        x,
        weight.flatten(0, 1),
        None if bias is None else bias.flatten(),
        module.stride,
        module.padding,
        module.dilation,
        n_groups,
    )
    return split_components(y, weight), True


def _goes_by_patches(module: nn.Conv2d) -> bool:
    is_plain = module.groups == 1 and module.padding == (0, 0) and module.dilation == (1, 1)
    n_numbers = module.in_channels * module.kernel_size[0] * module.kernel_size[1]
    return is_plain and n_numbers <= PATCH_NUMBERS


def _patch_convolution(module: nn.Conv2d, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """Returns the convolution as one product of kernels and patches, ``[C, B, O, H, W]``."""
    patches = x
    for dim, size, stride in zip((2, 3), module.kernel_size, module.stride, strict=True):
        patches = patches.unfold(dim, size, stride)  # at last [B, I, H, W, h, w]
    n_examples, _, height, width, *_ = patches.shape
    columns = patches.permute(1, 4, 5, 0, 2, 3).reshape(weight[0, 0].numel(), -1)
    y = weight.flatten(2).flatten(0, 1) @ columns  # [C * O, B * H * W]
    if bias is not None:
        y = y + bias.flatten().unsqueeze(1)
    return y.view(*weight.shape[:2], n_examples, height, width).transpose(1, 2)


# By class: how it is stacked, and the dimensions of the inputs it is known for; None: any.
_WAYS: dict[type, tuple[_Way, int | None]] = {
    **dict.fromkeys(_ELEMENTWISE, (_elementwise, None)),
    nn.Sequential: (_sequence, None),
    nn.Linear: (_linear, 2),
    nn.Conv2d: (_convolution, 4),
}


def split_components(y: Tensor, weight: Tensor) -> Tensor:
    """Returns outputs that lie side by side, ``[B, C * O, ...]``, as ``[C, B, O, ...]``."""
    n_stacked, n_outputs = weight.shape[:2]
    return y.view(y.shape[0], n_stacked, n_outputs, *y.shape[2:]).transpose(0, 1)


def _mapped(
    module: nn.Module, stacked: Stacked, call: Call, is_stacked: bool, n_stacked: int
) -> Any:
    if not stacked and not is_stacked:
        return module(*call.arguments, **call.options)
    if module not in _unmappable:
        try:
            return _by_vmap(module, stacked, call, is_stacked)
        except Exception as error:  # it may fail one by one as well, and then that is told
            y = _one_by_one(module, stacked, call, is_stacked, n_stacked)
            _unmappable.add(module)
            warnings.warn(
                f"Components of class {type(module).__name__} are evaluated one by one, which is "
                f"slower: {first_line(error)}",
                stacklevel=2,
            )
            return y
    return _one_by_one(module, stacked, call, is_stacked, n_stacked)


def _by_vmap(module: nn.Module, stacked: Stacked, call: Call, is_stacked: bool) -> Any:
    whole: list[Any] = []  # an output as it is, since `vmap` takes nothing but tensors

    def tensors(parameters: dict[str, Tensor], arguments: tuple[Any, ...], options: Any) -> Any:
        y = call_with_parameters(module, parameters, arguments, options)
        if isinstance(y, Tensor):
            return y
        whole.append(y)
        return tensors_of(y)

    own = [0 if is_stacked else None, *[None] * (len(call.arguments) - 1)]
    in_dims = (0 if stacked else None, tuple(own[: len(call.arguments)]), None)
    found = vmap(tensors, in_dims=in_dims, randomness="different")(
        dict(stacked), call.arguments, call.options
    )
    if not whole:
        return found
    parts = iter(found)
    return each_tensor(lambda _: next(parts), whole[0])


def _one_by_one(
    module: nn.Module, stacked: Stacked, call: Call, is_stacked: bool, n_stacked: int
) -> Any:
    outputs = []
    for position in range(n_stacked):
        parameters = {name: value[position] for name, value in stacked.items()}
        first = [call.first[position]] if is_stacked else call.arguments[:1]
        given = (*first, *call.arguments[1:])
        outputs.append(call_with_parameters(module, parameters, given, call.options))
    return by_tensor(lambda parts: torch.stack(list(parts)), outputs)


def call_with_parameters(
    module: nn.Module, parameters: Mapping[str, Tensor], arguments: tuple[Any, ...], options: Any
) -> Any:
    """Returns what a module makes of a call with other parameters, also inside a pass of FSDP.

    `FullyShardedDataParallel` sets parameters as plain attributes too for as long as a pass lasts;
    Python finds those first, and `functional_call` alone would go on with the old parameters.
    """
    hidden = [
        (own, name) for own in module.modules() for name in own._parameters.keys() & vars(own)
    ]
    taken = [(own, name, vars(own).pop(name)) for own, name in hidden]
    try:
        return functional_call(module, dict(parameters), arguments, options)
    finally:
        for own, name, value in taken:
            vars(own)[name] = value
