"""A network under Lightning's Trainer: a batch of every task in each step. Needs Lightning."""

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import allotment as al

LOSSES = {"sum": nn.MSELoss(), "scaled": nn.MSELoss(), "largest": nn.CrossEntropyLoss()}
Batch = tuple[Tensor, Tensor]


class Several(lightning.LightningModule):
    """Trains the weights and the gates of a network."""

    def __init__(self, network: al.TaskNetwork) -> None:
        super().__init__()
        self.network = network

    def training_step(self, batch: Mapping[str, Batch], batch_idx: int) -> Tensor:
        losses = []
        for task, (x, y) in batch.items():
            loss = LOSSES[task](self.network(x, task), y)  # draws gates, and anneals them
            self.log(f"train_loss/{task}", loss)
            losses.append(loss + al.budget_penalty(self.network.probabilities(task), budget=0.5))
        return torch.stack(losses).mean()

    def test_step(self, batch: Mapping[str, Batch], batch_idx: int) -> None:
        for task, (x, y) in batch.items():
            self.log(f"test_loss/{task}", LOSSES[task](self.network(x, task), y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        layers = self.network.modular_layers
        gates = {p for layer in layers for p in layer.allocation.parameters()}
        weights = [p for p in self.network.parameters() if p not in gates]
        of_gates: dict[str, Any] = {"params": list(gates), "lr": 0.05, "weight_decay": 0.0}
        return torch.optim.AdamW([{"params": weights}, of_gates], lr=0.01)


def loaders(n: int, *, shuffle: bool) -> dict[str, DataLoader[tuple[Tensor, ...]]]:
    x = torch.randn(n, 8)
    total = x[:, :4].sum(1, keepdim=True)
    targets = {"sum": total, "scaled": 2 * total - 1, "largest": x[:, 4:].argmax(1)}
    return {
        task: DataLoader(TensorDataset(x, y), batch_size=32, shuffle=shuffle)
        for task, y in targets.items()
    }


# What Lightning says of every small training: of GPUs, of loaders with few workers, and a name
# of torch's that Lightning 2.6 still uses.
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
warnings.filterwarnings("ignore", message=".*does not have many workers")
warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)

lightning.seed_everything(0, verbose=False)
components = [nn.Sequential(nn.Linear(8, 16), nn.ReLU()) for _ in range(4)]
layer = al.ModularLayer(components, al.GumbelMatrix(n_tasks=3, n_components=4))
heads = {"sum": nn.Linear(16, 1), "scaled": nn.Linear(16, 1), "largest": nn.Linear(16, 4)}
module = Several(al.MultiTaskNetwork(None, [layer], heads))
trainer = lightning.Trainer(
    accelerator="cpu",  # or "auto", with `devices` and `strategy`
    max_epochs=20,
    logger=False,  # or a logger of lightning.pytorch.loggers
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(module, loaders(500, shuffle=True))
(found,) = trainer.test(module, CombinedLoader(loaders(100, shuffle=False)), verbose=False)
for task, row in zip(LOSSES, al.task_embeddings(module.network), strict=True):
    used = row.nonzero().flatten().tolist()
    print(f"{task:<8} uses components {used}, test loss {found[f'test_loss/{task}']:.3f}")
