"""LaneGCN and what it reads: equal to the plain way of writing it, and blind to what must not matter."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from command import but_compiling, mobfl
from mobfl import InputError, Scenario
from mobfl.cli.training import _tell_damaged
from mobfl.learning.holdings import check_samples, held_samples
from mobfl.learning.task import Pool
from mobfl.tasks.trajectories.baselines import along_the_lane, baseline_scores, straight_on
from mobfl.tasks.trajectories.batches import batch_of
from mobfl.tasks.trajectories.lane_graph import FAR, KINDS, SCALES, LaneGraph, lane_graph
from mobfl.tasks.trajectories.lanegcn import LaneGCN
from mobfl.tasks.trajectories.loss import lanegcn_loss
from mobfl.tasks.trajectories.recordings import LEFT, NO, STRAIGHT, UNKNOWN, YES, LaneMap, Recording
from mobfl.tasks.trajectories.scenes import MANOEUVRES, Scene, manoeuvre, scene_of
from mobfl.tasks.trajectories.scores import benchmark_scores
from mobfl.tasks.trajectories.store import open_store
from places import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

# A small world: a road of three lanes one after the other with a parallel one to its left, and a curve to the left.


def small_map() -> LaneMap:
    east = [np.stack([np.linspace(x, x + 27, 10), np.zeros(10)], axis=1) for x in (-40.5, -13.5, 13.5)]
    beside = np.stack([np.linspace(-13.5, 13.5, 10), np.full(10, 3.5)], axis=1)
    angle = np.linspace(0, np.pi / 2, 10)
    curve = np.stack([40.5 + 20 * np.sin(angle), 20 - 20 * np.cos(angle)], axis=1)
    lines = [*east, beside, curve]
    return LaneMap(
        points=np.concatenate(lines),
        offsets=np.arange(0, 51, 10),
        turn=np.array([STRAIGHT, STRAIGHT, STRAIGHT, UNKNOWN, LEFT], np.int8),
        control=np.array([NO, NO, YES, UNKNOWN, NO], np.int8),
        intersection=np.array([NO, NO, NO, UNKNOWN, YES], np.int8),
        successors=np.array([[0, 1], [1, 2], [2, 4]]),
        left=np.array([-1, 3, -1, -1, -1]),
        right=np.array([-1, -1, -1, 1, -1]),
    )


def recording(seed: int = 0, actors: int = 5, speed: float = 1.0) -> Recording:
    rng = np.random.default_rng(seed)
    start = np.column_stack([rng.uniform(-30, 10, actors), rng.choice([0.0, 3.5], actors)])
    start[0] = [-20.0, 0.0]
    velocity = np.column_stack([rng.uniform(0.2, 1.2, actors), rng.normal(0, 0.02, actors)])
    velocity[0] = [speed, 0.0]
    positions = start[:, None] + velocity[:, None] * np.arange(50)[None, :, None]
    return Recording(f"r{seed}", "X", positions + rng.normal(0, 0.02, positions.shape))


@pytest.fixture(scope="module")
def graph() -> LaneGraph:
    return lane_graph(small_map())


def scene(graph: LaneGraph, seed: int = 0, **changes: int) -> Scene:
    return scene_of(recording(seed, **changes), graph)


# The map as a graph ---------------------------------------------------------------------------------------------------


def taken(graph: LaneGraph, node: int, kind: int) -> list[int]:
    mine = graph.relations.taken[graph.relations.starts[node] : graph.relations.starts[node + 1]]
    return sorted((mine[mine % KINDS == kind] // KINDS).tolist())


def test_pieces_know_who_comes_before_and_after_at_every_scale(graph: LaneGraph) -> None:
    assert len(graph.centres) == 5 * 9
    assert graph.centres[0].tolist() == [-39.0, 0.0]
    assert graph.directions[0].tolist() == [3.0, 0.0]
    assert taken(graph, 10, 0) == [10]
    for scale in range(SCALES):
        step = 2**scale
        along = list(range(27)) + list(range(36, 45))  # the road's pieces in order, the curve's last
        for place, node in enumerate(along):
            before = [along[place - step]] if place >= step else []
            after = [along[place + step]] if place + step < len(along) else []
            assert taken(graph, node, 1 + scale) == before
            assert taken(graph, node, 1 + SCALES + scale) == after


def test_pieces_know_who_runs_beside(graph: LaneGraph) -> None:
    left, right = KINDS - 2, KINDS - 1
    assert [taken(graph, node, left) for node in (9, 13, 17)] == [[27], [31], [35]]
    assert [taken(graph, node, right) for node in (27, 31, 35)] == [[9], [13], [17]]
    assert taken(graph, 0, left) == taken(graph, 20, left) == taken(graph, 40, right) == []


def test_what_a_map_does_not_say_is_unknown(graph: LaneGraph) -> None:
    assert graph.meta[[0, 20, 30, 40]].tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [-1, -1, -1, -1], [1, 0, 0, 1]]


def test_a_part_of_the_graph_keeps_the_relations_within_it(graph: LaneGraph) -> None:
    chosen = np.array([9, 10, 12, 27])
    part = graph.relations.among(chosen)
    edges = {
        (i, int(t) // KINDS, int(t) % KINDS) for i in range(4) for t in part.taken[part.starts[i] : part.starts[i + 1]]
    }
    own = {(i, i, 0) for i in range(4)}
    assert edges == own | {
        (1, 0, 1), (0, 1, 1 + SCALES),  # 9 and 10 follow each other
        (2, 1, 2), (1, 2, 2 + SCALES),  # 10 and 12 at the second scale
        (0, 3, KINDS - 2), (3, 0, KINDS - 1),  # 27 beside 9
    }  # fmt: skip


def test_hops_are_layers_of_taking_in_neighbours(graph: LaneGraph) -> None:
    """Against sets that grow layer by layer."""
    for first in (0, 20, 31, 44):
        hops = graph.relations.hops_from(np.array([first], np.int32))
        reached, before = {first}, set[int]()
        for layer in range(6):
            assert set(np.flatnonzero(hops == layer).tolist()) == reached - before
            before = reached
            reached = before | {each for node in before for kind in range(KINDS) for each in taken(graph, node, kind)}
    assert (graph.relations.hops_from(np.empty(0, np.int32)) == FAR).all()


# Scenes ---------------------------------------------------------------------------------------------------------------


def test_a_scene_is_seen_from_the_agent(graph: LaneGraph) -> None:
    one = scene(graph)
    assert one.actors[0].tolist() == [0.0, 0.0]
    assert one.future[0, -1, 0] == pytest.approx(30.0, abs=0.5)
    assert abs(one.future[0, -1, 1]) < 3.0  # its last step is noisy, so its axis is not quite the road's
    assert one.to_map(one.future[0].astype(float)) == pytest.approx(recording().positions[0, 20:], abs=1e-4)
    assert one.steps[0, 0].tolist() == [0.0, 0.0, 1.0]


def test_only_the_unbroken_end_of_a_track_counts(graph: LaneGraph) -> None:
    broken = recording()
    broken.positions[1, 7] = np.nan
    broken.positions[2, 19] = np.nan  # not seen when the prediction starts: nobody
    broken.positions[3, 30:] = np.nan
    one = scene_of(broken, graph)
    assert len(one.actors) == 4
    assert one.steps[1, :, 2].tolist() == [0.0] * 8 + [1.0] * 12
    assert not one.steps[1, :9, :2].any()
    assert one.steps[1, 9:, :2].any(axis=1).all()
    assert one.seen[2].tolist() == [True] * 10 + [False] * 20
    assert np.isfinite(one.future).all()


def test_pairs_are_those_within_reach(graph: LaneGraph) -> None:
    one = scene(graph)
    for pairs, lookers, seen, reach in (
        (one.actors_to_map, one.nodes, one.actors, 7.0),
        (one.map_to_actors, one.actors, one.nodes, 6.0),
        (one.actors_to_actors, one.actors, one.actors, 100.0),
    ):
        expected = [
            [i, j] for i in range(len(lookers)) for j in range(len(seen)) if np.hypot(*(lookers[i] - seen[j])) <= reach
        ]
        assert pairs.tolist() == expected


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (lambda t: [10 * t, 0 * t], "straight"),
        (lambda t: [20 * np.sin(t / 3), 20 - 20 * np.cos(t / 3)], "left"),
        (lambda t: [20 * np.sin(t / 3), 20 * np.cos(t / 3) - 20], "right"),
        (lambda t: [0.1 * t, 0 * t], "stationary"),
    ],
)
def test_manoeuvres(way, name: str) -> None:  # type: ignore[no-untyped-def]
    t = np.arange(50) / 10
    assert MANOEUVRES[manoeuvre(Recording("r", "X", np.stack(way(t), axis=1)[None]))] == name


# LaneGCN --------------------------------------------------------------------------------------------------------------


def test_it_has_the_published_size() -> None:
    assert sum(p.numel() for p in LaneGCN(128).parameters()) == 3_701_161


@pytest.fixture(scope="module")
def model() -> LaneGCN:
    torch.manual_seed(0)
    return LaneGCN(16).eval()


def predict(model: LaneGCN, scenes: list[Scene]) -> tuple[np.ndarray, np.ndarray]:
    batch = batch_of(scenes)
    with torch.no_grad():
        futures, scores = model(batch)
    return futures[batch.agents].numpy(), scores[batch.agents].numpy()


def without_pairs(one: Scene) -> Scene:
    """Nobody near any lane, and an actor too far from the others: no pairs in any attention."""
    far = replace(one, nodes=one.nodes + np.float32(500))
    none = np.empty((0, 2), np.int32)
    return replace(far, actors_to_map=none, map_to_actors=none, actors_to_actors=none)


def test_scenes_of_a_batch_do_not_see_each_other(model: LaneGCN, graph: LaneGraph) -> None:
    """Scenes without pairs stand between them: in the public reference these shift the indices of later ones."""
    scenes = [
        scene(graph, 1),
        without_pairs(scene(graph, 2)),
        scene(graph, 3),
        without_pairs(scene(graph, 4)),
        scene(graph, 5),
    ]
    together = predict(model, scenes)
    for i, each in enumerate(scenes):
        alone = predict(model, [each])
        for a, b in zip(alone, together, strict=True):
            assert a[0] == pytest.approx(b[i], abs=2e-4)
    turned = predict(model, scenes[::-1])
    for a, b in zip(turned, together, strict=True):
        assert a[::-1] == pytest.approx(b, abs=2e-4)


def test_turning_and_shifting_a_scene_turns_and_shifts_the_prediction(model: LaneGCN) -> None:
    angle, shift = 1.1, np.array([5000.0, -300.0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    lanes, seen = small_map(), recording()
    moved_lanes = replace(lanes, points=lanes.points @ turn.T + shift)
    moved_seen = replace(seen, positions=seen.positions @ turn.T + shift)
    one, other = scene_of(seen, lane_graph(lanes)), scene_of(moved_seen, lane_graph(moved_lanes))
    here, there = (each.to_map(predict(model, [each])[0][0].astype(float)) for each in (one, other))
    assert there == pytest.approx(here @ turn.T + shift, abs=1e-2)


def test_an_empty_map_and_a_lone_agent_work(model: LaneGCN, graph: LaneGraph) -> None:
    nowhere = replace(recording(actors=1), positions=recording(actors=1).positions + 1e4)
    lone = scene_of(nowhere, graph)
    assert (len(lone.nodes), len(lone.actors)) == (0, 1)
    for scenes in ([lone], [lone, scene(graph)], [scene(graph, actors=1)]):
        futures, scores = predict(model, scenes)
        assert futures.shape == (len(scenes), 6, 30, 2)
        assert np.isfinite(futures).all()
        assert np.isfinite(scores).all()


def test_its_gradients_are_finite_and_reach_every_parameter(graph: LaneGraph) -> None:
    torch.manual_seed(1)
    model = LaneGCN(16)
    batch = batch_of([scene(graph, seed) for seed in range(4)])
    futures, scores = model(batch)
    loss = lanegcn_loss(futures, scores, batch.future, batch.seen)
    (loss + scores.square().sum() + futures.square().mean()).backward()  # the loss alone trains the best modes only
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_it_is_the_plain_port_computed_faster(graph: LaneGraph) -> None:
    """Outputs and all gradients against LaneGCN with loops over scenes and PyTorch's own indexing."""
    from plain_lanegcn import plain_forward

    scenes = [scene(graph, 1), scene(graph, 2, actors=1), scene(graph, 3)]
    torch.manual_seed(3)
    model, batch = LaneGCN(16), batch_of(scenes)
    gradients = []
    for futures, scores in (model(batch), plain_forward(model, scenes)):
        model.zero_grad()
        (lanegcn_loss(futures, scores, batch.future, batch.seen) + scores.square().sum()).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for ours, plain in zip(*gradients, strict=True):
        assert torch.allclose(ours, plain, atol=1e-3 * float(plain.abs().max()) + 1e-5)
    for ours, plain in zip(model(batch), plain_forward(model, scenes), strict=True):
        assert torch.allclose(ours, plain, atol=1e-4)


