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
learnt = [p for p in network.parameters() if p.requires_grad]
n_learnt, n_all = (sum(p.numel() for p in own) for own in (learnt, network.parameters()))
print(f"{n_learnt:,} of {n_all:,} parameters learn")
optimizer = torch.optim.Adam(learnt, lr=0.01)
for _ in range(40):
    for task, y in labels.items():
        rows = torch.randint(500, (64,))
        outputs = network({"input_ids": ids[rows], "attention_mask": mask[rows]}, task)
        loss = nn.functional.cross_entropy(outputs, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

network.eval()
for task, y in labels.items():
    alone = al.extract(network, task, merge=True)  # an encoder with this task's adapters in it
    outputs = alone({"input_ids": ids[500:], "attention_mask": mask[500:]})
    accuracy = (outputs.argmax(1) == y[500:]).float().mean()
    row = al.task_embeddings(network)[network.task_index(task)]
    print(f"{task:<15} accuracy {accuracy:.2f}, {int(row.sum())} of {len(row)} adapters")
