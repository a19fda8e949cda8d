"""The Flower app that carries a deployment: a folder as `flwr run` wants it, and how to reach a SuperLink."""

from importlib.metadata import version
from pathlib import Path

import tomli_w

from mobfl.deploy.settings import CONFIG_KEY, Deployment
from mobfl.errors import InputError

# Without these Flower asks the internet for news and SuperLink starts an installer; tasks are looked for often, since
# every second of waiting is a second less on the road.
ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
}
CONNECTION = "mobfl"  # the SuperLink's name in Flower's configuration


def write_app(folder: Path, deployment: Deployment) -> None:
    """The folder that `flwr run` takes; the code is mobfl's, which every machine has installed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"app {folder} must be a new or empty folder, got something else")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(tomli_w.dumps(_project(deployment)), encoding="utf-8")


def _project(deployment: Deployment) -> dict[str, object]:
    components = {
        "serverapp": "mobfl.deploy.station.server_app:app",
        "clientapp": "mobfl.deploy.vehicle.client_app:app",
    }
    return {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {
            "name": "mobfl-deployment",
            "version": version("mobfl"),
            "description": "Federated learning on vehicles that are only passing by",
            "license": "Apache-2.0",
            "dependencies": [f"mobfl[flower]=={version('mobfl')}"],
        },
        "tool": {
            "flwr": {
                "app": {
                    "publisher": "mobfl",
                    "components": components,
                    "config": {CONFIG_KEY: deployment.to_json()},
                }
            }
        },
    }


def write_connection(flower_home: Path, address: str) -> None:
    """Flower's configuration with one SuperLink on this machine, for `flwr run FOLDER mobfl`."""
    flower_home.mkdir(parents=True, exist_ok=True)
    link = {"default": CONNECTION, CONNECTION: {"address": address, "insecure": True}}
    (flower_home / "config.toml").write_text(tomli_w.dumps({"superlink": link}), encoding="utf-8")