# Loss and KPI ---------------------------------------------------------------------------------------------------------


def test_the_loss_by_hand() -> None:
    truth = torch.zeros(1, 30, 2)
    futures = torch.full((1, 6, 30, 2), 50.0)
    futures[0, 1] = 0.5  # the best mode: half a metre off on both axes, everywhere
    futures[0, 2, :, 0], futures[0, 2, :, 1] = 0.6, 0.5  # ends less than 0.2 m farther away: not compared
    scores = torch.tensor([[0.1, 0.0, 5.0, -1.0, -0.1, 0.3]])
    seen = torch.ones(1, 30, dtype=torch.bool)
    # Leads over modes 0, 3, 4, 5: -0.1, 1.0, 0.1, -0.3; those below the margin lack 0.3, 0.1 and 0.5.
    expected = (0.3 + 0.1 + 0.5) / 3 + 2 * 0.5 * 0.5**2
    assert lanegcn_loss(futures, scores, truth, seen).item() == pytest.approx(expected, rel=1e-5)
    # Seen for ten steps only: the end that counts is the tenth.
    futures[0, 3, :10] = 0.0
    seen[:, 10:] = False
    # Now mode 3 is the best, and lacks 1.3, 1.2, 6.2, 1.1 and 1.5 to a lead of the margin over the others.
    assert lanegcn_loss(futures, scores, truth, seen).item() == pytest.approx(
        (1.3 + 1.2 + 6.2 + 1.1 + 1.5) / 5, rel=1e-5
    )
    unseen = torch.zeros(1, 30, dtype=torch.bool)
    assert lanegcn_loss(futures, scores, truth, unseen).item() == 0.0


