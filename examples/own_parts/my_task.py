"""A task in fifteen lines: which quadrant does a point lie in? `mobfl train my_task:task --out run`."""

import torch
from torch import nn

import mobfl


def task() -> mobfl.Task:
    points = torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))
    quadrants = 2 * (points[:, 0] > 0).long() + (points[:, 1] > 0).long()
    return mobfl.TorchTask(
        nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4)),
        nn.functional.cross_entropy,
        train=(points[:2000], quadrants[:2000]),
        validation=(points[2000:], quadrants[2000:]),
        kpis={"accuracy": lambda outputs, targets: outputs.argmax(1) == targets},
        name="quadrants",
    )
