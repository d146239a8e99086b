"""Settings that are for `fit` alone, and what does their work under Lightning."""

from .._checks import described
from ..settings import Augmentation, TrainingSettings


def check_settings(settings: TrainingSettings) -> None:
    """Raises where a setting is given that a module under Lightning would not follow."""
    optimization, execution = settings.optimization, settings.execution
    rules = (
        ("loss_balancing", settings.loss_balancing, None, "None"),
        ("patience", settings.patience, None, "None; the callback EarlyStopping does it"),
        ("ema_decay", optimization.ema_decay, 0.0, "0; the callback EMAWeightAveraging does it"),
        ("allocation_held_out", optimization.allocation_held_out, 0.0, "0"),
        ("augmentation", settings.augmentation, Augmentation(), "left out; a dataset may do it"),
        ("mixed_precision", execution.mixed_precision, "off", '"off"; Trainer(precision=) does it'),
        ("accumulate", execution.accumulate, 1, "1; Trainer(accumulate_grad_batches=) does it"),
        ("compile", execution.compile, False, "False; `torch.compile` takes parts of a network"),
    )
    for name, value, plain, rule in rules:
        if value != plain:
            is_short = isinstance(value, int | float | str)
            found = f"`{name} = {value!r}`" if is_short else described(value)
            raise ValueError(f"Under Lightning, `{name}` should be {rule}. Found {found}.")
