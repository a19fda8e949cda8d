"""How a run's model moves: uploads are merged into it, and a model that is not sound is not adopted, or taken back.

What the rule proposes is looked at before anybody gets it: one forward pass. The full evaluation takes longer, so the
next vehicles train meanwhile; if its loss is not finite, the run goes back to the last sound model and to what the rule
remembered then, and uploads of what was taken back are rejected. Simulation and deployment share all of it.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mobfl.learning.heldout import Soundness, heldout_loss_of
from mobfl.learning.rules import merged_from
from mobfl.learning.rules.draws import Draw
from mobfl.learning.uploads import Upload
from mobfl.learning.weights import Weights
from mobfl.runs.checkpoint import Checkpoint, Sound
from mobfl.runs.job import Job
from mobfl.runs.models import Models
from mobfl.servers.steps import ServerStep

TAKEN_BACK = "of a model that was taken back"


class Adoption:
    """The models of a run, what its rule remembers, and the last model that is known to be sound."""

    def __init__(self, job: Job, begun: Checkpoint) -> None:
        self._rule = job.server.rule.with_heldout(heldout_loss_of(job.task))
        self._soundness = Soundness.of(job.task, job.seed)
        self._models = Models(begun, job.scenario.training.average_s)
        self._state = begun.rule_state or self._rule.init(begun.model)
        self.counted: Sequence[Upload] = ()  # those of the last step that were merged, as the rule counted them
        self._rejections, self._taken_back = Counter(begun.rejections), begun.taken_back
        restored = begun.sound is None and self._is_taken_back(begun.rounds)
        self._sound = self._now if restored else begun.sound
        self._unjudged = {} if restored else {begun.rounds: self._now}
        self._along = {**begun.along, self._models.number: self._rule.download(self._state)}

    @property
    def served(self) -> Weights:
        return self._models.served

    @property
    def latest(self) -> Weights:
        return self._models.latest

    def version(self, number: int) -> Weights:
        """The model after so many server steps."""
        return self._models.version(number)

    def along(self, number: int) -> Weights:
        """What the rule sent down beside that model."""
        return self._along.get(number, {})

    @property
    def _now(self) -> Sound:
        """What a run can go back to, once it is known to be sound."""
        return Sound(self._models.number, self.served, self._state)

    def judge(self, number: int, loss: float) -> list[int]:
        """Takes in what the full evaluation says of the model after so many server steps.

        If that is not sound, neither is what came of it: the rounds that are taken back are returned.
        """
        if (judged := self._unjudged.get(number)) is None:  # it was judged before, or a sound one has taken its place
            return []
        self._unjudged = {later: each for later, each in self._unjudged.items() if later > number}
        if math.isfinite(loss):
            self._sound = judged
            return []
        return [] if self._sound is None else self._take_back(self._sound)

    def settle(self, loss: float) -> list[int]:
        """Takes in what the full evaluation says of the model as it is now."""
        return self.judge(self._models.number, loss)

    def _take_back(self, sound: Sound) -> list[int]:
        lost = sound.lost_until(self._models.number, self._taken_back)
        self._taken_back = (*self._taken_back, *lost)
        self._models.take_back(sound.model)
        self._state, self._unjudged = sound.rule_state, {}
        self._along[self._models.number] = self._rule.download(self._state)
        self._sound = self._now
        return lost

    def take_up(self, model: Weights) -> bool:
        """The latest model is replaced from above, if this one is sound; the rule remembers what it did."""
        if not self._soundness.holds(model):
            return False
        self._models.take_back(model)
        self._unjudged[self._models.number] = self._now
        return True

    def is_sound(self, model: Weights) -> bool:
        return self._soundness.holds(model)

    def take_in(
        self, step: ServerStep, uploads: Sequence[Upload], elapsed_s: float, draw: Draw, refused: Sequence[str] = ()
    ) -> list[str]:
        """The model moves; returns why uploads were rejected. `refused` is why answers were not even uploads."""
        good = [upload for upload in uploads if not self._is_taken_back(step.number - upload.staleness)]
        lost = len(uploads) - len(good)
        merged = merged_from(
            self._rule, self._state, self.latest, good, self._soundness.holds, draw, lost + len(refused)
        )
        self._state, new, self.counted = merged.state, merged.model, merged.counted
        reasons = merged.rejections + [TAKEN_BACK] * lost
        self._rejections += Counter(reasons) + Counter(refused)
        self._models.advance(step, new, elapsed_s)
        self._unjudged[self._models.number] = self._now
        older = {number: down for number, down in self._along.items() if number in step.still_in_use}
        self._along = {**older, self._models.number: self._rule.download(self._state)}
        return reasons

    def _is_taken_back(self, number: int) -> bool:
        return number - 1 in self._taken_back  # the model after n steps is round n − 1's

    @property
    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on, the last sound model included unless this is it."""
        models, sound = self._models, self._sound
        needed = sound is not None and (sound.rounds != models.number or sound.model is not models.served)
        return Checkpoint(
            models.number,
            models.served,
            models.others,
            self._state,
            dict(self._rejections),
            sound if needed else None,
            self._taken_back,
            {number: down for number, down in self._along.items() if down and number != models.number},
        )


def known_sound(checkpoint: Checkpoint, loss: float) -> Checkpoint:
    """Without the way back, where the full evaluation says that there is no need for it."""
    return replace(checkpoint, sound=None) if math.isfinite(loss) else checkpoint
