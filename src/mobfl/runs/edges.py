"""A model and the stations whose vehicles lead it on: a station's own, or one for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mobfl.learning.districts import Districts
from mobfl.learning.rules.draws import addressed_draw
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights, moved
from mobfl.runs.adoption import Adoption
from mobfl.runs.carried import Carried
from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.job import Job
from mobfl.runs.scoring import Fetch, Submit
from mobfl.runs.visits import Visits
from mobfl.servers.steps import ServerStep

_STATIONS_APART = 1 << 40  # numbers of steps that no station ever has


class Edge:
    """One model with its vehicles and what these cost, led on step by step.

    Args:
        jobs: The stations' by their places; the first one's rule merges all uploads.
        begun: Where the model is.
        steps: All of its steps.
        districts: Where samples belong to places.
        carried: What vehicles bring from one station to the next.
    """

    def __init__(
        self,
        jobs: Mapping[int, Job],
        begun: Checkpoint,
        steps: Sequence[ServerStep] | None,
        districts: Districts | None,
        carried: Carried | None,
    ) -> None:
        first = next(iter(jobs.values()))
        self.adoption, self._seed = Adoption(first, begun), first.seed
        self.known: Fetch = dict  # what it scores
        self._visits = {
            place: Visits(job, begun, _of(place, job, steps), districts, carried) for place, job in jobs.items()
        }
        self._before_s = self.last_end_s = 0.0
        # Of n stations with one model each moves it by an nth of what its uploads say, wherever it is by then; a rule
        # that knows of stale uploads sees to that itself.
        shared = len(jobs) > 1 and not first.server.rule.needs_staleness
        self._share = 1 / len(jobs) if shared else None

    def tell(self, step: ServerStep) -> tuple[float, dict[str, float]]:
        """How long the step took since the one before, and what it costs; asked of every step, done before or not."""
        elapsed_s, self._before_s = step.end_s - self._before_s, step.end_s
        self.last_end_s = step.end_s
        return elapsed_s, self._visits[step.station].costs.row(step)

    def lead_on(self, step: ServerStep, elapsed_s: float, submit: Submit) -> tuple[Sequence[Upload], list[str]]:
        """Merges what the step's vehicles send: the uploads that counted, and why others were rejected."""
        visits, adoption = self._visits[step.station], self.adoption
        coming = [submit(visit) for visit in visits.of(step, adoption)]
        uploads = visits.take_in(step, [visit() for visit in coming])
        # While they trained, the model that they were given was evaluated.
        adoption.judge(step.number, self.known()["loss"])
        if self._share is not None:
            uploads = [_on_top_of(adoption.latest, upload, self._share) for upload in uploads]
        draw = addressed_draw(self._seed, step.number + step.station * _STATIONS_APART)
        reasons = adoption.take_in(step, uploads, elapsed_s, draw)
        return adoption.counted, reasons

    @property
    def checkpoint(self) -> Checkpoint:
        memories = {key: kept for visits in self._visits.values() for key, kept in visits.memories.kept.items()}
        return replace(self.adoption.checkpoint, memories=memories)


def _of(place: int, job: Job, steps: Sequence[ServerStep] | None) -> Iterable[ServerStep]:
    """A station's own; of one that is alone as its schedule has them, which nobody asks for as a rule."""
    if steps is None:
        return (step for step in job.steps() if isinstance(step, ServerStep))
    return (step for step in steps if step.station == place)


def _on_top_of(latest: Weights, upload: Upload, share: float) -> Upload:
    """A share of what it has changed, in the model as it is now."""
    return replace(upload, weights=moved(latest, upload.weights, upload.base, share), base=latest)
