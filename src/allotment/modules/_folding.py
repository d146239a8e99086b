"""Linear maps that become one, where that is exact up to rounding and takes no more weights."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from ._parts import Layers, WeightedSum
from ._trunk import ByTask

_Map = nn.Linear | nn.Conv1d | nn.Conv2d
_NORMS = {nn.Linear: nn.BatchNorm1d, nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d}
# What changes nothing in evaluation.
_IDLE = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)


@torch.no_grad()
def folded(module: nn.Module) -> nn.Module:
    """Returns a module in evaluation mode with linear maps made one; it may be changed in place.

    Only sequences that are sure to be called as a whole are taken apart: those that a network or
    a modular layer calls. What is inside a model of one's own may use its parts in other ways.
    """
    return _folded(module, {})


def _folded(module: nn.Module, done: dict[nn.Module, nn.Module]) -> nn.Module:
    """Returns what has become of a module, ``done`` once where it stands in several places."""
    if module not in done:
        if isinstance(module, Layers) or type(module) is nn.Sequential:
            done[module] = _folded_sequence(module, done)
        elif isinstance(module, WeightedSum):
            parts = [_folded(part, done) for part in module.components]
            done[module] = _one_of(parts, module.weights.tolist()) or WeightedSum(
                parts, module.weights
            )
        else:
            done[module] = module
            _fold_inside(module, done)
    return done[module]


def _fold_inside(module: nn.Module, done: dict[nn.Module, nn.Module]) -> None:
    """Folds the sums, at any depth, in a module that may call its parts as it likes."""
    if isinstance(module, ByTask) and len(module.parts) > _n_components(module):
        return  # a map for each row of gates would be more than one for each component
    for name, child in module._modules.items():
        if isinstance(child, WeightedSum):
            module._modules[name] = _folded(child, done)
        elif child is not None:
            _fold_inside(child, done)


def _n_components(module: ByTask) -> int:
    sums = [part.components for part in module.parts if isinstance(part, WeightedSum)]
    return len({component for components in sums for component in components})


def _folded_sequence(sequence: nn.Sequential, done: dict[nn.Module, nn.Module]) -> nn.Sequential:
    row: list[tuple[str, nn.Module]] = []
    for name, part in _in_a_row(sequence, done):
        one = _joined(row[-1][1], part) if row else None
        if one is not None:
            row[-1] = (row[-1][0], one)
        elif type(part) not in _IDLE:
            row.append((name, part))
    parts = OrderedDict(row or [("0", nn.Identity())])
    if isinstance(sequence, Layers):
        return Layers(parts, tuple(sequence.were_modular), has_stem=sequence.has_stem).eval()
    return nn.Sequential(parts).eval()


def _in_a_row(
    sequence: nn.Sequential, done: dict[nn.Module, nn.Module]
) -> list[tuple[str, nn.Module]]:
    """Returns the parts of a sequence, folded, with those of sequences in it in their place."""
    found: list[tuple[str, nn.Module]] = []
    for name, child in sequence._modules.items():
        assert child is not None
        part = _folded(child, done)
        inside = part._modules.items() if type(part) is nn.Sequential else None
        found += (
            [(name, part)]
            if inside is None
            else [(f"{name}_{below}", own) for below, own in inside]
        )
    return found


def _joined(first: nn.Module, second: nn.Module) -> nn.Module | None:
    """Returns one module that does what two do, one after the other, where that can be."""
    kind = type(first)
    if kind not in _NORMS or first._forward_hooks or second._forward_hooks:
        return None
    if type(second) is _NORMS[kind]:
        return _with_norm(first, second)
    if type(second) is not kind or not _is_pointwise(second):
        return None
    a, b = cast(_Map, first), cast(_Map, second)
    if isinstance(a, nn.Conv1d | nn.Conv2d) and a.groups > 1:
        return None
    outer = b.weight.double().flatten(1)  # [O, H], the kernel of a convolution being of size 1
    weight = torch.tensordot(outer, a.weight.double(), dims=1)  # [O, I, ...]
    if weight.numel() > a.weight.numel() + b.weight.numel():
        return None
    return _like(a, weight, outer @ _bias(a) + _bias(b))


def _is_pointwise(module: nn.Module) -> bool:
    """Tells whether a linear layer or a convolution is one product for each place of its input."""
    if isinstance(module, nn.Conv1d | nn.Conv2d):
        sizes = {*module.kernel_size, *module.stride, module.groups}
        return sizes == {1} and not any(module._reversed_padding_repeated_twice)
    return True


def _with_norm(first: nn.Module, norm: nn.Module) -> nn.Module | None:
    """Returns a map with the batch normalisation after it, where that has fixed statistics."""
    if getattr(norm, "running_mean", None) is None:
        return None
    if isinstance(first, nn.Linear):
        return fuse_linear_bn_eval(first, norm)  # type: ignore[arg-type]
    return fuse_conv_bn_eval(first, norm)  # type: ignore[type-var, arg-type]


def _one_of(parts: Sequence[nn.Module], weights: Sequence[float]) -> nn.Module | None:
    """Returns one map that is the weighted sum of some; identities count among linear layers."""
    first = next((part for part in parts if type(part) in _NORMS), None)
    if first is None:
        return None
    like = cast(_Map, first)
    maps = [_as_map(part, like) for part in parts]
    if any(one is None or _form(one) != _form(like) for one in maps):
        return None
    shares = list(zip(weights, cast(list[_Map], maps), strict=True))
    weight = sum((share * one.weight.double() for share, one in shares), torch.zeros(()))
    return _like(like, weight, sum((share * _bias(one) for share, one in shares), torch.zeros(())))


def _as_map(part: nn.Module, like: _Map) -> _Map | None:
    if type(part) is nn.Identity and isinstance(like, nn.Linear):
        n = like.in_features
        made = nn.Linear(n, n, bias=False, device=like.weight.device, dtype=like.weight.dtype)
        nn.init.eye_(made.weight)
        return made
    has_hooks = bool(part._forward_hooks or part._forward_pre_hooks)
    return part if type(part) is type(like) and not has_hooks else None


def _form(part: _Map) -> list[Any]:
    """Returns what has to be equal in maps whose weights are added."""
    names = ("stride", "padding", "dilation", "groups", "padding_mode")
    return [part.weight.shape, *(getattr(part, name, None) for name in names)]


def _bias(part: _Map) -> Tensor:
    n = part.weight.shape[0]
    return part.weight.new_zeros(n).double() if part.bias is None else part.bias.double()


def _like(part: _Map, weight: Tensor, bias: Tensor) -> _Map:
    """Returns a map of a part's kind with other weights, which may have other outputs."""
    learns = part.weight.requires_grad
    made = type(part).__new__(type(part))
    nn.Module.__init__(made)
    made.__dict__.update({k: v for k, v in part.__dict__.items() if k not in made.__dict__})
    setattr(made, "out_features" if isinstance(part, nn.Linear) else "out_channels", len(weight))
    made.weight = nn.Parameter(weight.to(part.weight.dtype), requires_grad=learns)
    made.bias = nn.Parameter(bias.to(part.weight.dtype), requires_grad=learns)
    return made.eval()
