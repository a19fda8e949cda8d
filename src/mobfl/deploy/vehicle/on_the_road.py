"""What `mobfl vehicle` does: a vehicle, and a trainer if it has its own, on the road until they are told to leave."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mobfl.deploy.vehicle import forks
from mobfl.deploy.vehicle.driving import Leaving, leaving_by_signal
from mobfl.deploy.vehicle.link import Say
from mobfl.deploy.vehicle.own_trainer import OwnTrainer
from mobfl.deploy.vehicle.settings import Vehicle

_LOOK_S = 0.1
_APART_S = 1.0  # between two processes of a vehicle that crashes


def keep_on_the_road(vehicle: Vehicle, say: Say, look_after: Callable[[], None] = lambda: None) -> bool:
    """Until a signal says to leave; False if the base station will not have it, which it has said then.

    The vehicle is a process below this one, so that nothing that it gets or does can end more than that process.
    """
    with leaving_by_signal():
        while (status := _one_process(vehicle, look_after)) not in (forks.LEFT, forks.REFUSED):
            say(f"{vehicle.name} has ended by itself, with status {status}: letting it out again")
            time.sleep(_APART_S)
        return status == forks.LEFT
    return True


def _one_process(vehicle: Vehicle, look_after: Callable[[], None]) -> int:
    process = forks.let_out(vehicle)
    try:
        while (gone := forks.ended([process])) == {}:
            look_after()
            time.sleep(_LOOK_S)
    except Leaving:
        forks.take_off([process])
        raise
    return gone[process]


def with_own_trainer(vehicle: Vehicle, trainer: Sequence[str], say: Say) -> bool:
    """The same with a trainer of these arguments, which ends with it; the vehicle joins when that is ready."""
    with leaving_by_signal(), TemporaryDirectory(prefix="mobfl-") as folder:
        socket = Path(folder) / "trainer"
        with closing(OwnTrainer(trainer, socket, say)) as own:
            own.wait()
            return keep_on_the_road(replace(vehicle, trainer=str(socket)), say, own.mend)
    return True
