"""Trajectory prediction as a task: LaneGCN on Argoverse or on the generated town."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from mobfl.errors import InputError
from mobfl.files.cache import cache_folder
from mobfl.learning.heldout import spread
from mobfl.learning.task import Integers, Kpi, Pool, SgdTerms, TaskRequest
from mobfl.learning.torch_steps import device_named, gradient, load, local_steps, prepare_cpu, read
from mobfl.learning.weights import Weights
from mobfl.rng import stream
from mobfl.scenario import Count, Table
from mobfl.tasks.trajectories.baselines import baseline_scores
from mobfl.tasks.trajectories.batches import Batch, batch_of
from mobfl.tasks.trajectories.lanegcn import LaneGCN
from mobfl.tasks.trajectories.loss import lanegcn_loss
from mobfl.tasks.trajectories.scenes import Scene
from mobfl.tasks.trajectories.scores import KPIS, Floats, benchmark_scores
from mobfl.tasks.trajectories.sources import Town, argoverse_sources
from mobfl.tasks.trajectories.store import SceneStore, Source, open_store

_VALIDATE_AT_ONCE = 64
_CITY_APART_M = 1e6  # so that neighbours by place are neighbours in one city


class TrajectoryOptions(Table):
    """What a user may choose; the data are the generated town's unless a folder of Argoverse is given."""

    width: Count = 32
    training_samples: Count = 2000  # these three are the generated town's
    validation_samples: Count = 400
    data_seed: int = Field(0, ge=0)


@dataclass(frozen=True)
class Forecast:
    """What was predicted of a scene's agent, in the scene's frame: six futures (6, 30, 2) and their scores."""

    scene: Scene
    futures: Floats
    scores: Floats

    @property
    def min_ade_m(self) -> float:
        return benchmark_scores(self.futures[None], self.scores[None], self.scene.future[:1].astype(float))["min_ade_6"]


class TrajectoryTask:
    name = "trajectories"
    kpis: Sequence[Kpi] = KPIS

    def __init__(
        self,
        train: SceneStore,
        validation: SceneStore,
        width: int = 32,
        device: str = "cpu",
        record: Mapping[str, Any] | None = None,
    ) -> None:
        if width % 4:
            raise InputError(f"option width must be a multiple of 4, got {width}")
        prepare_cpu()
        self._train, self._validation, self._width = train, validation, width
        self._device = device_named(device)
        places = train.city * _CITY_APART_M + train.origins[:, 1]
        self.pool = Pool(train.labels, places, {"city": train.city, "manoeuvre": train.labels})
        self.baselines: Mapping[str, Mapping[str, float]] = baseline_scores(validation.scenes(range(len(validation))))
        self.record: Mapping[str, Any] = {
            **(record or {}),
            "model": "lanegcn",
            "width": width,
            "backend": "torch",
            "device": device,
            "training_samples": len(train),
            "validation_samples": len(validation),
            "damaged_sequences": len(train.damaged) + len(validation.damaged),
        }
        self.damaged = (*train.damaged, *validation.damaged)  # a sentence for each sequence that was left out
        self._own, self._heldout = threading.local(), dict[int, Batch]()

    def initial_weights(self, seed: int) -> Weights:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "initial weights")))
            return read(LaneGCN(self._width))

    def local_steps(self, model: Weights, batches: Integers, terms: SgdTerms) -> Weights:
        return local_steps(self._module(), self.loss, model, batches, terms)

    def gradient(self, model: Weights, batch: Integers) -> Weights:
        return gradient(self._module(), self.loss, model, batch)

    def loss(self, module: nn.Module, numbers: Tensor) -> Tensor:
        """On the training scenes of these numbers."""
        batch = batch_of(self._train.scenes(numbers.tolist())).to(self._device)
        futures, scores = module(batch)
        return lanegcn_loss(futures, scores, batch.future, batch.seen)

    def evaluate(self, model: Weights) -> dict[str, float]:
        futures, scores, loss = self._forecast(model)
        return {"loss": loss} | benchmark_scores(futures, scores, self._truth)

    def heldout_loss(self, model: Weights, samples: int) -> float:
        module, batch = self._module(), self._heldout_batch(min(samples, len(self._validation)))
        load(module, model)
        module.eval()
        with torch.inference_mode():
            futures, scores = module(batch)
            return float(lanegcn_loss(futures, scores, batch.future, batch.seen))

    def forecasts(self, model: Weights) -> list[Forecast]:
        """Of the validation scenes' agents, in the order of the store."""
        futures, scores, _ = self._forecast(model)
        return [Forecast(self._validation[k], futures[k], scores[k]) for k in range(len(futures))]

    def _forecast(self, model: Weights) -> tuple[Floats, Floats, float]:
        """The agents' futures (S, 6, 30, 2) and their scores (S, 6), and the mean loss."""
        module = self._module()
        load(module, model)
        module.eval()
        all_futures, all_scores, loss = [], [], 0.0
        with torch.inference_mode():
            for batch in self._validation_batches:
                futures, scores = module(batch)
                loss += float(lanegcn_loss(futures, scores, batch.future, batch.seen)) * len(batch.agents)
                all_futures.append(futures[batch.agents].double().cpu().numpy())
                all_scores.append(scores[batch.agents].double().cpu().numpy())
        return np.concatenate(all_futures), np.concatenate(all_scores), loss / len(self._validation)

    def _heldout_batch(self, samples: int) -> Batch:
        if samples not in self._heldout:
            scenes = self._validation.scenes(spread(len(self._validation), samples).tolist())
            self._heldout[samples] = batch_of(scenes).to(self._device)
        return self._heldout[samples]

    @cached_property
    def _validation_batches(self) -> list[Batch]:
        starts = range(0, len(self._validation), _VALIDATE_AT_ONCE)
        parts = (range(first, min(first + _VALIDATE_AT_ONCE, len(self._validation))) for first in starts)
        return [batch_of(self._validation.scenes(part)).to(self._device) for part in parts]

    @cached_property
    def _truth(self) -> Floats:
        return np.concatenate([batch.future[batch.agents].double().cpu().numpy() for batch in self._validation_batches])

    def _module(self) -> LaneGCN:
        """This thread's."""
        if not hasattr(self._own, "module"):
            self._own.module = LaneGCN(self._width).to(self._device)
        return self._own.module


def trajectory_task(options: TrajectoryOptions, request: TaskRequest) -> TrajectoryTask:
    """The task with these options, on Argoverse's files if given."""
    if request.backend not in ("auto", "torch"):
        raise InputError(f"backend must be auto or torch for trajectories, got {request.backend!r}")
    parts: tuple[Source, Source]
    data, workers, progress = request.data, request.workers, request.progress
    if data is None:
        first = options.training_samples
        parts = Town(options.data_seed, 0, first), Town(options.data_seed, first, options.validation_samples)
        record: dict[str, Any] = {"data": "generated town", "data_seed": options.data_seed}
    else:
        parts, record = argoverse_sources(data), {"data": data.name}
    record["fingerprint"] = " ".join(part.identity for part in parts)
    train = open_store(parts[0], cache_folder(), workers, progress)
    validation = open_store(parts[1], cache_folder(), workers, lambda made: progress(len(parts[0]) + made))
    return TrajectoryTask(train, validation, options.width, request.device, record)
