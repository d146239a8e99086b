"""One network for several columns of a table, most of which are known for some rows only.

The table is Census-Income (KDD) where `census_income.csv.gz` lies in the folder that
ALLOTMENT_DATA names, else a small made-up one. Needs pandas.
"""

import numpy as np
import pandas as pd
import torch
from torch import nn

import allotment as al
from allotment.data import data_folder

N_ROWS = 5_000
CENSUS = {0: "age", 4: "education", 12: "sex", 19: "tax_filer", 39: "weeks", 41: "income"}
CENSUS |= {7: "marital_status", 9: "occupation", 13: "union_member"}


def read_table() -> pd.DataFrame:
    path = data_folder() / "census_income.csv.gz"
    if path.exists():
        table = pd.read_csv(path, header=None, skipinitialspace=True, nrows=N_ROWS)
        return table[list(CENSUS)].rename(columns=CENSUS)
    rng = np.random.default_rng(0)
    age = rng.integers(16, 80, N_ROWS)
    education = rng.choice(["school", "college", "?"], N_ROWS, p=[0.6, 0.3, 0.1])
    skill = 0.05 * (age - 40) + 2.0 * (education == "college") + rng.normal(size=N_ROWS)
    was_asked = rng.random(N_ROWS) < 0.1
    union = np.where(was_asked, np.where(skill > 1, "Yes", "No"), "Not in universe")
    income = np.where(skill > 1, "50000+.", "- 50000.")
    weeks = np.clip(30 + 8 * skill, 0, 52).round().astype(int)
    columns = {"age": age, "education": education, "union_member": union, "weeks": weeks}
    return pd.DataFrame(columns | {"income": income})


table = read_table()
tasks = al.tasks_from_table(
    table,
    ["income", "union_member", "weeks"],  # all other columns are inputs
    unknown=["?", "Not in universe"],
    kinds={"weeks": "regression"},  # whole numbers would be classes
)
print(tasks)


def component(n_inputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_inputs, 32), nn.ReLU())


torch.manual_seed(0)
sizes = [tasks.n_features, 32]
layers = [al.ModularLayer([component(n) for _ in range(4)], al.GumbelMatrix(3, 4)) for n in sizes]
heads = {task.name: nn.Linear(32, task.n_outputs) for task in tasks}
network = al.MultiTaskNetwork(None, layers, heads)
result = al.fit(network, tasks, al.TrainingSettings(rounds=300, evaluate_every=50))

print(result, "\n")

x = tasks.transform(table[:5])  # new rows go the same way; targets are not needed
for task in tasks:
    print(task.name, tasks.decode(task.name, al.predict(network, x, task.name)))
