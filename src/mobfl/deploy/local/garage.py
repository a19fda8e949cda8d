"""The garage of a local deployment: a process that has Flower loaded and lets vehicles out as it is told.

Orders come as lines of JSON: `{"start": VEHICLE, "log": FILE}`, where a vehicle is a table as `mobfl vehicle` builds it
from its flags, and `{"signal": NUMBER, "name": NAME}`. When nobody is left to give orders, all vehicles leave, and what
else there was of the deployment is ended.
"""

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from mobfl.deploy.local.processes import kill_carrying, signal_group
from mobfl.deploy.vehicle import forks
from mobfl.deploy.vehicle.settings import Vehicle


class Garage:
    """Who is on the road, by name."""

    def __init__(self) -> None:
        self._vehicles = dict[str, int]()  # their processes, each of which leads a group

    def obey(self, order: dict[str, Any]) -> None:
        self.tidy()
        if "start" in order and order["start"]["name"] in self._vehicles:
            print(f"name must be unlike any other's on the road, got {order['start']['name']} again", file=sys.stderr)
        elif "start" in order:
            vehicle = Vehicle(**order["start"])
            self._vehicles[vehicle.name] = forks.let_out(vehicle, Path(order["log"]))
        elif order["name"] in self._vehicles:
            signal_group(self._vehicles[order["name"]], int(order["signal"]))

    def tidy(self) -> None:
        """Forgets those that have left."""
        gone = forks.ended(self._vehicles.values())
        self._vehicles = {name: process for name, process in self._vehicles.items() if process not in gone}

    def close(self) -> None:
        forks.take_off(self._vehicles.values())

    def follow_orders(self) -> None:
        """Until nobody is left to give any."""
        waiting = b""
        while True:
            ready, _, _ = select.select([0], [], [], 0.2)
            self.tidy()
            if not ready:
                continue
            received = os.read(0, 1 << 16)
            if not received:
                return
            *lines, waiting = (waiting + received).split(b"\n")
            for line in lines:
                self.obey(json.loads(line))


def main() -> None:
    garage = Garage()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        garage.follow_orders()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        garage.close()
    kill_carrying(f"FLWR_HOME={os.environ['FLWR_HOME']}")  # SuperLink detaches what it starts


if __name__ == "__main__":
    main()
