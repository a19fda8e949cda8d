"""Privacy and rounds with at least m uploads, as a shell sees them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mobfl
from command import mobfl as run
from mobfl import LeastUploads, Scenario
from mobfl.servers.names import server_of


def run_without(library: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = f"import sys; sys.modules[{library!r}] = None\nfrom mobfl.cli import main\nmain()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=cwd)


def test_a_plan_for_m_uploads_tells_its_promise_and_its_price() -> None:
    done = run("plan", "--least-uploads", "5", "--with-prob", "0.8", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(told)[:13] == [
        "status", "local_steps", "round_s", "objective", "expected_uploads", "valid_round_prob", "reason",
        "planner", "least_uploads", "with_prob", "least_uploads_prob", "free_objective", "price",
    ]  # fmt: skip
    best = mobfl.plan(mobfl.load_scenario("paper"), least=LeastUploads(5, 0.8))
    assert {key: told[key] for key in best.to_dict()} == best.to_dict()
    table = run("plan", "--least-uploads", "5").stdout
    assert "P{M ≥ 5}, chance of at least 5 uploads" in table
    assert "Price: 72.6% of the objective, which is 1.2147 /s without" in table
    assert "Loss of g" not in table


def test_no_plan_for_m_uploads_is_status_3() -> None:
    done = run("plan", "--least-uploads", "5", "--set", "road.length_m=40", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"], told["price"]) == (3, "infeasible", None)
    assert "lengthen the section beyond 44 m" in told["reason"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["--least-uploads", "0"], "--least-uploads must be a whole number from 1 to 1000000, got 0"),
        (["--least-uploads", "3", "--with-prob", "1"], "--with-prob must be > 0 and < 1, got 1"),
        (["--with-prob", "0.5"], "--with-prob goes with --least-uploads, got it alone"),
        (["--least-uploads", "3", "--trace", "x.csv"], "--least-uploads counts on Poisson traffic and goes without"),
    ],
)
def test_nonsense_gets_a_sentence_in_flags(given: list[str], line: str) -> None:
    done = run("plan", *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr


def test_a_promise_is_part_of_a_plans_name(paper: Scenario) -> None:
    described = server_of("mobfl:least=5,prob=0.8", None, paper, None).describe()
    best = mobfl.plan(paper, least=LeastUploads(5, 0.8))
    assert (described["local_steps"], described["round_s"]) == best.numbers[:2]
    assert (described["least_uploads"], described["price"]) == (5, best.price)
    free = mobfl.plan(paper)
    assert server_of("mobfl", None, paper, None).describe()["round_s"] == free.round_s
    with pytest.raises(mobfl.InputError, match=r"plan mobfl:least=-1,prob=0.9 makes no sense: least_uploads must be"):
        server_of("mobfl:least=-1", None, paper, None)
    with pytest.raises(mobfl.InputError, match=r"training.falling_to must be 1 with a plan for at least"):
        server_of("mobfl:least=5", None, paper.with_values({"training.falling_to": 0.5}), None)


TASK = """
from fake_task import CountingTask

def task():
    return CountingTask()
"""


def test_a_private_training_tells_its_epsilon(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    (tmp_path / "counting.py").write_text(f"import sys; sys.path.insert(0, {str(tests)!r})\n{TASK}")
    command = ["train", "counting:task", "--plan", "10,6", "--rule", "private:uploads=2,clip=5", "--out"]
    changes = ("samples_per_vehicle=20", "duration_s=200", "batch_size=8")
    road = [word for change in changes for word in ("--set", f"training.{change}")]
    done = run(*command, "run", *road, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "run" / "run.json").read_text())["results"]["privacy"]
    assert f"Privacy: ε = {told['epsilon']:.4g} at δ = 1e-05" in done.stdout
    missing = run_without("dp_accounting", *command, "other", *road, cwd=tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "accounting for privacy needs the extra 'privacy': pip install 'mobfl[privacy]'" in missing.stderr
    assert not (tmp_path / "other").exists()
