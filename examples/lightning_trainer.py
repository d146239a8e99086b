"""A network under Lightning's Trainer: a batch of every task in each step. Needs Lightning."""

import logging
import warnings

import lightning
import torch
from torch import nn

import allotment as al
from allotment.lightning import AllocationLogger, MultiTaskData, MultiTaskModule

# What Lightning says of every small training, and a name of torch's that Lightning 2.6 still uses.
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)

lightning.seed_everything(0, verbose=False)
x = torch.randn(600, 8)
total = x[:, :4].sum(1)
targets = {"sum": total, "scaled": 2 * total - 1, "largest": x[:, 4:].argmax(1)}
tasks = [al.Task(n, (x[:500], y[:500]), test=(x[500:], y[500:])) for n, y in targets.items()]
components = [nn.Sequential(nn.Linear(8, 16), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(n_tasks=3, n_components=4))
heads = {"sum": nn.Linear(16, 1), "scaled": nn.Linear(16, 1), "largest": nn.Linear(16, 4)}
settings = al.TrainingSettings(
    rounds=300,
    batch_size=32,
    schedule="joint",
    optimization=al.Optimization(learning_rate=0.01, allocation_learning_rate=0.05),
    penalties=al.Penalties(budget=0.5),
)
module = MultiTaskModule(al.MultiTaskNetwork(None, [layer], heads), tasks, settings)
data = MultiTaskData(tasks, settings)
trainer = lightning.Trainer(
    accelerator="cpu",  # or "auto", with `devices` and `strategy="ddp"`
    max_epochs=-1,  # the module stops after `rounds`
    callbacks=[AllocationLogger()],
    logger=False,  # or a logger of lightning.pytorch.loggers
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, data)
(found,) = trainer.test(module, data, verbose=False)
for task, row in zip(module.tasks, al.task_embeddings(module.network), strict=True):
    used = row.nonzero().flatten().tolist()
    print(f"{task.name:<8} uses components {used}, test loss {found[f'test_loss/{task.name}']:.3f}")
