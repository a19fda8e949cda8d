"""What is handed out: a wheel and an sdist that hold the same, and extras that bring all that their part needs.

An environment here has what an extra declares, with whatever that needs in turn, and nothing else of what is installed.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from places import ROOT

_EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# By extra: a program that needs what it brings.
PROGRAMS = {
    "": "import mobfl.cli; assert mobfl.plan('paper').local_steps == 24",
    "figures": "mobfl.figures.draw_plan(mobfl.load_scenario(), mobfl.plan(), Path('a.pdf'))",
    "simulate": "import mobfl.rounds.air; mobfl.plan_many({'road.length_m': [100]}).to_arrow()",
    "train": "import mobfl.runs.training, mobfl.tasks.beams.task; mobfl.Job('beams', plan='24,11.8')",
    "torch": "import mobfl.tasks.images, mobfl.tasks.trajectories.task; mobfl.TorchTask",
    "experiments": "import mobfl.reports.page, mobfl.experiments.pool; mobfl.find_runs(Path())",
    "ray": "import ray.util.joblib",
    "tensorboard": "from mobfl.experiments.results import export_tensorboard; export_tensorboard([], Path('curves'))",
    "flower": "import mobfl.deploy.flower_app, mobfl.deploy.gateway, mobfl.deploy.superlink",
    "privacy": "import dp_accounting.rdp, dp_accounting.pld; import mobfl.runs.privacy",
    "app": "import mobfl.app.server",
    "notebook": "import ipykernel.kernelapp; mobfl.plan_many({'road.length_m': [100, 200]}).to_pandas()",
    "positions": "import pyproj, mobfl.mobility.positions",
    "sumo": "import libsumo, traci, sumolib, mobfl.mobility.sumo",
}
# By extra: what is said where it is missing.
DOORS = {
    "figures": ["plan", "--plot", "a.pdf"],
    "simulate": ["simulate", "--rounds", "10"],
    "train": ["train", "beams", "--out", "run"],
    "experiments": ["results", "."],
    "app": ["app"],
    "sumo": ["traffic", "--sumo", "town.net.xml", "--out", "a.csv"],
    "flower": ["deploy", "--local", "--out", "run"],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel, and in `again` the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("built")
    _build(ROOT, folder, "sdist", "wheel")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    _build(next(folder.glob("mobfl-*/")), folder / "again", "wheel")
    return folder


def _build(project: Path, out: Path, *kinds: str) -> None:
    wanted = [word for kind in kinds for word in ("-t", kind)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *wanted]
    subprocess.run(command, cwd=project, check=True, capture_output=True)


def test_the_sdist_builds_the_same_wheel(built: Path) -> None:
    ours, again = (zipfile.ZipFile(next(folder.glob("*.whl"))) for folder in (built, built / "again"))
    assert {name: ours.getinfo(name).CRC for name in ours.namelist()} == {
        name: again.getinfo(name).CRC for name in again.namelist()
    }
    kept = {f"mobfl/{file.relative_to(ROOT / 'src/mobfl')}" for file in _tracked()}
    assert kept <= set(ours.namelist())


def _tracked() -> list[Path]:
    """Everything of the package but what Python and Numba leave beside it."""
    files = [file for file in (ROOT / "src/mobfl").rglob("*") if file.is_file()]
    return [file for file in files if "__pycache__" not in file.parts]


def test_the_sdist_holds_nothing_else(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        tops = {Path(name).parts[1] for name in archive.getnames() if len(Path(name).parts) > 1}
    assert tops == {"src", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}


def test_every_extra_is_tried() -> None:
    assert {"", *_EXTRAS} - {"dev"} == PROGRAMS.keys()


@pytest.mark.parametrize("extra", PROGRAMS)
def test_an_extra_brings_what_its_part_needs(built: Path, extra: str, tmp_path: Path) -> None:
    for needed in {part for name in _distributions([f"mobfl[{extra}]"]) for part in _missing(name)}:
        pytest.skip(f"needs {needed}")
    python = _environment(built, extra, tmp_path)
    program = f"import mobfl, mobfl.figures; from pathlib import Path; {PROGRAMS[extra]}; print(mobfl.__file__)"
    done = subprocess.run([str(python), "-c", program], cwd=tmp_path, env=_plain(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


def test_what_is_missing_is_told_with_the_command_that_installs_it(built: Path, tmp_path: Path) -> None:
    python = _environment(built, "", tmp_path)
    for extra, arguments in DOORS.items():
        command = [str(python), "-m", "mobfl", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=_plain(), capture_output=True, text=True)
        assert done.returncode == 1, (extra, done.stderr)
        told = re.search(r"pip install 'mobfl\[(\w+)\]'", done.stderr)
        assert told is not None, (extra, done.stderr)
        assert told[1] in (extra, "simulate", "train"), done.stderr  # or one that it builds on


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _environment(built: Path, extra: str, folder: Path) -> Path:
    """Its Python: the wheel, and links to what the extra needs."""
    home = folder / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    libraries = Path(sysconfig.get_path("purelib"))
    for name in _distributions([f"mobfl[{extra}]"]):
        for top in _tops(distribution(name)):
            if not (site / top).exists():
                (site / top).symlink_to(libraries / top)
    return home / "bin" / "python"


def _tops(installed: Distribution) -> Iterable[str]:
    """The files and folders in which it lies."""
    parts = (file.parts[0] for file in installed.files or ())
    return {part for part in parts if part not in ("..", "__pycache__")}


def _missing(name: str) -> Iterator[str]:
    try:
        distribution(name)
    except ModuleNotFoundError:
        yield name


def _distributions(wanted: Iterable[str]) -> list[str]:
    """All that is needed for it, by name, without mobfl itself."""
    todo, seen, found = [Requirement(each) for each in wanted], set[tuple[str, str]](), dict[str, None]()
    while todo:
        each = todo.pop()
        for extra in ("", *each.extras):
            if (each.name, extra) not in seen:
                seen.add((each.name, extra))
                found[each.name] = None
                todo += _needed(each.name, extra)
    return [name for name in found if name != "mobfl"]


def _needed(name: str, extra: str) -> list[Requirement]:
    if name == "mobfl":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        return [Requirement(each) for each in (_EXTRAS[extra] if extra else project["dependencies"])]
    try:
        told = [Requirement(each) for each in distribution(name).requires or ()]
    except ModuleNotFoundError:  # which is said where it is wanted
        return []
    return [each for each in told if each.marker is None or each.marker.evaluate({"extra": extra})]
