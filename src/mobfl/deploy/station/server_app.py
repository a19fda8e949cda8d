"""The base station's Flower app: reads the deployment from the app's configuration and serves it."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid import HttpGrid

from mobfl.deploy.events import EVENTS, EventLog
from mobfl.deploy.local.processes import die_with_parent
from mobfl.deploy.settings import CONFIG_KEY, Deployment
from mobfl.deploy.station.answers import FetchedEach
from mobfl.deploy.station.mailbox import SuperLinkMailbox
from mobfl.deploy.station.server import serve
from mobfl.mobility.recorded import read_crossings
from mobfl.runs.folder import is_locked

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Every start is a Flower run of its own, so its id tells messages of this server from those of one before."""
    die_with_parent()  # without a SuperLink there is nothing to do, and all that matters is on disk
    deployment = Deployment.from_json(str(context.run_config[CONFIG_KEY]))
    try:
        crossings = None if deployment.trace is None else read_crossings(Path(deployment.trace))
        fetch = FetchedEach(SuperLinkMailbox(grid)) if isinstance(grid, HttpGrid) else None
        serve(deployment, grid, str(context.run_id), crossings, fetch=fetch)
    except Exception as error:  # whoever follows the events learns of it
        tell_broken(Path(deployment.out), error)
        raise


def tell_broken(out: Path, error: Exception) -> None:
    """Not into the events of another server, which is at work in the folder while this one could not begin."""
    if not (out.is_dir() and is_locked(out)):
        EventLog(out / EVENTS).add("broke", -1, 0.0, reason=f"{type(error).__name__}: {error}")
