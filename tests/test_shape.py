"""The project's shape: public names, import layers, what an import costs."""

import json
import subprocess
import sys
from pathlib import Path

import mobfl
from places import ROOT


def test_the_public_names_are_exactly_these() -> None:
    assert mobfl.__all__ == sorted(mobfl.__all__)
    assert set(mobfl.__all__) == {
        "AnytimePlan", "AnytimeSimulation", "AsManyAsFit", "Candidate", "Codec", "Contribution", "Crossings", "Effort",
        "GuaranteedPlan", "Hindsight", "History", "InfeasibleError",
        "InputError", "Job", "Kpi", "LeastUploads", "LocalTraining", "MissingExtraError", "MobflError", "Order",
        "PartError", "Plan", "PlanRequest", "Plans", "PlayedPlan", "Policy", "Pool", "RecordedDeployment", "Results",
        "RoundAhead", "Rounds", "Rule",
        "Scenario", "Schedule", "Selection", "ServerStep", "SgdTerms", "SimulatedAnytimePlan", "SimulatedPlan",
        "Simulation", "Site", "State", "Task",
        "TaskRequest", "TorchTask", "Tracks",
        "TracePlan", "TrafficSource", "Upload", "Weights", "algorithm_1", "best_round_s", "build_task", "find_runs",
        "in_hindsight", "load_scenario", "load_sweep", "plan", "plan_anytime", "plan_by_simulation", "plan_many",
        "plan_quickly", "read_crossings", "read_deployment", "read_history", "read_stations", "run_sweep",
        "simulate", "theory", "train",
        "ChosenSite", "DayPlans", "Network", "NetworkEdge", "SiteChoice", "SpanPlan", "choose_sites", "plan_over_day",
        "read_network",
    }  # fmt: skip
    assert all(hasattr(mobfl, name) for name in mobfl.__all__)


def test_imports_point_one_way() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint_imports], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def loaded_by(code: str) -> set[str]:
    ask = f"{code}\nimport sys, json; sys.stderr.write(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stderr)}


def test_planning_loads_nothing_heavy() -> None:
    heavy = {"torch", "matplotlib", "scipy", "numba", "pandas", "pyarrow", "rich"}
    assert not loaded_by("import mobfl") & heavy
    plan_json = (
        "import sys; sys.argv = ['mobfl', 'plan', '--json']\nfrom mobfl.cli import main\n"
        "try: main()\nexcept SystemExit: pass"
    )
    assert not loaded_by(plan_json) & heavy


def test_the_page_does_without_the_other_extras() -> None:
    others = {"torch", "matplotlib", "duckdb", "jinja2", "joblib", "pandas", "flwr"}
    assert not loaded_by("import mobfl.app.serving, mobfl.cli") & others


def test_training_on_a_cpu_does_without_torch() -> None:
    assert "torch" not in loaded_by("import mobfl.runs.training, mobfl.tasks.catalogue")
