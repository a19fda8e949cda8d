"""The task: its data, its model, its loss and its KPI."""

import torch
from torch import nn

import mobfl


def task(request: mobfl.TaskRequest) -> mobfl.Task:
    """Points with a little noise in their labels; `--option samples=4000` makes more of them."""
    count = int(request.options.get("samples", 2000))
    inputs, targets = points(count + 1000)
    return mobfl.TorchTask(
        model,
        nn.functional.cross_entropy,
        train=(inputs[:count], targets[:count]),
        validation=(inputs[count:], targets[count:]),
        kpis={mobfl.Kpi("accuracy", "accuracy", leads=True): lambda outputs, wanted: outputs.argmax(1) == wanted},
        name="quadrants",
        device=request.device,
        record={"data": "points at random", "samples": count},
    )


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4))


def points(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 2, generator=random)
    seen = inputs + 0.1 * torch.randn(count, 2, generator=random)
    return inputs, 2 * (seen[:, 0] > 0).long() + (seen[:, 1] > 0).long()
