"""The starting values of weights."""

from torch import nn


def glorot_(module: nn.Module) -> nn.Module:
    """Draws kernels from Glorot's uniform distribution and sets biases to zero, in place.

    These are the defaults of the library the authors used, not torch's. Returns the module.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module
