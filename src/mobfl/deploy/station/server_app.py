"""The base station's Flower app: reads the deployment from the app's configuration and serves it."""

from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.superlink.grid import http_grid

from mobfl.deploy.events import EVENTS, EventLog
from mobfl.deploy.local.processes import die_with_parent
from mobfl.deploy.settings import CONFIG_KEY, Deployment
from mobfl.deploy.station.answers import FetchedAtOnce, FetchedBeside
from mobfl.deploy.station.server import serve
from mobfl.mobility.recorded import read_crossings
from mobfl.runs.folder import is_locked

# An upload that has begun must be complete after this long.
UNFINISHED_S = 10.0

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Every start is a Flower run of its own, so its id tells messages of this server from those of one before."""
    die_with_parent()  # without a SuperLink there is nothing to do, and all that matters is on disk
    limit_unfinished_uploads(UNFINISHED_S)
    deployment = Deployment.from_json(str(context.run_config[CONFIG_KEY]))
    try:
        crossings = None if deployment.trace is None else read_crossings(Path(deployment.trace))
        serve(deployment, grid, str(context.run_id), crossings, fetch=FetchedBeside(FetchedAtOnce(grid)))
    except Exception as error:  # whoever follows the events learns of it
        tell_broken(Path(deployment.out), error)
        raise


def tell_broken(out: Path, error: Exception) -> None:
    """Not into the events of another server, which is at work in the folder while this one could not begin."""
    if not (out.is_dir() and is_locked(out)):
        EventLog(out / EVENTS).add("broke", -1, 0.0, reason=f"{type(error).__name__}: {error}")


def limit_unfinished_uploads(most_s: float) -> None:
    """A vehicle that dies while it uploads leaves an answer in parts: it has failed, and is waited for no longer.

    Flower waits for the rest for two hours, and so would all that is fetched after it.
    """
    http_grid.pull_objects = partial(pull_objects, max_time=most_s, initial_backoff=0.05, backoff_cap=1.0)  # type: ignore[attr-defined]
