"""A server: a schedule and a rule, found by their names."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mobfl.errors import InputError
from mobfl.learning.rules import Chain
from mobfl.servers.steps import Schedule


@dataclass(frozen=True)
class Server:
    """Whose uploads make a step, and what the step makes of them."""

    schedule: Schedule
    rule: Chain

    def __post_init__(self) -> None:
        if self.rule.needs_staleness and not self.schedule.makes_stale:
            raise InputError(
                f"rule {self.rule} weighs uploads by their staleness, and under the plan {self.schedule.name} none is"
                " stale: choose the plan async, or another rule"
            )

    def fresh(self) -> "Server":
        """As it was made, so that nothing goes from one run to the next."""
        return deepcopy(self)

    def describe(self) -> dict[str, Any]:
        """The plan of run.json: the schedule's own words, under the name of both together where they have one."""
        description = self.schedule.describe()
        links = [link for link in self.rule.links if link.role != "guard"]
        name = links[0].wish.name if len(links) == 1 else ""
        single = name != "fedasync" or description.get("uploads") == 1
        if description["policy"] != "async" or name not in SHORTHANDS or not single:
            return description
        uploads = description.pop("uploads")
        given = {"buffer": uploads} if name == "fedbuff" else {}
        return {**description, "policy": name, **given, **links[0].values}


# Servers that are known by their rule: `fedasync` is the schedule async with the rule fedasync.
SHORTHANDS = ("fedasync", "fedbuff")
