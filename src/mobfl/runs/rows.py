"""What a server step leaves behind: its row in the table of rounds, and where the run stands after it."""

from dataclasses import dataclass
from typing import Any

from mobfl.runs.checkpoint import Checkpoint
from mobfl.runs.history import Row
from mobfl.servers.steps import ServerStep


@dataclass(frozen=True)
class Learnt:
    """A server step's row, and where the run stands after it."""

    row: Row
    checkpoint: Checkpoint


def row_of(step: ServerStep, rejected: int, counts_parts: bool = False) -> dict[str, Any]:
    """A server step as the table of rounds has it, without what it costs and what its model scores.

    Uploads of which a part arrived are counted apart, where they may be.
    """
    whole = step.whole
    parts = {"partial": len(step.uploads) - len(whole)} if counts_parts else {}
    return {
        "round": step.number,
        "start_s": step.start_s,
        "end_s": step.end_s,
        "local_steps": step.local_steps,
        "present": step.present,
        "uploads": len(whole),
        "rejected": rejected,
        "steps": sum(upload.local_steps for upload in whole),
        **parts,
    }
