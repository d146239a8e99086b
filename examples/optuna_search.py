"""Numbers of a training chosen by Optuna, on validation; the best one is tested. Needs Optuna."""

import optuna
import torch
from torch import nn

import allotment as al

torch.manual_seed(0)
u, v = torch.randn(2, 8)  # tasks a and b depend on one direction, c and d on another


def examples(n: int, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 8)
    return x, torch.sin(x @ w) + 0.1 * torch.randn(n)


tasks = [
    al.Task(name, examples(100, w), validation=examples(200, w), test=examples(200, w))
    for name, w in zip("abcd", (u, u, v, v), strict=True)
]


def objective(trial: optuna.Trial) -> float:
    n, p_init = trial.suggest_int("n_components", 2, 6), trial.suggest_float("p_init", 0.3, 0.9)
    torch.manual_seed(0)
    components = [nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(n)]
    layer = al.ModularLayer(components, al.GumbelMatrix(4, n, p_init=p_init))
    rate = trial.suggest_float("learning_rate", 1e-3, 1e-1, log=True)
    settings = al.TrainingSettings(rounds=60, optimization=al.Optimization(learning_rate=rate))
    result = al.fit(al.MultiTaskNetwork(None, [layer], task_names=list("abcd")), tasks, settings)
    assert result.validation is not None and result.test is not None
    trial.set_user_attr("test", float(result.test.losses.mean()))
    return float(result.validation.losses.mean())


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(objective, n_trials=8)
print(study.best_params, f"validation {study.best_value:.3f}", study.best_trial.user_attrs)
