"""What came of every station of a city, and of the cloud, for run.json and tables."""

from typing import Any

from mobfl.runs.history import OWN, History
from mobfl.scenario import CLOUD


def by_station(history: History) -> list[dict[str, Any]]:
    """A table for each station in their order, then the cloud's if it has averaged anything."""
    found = [_told(name, history.of_station(name)) for name in (*history.stations, CLOUD)]
    return [each for each in found if each["name"] != CLOUD or each["rounds"]]


def _told(name: str, rows: History) -> dict[str, Any]:
    scores = ("loss", *(kpi.name for kpi in rows.kpis))
    own = {score: float(rows.columns[OWN + score][-1]) for score in scores if len(rows) and OWN + score in rows.columns}
    return {
        "name": name,
        "rounds": len(rows),
        "uploads": int((rows.columns["uploads"] - rows.columns["rejected"]).sum()),
        "min_loss": rows.min_loss(),
        "final": {score: rows.final(score) for score in scores},
        **({"final_own": own} if own else {}),
    }
