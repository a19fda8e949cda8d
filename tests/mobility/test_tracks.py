"""Tracks kept beside crossings: from every source, through files, and what a vehicle predicts from its own."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobfl import Crossings, InputError, Scenario
from mobfl.mobility.predicting import predicted_leave_s
from mobfl.mobility.recorded import read_crossings, write_crossings
from mobfl.mobility.sections import Box, parse_section
from mobfl.mobility.tracks import TrackKeeper, Tracks

# A vehicle that enters the box from x = 0 to 100 at 10 m/s, stands from 6 to 10 s at x = 50, and goes on at 20 m/s.
PLACES = {0: -10, 1: 0, 2: 10, 3: 20, 4: 30, 5: 40, 6: 50, 8: 50, 10: 50, 11: 70, 12: 90, 13: 110}
BOX = Box(0, -5, 100, 5)


def fcd(edge: bool = False) -> str:
    def vehicle(t: float, x: float) -> str:
        lane = "in_0" if x < 0 else "mid_0" if x < 100 else "out_0"
        along, speed = x + 100 if x < 0 else x % 100, 0 if 6 < t <= 10 else 20 if t > 10 else 10
        place = "" if edge else f'x="{x}" y="0" '
        return f'<timestep time="{t}"><vehicle id="car" {place}lane="{lane}" pos="{along}" speed="{speed}"/></timestep>'

    return "<fcd-export>" + "".join(vehicle(t, x) for t, x in PLACES.items()) + "</fcd-export>"


def ngsim() -> str:
    times = np.linspace(0, 13, 131)
    feet = np.interp(times, list(PLACES), list(PLACES.values())) / 0.3048
    rows = (f"7,{t * 1000:.0f},0,{y!r}" for t, y in zip(times, feet.tolist(), strict=True))
    return "Vehicle_ID,Global_Time,Local_X,Local_Y\n" + "\n".join(rows) + "\n"


def highd() -> str:
    frames = np.arange(0, 13 * 25 + 1)
    x = np.interp(frames / 25, list(PLACES), list(PLACES.values()))
    return "frame,id,x,y\n" + "\n".join(f"{f},7,{at!r},0" for f, at in zip(frames, x.tolist(), strict=True)) + "\n"


SOURCES = {
    "fcd.xml": (fcd(), BOX),
    "along.xml": (fcd(edge=True), parse_section("edge:mid")),
    "ngsim.csv": (ngsim(), Box(-5, 0, 5, 100)),
    "highd.csv": (highd(), BOX),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_of_positions_gives_the_track(tmp_path: Path, name: str) -> None:
    text, section = SOURCES[name]
    (tmp_path / name).write_text(text)
    without, kept = (read_crossings(tmp_path / name, section, keep_tracks=keep) for keep in (False, True))
    assert without.tracks is None
    assert without.fingerprint() == replace(kept, tracks=None).fingerprint() != kept.fingerprint()
    assert (kept.enter_s[0], kept.leave_s[0]) == (1.0, pytest.approx(12.5))
    tracks = kept.tracks
    assert tracks is not None
    assert tracks.time_s[[0, -1]] == pytest.approx([1.0, 12.5])
    way_m = np.interp([4.0, 7.0, 10.5, 12.5], tracks.time_s, tracks.way_m)
    assert way_m == pytest.approx([30.0, 50.0, 60.0, 100.0], abs=1e-9)
    if name == "fcd.xml":
        assert np.interp(10.5, tracks.time_s, tracks.x_m) == 60.0
    # At 1 s it sees 100 m at 10 m/s, at 4 s 70; standing it cannot tell; at 10.5 s 40 m at 20 m/s; it has gone at 13.
    predicted = predicted_leave_s(tracks, np.zeros(5, int), np.array([1.0, 4.0, 7.0, 10.5, 13.0]))
    assert predicted == pytest.approx([11.0, 11.0, math.inf, 12.5, 13.0])


def test_a_way_that_bends_is_as_long_as_it_is_driven(tmp_path: Path) -> None:
    """Around three sides of a square: 300 m, though it ends 100 m from where it began."""
    corners = [(0, 0), (100, 0), (100, 100), (0, 100)]
    keeper = TrackKeeper()
    keeper.begin("car", 0.0, 0.0, 0.0)
    for k, (x, y) in enumerate(corners[1:], start=1):
        keeper.go_on("car", 10.0 * k, x, y, 100.0)
    keeper.end("car")
    tracks = keeper.tracks()
    assert predicted_leave_s(tracks, np.zeros(2, int), np.array([0.0, 15.0])) == pytest.approx([30.0, 30.0])
    both = Crossings(np.array([1]), np.zeros(1), np.array([30.0]), tracks)
    assert both.between(10.0, 20.0).tracks is not None


def some_tracks() -> Crossings:
    rng = np.random.default_rng(3)
    counts = np.array([2, 5, 3, 1])
    first = np.append(0, np.cumsum(counts))
    times = np.concatenate([np.sort(rng.uniform(0, 9, n)) + 3 * k for k, n in enumerate(counts)])
    way = np.concatenate([np.cumsum(rng.uniform(0, 5, n)) for n in counts])
    tracks = Tracks(first, times, times + 0.1, np.full(len(times), np.nan), way)
    names = np.array(["a", "b", "c", "d"], np.dtypes.StringDType())
    return Crossings.sorted(names, times[first[:-1]], times[first[1:] - 1], tracks)


def test_rows_are_chosen_with_their_tracks() -> None:
    whole = some_tracks()
    chosen = whole.take(np.array([True, False, True, True]))
    assert whole.tracks is not None
    assert chosen.tracks is not None
    assert len(chosen.tracks) == 3
    for row, name in enumerate(chosen.vehicle):
        before = int(np.flatnonzero(whole.vehicle == name)[0])
        for mine, theirs in zip(chosen.tracks.columns, whole.tracks.columns, strict=True):
            there = slice(whole.tracks.first[before], whole.tracks.first[before + 1])
            here = slice(chosen.tracks.first[row], chosen.tracks.first[row + 1])
            np.testing.assert_array_equal(mine[here], theirs[there])
    assert len(whole.take(np.zeros(4, bool)).tracks or ()) == 0
    doubled = whole.tracks.plus(whole.tracks)
    np.testing.assert_array_equal(doubled.take(np.arange(4, 8)).way_m, whole.tracks.way_m)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_beside_files(tmp_path: Path, ending: str) -> None:
    file, whole = tmp_path / f"road.{ending}", some_tracks()
    write_crossings(whole, file)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"road.{ending}", f"road.tracks.{ending}"]
    again = read_crossings(file, keep_tracks=True)
    assert again.tracks is not None
    assert again.fingerprint() == whole.fingerprint()
    assert read_crossings(file).tracks is None
    # Other crossings do not inherit them.
    write_crossings(replace(whole, tracks=None), file)
    assert read_crossings(file, keep_tracks=True).tracks is None


def test_tracks_of_other_crossings_are_refused(tmp_path: Path) -> None:
    whole, file = some_tracks(), tmp_path / "road.csv"
    write_crossings(whole, file)
    beside = tmp_path / "road.tracks.csv"
    lines = beside.read_text().splitlines()
    for text, said in (
        ("\n".join(lines[:-1]), "must hold a track of every crossing of road.csv, got none of row 3"),
        ("\n".join([lines[0], *lines[2:]]), "begin at enter_s and end at leave_s, got another time in row 0"),
        ("\n".join([*lines, "0,1,2,3,4"]), "the samples of one crossing after those of another"),
        ("\n".join([*lines[:-1], "3,x,2,3,4"]), "numbers in crossing, time_s, x_m, y_m, way_m"),
        (lines[0], "must hold a track of every crossing of road.csv, got none of row 0"),
        ("\n".join([*lines, "4,1,2,3,4"]), f"line {len(lines) + 1}: there must be a crossing from 0 to 3, got 4"),
        ("\n".join([*lines, f"{10**30},1,2,3,4"]), f"there must be a crossing from 0 to 3, got {10**30}"),
        ("\n".join([lines[0], "-1,1,2,3,4", *lines[1:]]), "line 2: there must be a crossing from 0 to 3, got -1"),
    ):
        beside.write_text(text + "\n")
        with pytest.raises(InputError, match=said):
            read_crossings(file, keep_tracks=True)


@given(st.floats(0.1, 50), st.floats(1.0, 500.0), st.integers(1, 30), st.floats(0.0, 0.99))
def test_at_one_speed_the_prediction_is_the_leaving(speed: float, stay_s: float, samples: int, share: float) -> None:
    times = 7.0 + np.linspace(0.0, stay_s, samples + 1)
    tracks = Tracks(np.array([0, samples + 1]), times, times, times, speed * (times - 7.0))
    predicted = predicted_leave_s(tracks, np.zeros(1, int), np.array([7.0 + share * stay_s]))
    assert predicted[0] == pytest.approx(7.0 + stay_s, rel=1e-9)


def test_a_crossing_of_no_length_and_one_that_never_moves() -> None:
    still = Tracks(np.array([0, 1, 3]), np.array([5.0, 6.0, 9.0]), *np.zeros((3, 3)))
    assert predicted_leave_s(still, np.array([0, 1]), np.array([5.0, 7.0])).tolist() == [5.0, 7.0]


def test_sumo_keeps_tracks(tmp_path: Path, paper: Scenario) -> None:
    pytest.importorskip("libsumo", reason="SUMO or its system libraries are not installed", exc_type=ImportError)
    from mobfl.mobility.sumo import Signal, straight_road_crossings

    settings = {"lanes": 2, "signal": Signal(60, 25), "duration_s": 300.0, "warmup_s": 60.0, "seed": 4}
    kept = straight_road_crossings(paper, **settings, keep_tracks=True)
    assert kept.tracks is not None
    assert replace(kept, tracks=None).fingerprint() == straight_road_crossings(paper, **settings).fingerprint()
    ends = kept.tracks.first[1:] - 1
    done = kept.leave_s < kept.leave_s.max()  # the others are still on the road when SUMO ends
    assert kept.tracks.way_m[ends][done] == pytest.approx(400.0, abs=6.0)
    assert kept.tracks.x_m[ends][done] == pytest.approx(700.0, abs=6.0)
    assert kept.tracks.x_m[kept.tracks.first[:-1]] == pytest.approx(300.0, abs=6.0)
    write_crossings(kept, tmp_path / "road.parquet")
    assert read_crossings(tmp_path / "road.parquet", keep_tracks=True).fingerprint() == kept.fingerprint()
