"""What a run takes of its vehicles and of the band: bytes both ways and energy, of every server step.

All of it follows from the schedule alone, which says what was begun and for how many bytes there was time. A transfer
that is begun counts whole, be it lost or not. Energy is a vehicle's: transmit power for as long as uploads last, and
the power of computing for as long as local steps last.
"""

from dataclasses import dataclass, field

from mobfl.learning.codecs import Codec, size_within
from mobfl.learning.weights import Weights
from mobfl.runs.job import Job
from mobfl.scenario import Energy
from mobfl.servers.site import Site
from mobfl.servers.steps import Effort, ServerStep, delays_s


@dataclass
class Costs:
    """The price of a download, an upload and a second; told of a run's steps one after the other, from the first on."""

    download_bytes: int
    upload_bytes: int
    upload_s: float
    transmit_w: float
    energy: Energy
    scale: float  # bytes as the link counts them in one that is really sent: 1 unless the scenario has its own size
    along: int  # bytes that a rule adds to what the codec makes
    codec: Codec
    model: Weights
    site: Site
    _ahead: float = field(default=0.0, init=False)  # bytes that were counted as begun, and not sent after all

    @classmethod
    def of(cls, job: Job) -> "Costs":
        sizes, link = job.sizes, job.road.link
        down, up = sizes.download, sizes.upload
        if link.model_bytes is not None:
            down, up = link.download_bytes or link.model_bytes, link.upload_bytes or link.model_bytes
        scale = 1.0 if link.model_bytes is None else link.model_bytes / sizes.model
        parts = job.upload_codec[0], job.task.initial_weights(job.seed), job.site
        return cls(down, up, link.upload_s, job.road.transmit_w, job.road.energy, scale, sizes.along, *parts)

    def budget(self, given: int | None) -> int | None:
        """Of the bytes that there is time for, those that a codec may fill."""
        return None if given is None else max(int(given / self.scale) - self.along, 0)

    def row(self, step: ServerStep) -> dict[str, float]:
        """`bytes` and `energy_j`.

        An upload is begun in one step and may arrive in a later one, where it is known to have been cut short.
        """
        effort = self._effort(step)
        up = effort.uploads * self.upload_bytes - self._cut_short(step) - self._ahead
        up, self._ahead = max(up, 0.0), max(-up, 0.0)
        sending_s = self.upload_s * up / self.upload_bytes if effort.sending_s is None else effort.sending_s
        return {
            "bytes": round(effort.downloads * self.download_bytes + up),
            "energy_j": self.transmit_w * sending_s + self.energy.computing_w * effort.compute_s,
        }

    def _cut_short(self, step: ServerStep) -> float:
        """By how many bytes the step's uploads were smaller than usual, since there was no time for more."""
        budgets = [budget for each in step.uploads if (budget := self.budget(each.budget)) is not None]
        sizes = [size for each in budgets if (size := size_within(self.codec, self.model, each)) is not None]
        parts = sum((1 - each.share) * self.upload_bytes for each in step.uploads)
        return parts + sum(self.upload_bytes - self.scale * (size + self.along) for size in sizes)

    def _effort(self, step: ServerStep) -> Effort:
        """As the schedule tells it; of one that does not, what its uploads took."""
        if step.effort is not None:
            return step.effort
        trained_s = (delays_s(each, self.site)[0] for each in step.uploads)
        return Effort(len(step.uploads), len(step.uploads), sum(trained_s))
