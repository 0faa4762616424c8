"""POEM's mining inside a PyTorch training loop.

Each epoch trains on the outliers of a pool that lie nearest the boundary, and prints how many near-OOD inputs pass:

    python3 mining_loop.py [EPOCHS]
"""

import sys

import poem
import torch
from torch import nn

CLASSES, INPUTS, BATCH = 4, 16, 64
POOL, MINED = 4000, 400  # outliers looked at, and outliers trained on, in each epoch
torch.manual_seed(1)
torch.set_num_threads(1)
centres = 2 * torch.randn(CLASSES, INPUTS)


def known(count):
    """Inputs of the classes, and their classes."""
    labels = torch.arange(count) % CLASSES
    return centres[labels] + torch.randn(count, INPUTS), labels


def unknown(count, radius):
    """Inputs around the mean of all classes: the larger the radius, the easier to tell apart."""
    return centres.mean(0) + radius * torch.randn(count, INPUTS)


body = nn.Sequential(nn.Linear(INPUTS, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
head = nn.Linear(32, CLASSES + 1)  # the last output is for outliers
optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)


@torch.no_grad()
def features(inputs):
    return body(inputs).numpy()


@torch.no_grad()
def score(inputs):
    """The log-odds of the classes against the outlier output: higher means ID."""
    logits = head(body(inputs))
    return (logits[:, :CLASSES].logsumexp(1) - logits[:, CLASSES]).numpy()


inputs, labels = known(2000)
outliers = unknown(MINED, 10)
for epoch in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
    pool = torch.cat([unknown(POOL * 9 // 10, 10), unknown(POOL // 10, 2)])  # few of them are near the classes
    mined = poem.mine(features(inputs), features(outliers), features(pool), MINED, seed=epoch)
    outliers = pool[mined.chosen]
    batches = torch.randperm(len(inputs)).split(BATCH)
    for batch, rows in zip(batches, torch.randperm(MINED).repeat(len(batches)).split(BATCH)):
        x = torch.cat([inputs[batch], outliers[rows]])
        y = torch.cat([labels[batch], torch.full((len(rows),), CLASSES)])
        optimiser.zero_grad()
        nn.functional.cross_entropy(head(body(x)), y).backward()
        optimiser.step()
    fpr95 = poem.metrics.fpr95(score(known(1000)[0]), score(unknown(1000, 2)))
    near = (mined.chosen >= POOL * 9 // 10).mean()
    print(f"epoch {epoch}: {near:4.0%} of the mined outliers are near the classes, FPR95 {fpr95:6.1%}")
