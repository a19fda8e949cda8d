"""Plans by name on the command line: what is wrong is one line, in the words of the flags."""

import json
from pathlib import Path

import pytest

from command import mobfl


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (
            ("train", "beams", "--plan", "adaptive:5", "--out", "run"),
            2,
            "--plan adaptive must have parameters as NAME=VALUE, got '5'",
        ),
        (("train", "beams", "--plan", "200,best", "--out", "run"), 3, "No plan is possible: H = 200"),
        (
            ("simulate", "--plan", "fedasync"),
            2,
            "--plan must be H,T, mobfl, anytime or adaptive to be simulated, got 'fedasync'",
        ),
        (("train", "beams", "--set", "training.decay_to=0", "--out", "run"), 2, "training.decay_to must be > 0, got 0"),
        (("train", "beams", "--set", "training.falling_to=2", "--out", "run"), 2, "training.falling_to must be <= 1"),
        (("train", "beams", "--set", "training.average_s=-1", "--out", "run"), 2, "training.average_s must be >= 0"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    tmp_path: Path, arguments: tuple[str, ...], status: int, line: str
) -> None:
    done = mobfl(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_command_line_simulates_plans_by_name(tmp_path: Path) -> None:
    done = mobfl("simulate", "--plan", "epoch,T0", "--rounds", "50", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    came = json.loads(done.stdout)
    assert (came["local_steps"], came["round_s"]) == (16, 20.0)
