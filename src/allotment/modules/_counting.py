"""Parameters, counted, and floating-point operations, counted while they happen."""

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Operations(TorchDispatchMode):
    """Counts floating-point operations of products and convolutions.

    Torch's own counter also follows modules by hooks, which fails on modules that compute their
    weights, such as those with a weight norm.
    """

    total = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):  # type: ignore[no-untyped-def]
        options, count = options or {}, flop_registry.get(function._overloadpacket)
        if count is None:
            with self:  # in inference mode, linear layers and convolutions come in one piece
                result = function.decompose(*arguments, **options)
            return function(*arguments, **options) if result is NotImplemented else result
        result = function(*arguments, **options)
        self.total += int(count(*arguments, **options, out_val=result))
        return result


def n_parameters(module: nn.Module) -> int:
    """Returns how many numbers the parameters of a module are."""
    return sum(parameter.numel() for parameter in module.parameters())
