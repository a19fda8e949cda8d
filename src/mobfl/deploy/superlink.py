"""Flower's SuperLink, in a process that answers its own user only: `python -m mobfl.deploy.superlink ARGUMENTS`.

The arguments are those of `flower-superlink`. Where vehicles must sign what they send, the fleet's paths are open to
other users too, since the proxy in front may be one.
"""

import sys

from flwr.superlink.cli.flower_superlink import flower_superlink

from mobfl.deploy.guard import FLEET_PATHS, guard


def main() -> None:
    guard(open_to_others=FLEET_PATHS if "--enable-supernode-auth" in sys.argv else ())
    sys.argv[0] = "flower-superlink"
    flower_superlink()


if __name__ == "__main__":
    main()
