"""Beam selection as a task: Lidar2D on the generated street or on Raymobtime."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import Field

from mobfl.errors import InputError
from mobfl.learning.heldout import spread
from mobfl.learning.task import Integers, Kpi, Pool, SgdTerms, TaskRequest
from mobfl.learning.weights import Weights
from mobfl.rng import stream
from mobfl.scenario import Count, Table
from mobfl.tasks.beams import layout
from mobfl.tasks.beams.fused import network
from mobfl.tasks.beams.generated import TRAINING_SAMPLES, VALIDATION_SAMPLES, generated_samples
from mobfl.tasks.beams.raymobtime import read_raymobtime
from mobfl.tasks.beams.samples import BeamSamples
from mobfl.tasks.beams.scores import LOSS_WEIGHTS, TOPS, commonest_beams, scores

MODELS = {"lidar2d": layout.CHANNELS, "lidar2d-small": 1}
BACKENDS = ("auto", "fused", "torch")
_AT_ONCE = 64  # samples whose predictions end together


class BeamOptions(Table):
    """What a user may choose; the data are the generated street's unless a folder or file of Raymobtime is given."""

    model: Literal["lidar2d", "lidar2d-small"] = "lidar2d"
    targets: Literal["auto", "soft", "one-hot"] = "auto"  # auto: soft where the data have amplitudes
    training_samples: Count = TRAINING_SAMPLES  # these three are the generated street's
    validation_samples: Count = VALIDATION_SAMPLES
    data_seed: int = Field(0, ge=0)


class Backend(Protocol):
    """Computes with Lidar2D; may be used by several threads at once."""

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights: ...

    def gradient(self, model: Weights, batch: Integers) -> Weights: ...

    def outputs(self, model: Weights, numbers: Integers | None = None) -> layout.Floats:
        """The scores of all beam pairs for these validation samples, or for all of them."""


class BeamTask:
    name = "beams"
    kpis: Sequence[Kpi] = tuple(Kpi(f"top_{k}", f"top-{k} accuracy", leads=k == TOPS[-1]) for k in TOPS)

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
        self.validation_pool = Pool(self._validation.labels, self._validation.places)
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

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        return self._backend.local_steps(model, batches, terms)

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        return self._backend.gradient(model, batch)

    def evaluate(self, model: Weights) -> dict[str, float]:
        return scores(self._backend.outputs(model), self._validation.targets, self._loss_scale)

    def evaluate_on(self, model: Weights, samples: Integers) -> dict[str, float]:
        """`loss` and the KPIs on some of the validation samples."""
        return scores(self._backend.outputs(model, samples), self._validation.targets[samples], self._loss_scale)

    def heldout_loss(self, model: Weights, samples: int) -> float:
        return self.evaluate_on(model, spread(len(self._validation), samples))["loss"]


def beam_task(options: BeamOptions, request: TaskRequest) -> BeamTask:
    """The task with these options, on Raymobtime's files if given."""
    data = request.data
    if data is None:
        sizes = options.training_samples, options.validation_samples
        samples = generated_samples(options.data_seed, *sizes, options.targets, request.progress)
        source: dict[str, Any] = {"data": "generated street", "data_seed": options.data_seed}
    else:
        if idle := sorted(options.model_fields_set & {"training_samples", "validation_samples", "data_seed"}):
            raise InputError(f"option {idle[0]} is the generated street's and must not come with data, got {data}")
        samples = read_raymobtime(data, options.targets)
        source = {"data": data.name}
    source["targets"] = options.targets
    return BeamTask(samples, request.loss_scale, options.model, request.backend, request.device, source)


def _backend(
    name: str, train: BeamSamples, validation: BeamSamples, loss_scale: str, last_channels: int, device: str
) -> Backend:
    if name == "fused":
        if device != "cpu":
            raise InputError(f"backend fused runs on the device cpu, got {device!r}")
        return FusedBackend(train, validation, loss_scale, last_channels)
    if name == "torch":
        from mobfl.tasks.beams.torch_backend import TorchBackend

        return TorchBackend(train, validation, loss_scale, last_channels, device)
    raise InputError(f"backend must be one of {', '.join(BACKENDS)}, got {name!r}")


class FusedBackend:
    """Numba kernels, which release the interpreter's lock."""

    def __init__(self, train: BeamSamples, validation: BeamSamples, loss_scale: str, last_channels: int) -> None:
        self._train, self._validation = train, validation
        self._loss_weight, self._last_channels = np.float32(LOSS_WEIGHTS[loss_scale]), last_channels
        self._own = threading.local()

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        parameters, running = layout.pack(model)
        self._run(parameters, running, batches, terms, np.empty_like(parameters))
        return layout.unpack(parameters, running, self._last_channels)

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        parameters, running = layout.pack(model)
        gradient = np.empty_like(parameters)
        self._run(parameters, running, batch[np.newaxis], SgdTerms(0.0), gradient)
        return layout.unpack(gradient, running, self._last_channels)

    def _run(
        self, parameters: layout.Floats, running: layout.Floats, batches: Integers, terms: SgdTerms, gradient: Any
    ) -> None:
        rates = np.float32(terms.learning_rate), np.float32(terms.momentum), np.float32(terms.proximal)
        correction = np.zeros(0, np.float32) if terms.correction is None else layout.pack_slopes(terms.correction)
        work, train = self._workspace(batches.shape[1], True), self._train
        network.local_sgd(
            parameters,
            running,
            train.grids,
            train.targets,
            batches,
            rates,
            correction,
            self._loss_weight,
            work,
            gradient,
        )

    def outputs(self, model: Weights, numbers: Integers | None = None) -> layout.Floats:
        grids = self._validation.grids if numbers is None else self._validation.grids[numbers]
        outputs = np.empty((len(grids), layout.CLASSES), np.float32)
        network.predict(*layout.pack(model), grids, self._workspace(_AT_ONCE, False), outputs)
        return outputs

    def _workspace(self, samples: int, training: bool) -> network.Workspace:
        """This thread's for so many samples."""
        spaces: dict[tuple[int, bool], network.Workspace] = self._own.__dict__.setdefault("spaces", {})
        if (samples, training) not in spaces:
            spaces[samples, training] = network.workspace(samples, training)
        return spaces[samples, training]
