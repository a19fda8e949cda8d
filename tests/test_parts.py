"""Parts of one's own: found by name, made again for every run, and one sentence for what goes wrong."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import mobfl
from fake_task import CountingTask
from mobfl import InputError, Job, Kpi, MobflError, Order, Pool, Rounds, Upload, train
from mobfl.learning.rules import RULES
from mobfl.learning.weights import Weights
from mobfl.parts import Wish
from places import ROOT
from stories import BUSY, STEADY, STORY, columns, run, story

OWN = ROOT / "examples" / "own_parts"
QUICK = (
    "--set", "training.loss_scale=sample", "--set", "training.samples_per_vehicle=200",
    "--set", "training.batch_size=32", "--set", "training.duration_s=200", "--seed", "1",
)  # fmt: skip


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the examples' files in it."""
    for file in OWN.glob("*.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


# ---- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("mean", Wish("mean")),
        ("clip:times=2", Wish("clip", (), {"times": 2})),
        ("my_rule:Loudest", Wish("my_rule:Loudest")),
        ("my.pack:rule:share=0.5,most=3", Wish("my.pack:rule", (), {"share": 0.5, "most": 3})),
        ("my.pack:rule:3", Wish("my.pack:rule", ("3",))),
        ("nothing:3", Wish("nothing", ("3",))),
    ],
)
def test_a_last_piece_that_is_a_number_or_has_a_sign_is_parameters(text: str, wish: Wish) -> None:
    assert RULES.parse(text) == wish
    assert str(wish) == text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nowhere:rule", "rule 'nowhere:rule' cannot be found: there is no module 'nowhere' in"),
        ("json:rule", "rule 'json:rule' cannot be found: the module json has no 'rule'"),
        ("json:loads", "rule json:loads must be given s, as json:loads:s=…"),
        ("json:__name__", "rule 'json:__name__' must have the method apply or guard or step, got str"),
        ("builtins:dict", "rule 'builtins:dict' must make something with the method apply or guard or step, got {}"),
    ],
)
def test_a_name_that_leads_nowhere_gets_a_sentence(name: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        RULES.build(name)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_part_that_breaks_says_whose_fault_it_is(here: Path) -> None:
    (here / "broken.py").write_text("import numpy\n1 / 0\n")
    done = mobfl("train", "my_task:task", *QUICK, "--rule", "broken:rule", "--out", "run", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "rule 'broken:rule' cannot be imported: ZeroDivisionError: division by zero (broken.py, line 2)\n"
    )
    loud = mobfl("--verbose", "train", "my_task:task", *QUICK, "--rule", "broken:rule", "--out", "run", cwd=here)
    assert "Traceback" in loud.stderr
    assert loud.stderr.endswith(done.stderr)
    assert not (here / "run").exists()


def test_a_part_that_breaks_in_the_middle_of_a_run_is_named(here: Path) -> None:
    rule = "class Late:\n    def apply(self, state, model, uploads):\n        return state, model['nothing']\n"
    (here / "late.py").write_text(rule)
    done = mobfl("train", "my_task:task", *QUICK, "--rule", "late:Late", "--out", "run", cwd=here)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "a part of your own broke: KeyError: 'nothing' (late.py, line 3)\n"
    assert json.loads((here / "run" / "run.json").read_text())["status"] == "failed"


def test_mobfl_parts_lists_all_of_them() -> None:
    done = mobfl("parts", "--json", cwd=ROOT)
    rows = json.loads(done.stdout)
    assert {row["kind"] for row in rows} == {"tasks", "traffic", "schedules", "selections", "rules", "locals", "codecs"}
    assert all(row["summary"].endswith(".") for row in rows), rows
    adam = next(row for row in rows if row["name"] == "adam")
    assert adam["parameters"] == {"rate": 0.01, "beta1": 0.9, "beta2": 0.99, "tau": 0.001}


# ---- the examples, through the commands -------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("--rule=my_rule:Loudest", {"rule": "my_rule:Loudest"}),
        (
            "--rule=clip+my_rule:Loudest+momentum:beta=0.1",
            {"rule": "clip:times=3+my_rule:Loudest+momentum:beta=0.1,rate=1"},
        ),
        ("--plan=my_policy:Careful:most=20", {}),
        ("--plan=my_schedule:OnceEach:local_steps=8", {"rule": "clip:times=3+fedasync:mixing=0.6,staleness_power=0.5"}),
        ("--plan=selected:10,8,by=my_selection:Newest,slots=3", {"rule": "clip:times=3+cap:times=2+mean"}),
        ("--codec=my_codec:Signs", {"codec": "my_codec:Signs"}),
        ("--local=my_local:SignSteps:share=0.03", {"local": "my_local:SignSteps:share=0.03"}),
        ("--traffic=my_traffic:Ferry:cars=10", {}),
    ],
)
def test_every_example_trains(here: Path, option: str, written: dict[str, str]) -> None:
    done = mobfl("train", "my_task:task", *QUICK, option, "--out", "run", "--json", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads(done.stdout)
    assert results["best"]["accuracy"] > 0.8
    assert results["notices"] == []
    stored = json.loads((here / "run" / "run.json").read_text())
    assert {key: stored[key] for key in written} == written
    named = option.rpartition("by=")[2] if "by=" in option else option.partition("=")[2]
    module = named.split("+")[-2 if "+" in named else 0].partition(":")[0]
    files = {code["file"] for code in stored.get("parts", {}).values()}
    assert files == (set() if module == "my_traffic" else {f"{module}.py"})
    assert stored["data"]["code"]["file"] == "my_task.py"
    resumed = mobfl("train", "my_task:task", *QUICK, option, "--out", "run", "--resume", cwd=here)
    assert resumed.returncode == 0, resumed.stderr


def test_a_changed_part_is_another_run(here: Path) -> None:
    arguments = ("train", "my_task:task", *QUICK, "--rule", "my_rule:Loudest", "--out", "run")
    assert mobfl(*arguments, cwd=here).returncode == 0
    (here / "my_rule.py").write_text((here / "my_rule.py").read_text() + "\n# another one\n")
    done = mobfl(*arguments, "--resume", cwd=here)
    assert done.returncode == 2
    assert "parts.rule my_rule:Loudest.sha256 must be as in the run to be resumed" in done.stderr


# ---- state ----------------------------------------------------------------------------------------


class Forgetful:
    """A rule that keeps its state where it should not: in itself."""

    def __init__(self) -> None:
        self.seen = 0

    def apply(self, state: Any, model: Weights, uploads: Sequence[Upload]) -> tuple[Any, Weights]:
        self.seen += 1
        return state, {"w": model["w"] + np.float32(self.seen)}


class Drifting:
    """A policy with a memory."""

    def __init__(self) -> None:
        self.asked = 0

    def next_order(self, seen: Rounds | None) -> Order:
        self.asked += 1
        return Order(min(self.asked, 9), 5.0)


class Tiring:
    """Local training that grows weaker the more often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def train(self, task: Any, model: Weights, batches: Any, learning_rate: float) -> Weights:
        self.asked += 1
        return {"w": model["w"] + np.float32(1 / self.asked)}


@pytest.mark.parametrize("parts", [{"rule": Forgetful()}, {"plan": Drifting()}, {"local": Tiring()}])
def test_state_never_goes_from_one_run_to_the_next(tmp_path: Path, parts: dict[str, Any]) -> None:
    job = replace(Job(CountingTask(), BUSY, (5, 6.0), 3), **parts)
    first, second = train(job, tmp_path / "a"), train(job, tmp_path / "b")
    assert first.columns["count"].tolist() == second.columns["count"].tolist()
    assert first.columns["local_steps"].tolist() == second.columns["local_steps"].tolist()


def test_the_same_rule_twice_in_a_process_gives_the_same_rows() -> None:
    job = Job(CountingTask(), STEADY, (3, 5.0), 7, STORY, rule="clip+mean+momentum")
    assert columns(run(job), "count", "steps") == columns(run(job), "count", "steps")


def test_a_contribution_carries_its_own_steps() -> None:
    assert columns(story((3, 5.0)), "uploads", "steps") == [(1, 3), (2, 6), (0, 0)]


# ---- mistakes of a part -------------------------------------------------------------------------------


class Doubling:
    def apply(self, state: Any, model: Weights, uploads: Sequence[Upload]) -> Any:
        return state, {name: values.astype(float) for name, values in model.items()}


class Silent:
    def apply(self, state: Any, model: Weights, uploads: Sequence[Upload]) -> Any:
        return None


class Pairs:
    def next_order(self, seen: Rounds | None) -> Any:
        return 24, 10.0


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"rule": Doubling()}, "rule Doubling must give a model like the one it got, got one that is wrong shape"),
        ({"rule": Silent()}, "rule Silent must give its state and a model, got None"),
        ({"plan": Pairs()}, r"plan Pairs must give a mobfl.Order, got \(24, 10.0\)"),
        ({"rule": ""}, "rule must be one of clip, .*, got ''"),
        ({"local": ""}, "local training must be one of sgd, .*, got ''"),
        ({"codec": ""}, "codec must be one of plain, .*, got ''"),
        ({"rule": "clip:times=abc"}, "rule clip must have a number for times, got 'abc'"),
        ({"rule": "clip:times=true"}, "rule clip must have a number for times, got 'true'"),
        ({"codec": "half:most=1"}, "codec half has no parameter most: it takes none"),
    ],
)
def test_what_a_part_gives_back_is_looked_at(tmp_path: Path, parts: dict[str, Any], line: str) -> None:
    with pytest.raises(MobflError, match=line) as error:
        train(replace(Job(CountingTask(), BUSY, (5, 6.0), 3), **parts), tmp_path / "run")
    assert "\n" not in str(error.value)


# ---- mistakes of a task -------------------------------------------------------------------------------


class Doubles(CountingTask):
    def initial_weights(self, seed: int) -> Weights:
        return {"w": np.zeros(1)}  # type: ignore[dict-item]


class WithoutLoss(CountingTask):
    def evaluate(self, model: Weights) -> dict[str, float]:
        return {"count": 1.0}


class WithoutPool(CountingTask):
    def __init__(self) -> None:
        super().__init__()
        self.pool = None  # type: ignore[assignment]


class Bare:
    """No more than methods."""

    name = "bare"
    initial_weights = CountingTask.initial_weights
    local_steps = CountingTask.local_steps
    evaluate = CountingTask.evaluate


class OldKpis(CountingTask):
    kpis = {"count": True}  # type: ignore[assignment]  # noqa: RUF012


class Unlabelled(CountingTask):
    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(size=50)


class WithoutKpis(CountingTask):
    kpis = ()

    def evaluate(self, model: Weights) -> dict[str, float]:
        return {"loss": super().evaluate(model)["loss"]}


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (Doubles(), r"task counting must have weights that are arrays of float32, got float64 for 'w'"),
        (WithoutLoss(), r"task counting must score loss, count when it evaluates, got no loss"),
        (WithoutPool(), r"task counting must have a pool of training samples \(mobfl.Pool\), got None"),
        (Bare(), r"task bare must have kpis, which may be empty, got none"),
        (OldKpis(), r"task counting must list its KPIs as mobfl.Kpi, got \{'count': True\}"),
    ],
)
def test_a_tasks_mistakes_are_found_before_the_first_round(tmp_path: Path, task: CountingTask, line: str) -> None:
    with pytest.raises(InputError, match=line):
        train(Job(task, BUSY, (5, 6.0)), tmp_path / "run")
    assert not list(tmp_path.glob("run/*"))


@pytest.mark.parametrize(("split", "lacks"), [("place", "places"), ("dirichlet", "labels")])
def test_a_split_that_needs_what_a_task_lacks_says_so(tmp_path: Path, split: str, lacks: str) -> None:
    scenario = BUSY.with_values({"training.split": split})
    with pytest.raises(InputError, match=f"training.split must be one that needs no {lacks}"):
        train(Job(Unlabelled(), scenario, (5, 6.0)), tmp_path / "run")
    assert len(train(Job(Unlabelled(), BUSY, (5, 6.0)), tmp_path / "random")) > 5


def test_a_task_without_a_kpi_works(tmp_path: Path) -> None:
    from mobfl.figures import draw_history

    history = train(Job(WithoutKpis(), BUSY, (5, 6.0)), tmp_path / "run")
    assert history.leading.name == "loss"
    draw_history(history, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_a_kpi_is_a_noun() -> None:
    assert Kpi("miss_rate", "miss rate", "%").title == "miss rate (%)"
    with pytest.raises(InputError, match="a KPI's name must be a word of letters, digits and _, got 'top 10'"):
        Kpi("top 10")
