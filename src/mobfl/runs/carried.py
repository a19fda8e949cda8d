"""What vehicles bring from one station to the next: the model of their last upload elsewhere.

`mix` is the on-device aggregation of MIDDLE (S. Zhang, Z. Zheng, F. Wu, B. Li, Y. Shao, G. Chen, "MIDDLE: A
Mobility-Driven Device-Edge-Cloud Federated Learning Framework", IEEE Transactions on Mobile Computing 24(6), 2025): a
vehicle's first training at another station begins with a mixture of the station's model and its own. MIDDLE weighs the
two by how alike they are; here the share is a parameter. Trainings that are lost are never computed, so what a vehicle
carries is the last model that it has uploaded.

`continue` is `mobfl.servers.carrying`: what is carried is the model that an interrupted training began with.

The schedule knows who uploads where before anybody trains, so only models are kept that will be used.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mobfl.learning.weights import Weights, mixed
from mobfl.servers.steps import Contribution, ServerStep

_Upload = tuple[int, int]  # a visit's key and its attempt


class Carried:
    """By vehicle: the models that are on their way.

    Args:
        steps: Those of all stations in the order of time.
        vehicles: Whose each visit is, by its key; a visit that is not there is its own vehicle's.
        share: Of the carried model in the mixture; None where vehicles go on with interrupted trainings instead.
        begun: What was on its way when the run stopped.
    """

    def __init__(
        self,
        steps: Iterable[ServerStep],
        vehicles: Mapping[int, int],
        share: float | None,
        begun: Mapping[int, Weights],
    ) -> None:
        self._share, self._kept = share, dict(begun)
        self._leaves, self._comes = dict[_Upload, int](), dict[_Upload, int]()
        if share is None:
            uploads = [upload for step in steps for upload in step.uploads if upload.carried_by is not None]
            self._comes = self._leaves = {_named(upload): int(upload.carried_by or 0) for upload in uploads}
        else:
            self._look_ahead(steps, vehicles)

    def _look_ahead(self, steps: Iterable[ServerStep], vehicles: Mapping[int, int]) -> None:
        """Whose next upload is at another station."""
        before = dict[int, tuple[int, _Upload]]()
        for step in steps:
            for upload in step.uploads:
                vehicle, now = vehicles.get(int(upload.key), int(upload.key)), _named(upload)
                station, last = before.get(vehicle, (step.station, now))
                if station != step.station:
                    self._leaves[last] = self._comes[now] = vehicle
                before[vehicle] = step.station, now

    @property
    def kept(self) -> Mapping[int, Weights]:
        """For the checkpoint; it is never changed in place."""
        return self._kept

    def brought(self, upload: Contribution) -> Weights | None:
        """The model that the vehicle brings for this training, if it does."""
        vehicle = self._comes.get(_named(upload))
        return None if vehicle is None else self._kept.get(vehicle)

    def start(self, model: Weights, brought: Weights | None) -> Weights:
        """What the training begins with."""
        if brought is None:
            return model
        return brought if self._share is None else mixed(model, brought, self._share)

    def interrupt(self, step: ServerStep, version: Callable[[int], Weights]) -> None:
        """Before a step is merged: trainings that were cut off in it, and go on elsewhere, keep their model."""
        for each in step.interrupted:
            if (vehicle := self._leaves.get(_named(each))) is not None:
                self._kept = {**self._kept, vehicle: version(each.version)}

    def take_along(self, uploads: Iterable[tuple[Contribution, Weights]]) -> None:
        """After a step with these uploads: who goes on to another station, and who has arrived there."""
        for upload, model in uploads:
            if (arrived := self._comes.get(_named(upload))) is not None:
                self._kept = {vehicle: kept for vehicle, kept in self._kept.items() if vehicle != arrived}
            leaving = None if self._share is None else self._leaves.get(_named(upload))
            if leaving is not None:
                self._kept = {**self._kept, leaving: model}


def _named(upload: Contribution) -> _Upload:
    return int(np.uint64(upload.key)), upload.attempt