def test_benchmark_scores_by_hand() -> None:
    truth = np.zeros((2, 30, 2))
    futures = np.zeros((2, 2, 30, 2))
    futures[0, 0, :, 0] = 1.0  # one metre off throughout
    futures[0, 1, :-1, 1] = 5.0  # far off, but ends on the spot: the benchmark's choice
    futures[1, :, :, 0] = [[3.0], [4.0]]
    found = benchmark_scores(futures, np.array([[0.9, 0.1], [0.2, 0.8]]), truth)
    assert found == pytest.approx(
        {
            "min_ade_6": (5 * 29 / 30 + 3) / 2, "min_fde_6": 1.5, "miss_rate_6": 0.5,
            "min_ade_1": (1 + 4) / 2, "min_fde_1": 2.5, "miss_rate_1": 0.5,
        }
    )  # fmt: skip
    just = np.zeros((1, 1, 30, 2))
    just[..., -1, 0] = 2.0
    assert benchmark_scores(just, np.ones((1, 1)), truth[:1])["miss_rate_6"] == 0.0  # a miss is beyond two metres


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_futures_that_are_not_finite_are_misses(value: float) -> None:
    truth = np.zeros((2, 30, 2))
    futures = np.zeros((2, 2, 30, 2))
    futures[0] = value  # nothing is left of the first scene's
    futures[1, 0] = value  # the second one's other future is right
    found = benchmark_scores(futures, np.array([[0.9, 0.1], [0.9, 0.1]]), truth)
    assert (found["miss_rate_6"], found["miss_rate_1"]) == (0.5, 1.0)
    assert found["min_ade_6"] == found["min_ade_1"] == found["min_fde_6"] == np.inf
    assert benchmark_scores(futures[1:], np.array([[0.9, 0.1]]), truth[1:])["min_ade_6"] == 0.0
    unscored = benchmark_scores(futures[1:], np.array([[value, 0.1]]), truth[1:])
    assert unscored["min_ade_1"] == (0.0 if np.isnan(value) else np.inf)  # a future without a score comes last


