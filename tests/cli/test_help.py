"""What the command line says of itself: whole sentences, completion, the first mistake first, no unwanted colours."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mobfl.cli import cli
from mobfl.errors import counted
from mobfl.theory import KNOWLEDGE


def test_summaries_are_whole_in_80_columns() -> None:
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    assert "..." not in shown.partition("Commands:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    assert "batches, and compare them with MOB-FL's plan." in shown


@pytest.mark.parametrize("name", cli.commands)
def test_every_commands_help_is_whole_in_80_columns(name: str) -> None:
    shown = CliRunner().invoke(cli, [name, "--help"], terminal_width=80).output
    assert max(map(len, shown.splitlines())) <= 80
    assert not [line for line in shown.splitlines() if line.endswith("...")]


def completed(words: str) -> list[str]:
    environment = os.environ | {
        "_MOBFL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip
    mobfl = [sys.executable, "-c", "import sys; sys.argv[0] = 'mobfl'; from mobfl.cli import main; main()"]
    done = subprocess.run(mobfl, env=environment, capture_output=True, text=True, timeout=120)
    return [line.removeprefix("plain,") for line in done.stdout.split() if line.startswith("plain,")]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mobfl plan hi", ["highway", "highway-radio"]),
        ("mobfl train be", ["beams"]),
        ("mobfl train beams --rule clip+tr", ["clip+trimmed"]),
        ("mobfl simulate --plan any", ["anytime"]),
        ("mobfl plan --set traffic.sp", ["traffic.speed_mps=", "traffic.speed_sd_mps="]),
        ("mobfl parts ru", ["rules"]),
        ("mobfl plan --for any", ["anytime", *(f"anytime:knows={each}" for each in KNOWLEDGE)]),
        ("mobfl deploy --local --task im", ["images"]),
        ("mobfl deploy --local --local-training fedp", ["fedprox"]),
        ("mobfl replay run --plan any", ["anytime"]),
        ("mobfl train beams --backend fu", ["fused"]),
        ("mobfl train beams --device cu", ["cuda"]),
        ("mobfl arena bea", ["beams"]),
        ("mobfl arena --rules clip+me", ["clip+mean", "clip+median"]),
        ("mobfl reproduce --sweep arena-", ["arena-quick"]),
    ],
)  # fmt: skip
def test_a_shell_completes_scenarios_tasks_and_parts(words: str, offered: list[str]) -> None:
    assert completed(words) == offered


_TAB = """
eval "$(_MOBFL_COMPLETE=bash_source mobfl)"
COMP_WORDS=(mobfl train bea) COMP_CWORD=2
_mobfl_completion mobfl bea train
echo "${COMPREPLY[@]}"
"""


def test_bash_itself_completes() -> None:
    """With the function that the README has a reader put into ~/.bashrc."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", _TAB], env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "beams\n", done.stderr


def test_a_wrong_task_is_told_before_a_missing_folder() -> None:
    with pytest.raises(Exception, match=re.escape("TASK must be one of beams, trajectories, images")) as caught:
        CliRunner().invoke(cli, ["train", "beam"], catch_exceptions=False)
    assert str(caught.value).endswith("got 'beam'; did you mean beams?")
    assert "Missing option '--out'" in CliRunner().invoke(cli, ["train", "beams"]).output


@pytest.mark.parametrize(("environment", "coloured"), [({"NO_COLOR": "1"}, False), ({}, True)])
def test_no_color_is_honoured(environment: dict[str, str], coloured: bool) -> None:
    """On a terminal; bold and dim are no colours."""
    own, theirs = pty.openpty()
    code = "from mobfl.cli.options import console; console().print('[red]failed[/]')"
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    with os.fdopen(theirs, "wb") as terminal:
        given = plain | {"TERM": "xterm-256color"} | environment
        subprocess.run([sys.executable, "-c", code], env=given, stdout=terminal, check=True)
    said = os.read(own, 1000).decode()
    os.close(own)
    assert ("\x1b[31m" in said) == coloured
    assert "failed" in said


def test_one_is_singular(tmp_path: Path) -> None:
    assert [counted(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert counted(2, "study", "studies") == "2 studies"
    shown = CliRunner().invoke(cli, ["simulate", "--plan", "24,11.8", "--rounds", "1"], catch_exceptions=False).output
    assert shown.startswith("1 round with H = 24")
