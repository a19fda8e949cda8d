"""How many bytes travel, and what a link makes of them: sizes make times, and times make plans."""

from dataclasses import dataclass
from math import ceil

from mobfl.learning.codecs import Codec
from mobfl.learning.codecs.plain import Plain
from mobfl.learning.rules import Chain
from mobfl.learning.weights import Weights
from mobfl.scenario import LINK_SIZES, Scenario


@dataclass(frozen=True)
class Sizes:
    """In bytes: the model as it is, and what goes down and up, with what a rule sends along."""

    model: int
    download: int
    upload: int
    along: int = 0  # the part of both that is the rule's

    @classmethod
    def of(cls, model: Weights, codec: Codec, rule: Chain | None) -> "Sizes":
        sent_along = {} if rule is None else rule.download(rule.init(model))
        bare, along = Plain().size(model), Plain().size(sent_along) if sent_along else 0
        return cls(bare, bare + along, codec.size(model) + along, along)

    def on(self, scenario: Scenario) -> Scenario:
        """The scenario with these sizes, where it has rates or a radio and leaves them open.

        A link that says how large the model is keeps its word: what travels is larger or smaller by the same factor as
        here. A link in seconds stays as it is.
        """
        link = scenario.link
        if not scenario.by_sizes:
            return scenario
        model = link.model_bytes or self.model
        travels = {
            f"link.{key}": ceil(model * size / self.model)
            for key, size in zip(LINK_SIZES, (self.download, self.upload), strict=True)
            if size != self.model and getattr(link, key) is None
        }
        given = {"link.model_bytes": model} if scenario.lacks_sizes else {}
        return scenario.with_values(given | travels) if given or travels else scenario