def test_baselines_go_straight_on_or_along_the_lane(graph: LaneGraph) -> None:
    seen = recording(actors=1)
    seen.positions[0] = np.column_stack([20.0 + 1.0 * np.arange(50), np.full(50, 0.5)])  # half a metre left of the line
    one = scene_of(seen, graph)
    on = one.to_map(straight_on(one))
    assert on == pytest.approx(np.column_stack([39.0 + np.arange(1, 31), np.full(30, 0.5)]), abs=1e-3)
    bent = one.to_map(along_the_lane(one))
    assert bent[0] == pytest.approx([40.0, 0.5], abs=0.1)
    way = 28.5 / 20  # of the curve, in radians
    assert bent[-1] == pytest.approx([40.5 + 20 * np.sin(way), 20 - 20 * np.cos(way) + 0.5], abs=0.6)
    speeds = np.linalg.norm(np.diff(bent, axis=0), axis=1)
    assert speeds == pytest.approx(np.ones(29), abs=0.02)
    found = baseline_scores([one])
    assert set(found) == {"constant velocity", "along the lane"}
    assert found["constant velocity"]["min_ade_1"] == pytest.approx(0.0, abs=1e-3)


# The store ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recorded:
    """Recordings of the small world, of which some are damaged."""

    count: int = 150
    damaged: tuple[int, ...] = ()
    log: str = ""
    cities: tuple[str, ...] = ("X",)

    @property
    def identity(self) -> str:
        return "recorded"

    def __len__(self) -> int:
        return self.count

    def read(self, number: int) -> tuple[Recording, LaneGraph]:
        if self.log:
            with Path(self.log).open("a") as log:
                log.write(f"{number}\n")
        if number in self.damaged:
            raise InputError(f"{number}.csv: is damaged")
        return recording(number, actors=1 + number % 4), lane_graph(small_map())


