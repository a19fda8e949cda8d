"""An uploaded trace: what the road's own rounds look like beside Poisson's, with a plan for each."""

import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np

from mobfl.errors import InputError
from mobfl.files.json import plain
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings
from mobfl.mobility.sections import parse_section
from mobfl.planning.anytime import plan_anytime
from mobfl.planning.planner import plan
from mobfl.planning.plans import TracePlan
from mobfl.rounds.simulation import Promise, simulate
from mobfl.scenario import Scenario
from mobfl.theory import Knows

MOST_BYTES = 32 << 20  # as it is sent, and as it is once unpacked
_KINDS = (".csv", ".txt", ".xml")
_MOST_ROUNDS = 1_000_000


def compared(content: bytes, name: str, section: str, scenario: Scenario, knows: str = "nothing") -> dict[str, Any]:
    """What the trace is, its best plan, both plans' rounds on it, and the best anytime rounds."""
    crossings = _read(content, name, section)
    best = plan(scenario, crossings)
    stay = crossings.dwell_s
    answer = {
        "crossings": len(crossings),
        "arrivals_per_s": crossings.arrivals_per_s,
        "dwell_s": float(stay.mean()),
        "dwell_sd_s": float(stay.std()),
        "plan": best.to_dict(),
        "anytime": _anytime(scenario, crossings, knows),
        "simulations": [_rounds(scenario, crossings, *each) for each in _plans(best)],
    }
    return plain(answer)


def _anytime(scenario: Scenario, crossings: Crossings, knows: str) -> dict[str, Any] | None:
    """None where averaging counts, which anytime rounds do not know."""
    if scenario.training.noise_uploads > 0:
        return None
    return plan_anytime(scenario, cast(Knows, knows), crossings).to_dict()


def _plans(best: TracePlan) -> list[tuple[str, int, float]]:
    if best.reason is not None:
        return []
    found = [("the trace's own plan", *best.numbers[:2])]
    if best.poisson_plan is not None:
        found.append(("Theorem 1's plan", best.poisson_plan.local_steps, best.poisson_plan.round_s))
    return found


def _rounds(scenario: Scenario, crossings: Crossings, title: str, h: int, t: float) -> dict[str, Any]:
    """How often a round of this plan has 0, 1, 2, … uploads on the trace, and would on a Poisson road."""
    from scipy.stats import poisson

    simulated = simulate(scenario, h, t, _MOST_ROUNDS, crossings=crossings)
    counts = np.arange(len(simulated.histogram))
    law = simulated.poisson or Promise(simulated.expected_uploads, simulated.expected_empty_prob)
    return {
        "title": title,
        **simulated.to_dict(),
        "histogram": (simulated.histogram / simulated.rounds).tolist(),
        "poisson": poisson.pmf(counts, law.uploads).tolist(),
    }


def _read(content: bytes, name: str, section: str) -> Crossings:
    """The crossings, through a file that is gone afterwards; only the ending of its name is taken from outside."""
    plain_name = PurePosixPath(name.replace("\\", "/")).name
    packed = plain_name.lower().endswith(".gz")
    kind = PurePosixPath(plain_name[:-3] if packed else plain_name).suffix.lower()
    if kind not in _KINDS:
        raise InputError(f"a trace must be a .csv, .txt or .xml file (.gz allowed), got {plain_name!r}")
    where = parse_section(section) if section else None
    # A file without a name: it is gone with this process, however that ends.
    with tempfile.TemporaryFile() as unnamed:
        unnamed.write(_unpacked(content) if packed else content)
        unnamed.seek(0)
        file = Path(f"/dev/fd/{unnamed.fileno()}")
        try:
            return read_crossings(file, where, kind)
        except InputError as error:
            raise InputError(_in_the_page(line, file, plain_name) for line in error.lines) from None


def _in_the_page(line: str, file: Path, name: str) -> str:
    """A reader's sentence with the name that the person knows, and without what the command line calls things."""
    return line.replace(str(file), name)


def _unpacked(content: bytes) -> bytes:
    """What was packed by gzip; a little that unpacks to very much is refused on the way."""
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = unpacker.decompress(content, MOST_BYTES + 1)
    except zlib.error as error:
        raise InputError(f"a .gz file must be packed by gzip, got {error}") from None
    if len(text) > MOST_BYTES:
        raise InputError(f"a trace must be at most {MOST_BYTES} bytes when unpacked, got more")
    if not unpacker.eof:
        raise InputError("a .gz file must be complete, got only a part")
    return text
