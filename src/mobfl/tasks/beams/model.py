"""Lidar2D in PyTorch: the reference for the fused kernels, and the way on other devices."""

import torch
from torch import Tensor, nn

from mobfl.tasks.beams.layout import CHANNELS, CLASSES, HIDDEN, PLACES, STRIDES


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: tuple[int, int]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1)
        self.norm = nn.BatchNorm2d(outputs)
        self.prelu = nn.PReLU(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.prelu(self.norm(self.conv(x)))


class Lidar2D(nn.Module):
    """Scores of the 256 beam pairs from a (N, 20, 200) grid; 15,658 parameters, or 7,462 with one last channel."""

    def __init__(self, last_channels: int = CHANNELS) -> None:
        super().__init__()
        channels = [1] + [CHANNELS] * (len(STRIDES) - 1) + [last_channels]
        self.blocks = nn.Sequential(*map(Block, channels[:-1], channels[1:], STRIDES))
        self.hidden = nn.Linear(last_channels * PLACES, HIDDEN)
        self.output = nn.Linear(HIDDEN, CLASSES)

    def forward(self, grid: Tensor) -> Tensor:
        features = self.blocks(grid.unsqueeze(1)).flatten(1)  # (N, 1, 20, 200) -> (N, channels · 5 · 25)
        return self.output(torch.relu(self.hidden(features)))


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over samples; a target is a distribution over the classes."""
    return -(targets * outputs.log_softmax(dim=1)).sum(dim=1).mean()