def assert_same_scene(one: Scene, other: Scene) -> None:
    for name in Scene.__dataclass_fields__:
        if name != "relations":
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.relations.taken.tobytes() == other.relations.taken.tobytes()


def test_scenes_come_back_as_they_were_made(tmp_path: Path) -> None:
    source, made = Recorded(damaged=(3, 149)), list[int]()
    store = open_store(source, tmp_path, workers=2, progress=made.append)
    assert made[-1] == 150
    assert len(store) == 148
    assert store.damaged == ("3.csv: is damaged", "149.csv: is damaged")
    assert store.names[2:4] == ("r2", "r4")
    for number in (0, 3, 100, 147):
        assert_same_scene(store[number], scene_of(*source.read(number + (number >= 3))))
    again = open_store(source, tmp_path, progress=lambda _: pytest.fail("made again"))
    assert_same_scene(again[5], store[5])
    assert isinstance(again.arrays["nodes"], np.memmap)


def test_a_store_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def stop(made: int) -> None:
        if made >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_store(Recorded(log=str(log)), tmp_path / "cache", progress=stop)
    store = open_store(Recorded(log=str(log)), tmp_path / "cache")
    assert len(store) == 150
    assert sorted(map(int, log.read_text().split())) == list(range(150))  # nothing was made twice
    (place,) = (tmp_path / "cache").iterdir()
    assert not list(place.glob("part-*"))
    assert len(json.loads((place / "index.json").read_text())["names"]) == 150


def test_damaged_sequences_are_named_and_counted_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    _tell_damaged(())
    assert capsys.readouterr().err == ""
    _tell_damaged(("3.csv: is damaged", "149.csv: is damaged"))
    assert capsys.readouterr().err == "3.csv: is damaged\n149.csv: is damaged\n2 damaged sequences are left out\n"


def test_a_source_that_is_all_damaged_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one recording must be undamaged, got 3 damaged ones"):
        open_store(Recorded(3, damaged=(0, 1, 2)), tmp_path)


