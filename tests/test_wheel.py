"""As a new user would, in an empty folder with only the installed wheel: parts of one's own in every command."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from places import ROOT

SAMPLES = {
    "training.loss_scale": "sample",
    "training.samples_per_vehicle": 200,
    "training.batch_size": 32,
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with wheels of mobfl and of the example project; other libraries are those that are here."""
    folder = tmp_path_factory.mktemp("wheel")
    for project in (ROOT, ROOT / "examples" / "own_task"):
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    home = folder / "environment"
    venv.create(home, with_pip=False)
    site = next(home.glob("lib/python*/site-packages"))
    for wheel in folder.glob("*.whl"):
        shutil.unpack_archive(wheel, site, "zip")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))  # without what is editable there
    _add_commands(home / "bin")
    return home


def _add_commands(folder: Path) -> None:
    here, python = Path(sys.executable).parent, folder / "python"
    for name in ("mobfl", *(file.name for pattern in ("flwr*", "flower-*") for file in here.glob(pattern))):
        if (here / name).exists():
            body = (here / name).read_text().partition("\n")[2]
            (folder / name).write_text(f"#!{python}\n{body}")
            (folder / name).chmod(0o755)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for file in (ROOT / "examples" / "own_parts").glob("*.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def mobfl(home: Path, here: Path, *arguments: str) -> str:
    command = [str(home / "bin" / "mobfl"), *arguments]
    done = subprocess.run(command, cwd=here, env=environment(home), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def settings(duration_s: float) -> list[str]:
    return [f"--set={key}={value}" for key, value in (SAMPLES | {"training.duration_s": duration_s}).items()]


def test_it_is_the_wheel_that_runs(installed: Path, here: Path) -> None:
    ask = [str(installed / "bin" / "python"), "-c", "import mobfl; print(mobfl.__file__)"]
    place = subprocess.run(ask, cwd=here, env=environment(installed), capture_output=True, text=True, check=True).stdout
    assert Path(place.strip()).is_relative_to(installed)
    assert json.loads(mobfl(installed, here, "plan", "--json"))["local_steps"] == 24


def test_an_installed_task_has_a_name(installed: Path, here: Path) -> None:
    assert "quadrants" in mobfl(installed, here, "parts", "tasks")
    results = json.loads(mobfl(installed, here, "train", "quadrants", *settings(200), "--out", "run", "--json"))
    assert results["best"]["accuracy"] > 0.8
    stored = json.loads((here / "run" / "run.json").read_text())
    assert stored["data"]["code"] == {"package": "quadrants", "version": "0.1.0"}


@pytest.fixture
def runs(installed: Path, here: Path) -> Path:
    block = {
        "tasks": ["my_task:task"],
        "plans": ["10,8", "my_policy:Careful"],
        "rules": ["mean", "my_rule:Loudest"],
        "seeds": [1],
        "set": SAMPLES | {"training.duration_s": 200},
    }
    (here / "sweep.toml").write_text(tomli_w.dumps({"runs": [block]}))
    assert mobfl(installed, here, "sweep", "sweep.toml", "--out", "runs", "--workers", "2") == "4 done\n"
    return here / "runs"


def test_sweep_report_and_page_know_parts_of_ones_own(installed: Path, here: Path, runs: Path) -> None:
    listed = json.loads(mobfl(installed, here, "results", "runs", "--json"))
    assert sorted({row["rule"] for row in listed}) == ["mean", "my_rule:Loudest"]
    assert sorted({row["plan"] for row in listed}) == ["10,8", "my_policy:Careful"]
    assert all(row["best_accuracy"] > 0.7 for row in listed)
    mobfl(installed, here, "report", "runs")
    page = (runs / "report.html").read_text()
    assert "best accuracy" in page
    assert "generated" not in page  # nobody knows where its data are from
    rows = next(first_rows(installed, here, runs))
    assert {row["kpis"]["accuracy"]["label"] for row in rows} == {"accuracy"}


_TOKEN = "a-token-of-this-test"


def first_rows(home: Path, here: Path, runs: Path) -> Iterator[list[dict[str, dict[str, dict[str, str]]]]]:
    """What the page is told of the runs at once."""
    port = str(free_port())
    command = [str(home / "bin" / "mobfl"), "app", "--runs", str(runs), "--token", _TOKEN, "--port", port]
    with subprocess.Popen(command, cwd=here, env=environment(home), stdout=subprocess.PIPE, text=True) as page:
        try:
            yield json.loads(asked(f"http://127.0.0.1:{port}/api/live").removeprefix("data: "))["rows"]
        finally:
            page.terminate()


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(address: str, patience_s: float = 60.0) -> str:
    until = time.monotonic() + patience_s
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {_TOKEN}"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.readline().decode()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_parts_of_ones_own_on_real_nodes(installed: Path, here: Path) -> None:
    mobfl(
        installed, here, "deploy", "--local", "--task", "my_task:task", *settings(24), "--plan",
        "my_policy:Careful:most=5,round_s=12", "--rule", "my_rule:Loudest", "--local-training", "fedprox:mu=0.01",
        "--codec", "my_codec:Signs", "--set", "traffic.arrivals_per_s=0.3", "--scale", "1", "--seed", "1", "--out",
        "deployed", "--json",
    )  # fmt: skip
    stored = json.loads((here / "deployed" / "run.json").read_text())
    assert (stored["rule"], stored["codec"], stored["status"]) == ("my_rule:Loudest", "my_codec:Signs", "done")
    assert stored["results"]["rounds_with_uploads"] > 0, (here / "deployed" / "events.jsonl").read_text()
    assert stored["results"]["rejections"] == {}
