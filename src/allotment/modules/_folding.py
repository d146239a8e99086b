"""Linear maps that become one, where that is exact up to rounding and takes no more weights."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from ._architecture import group_by_architecture
from ._parts import ByTask, Layers, WeightedSum

_Map = nn.Linear | nn.Conv1d | nn.Conv2d
_NORMS = {nn.Linear: nn.BatchNorm1d, nn.Conv1d: nn.BatchNorm1d, nn.Conv2d: nn.BatchNorm2d}
_FEATURES = {nn.Linear: -1, nn.Conv1d: -2, nn.Conv2d: -3}  # the dimension of a map's outputs
# What changes nothing in evaluation.
_IDLE = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)
# What does the same to each number of its input.
_ELEMENTWISE = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid)


class SideBySide(nn.Module):
    """The weighted sum of components of one form, the maps they begin with as one wide map.

    Each component is a linear layer or a convolution, and what follows it number by number.
    """

    weights: Tensor

    def __init__(self, wide: _Map, activations: Sequence[nn.Module], weights: Tensor) -> None:
        super().__init__()
        self.map = wide
        self.activations = nn.Sequential(*activations)
        self.dim = _FEATURES[type(wide)]
        self.register_buffer("weights", weights.view(-1, *[1] * -self.dim))  # [C, 1, ...]
        self.are_equal = bool((weights == weights[0]).all())  # they mostly are, and one product
        self.n_components = len(weights)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activations(self.map(x))
        y = y.unflatten(self.dim, (self.n_components, -1))  # [B, C, ...], or [..., C, D]
        if self.are_equal:
            return y.sum(self.dim - 1) * self.weights[0]
        return (self.weights * y).sum(self.dim - 1)

    def extra_repr(self) -> str:
        return f"n_components={self.n_components}"


@torch.no_grad()
def folded(module: nn.Module, called_whole: Collection[nn.Module] = ()) -> nn.Module:
    """Returns a module in evaluation mode with linear maps made one; it may be changed in place.

    Only sequences that are sure to be called as a whole are taken apart: those that a network or
    a modular layer calls, and those in ``called_whole``. What else is inside a model of one's own
    may use its parts in other ways.
    """
    return _Folding(called_whole).folded(module)


class _Folding:
    """Folds modules, each once where it stands in several places."""

    def __init__(self, called_whole: Collection[nn.Module]) -> None:
        self.called_whole = called_whole
        self.done: dict[nn.Module, nn.Module] = {}

    def folded(self, module: nn.Module, *, widens: bool = True) -> nn.Module:
        """Returns what has become of a module that is called as a whole.

        ``widens`` tells whether components of one form may be put side by side.
        """
        if module not in self.done:
            if isinstance(module, Layers) or type(module) is nn.Sequential:
                self.done[module] = self._sequence(module)
            elif isinstance(module, WeightedSum):
                parts = [self.folded(part) for part in module.components]
                self.done[module] = _sum_of(parts, module.weights, widens=widens)
            else:
                self.done[module] = module
                self._fold_inside(module)
        return self.done[module]

    def _fold_inside(self, module: nn.Module) -> None:
        """Folds what is called as a whole in a module that may call its parts as it likes."""
        if isinstance(module, ByTask):
            self._fold_by_task(module)
            return
        for name, child in module._modules.items():
            if isinstance(child, WeightedSum) or child in self.called_whole:
                module._modules[name] = self.folded(cast(nn.Module, child))
            elif child is not None:
                self._fold_inside(child)

    def _fold_by_task(self, module: ByTask) -> None:
        used = [
            component
            for part in module.parts
            for component in (part.components if isinstance(part, WeightedSum) else [part])
        ]
        if len(module.parts) > len(set(used)):
            return  # a map for each row of gates would be more than one for each component
        # Rows with a component in common would each compute it.
        widens = len(set(used)) == len(used)
        module.parts = nn.ModuleList(self.folded(part, widens=widens) for part in module.parts)

    def _sequence(self, sequence: nn.Sequential) -> nn.Sequential:
        row: list[tuple[str, nn.Module]] = []
        for name, part in self._in_a_row(sequence):
            one = _joined(row[-1][1], part) if row else None
            if one is not None:
                row[-1] = (row[-1][0], one)
            elif type(part) not in _IDLE:
                row.append((name, part))
        parts = OrderedDict(row or [("0", nn.Identity())])
        if isinstance(sequence, Layers):
            return Layers(parts, tuple(sequence.were_modular), has_stem=sequence.has_stem).eval()
        return nn.Sequential(parts).eval()

    def _in_a_row(self, sequence: nn.Sequential) -> list[tuple[str, nn.Module]]:
        """Returns the parts of a sequence, folded, with those of sequences in it in their place."""
        found: list[tuple[str, nn.Module]] = []
        for name, child in sequence._modules.items():
            part = self.folded(child)
            if type(part) is nn.Sequential:
                found += [(f"{name}_{below}", own) for below, own in part.named_children()]
            else:
                found.append((name, part))
        return found


def _sum_of(parts: Sequence[nn.Module], weights: Tensor, *, widens: bool) -> nn.Module:
    """Returns the weighted sum of parts, in few modules."""
    one = _one_of(parts, weights.tolist())
    if one is not None:
        return one
    groups = group_by_architecture(parts) if widens else [[at] for at in range(len(parts))]
    found: list[nn.Module] = []
    shares: list[float] = []
    for group in groups:
        own = [parts[at] for at in group]
        wide = _side_by_side(own, weights[group])
        found += own if wide is None else [wide]
        shares += weights[group].tolist() if wide is None else [1.0]
    is_one = len(found) == 1 and len(parts) > 1
    return found[0].eval() if is_one else WeightedSum(found, weights.new_tensor(shares)).eval()


def _side_by_side(parts: Sequence[nn.Module], weights: Tensor) -> SideBySide | None:
    """Returns one module for parts of one architecture, where their maps can be one wide map."""
    if len(parts) == 1 or not _is_map_and_activations(parts[0]):
        return None
    first, *others = (cast(nn.Sequential, part) for part in parts)
    maps = [cast(_Map, part[0]) for part in (first, *others)]
    weight = torch.cat([one.weight.double() for one in maps])  # [C * O, I, ...]
    wide = _like(maps[0], weight, torch.cat([_bias(one) for one in maps]))
    return SideBySide(wide, list(first)[1:], weights)


def _is_map_and_activations(part: nn.Module) -> bool:
    """Tells whether a component is a map, and after it what treats each number alike."""
    if type(part) is not nn.Sequential or any(map(_has_hooks, part.modules())):
        return False
    first, *rest = part
    is_divided = getattr(first, "groups", 1) > 1
    is_map = type(first) in _NORMS and not is_divided
    return is_map and all(type(one) in _ELEMENTWISE for one in rest)


def _joined(first: nn.Module, second: nn.Module) -> nn.Module | None:
    """Returns one module that does what two do, one after the other, where that can be."""
    kind = type(first)
    if kind not in _NORMS or _has_hooks(first) or _has_hooks(second):
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
    return part if type(part) is type(like) and not _has_hooks(part) else None


def _has_hooks(part: nn.Module) -> bool:
    """Tells whether more happens in a call than the module's own pass, as with a weight norm."""
    return bool(part._forward_hooks or part._forward_pre_hooks)


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