# Splits by group ------------------------------------------------------------------------------------------------------


def test_a_vehicle_may_hold_one_citys_samples_only() -> None:
    pool = Pool(np.zeros(300, int), np.zeros(300), {"city": np.repeat([0, 1, 2], [200, 90, 10])})
    training = Scenario().with_values({"training.split": "city", "training.samples_per_vehicle": 100}).training
    check_samples(pool, training)
    sizes = []
    for seed in range(100):
        held = held_samples(np.random.default_rng(seed), pool, training)
        (city,) = set(pool.groups["city"][held].tolist())
        assert len(held) == len(set(held.tolist())) == {0: 100, 1: 90}[city]  # a third city is too small for a batch
        sizes.append(len(held))
    assert 15 < sizes.count(90) < 50
    with pytest.raises(
        InputError, match=r"training.split must be one of random, place, dirichlet for this task, got 'city'"
    ):
        check_samples(Pool(np.zeros(300, int), np.zeros(300)), training)


# The command ----------------------------------------------------------------------------------------------------------


def test_train_trajectories_on_the_command_line(tmp_path: Path) -> None:
    command = [
        "train", "trajectories", "thesis", "--plan", "2,12", "--option", "width=8",
        "--option", "training_samples=60", "--option", "validation_samples=12", "--set", "training.duration_s=36",
        "--set", "training.samples_per_vehicle=20", "--set", "training.batch_size=8", "--set", "training.split=manoeuvre",
    ]  # fmt: skip
    for name, more in (
        ("a", ["--workers", "1", "--scenes", "scenes.svg", "--plot", "curve.svg"]),
        ("b", ["--workers", "2"]),
    ):
        done = mobfl(*command, "--out", name, *more, cwd=tmp_path, MOBFL_CACHE=str(tmp_path / "cache"))
        assert (done.returncode, but_compiling(done)) == (0, [])
        assert "constant" in done.stdout
    for file in ("run.json", "rounds.parquet", "best.safetensors", "last.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    assert json.loads((tmp_path / "a" / "run.json").read_text())["data"]["damaged_sequences"] == 0
    drawn = (tmp_path / "scenes.svg").read_text()
    assert all(text in drawn for text in ("best 1: min_ade_6", "worst 3: min_ade_6", "m ahead of the agent", "truth"))
    assert "virtual time (s)" in (tmp_path / "curve.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--option", "width=30"], "--option width must be a multiple of 4, got 30"),
        (["--backend", "fused"], "--backend must be auto or torch for trajectories, got 'fused'"),
        (["--data", "nowhere"], "--data nowhere must be a folder with train and val: there is none"),
        (["--set", "training.split=town"], "training.split must be one of"),
        (["--scenes", "x.txt"], "--scenes must end in one of"),
    ],
)
def test_wrong_choices_get_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    small = ["--option", "training_samples=4", "--option", "validation_samples=2"] if "--data" not in arguments else []
    command = ["train", "trajectories", "--plan", "2,12", *small, "--out", "run", *arguments]
    done = mobfl(*command, cwd=tmp_path, MOBFL_CACHE=str(tmp_path / "cache"), MOBFL_DATA="")
    assert (done.returncode, done.stdout) == (2, "")
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_folders_of_argoverse(tmp_path: Path) -> None:
    from mobfl.tasks.trajectories.sources import Argoverse1, argoverse_sources

    with pytest.raises(InputError, match="must hold the folders train and val, got no train"):
        argoverse_sources(tmp_path)
    for part, count in (("train", 3), ("val", 2)):
        (tmp_path / part / "data").mkdir(parents=True)
        for number in range(count):
            (tmp_path / part / "data" / f"{number}.csv").write_text("TIMESTAMP,TRACK_ID,OBJECT_TYPE,X,Y,CITY_NAME\n")
    train, validation = argoverse_sources(tmp_path)
    assert isinstance(train, Argoverse1)
    assert (len(train), len(validation)) == (3, 2)
    before = train.identity
    (tmp_path / "train" / "data" / "1.csv").write_text("changed")
    assert argoverse_sources(tmp_path)[0].identity != before
    with pytest.raises(InputError, match=r"1\.csv"):
        train.read(1)
