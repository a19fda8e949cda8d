"""Argoverse's sequences, scenarios and maps: what is read, what is inferred, and what is said of damage."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from mobfl import InputError
from mobfl.tasks.trajectories.argoverse1 import read_sequence, sequence_files
from mobfl.tasks.trajectories.argoverse2 import read_scenario
from mobfl.tasks.trajectories.argoverse_maps import (
    inferred_neighbours,
    inferred_successors,
    read_centerlines,
    read_map,
    read_vector_map,
)
from mobfl.tasks.trajectories.recordings import LEFT, NO, RIGHT, STRAIGHT, UNKNOWN, YES
from places import DATA

ARGOVERSE = DATA / "argoverse1"
HEADER = "TIMESTAMP,TRACK_ID,OBJECT_TYPE,X,Y,CITY_NAME"


def real(name: str) -> Path:
    if not (ARGOVERSE / name).exists():
        pytest.skip(f"no {name} in {ARGOVERSE} (set MOBFL_ARGOVERSE)")
    return ARGOVERSE / name


# Sequences ------------------------------------------------------------------------------------------------------------


def rows() -> list[list[str]]:
    """The AGENT b drives east at 10 m/s, the AV z stands, a and c are seen at some steps only."""
    found = []
    for step in range(50):
        stamp = f"{315966518 + 0.1 * step:.6f}"
        found.append([stamp, "c", "OTHERS", "7.0", f"{step}", "MIA"] if step in (3, 4, 6) else [])
        found.append([stamp, "z", "AV", "5.0", "6.0", "MIA"])
        found.append([stamp, "b", "AGENT", f"{step}", "2.5", "MIA"])
        found.append([stamp, "a", "OTHERS", "-1.0", "-2.0", "MIA"] if step == 49 else [])
    return [row for row in found if row]


def csv(lines: list[list[str]], header: str = HEADER) -> bytes:
    return "\n".join([header, *(",".join(line) for line in lines), ""]).encode()


def test_a_sequence_has_the_agent_first_then_the_av_then_the_others_by_name(tmp_path: Path) -> None:
    (tmp_path / "12.csv").write_bytes(csv(rows()))
    recording = read_sequence(tmp_path / "12.csv")
    agent, av, a, c = recording.positions
    assert (recording.name, recording.city, recording.positions.shape) == ("12", "MIA", (4, 50, 2))
    assert agent.tolist() == [[step, 2.5] for step in range(50)]
    assert (av == [5.0, 6.0]).all()
    assert np.flatnonzero(np.isfinite(a).all(axis=1)).tolist() == [49]
    assert a[49].tolist() == [-1.0, -2.0]
    assert np.flatnonzero(np.isfinite(c).any(axis=1)).tolist() == [3, 4, 6]
    assert c[[3, 4, 6]].tolist() == [[7.0, 3.0], [7.0, 4.0], [7.0, 6.0]]


def test_the_order_of_rows_and_columns_and_the_end_of_lines_do_not_matter() -> None:
    lines = [[*row[:3], "extra", *row[:2:-1]] for row in np.random.default_rng(0).permutation(rows())]
    text = csv(lines, "TIMESTAMP,TRACK_ID,OBJECT_TYPE,NOTE,CITY_NAME,Y,X").replace(b"\n", b"\r\n").rstrip()
    np.testing.assert_array_equal(read_sequence("1.csv", text).positions, read_sequence("1.csv", csv(rows())).positions)


def replaced(column: int, value: str, which: Callable[[list[str]], bool]) -> bytes:
    return csv([[*row[:column], value, *row[column + 1 :]] if which(row) else row for row in rows()])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "must be an undamaged CSV, got: Empty CSV file"),
        (csv([]), "must have rows, got only a header"),
        (csv(rows(), HEADER.replace("X,Y", "x,Z")), "got no X, Y"),
        (csv(rows())[:-30], "must be an undamaged CSV"),
        (replaced(3, "east", lambda row: row[1] == "a"), "invalid value 'east'"),
        (replaced(3, "nan", lambda row: row[1] == "a"), "X must be a finite number, got nan in row 104"),
        (replaced(4, "inf", lambda row: row[1] == "a"), "Y must be a finite number, got inf in row 104"),
        (replaced(4, "", lambda row: row[1] == "a"), "Y must be a finite number, got nan in row 104"),
        (csv(rows()[:-3]), "TIMESTAMP must have 50 different values, got 49"),
        (csv([*rows(), ["9", *rows()[0][1:]]]), "TIMESTAMP must have 50 different values, got 51"),
        (replaced(2, "OTHERS", lambda row: row[1] == "b"), "AGENT for exactly one TRACK_ID, got 0"),
        (replaced(2, "AGENT", lambda row: row[1] == "c"), "AGENT for exactly one TRACK_ID, got 2"),
        (
            csv([row for row in rows() if row[1:4] != ["b", "AGENT", "7"]]),
            "b, must be seen at all 50 time steps, got 49",
        ),
        (csv([*rows(), rows()[-1]]), "one position per time step, got two for a"),
        (replaced(5, "PIT", lambda row: row[1] == "a"), "CITY_NAME must be one city throughout, got 'MIA', 'PIT'"),
        (replaced(5, "", lambda row: bool(row)), "CITY_NAME must be one city throughout, got ''"),
        (b"\xff\xfe\x00" * 99, "must be"),
    ],
)
def test_a_damaged_sequence_is_named_with_what_is_wrong(data: bytes, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        read_sequence("train/77.csv", data)
    assert error.value.lines[0].startswith("train/77.csv: ")
    assert sentence in error.value.lines[0]
    assert "\n" not in str(error.value)


def test_a_sequence_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read: No such file"):
        read_sequence(tmp_path / "none.csv")


@pytest.mark.parametrize("folder", [".", "data"])
def test_sequences_come_in_the_order_of_their_numbers(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    for name in ("10.csv", "2.csv", "1.csv", "._1.csv", "b1.csv", "notes.txt"):
        (tmp_path / folder / name).touch()
    assert [file.name for file in sequence_files(tmp_path)] == ["1.csv", "2.csv", "10.csv", "b1.csv"]


def test_a_folder_without_sequences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a folder of Argoverse sequences"):
        sequence_files(tmp_path)


def track_by_track(data: bytes) -> np.ndarray:
    """What read_sequence returns, the slow way."""
    table = pandas.read_csv(io.BytesIO(data), dtype={"TRACK_ID": str})
    stamps = sorted(set(table.TIMESTAMP))
    positions: dict[str, list[np.ndarray]] = {"AGENT": [], "AV": [], "OTHERS": []}
    for _, track in table.groupby("TRACK_ID"):
        places = np.full((50, 2), np.nan)
        places[[stamps.index(stamp) for stamp in track.TIMESTAMP]] = track[["X", "Y"]]
        positions[track.OBJECT_TYPE.iloc[0]].append(places)
    return np.stack(positions["AGENT"] + positions["AV"] + positions["OTHERS"])


def test_real_sequences_read_as_pandas_reads_them() -> None:
    seen = 0
    with tarfile.open(real("forecasting_sequences.tar.bz2"), "r|bz2") as archive:
        for member in archive:
            if seen == 25:
                break
            if member.name.endswith(".csv"):
                content = archive.extractfile(member)
                assert content is not None
                data = content.read()
                np.testing.assert_array_equal(read_sequence(member.name, data).positions, track_by_track(data))
                seen += 1
    assert seen == 25


# The official map -----------------------------------------------------------------------------------------------------

WAYS = {  # lane: places, tags
    "100": ([(0, 0), (10, 0)], {"turn_direction": "NONE", "has_traffic_control": "False", "is_intersection": "False"}),
    "200": ([(10, 0), (20, 0)], {"turn_direction": "LEFT", "has_traffic_control": "True", "is_intersection": "True"}),
    "300": ([(0, 3), (5, 3), (10, 3)], {"turn_direction": "RIGHT"}),
    "400": ([(10, 6), (0, 6)], {}),
}
LINKS = [
    ("100", "l_neighbor_id", "300"),
    ("100", "r_neighbor_id", "None"),
    ("100", "successor", "200"),
    ("100", "predecessor", "999"),
    ("200", "predecessor", "300"),
    ("300", "r_neighbor_id", "100"),
    ("300", "l_neighbor_id", "400"),
    ("400", "l_neighbor_id", "300"),
]


def vector_map(around: str = "<ArgoverseVectorMap>{}</ArgoverseVectorMap>") -> str:
    lines, node = list[str](), 0
    for lane, (places, tags) in WAYS.items():
        way = [f'<way lane_id="{lane}">', *(f'<tag k="{key}" v="{value}" />' for key, value in tags.items())]
        for x, y in places:
            lines.append(f'<node id="{node}" x="{x}.5" y="{y}.25" />')
            way.append(f'<nd ref="{node}" />')
            node += 1
        way += [f'<tag k="{key}" v="{value}" />' for name, key, value in LINKS if name == lane]
        lines += [*way, "</way>"]
    return around.format("\n".join(["", *lines, ""]))


def test_a_vector_map_has_all_attributes_and_links(tmp_path: Path) -> None:
    """Lane 999 was pruned, and lane 400 is the oncoming one, which both neighbours call left."""
    file = tmp_path / "maps" / "pruned_argoverse_MIA_10316_vector_map.xml"
    file.parent.mkdir()
    file.write_text(vector_map())
    lanes = read_map(tmp_path, "MIA")
    assert [len(lanes.line(lane)) for lane in range(4)] == [2, 2, 3, 2]
    assert lanes.line(2).tolist() == [[0.5, 3.25], [5.5, 3.25], [10.5, 3.25]]
    assert lanes.turn.tolist() == [STRAIGHT, LEFT, RIGHT, UNKNOWN]
    assert lanes.control.tolist() == [NO, YES, UNKNOWN, UNKNOWN]
    assert lanes.intersection.tolist() == [NO, YES, UNKNOWN, UNKNOWN]
    assert lanes.successors.tolist() == [[0, 1], [2, 1]]
    assert lanes.left.tolist() == [2, -1, -1, -1]
    assert lanes.right.tolist() == [-1, -1, 0, -1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: there must be complete XML, got no element found"),
        (vector_map()[:-9], "there must be complete XML"),
        (vector_map("<!DOCTYPE a [<!ENTITY b 'c'>]><a>{}</a>"), "line 1: there must be elements only, got a DOCTYPE"),
        ("<a />", "must hold lanes with different names, got 0 with 0 names"),
        (vector_map().replace('"200"', '"100"'), "got 4 with 3 names"),
        (vector_map().replace('ref="1"', 'ref="77"'), "nodes that the map holds, got '77' in lane 100"),
        (vector_map().replace(' y="0.25"', "", 1), "line 2: there must be the attribute y, got id, x"),
        (vector_map().replace('"0.5"', '"west"', 1), "line 2: there must be numbers in x and y, got 'west' and '0.25'"),
        (vector_map().replace('"0.5"', '"nan"', 1), "lane 100 must have at least two finite points"),
        (
            vector_map().replace('<nd ref="1" />', ""),
            "lane 100 must have at least two finite points, got [[0.5, 0.25]]",
        ),
        (vector_map().replace('"LEFT"', '"U"'), "NONE or LEFT or RIGHT in turn_direction, got 'U' in lane 200"),
        (vector_map().replace('"True"', '"yes"', 1), "False or True in has_traffic_control, got 'yes' in lane 200"),
        ("<a><nd ref='1' /></a>", "line 1: there must be a way around it, got <nd> alone"),
    ],
)
def test_a_damaged_vector_map_is_named_with_what_is_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "map.xml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_vector_map(file)
    assert str(error.value).startswith(str(file))
    assert sentence in str(error.value)


# Centre lines alone ---------------------------------------------------------------------------------------------------

# A road to the east: lanes A (right) and B (left) side by side. C continues A, and F forks off to the left there. D is
# oncoming on the left of B, E crosses to the north, G lies on the right of A, but beyond a verge.
STREET = {
    "A": [(0, 0), (20, 0), (40, 0)],
    "B": [(0, 3.5), (40, 3.5)],
    "C": [(40.03, 0), (80, 0)],
    "D": [(40, 7), (0, 7)],
    "E": [(20, -20), (20, 20)],
    "F": [(40, 0.02), (50, 2.5), (80, 4.5)],
    "G": [(0, -6), (40, -6)],
    "back": [(80, 0), (40, 0)],  # C's course in the other direction
}
NAMES = list(STREET)


def street(turned_by: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    turn = np.array([[np.cos(turned_by), -np.sin(turned_by)], [np.sin(turned_by), np.cos(turned_by)]])
    lines = [np.array(line, float) for line in STREET.values()]
    return np.concatenate(lines) @ turn.T, np.cumsum([0, *map(len, lines)])


def links(one: np.ndarray) -> dict[str, str]:
    return {NAMES[lane]: NAMES[other] for lane, other in enumerate(one) if other >= 0}


@pytest.mark.parametrize("turned_by", [0.0, 0.7, 2.1, -1.6])
def test_links_are_inferred_from_where_lanes_run(turned_by: float) -> None:
    points, offsets = street(turned_by)
    successors = {(NAMES[lane], NAMES[after]) for lane, after in inferred_successors(points, offsets)}
    left, right = inferred_neighbours(points, offsets)
    assert successors == {("A", "C"), ("A", "F")}
    assert (links(left), links(right)) == ({"A": "B"}, {"B": "A"})


def test_a_lane_beside_two_short_ones_is_the_neighbour_of_both() -> None:
    points = np.array([(0, 0), (60, 0), (0, 3), (20, 3), (20, 3), (60, 3)], float)
    left, right = inferred_neighbours(points, np.array([0, 2, 4, 6]))
    assert (left.tolist(), right.tolist()) == ([2, -1, -1], [-1, 0, 0])


def test_the_nearest_of_two_lanes_is_the_neighbour_and_a_bend_does_not_matter() -> None:
    """Quarter circles about the origin, driven anticlockwise: the left neighbour is the next one inside."""
    angle = np.linspace(0, np.pi / 2, 12)
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    points = np.concatenate([radius * circle for radius in (30.0, 32.4, 34.8)])
    left, right = inferred_neighbours(points, np.array([0, 12, 24, 36]))
    assert (left.tolist(), right.tolist()) == ([-1, 0, 1], [1, 2, -1])


def test_one_lane_alone_has_no_links() -> None:
    points, offsets = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0]]), np.array([0, 3])
    assert inferred_successors(points, offsets).shape == (0, 2)
    assert [side.tolist() for side in inferred_neighbours(points, offsets)] == [[-1], [-1]]


def test_centre_lines_alone_leave_attributes_unknown(tmp_path: Path) -> None:
    points, offsets = street()
    np.savez(tmp_path / "PIT_lane_centerlines.npz", lane_id=np.arange(8), points=points, offsets=offsets)
    lanes = read_map(tmp_path, "PIT")
    assert len(lanes) == 8
    for column in (lanes.turn, lanes.control, lanes.intersection):
        assert (column == UNKNOWN).all()
    assert lanes.successors.tolist() == [[0, 2], [0, 5]]
    assert (links(lanes.left), links(lanes.right)) == ({"A": "B"}, {"B": "A"})


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"points": np.zeros((4, 2))}, "must hold the array offsets, got points"),
        ({"points": np.zeros((4, 3)), "offsets": np.array([0, 4])}, "points must be finite numbers"),
        ({"points": np.full((4, 2), np.nan), "offsets": np.array([0, 4])}, "points must be finite numbers"),
        ({"points": np.zeros((4, 2)), "offsets": np.array([0.0, 4.0])}, "offsets must be whole numbers"),
        ({"points": np.zeros((4, 2)), "offsets": np.array([0])}, "offsets must be whole numbers"),
        ({"points": np.zeros((4, 2)), "offsets": np.array([0, 3, 4])}, "offsets must go from 0 to 4 in steps of 2"),
        ({"points": np.zeros((4, 2)), "offsets": np.array([0, 2])}, "got from 0 to 2"),
        ({"points": np.array([None]), "offsets": np.array([0, 4])}, "must be an undamaged .npz archive"),
    ],
)
def test_damaged_centre_lines_are_named_with_what_is_wrong(
    tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError) as error:
        read_centerlines(tmp_path / "a.npz")
    assert str(error.value).startswith(str(tmp_path / "a.npz"))
    assert sentence in str(error.value)


@pytest.mark.parametrize(("city", "sentence"), [("MIA", "got neither"), ("../*", "must be letters, got '../*'")])
def test_a_city_without_a_map_is_named(tmp_path: Path, city: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        read_map(tmp_path, city)
    assert sentence in str(error.value)


@pytest.mark.parametrize("city", ["MIA", "PIT"])
def test_links_of_a_real_city_are_plausible(city: str) -> None:
    lanes = read_centerlines(real(f"{city}_lane_centerlines.npz"))
    linked = len(np.unique(lanes.successors[:, 0])) / len(lanes)
    assert linked > 0.95
    follows = {tuple(pair) for pair in lanes.successors.tolist()}
    for one, other in ((lanes.left, lanes.right), (lanes.right, lanes.left)):
        having = np.flatnonzero(one >= 0)
        assert 0.2 < len(having) / len(lanes) < 0.3
        assert np.mean(other[one[having]] == having) > 0.9
        assert not follows & {*zip(having, one[having], strict=True), *zip(one[having], having, strict=True)}
    assert not ((lanes.left >= 0) & (lanes.left == lanes.right)).any()


# Argoverse 2 ----------------------------------------------------------------------------------------------------------


def tracks() -> dict[str, list[object]]:
    """The focal track 71 moves a metre a step; AV is seen at even steps, 5 only before what is read, 8 at step 79."""
    seen = [("71", step) for step in range(110)] + [("AV", step) for step in range(0, 110, 2)]
    seen += [("5", step) for step in range(30)] + [("8", 79), ("8", 80)]
    return {
        "track_id": [name for name, _ in seen],
        "timestep": [step for _, step in seen],
        "position_x": [float(step) for _, step in seen],
        "position_y": [float(len(name)) for name, _ in seen],
        "scenario_id": ["s1"] * len(seen),
        "focal_track_id": ["71"] * len(seen),
        "city": ["austin"] * len(seen),
        "heading": [0.0] * len(seen),
    }


def segment(name: int, left: list[tuple[float, float]], right: list[tuple[float, float]], **other: object) -> dict:
    left_points, right_points = ([{"x": x, "y": y, "z": 9.0} for x, y in side] for side in (left, right))
    links = {"successors": [], "predecessors": [], "left_neighbor_id": None, "right_neighbor_id": None}
    shape = {"left_lane_boundary": left_points, "right_lane_boundary": right_points}
    return {"id": name, "is_intersection": False, "lane_type": "VEHICLE", **shape, **links, **other}


def segments() -> list[dict]:
    return [
        segment(7, [(0, 4), (9, 4)], [(0, 0), (3, 0), (9, 0)], successors=[8, 99], left_neighbor_id=9),
        segment(8, [(9, 4), (18, 4)], [(9, 0), (18, 0)], is_intersection=True, predecessors=[7]),
        segment(9, [(0, 8), (9, 8)], [(0, 4), (9, 4)], right_neighbor_id=7, left_neighbor_id=10),
        segment(10, [(9, 8), (0, 8)], [(9, 12), (0, 12)], left_neighbor_id=9),
    ]


def write_scenario(folder: Path, columns: dict[str, list[object]], lanes: list[dict]) -> Path:
    folder.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table(columns), folder / "scenario_s1.parquet")
    content = {"drivable_areas": {}, "pedestrian_crossings": {}, "lane_segments": {str(s["id"]): s for s in lanes}}
    (folder / "log_map_archive_s1.json").write_text(json.dumps(content))
    return folder


def test_a_scenario_is_the_five_seconds_around_the_end_of_its_observed_part(tmp_path: Path) -> None:
    recording, _ = read_scenario(write_scenario(tmp_path / "s1", tracks(), segments()))
    focal, av, late = recording.positions
    assert (recording.name, recording.city) == ("s1", "austin s1")
    assert focal.tolist() == [[step, 2.0] for step in range(30, 80)]
    assert np.flatnonzero(np.isfinite(av[:, 0])).tolist() == list(range(0, 50, 2))
    assert np.flatnonzero(np.isfinite(late[:, 0])).tolist() == [49]
    assert late[49].tolist() == [79.0, 1.0]


def test_a_scenarios_lanes_run_between_their_boundaries(tmp_path: Path) -> None:
    _, lanes = read_scenario(write_scenario(tmp_path / "s1", tracks(), segments()))
    assert lanes.line(0) == pytest.approx(np.array([(x, 2) for x in range(10)]))
    assert lanes.intersection.tolist() == [NO, YES, NO, NO]
    assert lanes.turn.tolist() == lanes.control.tolist() == [UNKNOWN] * 4
    assert lanes.successors.tolist() == [[0, 1]]
    assert lanes.left.tolist() == [2, -1, -1, -1]  # lane 10 is oncoming
    assert lanes.right.tolist() == [-1, -1, 0, -1]


@pytest.mark.parametrize(
    ("columns", "lanes", "sentence"),
    [
        ({"timestep": None}, None, "got no timestep"),
        ({"focal_track_id": ["5"] * 197}, None, "must be a track seen within the time steps 30 to 79, got '5'"),
        ({"focal_track_id": ["AV"] * 197}, None, "AV, must be seen at all 50 time steps, got 25"),
        ({"city": ["austin"] * 196 + ["miami"]}, None, "city must be the same in all rows, got austin, miami"),
        ({"position_x": [float("nan")] * 197}, None, "position_x must be finite numbers, got nan"),
        ({"position_x": ["east"] * 197}, None, "must be undamaged Parquet, got: could not convert"),
        ({}, [], "must hold lanes with different names, got 0"),
        ({}, [{"id": 3}], "lane 3 must be as av2 writes it, got KeyError: 'left_lane_boundary'"),
        ({}, [segment(3, [(0, 1)], [(0, 0), (1, 0)])], "lane 3 must be as av2 writes it, got ValueError: a boundary"),
        ({}, [segment(3, [(0, 1), (np.nan, 1)], [(0, 0), (1, 0)])], "lane 3 must have at least two finite points"),
    ],
)
def test_a_damaged_scenario_is_named_with_what_is_wrong(
    tmp_path: Path, columns: dict[str, list[object] | None], lanes: list[dict] | None, sentence: str
) -> None:
    damaged = {name: column for name, column in {**tracks(), **columns}.items() if column is not None}
    folder = write_scenario(tmp_path / "s1", damaged, segments() if lanes is None else lanes)
    with pytest.raises(InputError) as error:
        read_scenario(folder)
    assert str(error.value).startswith(str(folder))
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("scenario_s1.parquet", b"PAR1", "must be undamaged Parquet"),
        ("log_map_archive_s1.json", b"{", "must be undamaged JSON"),
        ("log_map_archive_s1.json", b"[]", "must hold lane_segments by their ids"),
        ("log_map_archive_s2.json", b"{}", "must hold one log_map_archive_*.json, got 2"),
    ],
)
def test_a_scenario_whose_files_are_something_else_is_refused(
    tmp_path: Path, file: str, content: bytes, sentence: str
) -> None:
    folder = write_scenario(tmp_path / "s1", tracks(), segments())
    (folder / file).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_scenario(folder)
    assert sentence in str(error.value)
