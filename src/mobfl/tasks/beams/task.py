"""Beam selection as a task: Lidar2D on the generated street or on Raymobtime."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import Field

from mobfl.errors import InputError
from mobfl.learning.task import Integers, Pool
from mobfl.learning.uploads import Weights
from mobfl.rng import stream
from mobfl.scenario import Count, Table
from mobfl.tasks.beams import fused, layout
from mobfl.tasks.beams.generated import TRAINING_SAMPLES, VALIDATION_SAMPLES, generated_samples
from mobfl.tasks.beams.raymobtime import read_raymobtime
from mobfl.tasks.beams.samples import BeamSamples
from mobfl.tasks.beams.scores import LOSS_WEIGHTS, TOPS, commonest_beams, scores

MODELS = {"lidar2d": layout.CHANNELS, "lidar2d-small": 1}
BACKENDS = ("auto", "fused", "torch")
_STACKED = 4  # samples that are evaluated together


class BeamOptions(Table):
    """What a user may choose; the data are the generated street's unless a folder or file of Raymobtime is given."""

    model: Literal["lidar2d", "lidar2d-small"] = "lidar2d"
    targets: Literal["auto", "soft", "one-hot"] = "auto"  # auto: soft where the data have amplitudes
    training_samples: Count = TRAINING_SAMPLES  # these three are the generated street's
    validation_samples: Count = VALIDATION_SAMPLES
    data_seed: int = Field(0, ge=0)


class Backend(Protocol):
    """Computes with Lidar2D; may be used by several threads at once."""

    def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights: ...

    def outputs(self, model: Weights) -> layout.Floats:
        """The validation samples' scores of all beam pairs."""


class BeamTask:
    name = "beams"
    kpis: Mapping[str, bool] = {f"top_{k}": True for k in TOPS}

    def __init__(
        self,
        samples: tuple[BeamSamples, BeamSamples],
        loss_scale: str = "sample",
        model: str = "lidar2d",
        backend: str = "auto",
        device: str = "cpu",
        record: Mapping[str, Any] | None = None,
    ) -> None:
        train, self._validation = samples
        self._loss_scale, self._last_channels = loss_scale, MODELS[model]
        if backend == "auto":
            backend = "fused" if device == "cpu" else "torch"
        self._backend = _backend(backend, train, self._validation, loss_scale, self._last_channels, device)
        self.pool = Pool(train.labels, train.places)
        self.baselines: Mapping[str, Mapping[str, float]] = {
            "commonest beams": commonest_beams(train.labels, self._validation.labels)
        }
        self.record: Mapping[str, Any] = {
            **(record or {}),
            "model": model,
            "loss_scale": loss_scale,
            "backend": backend,
            "device": device,
            "training_samples": len(train),
            "validation_samples": len(self._validation),
            "fingerprint": train.fingerprint() + self._validation.fingerprint(),
        }

    def initial_weights(self, seed: int) -> Weights:
        random = np.random.Generator(np.random.Philox(key=int(stream(seed, "initial weights"))))
        return layout.initial_weights(random, self._last_channels)

    def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights:
        return self._backend.local_steps(model, batches, learning_rate, momentum)

    def evaluate(self, model: Weights) -> dict[str, float]:
        return scores(self._backend.outputs(model), self._validation.targets, self._loss_scale)


def beam_task(
    options: BeamOptions,
    data: Path | None = None,
    loss_scale: str = "sample",
    backend: str = "auto",
    device: str = "cpu",
    progress: Callable[[int], None] = lambda _: None,
    workers: int = 1,  # noqa: ARG001
) -> BeamTask:
    """The task with these options, on Raymobtime's files if given."""
    if data is None:
        sizes = options.training_samples, options.validation_samples
        samples = generated_samples(options.data_seed, *sizes, options.targets, progress)
        source: dict[str, Any] = {"data": "generated street", "data_seed": options.data_seed}
    else:
        if idle := sorted(options.model_fields_set & {"training_samples", "validation_samples", "data_seed"}):
            raise InputError(f"--option {idle[0]} is the generated street's and must not come with --data, got {data}")
        samples = read_raymobtime(data, options.targets)
        source = {"data": data.name}
    source["targets"] = options.targets
    return BeamTask(samples, loss_scale, options.model, backend, device, source)


def _backend(
    name: str, train: BeamSamples, validation: BeamSamples, loss_scale: str, last_channels: int, device: str
) -> Backend:
    if name == "fused":
        if device != "cpu":
            raise InputError(f"--backend fused runs on --device cpu, got {device!r}")
        return FusedBackend(train, validation, loss_scale, last_channels)
    if name == "torch":
        from mobfl.tasks.beams.torch_backend import TorchBackend

        return TorchBackend(train, validation, loss_scale, last_channels, device)
    raise InputError(f"--backend must be one of {', '.join(BACKENDS)}, got {name!r}")


class FusedBackend:
    """Numba kernels, which release the interpreter's lock."""

    def __init__(self, train: BeamSamples, validation: BeamSamples, loss_scale: str, last_channels: int) -> None:
        self._train, self._validation = train, validation
        self._loss_weight, self._last_channels = np.float32(LOSS_WEIGHTS[loss_scale]), last_channels
        self._own = threading.local()

    def local_steps(self, model: Weights, batches: Integers, learning_rate: float, momentum: float) -> Weights:
        parameters, running = layout.pack(model)
        rates = np.float32(learning_rate), np.float32(momentum), self._loss_weight
        work = self._workspace(batches.shape[1])
        fused.local_sgd(parameters, running, self._train.grids, self._train.targets, batches, *rates, work)
        return layout.unpack(parameters, running, self._last_channels)

    def outputs(self, model: Weights) -> layout.Floats:
        outputs = np.empty((len(self._validation), layout.CLASSES), np.float32)
        fused.predict(*layout.pack(model), self._validation.grids, self._workspace(1, _STACKED), outputs)
        return outputs

    def _workspace(self, *sizes: int) -> fused.Workspace:
        """This thread's workspace of these sizes."""
        spaces: dict[tuple[int, ...], fused.Workspace] = self._own.__dict__.setdefault("spaces", {})
        if sizes not in spaces:
            spaces[sizes] = fused.workspace(*sizes)
        return spaces[sizes]
