"""A Hugging Face encoder, frozen, with low-rank adapters of which each task learns to use some."""

import torch
from torch import nn
from transformers import BertConfig, BertModel  # pip install transformers

import allotment as al

torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
config = BertConfig(vocab_size=40, intermediate_size=64, **sizes)
encoder = BertModel(config, add_pooling_layer=False)  # or BertModel.from_pretrained(...)

lengths = torch.randint(4, 12, (600,))
mask = (torch.arange(12) < lengths.unsqueeze(1)).long()  # made-up texts, padded at the end
ids = torch.randint(3, 40, (600, 12)) * mask
counts = {word: (ids == word).sum(1) for word in (5, 6, 7)}
labels = {
    "has a 5": (counts[5] > 0).long(),
    "has a 5 or a 6": (counts[5] + counts[6] > 0).long(),
    "is long": (lengths > 7).long(),
}

network = al.modularize(
    encoder,
    {"encoder.layer.*.attention.self.query": 3, "encoder.layer.*.attention.self.value": 3},
    heads={task: nn.Linear(32, 2) for task in labels},
    component="low_rank",  # the encoder is frozen; adapters, gates and heads learn
    rank=4,
    features=lambda output: output.last_hidden_state.mean(1),
)
n_learnt = sum(p.numel() for p in network.parameters() if p.requires_grad)
print(f"{n_learnt:,} of {sum(p.numel() for p in network.parameters()):,} parameters learn\n")
inputs = {"input_ids": ids, "attention_mask": mask}
train, test = (
    {name: part[rows] for name, part in inputs.items()} for rows in (slice(500), slice(500, None))
)
tasks = [al.Task(name, (train, y[:500]), test=(test, y[500:])) for name, y in labels.items()]
settings = al.TrainingSettings(rounds=40, optimization=al.Optimization(learning_rate=0.01))
print(al.fit(network, tasks, settings))  # "#" is an adapter that the task uses

alone = al.extract(network, "is long", merge=True)  # an encoder with this task's adapters in it
print("\nThe first text is long:", bool(alone(test)[0].argmax()))
