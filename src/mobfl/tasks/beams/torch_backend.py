"""Lidar2D computed by PyTorch, on a CPU or a GPU."""

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mobfl.learning.task import Integers, SgdTerms
from mobfl.learning.torch_steps import device_named, gradient, load, local_steps, prepare_cpu
from mobfl.learning.weights import Weights
from mobfl.tasks.beams.model import Lidar2D, cross_entropy
from mobfl.tasks.beams.samples import BeamSamples
from mobfl.tasks.beams.scores import LOSS_WEIGHTS

_VALIDATE_AT_ONCE = 64  # larger batches leave the cache: 128 take 1.1 times as long per sample, 256 twice


class TorchBackend:
    def __init__(
        self, train: BeamSamples, validation: BeamSamples, loss_scale: str, last_channels: int, device: str
    ) -> None:
        prepare_cpu()
        self._device = device_named(device)
        self._grids, self._targets, self._validation = (
            torch.from_numpy(array).to(self._device) for array in (train.grids, train.targets, validation.grids)
        )
        self._loss_weight, self._last_channels = LOSS_WEIGHTS[loss_scale], last_channels
        self._own = threading.local()

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        return local_steps(self._module(), self._loss, model, batches, terms)

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        return gradient(self._module(), self._loss, model, batch)

    def outputs(self, model: Weights, numbers: Integers | None = None) -> NDArray[np.float32]:
        module = self._module()
        load(module, model)
        module.eval()
        wanted = self._validation if numbers is None else self._validation[torch.from_numpy(numbers)]
        with torch.inference_mode():
            parts = [module(grids.float()) for grids in torch.split(wanted, _VALIDATE_AT_ONCE)]
        return torch.cat(parts).cpu().numpy()

    def _loss(self, module: nn.Module, batch: Tensor) -> Tensor:
        batch = batch.to(self._device)
        return self._loss_weight * cross_entropy(module(self._grids[batch].float()), self._targets[batch])

    def _module(self) -> nn.Module:
        """This thread's."""
        if not hasattr(self._own, "module"):
            self._own.module = Lidar2D(self._last_channels).to(self._device)
        return self._own.module
