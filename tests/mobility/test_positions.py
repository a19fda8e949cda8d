"""Real positions: GPS in degrees, clocks of their own, every published kind on a small hand-made file."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mobfl import InputError, Scenario, plan
from mobfl.mobility.crossings import Crossings
from mobfl.mobility.recorded import read_crossings, read_stations
from mobfl.mobility.sections import Box, Circle, parse_section

# A place in Bologna, and metres per degree there (WGS 84).
LON, LAT = 11.34, 44.49
PER_LON, PER_LAT = 79_516.0, 111_104.0
SECTION = f"circle:{LON},{LAT},200"


def drive(start_s: float = 0.0, every_s: float = 5.0, count: int = 21) -> Iterator[tuple[float, float, float]]:
    """East through the middle of the circle at 10 m/s from 500 m away: inside from 30 to 70 s after the start."""
    for k in range(count):
        yield start_s + every_s * k, LON + (10 * every_s * k - 500) / PER_LON, LAT


def gps(rows: Iterator[tuple[float, float, float]], vehicle: str = "7") -> list[str]:
    return [f"{vehicle},{t},{lon},{lat}" for t, lon, lat in rows]


def write(folder: Path, name: str, lines: list[str]) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / name


def stamp(seconds: float) -> str:
    return str(np.datetime64("2008-02-02T15:36:00") + np.timedelta64(int(seconds), "s")).replace("T", " ")


EPOCH = float(np.datetime64("2008-02-02T15:36:00").astype("datetime64[s]").astype(int))


def kinds(folder: Path) -> dict[str, tuple[Path, float]]:
    """A file of every published kind with the same drive in it, and when it begins."""
    way = [*drive()]
    coarse = [*drive(every_s=15.0, count=8)]
    samples = "; ".join(f"{lat}; {lon}; 36.0; 0.0; 0.0; {t}" for t, lon, lat in drive(every_s=0.04, count=2501))
    line = ",".join(f"[{lon},{lat}]" for _, lon, lat in coarse)
    porto = "TRIP_ID,CALL_TYPE,ORIGIN_CALL,ORIGIN_STAND,TAXI_ID,TIMESTAMP,DAY_TYPE,MISSING_DATA,POLYLINE"
    return {
        "names": (write(folder, "any.csv", ["Latitude,Speed,Device_ID,Longitude,Timestamp",
                                            *(f"{lat},10,7,{lon},{t}" for t, lon, lat in way)]), 0.0),
        "dates": (write(folder, "dates.csv", ["id;lon;lat;datetime",
                                              *(f"7;{lon};{lat};{stamp(t)}" for t, lon, lat in way)]), EPOCH),
        "milliseconds": (write(folder, "ms.csv", ["id,time,lng,lat",
                                                  *(f"7,{1000 * (EPOCH + t):.0f},{lon},{lat}" for t, lon, lat in way)]), EPOCH),
        "T-Drive": (write(folder, "7.txt", [f"7,{stamp(t)},{lon},{lat}" for t, lon, lat in way]), EPOCH),
        "Cabspotting": (write(folder, "new_7.txt", [f"{lat} {lon} {k % 2} {EPOCH + t:.0f}"
                                                    for k, (t, lon, lat) in enumerate(way)][::-1]), EPOCH),
        "roma/taxi": (write(folder, "roma.txt", [f"7;{stamp(t)}.5+00;POINT({lat} {lon})" for t, lon, lat in way]),
                      EPOCH + 0.5),
        "Porto": (write(folder, "porto.csv", [porto, f'"T1","C","","",7,{EPOCH:.0f},"A","False","[{line}]"']), EPOCH),
        "pNEUMA": (write(folder, "pneuma.csv", [
            "track_id; type; traveled_d; avg_speed; lat; lon; speed; lon_acc; lat_acc; time",
            f"7; Car; 1000.0; 36.0; {samples}; "]), 0.0),
        "FCD in degrees": (write(folder, "fcd.csv", ["time;id;x;y", *(f"{t};7;{lon};{lat}" for t, lon, lat in way)]), 0.0),
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    ["names", "dates", "milliseconds", "T-Drive", "Cabspotting", "roma/taxi", "Porto", "pNEUMA", "FCD in degrees"],
)
def test_the_same_drive_in_every_published_kind(tmp_path: Path, kind: str) -> None:
    file, start_s = kinds(tmp_path)[kind]
    crossings = read_crossings(file, parse_section(SECTION))
    assert crossings.vehicle.tolist() == ["7"]
    assert crossings.enter_s - start_s == pytest.approx([30.0], abs=0.02)
    assert crossings.leave_s - start_s == pytest.approx([70.0], abs=0.02)


def test_koln_in_metres(tmp_path: Path) -> None:
    file = write(tmp_path, "koln.tr", [f"{t} car_1 {10 * t - 500} 3.5 10.0" for t in range(101)])
    assert read_crossings(file, Circle(0, 3.5, 200)).enter_s == pytest.approx([30.0])


@pytest.mark.parametrize("rate", [25.0, 50.0])
def test_the_sisters_of_highd_and_the_frame_rate_beside(tmp_path: Path, rate: float) -> None:
    header = "recordingId,trackId,frame,trackLifetime,xCenter,yCenter,heading,width,length"
    rows = [f"0,3,{k},{k},{k / rate * 10},5,0,2,4" for k in range(int(10 * rate) + 1)]
    file = write(tmp_path, "00_tracks.csv", [header, *rows])
    write(tmp_path, "00_recordingMeta.csv", ["recordingId,locationId,frameRate", f"0,1,{rate}"])
    crossings = read_crossings(file, Box(20, 0, 70, 9))
    assert (crossings.enter_s[0], crossings.leave_s[0]) == (pytest.approx(2.0), pytest.approx(7.0))
    write(tmp_path, "00_recordingMeta.csv", ["recordingId,locationId,frameRate", "0,1,fast"])
    with pytest.raises(
        InputError, match=r"00_recordingMeta.csv, line 2: there must be a frameRate from 0.001 to 1e\+06, got fast"
    ):
        read_crossings(file, Box(20, 0, 70, 9))


def test_unsorted_ngsim_is_sorted(tmp_path: Path) -> None:
    lines = [f"2,{k},{1000 + 100 * k},10,{k * 10}" for k in range(31)]
    header = "Vehicle_ID,Frame_ID,Global_Time,Local_X,Local_Y"
    section = parse_section("box:0,15.24,10,45.72")
    sorted_file = write(tmp_path, "a.csv", [header, *lines])
    mixed = write(tmp_path, "b.csv", [header, *lines[20:], *lines[:20]])
    assert read_crossings(mixed, section).fingerprint() == read_crossings(sorted_file, section).fingerprint()


# ---- clocks of their own --------------------------------------------------------------------------


def cars_on_clocks_of_their_own(folder: Path, cars: int = 400, every_s: float = 1.0) -> Path:
    """Cars that cross 400 m at 20 m/s, each sampled at instants of its own."""
    rng, rows = np.random.default_rng(1), list[tuple[float, str]]()
    for i, start in enumerate(np.sort(rng.uniform(0, 3600, cars))):
        for t in np.arange(start + rng.uniform(0, every_s), start + 60, every_s):
            rows.append((t, f"{t:.3f};car{i};{20 * (t - start) - 400:.3f};0"))
    return write(folder, "own.csv", ["time;id;x;y", *(line for _, line in sorted(rows))])


def test_cars_on_clocks_of_their_own_cross_once_each(tmp_path: Path) -> None:
    """They became 11,732 crossings of 0.007 s once, and the plan was called ok."""
    crossings = read_crossings(cars_on_clocks_of_their_own(tmp_path), Box(0, -5, 400, 5))
    assert len(crossings) == 400
    assert crossings.dwell_s == pytest.approx(np.full(400, 20.0), abs=0.01)


def test_samples_that_are_too_far_apart_are_refused_with_the_numbers(tmp_path: Path) -> None:
    file = cars_on_clocks_of_their_own(tmp_path, every_s=15.0)
    assert read_crossings(file, Box(0, -5, 400, 5)).dwell_s == pytest.approx(np.full(400, 20.0), abs=0.01)
    said = r"got one every 15 s for stays of 2.5 s \(medians; \d+ of \d+ crossings have none inside\)"
    with pytest.raises(InputError, match=said):
        read_crossings(file, Box(0, -5, 50, 5))
    with pytest.raises(InputError, match=r"for stays of 'small' of 2\.5 s"):
        read_stations(file, {"small": Box(0, -5, 50, 5), "large": Box(0, -5, 400, 5)})


def test_a_gap_shorter_than_the_time_between_positions_would_leave_no_stay(tmp_path: Path) -> None:
    rows = [f"car{v},{100 * v + 20 * k},{11 + 0.001 * k},44" for v in range(20) for k in range(10)]
    file = write(tmp_path, "rare.csv", ["id,time,lon,lat", *rows])
    assert len(read_crossings(file, "circle:11.005,44,200", gap_s=20.0)) == 20
    rule = "gap_s must be at least the usual time between two positions of a vehicle, 20 s, got 15"
    with pytest.raises(InputError, match=rule):
        read_crossings(file, "circle:11.005,44,200", gap_s=15.0)


def test_the_longest_gap(tmp_path: Path) -> None:
    """Without a sample for 40 s it may have been anywhere, unless somebody says that it was under way."""
    way = gps(drive(every_s=1.0, count=101))
    file = write(tmp_path, "gap.csv", ["id,time,lon,lat", *way[:45], *way[85:]])
    found = read_crossings(file, parse_section(SECTION))
    assert found.leave_s == pytest.approx([44.0])  # where it was last seen
    assert found.cut is not None
    assert found.cut.tolist() == [8]
    whole = read_crossings(file, parse_section(SECTION), gap_s=60.0)
    assert whole.leave_s == pytest.approx([70.0], abs=0.02)
    for wrong in (0.0, -1.0):
        with pytest.raises(InputError, match="gap_s must be > 0"):
            read_crossings(file, parse_section(SECTION), gap_s=wrong)


# ---- degrees --------------------------------------------------------------------------------------


def test_metres_are_not_taken_for_degrees(tmp_path: Path) -> None:
    file = write(tmp_path, "yard.csv", ["time;id;x;y", *(f"{t};7;{t - 50};3" for t in range(101))])
    assert read_crossings(file, Circle(0, 3, 20)).dwell_s == pytest.approx([40.0])


def test_a_plane_against_geodesics() -> None:
    """Circles 30 km apart are as wide as the ellipsoid says."""
    from pyproj import Geod

    from mobfl.mobility.degrees import Plane

    sections = {"a": Circle(LON, LAT, 200.0), "b": Circle(LON + 0.4, LAT + 0.1, 300.0)}
    plane, earth = Plane(sections), Geod(ellps="WGS84")
    for name, section in sections.items():
        flat = plane.sections[name]
        assert isinstance(flat, Circle)
        for azimuth in range(0, 360, 45):
            lon, lat, _ = earth.fwd(section.x, section.y, azimuth, section.radius)
            x, y = plane._project(lon, lat)
            assert np.hypot(x - flat.x, y - flat.y) == pytest.approx(section.radius, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "lines", "section", "sentence"),
    [
        ("a.csv", ["id,time,lon,lat", *gps(drive())], "circle:5000,3000,100", "holds positions in degrees: section must be in degrees"),
        ("a.csv", ["id,time,lon,lat", "7,0,200,44"], SECTION, "line 2: there must be longitudes from -180 to 180, got 200"),
        ("a.csv", ["id,time,lon,lat", "7,soon,11,44"], SECTION, "line 2: there must be seconds or a date in time, got 'soon'"),
        ("a.csv", ["id,lon,lat", "7,11,44"], SECTION, "line 1: there must be the columns time, lon, lat, got no time"),
        ("a.csv", ["id,time,lon,lat", "7,0,,44"], SECTION, "line 2: there must be a number in lon, got ''"),
        ("a.csv", ["TAXI_ID,TIMESTAMP,POLYLINE", '7,0,"[[1,2],[3]]"'], SECTION, "line 2: there must be a polyline [[LON,LAT],…]"),
        ("a.csv", ["track_id; type; traveled_d; avg_speed; lat; lon; speed; lon_acc; lat_acc; time", "1; Car; 1; 1; 44; 11; 1"], SECTION, "line 2: there must be lat; lon; speed; lon_acc; lat_acc; time, again and again, got 3 values"),
        ("a.txt", ["7;2014-02-01 00:00:00.5+01;POINT(44 11)", "7;2014-02-01 00:00:00.5+01;POINT(44)"], SECTION, "line 2: there must be POINT(LATITUDE LONGITUDE), got 'POINT(44)'"),
        ("01_tracksMeta.csv", ["id,width,height,initialFrame,finalFrame,numFrames,class", "1,4,2,1,9,9,Car"], "box:0,0,1,1", "holds one row per vehicle (tracksMeta) and no positions: give its file of tracks"),
        ("01_recordingMeta.csv", ["id,frameRate", "1,25"], "box:0,0,1,1", "holds one row (recordingMeta)"),
        ("fcd.csv", ["time;id;x;y;lane;pos;speed", "0;a;1;1;main_0;5;1", "1;a;1;1;main_0;6;1"], "edge:mian", "section must name an edge that vehicles were on, got 'mian' (the nearest: main)"),
        ("box.csv", ["id,time,lon,lat", *gps(drive())], "box:0,40,20,89", "must lie within"),
    ],
)  # fmt: skip
def test_bad_positions_get_a_sentence(tmp_path: Path, name: str, lines: list[str], section: str, sentence: str) -> None:
    if "must lie within" in sentence:
        with pytest.raises(InputError, match=sentence):
            read_stations(write(tmp_path, name, lines), {"a": parse_section(section), "b": Circle(100.0, 10.0, 5.0)})
        return
    with pytest.raises(InputError) as caught:
        read_crossings(write(tmp_path, name, lines), parse_section(section))
    assert sentence in str(caught.value)


def test_tripinfo_as_csv(tmp_path: Path) -> None:
    file = write(tmp_path, "trips.csv", ["tripinfo_id;tripinfo_depart;tripinfo_arrival", "a;1;30", "b;9;29", "c;50;-1"])
    crossings = read_crossings(file)
    assert (crossings.vehicle.tolist(), crossings.leave_s.tolist()) == (["a", "b"], [30.0, 29.0])


# ---- cut off --------------------------------------------------------------------------------------


def cut_poisson(folder: Path, rate: float, lasts_s: float, seed: int) -> Path:
    """Poisson traffic with stays that are exponential beyond 5 s, in its steady state, recorded for a while only."""
    rng = np.random.default_rng(seed)
    enter = np.sort(rng.uniform(-600, lasts_s, rng.poisson(rate * (lasts_s + 600))))
    leave = enter + 5 + rng.exponential(55, len(enter))
    lines = ["time;id;x;y"]
    for t in range(int(lasts_s) + 1):
        for i in np.flatnonzero((enter - 1 <= t) & (t <= leave + 1)):
            x = -1.0 if t < enter[i] else 101.0 if t > leave[i] else 100 * (t - enter[i]) / (leave[i] - enter[i])
            lines.append(f"{t};v{i};{x:.4f};0")
    return write(folder, f"cut{seed}.csv", lines)


def test_vehicles_cut_off_by_the_recording_are_no_short_stays(tmp_path: Path) -> None:
    """20 recordings of 300 s, of traffic of 0.2 vehicles a second that stay 60 s on average."""
    rates, stays, before_rates, before_stays = [], [], [], []
    for seed in range(20):
        crossings = read_crossings(cut_poisson(tmp_path, 0.2, 300, seed), Box(0, -1, 100, 1))
        assert crossings.cut is not None
        assert {1, 2} <= set(crossings.cut.tolist())
        assert crossings.observed_s == (0.0, 300.0)
        rates.append(crossings.arrivals_per_s)
        stays.append(crossings.stays_s.mean())
        plain = Crossings(crossings.vehicle, crossings.enter_s, crossings.leave_s)
        before_rates.append(plain.arrivals_per_s)
        before_stays.append(plain.stays_s.mean())
    error = np.std(rates) / np.sqrt(20), np.std(stays) / np.sqrt(20)
    assert abs(np.mean(rates) - 0.2) < 3 * error[0]
    assert abs(np.mean(stays) - 60) < 3 * error[1] + 1.0  # what is longer than the recording is never seen whole
    assert np.mean(before_rates) - 0.2 > 3 * error[0]
    assert 60 - np.mean(before_stays) > 3 * error[1]


def test_cut_crossings_are_written_and_read(tmp_path: Path) -> None:
    crossings = read_crossings(cut_poisson(tmp_path, 0.2, 100, 1), Box(0, -1, 100, 1))
    from mobfl.mobility.recorded import write_crossings

    for name in ("cut.csv", "cut.parquet"):
        write_crossings(crossings, tmp_path / name)
        assert read_crossings(tmp_path / name).fingerprint() == crossings.fingerprint()
    with pytest.raises(InputError, match="line 2: there must be a sum of 1, 2, 4 and 8 in cut, got 17"):
        read_crossings(write(tmp_path, "bad.csv", ["vehicle,enter_s,leave_s,cut", "a,0,1,17"]))


def test_the_promise_is_of_the_whole_recording(tmp_path: Path, paper: Scenario) -> None:
    crossings = read_crossings(cut_poisson(tmp_path, 0.2, 900, 3), Box(0, -1, 100, 1))
    made = plan(paper, crossings)
    assert made.status == "ok"
    again = plan(paper, crossings.take(np.ones(len(crossings), bool)))
    assert made.numbers == again.numbers


def test_the_product_limit_against_all_that_is_known() -> None:
    """By hand: of 1, 2+, 3 and 4+ seconds half of what is left after 2 ends at 3, and the rest is put at 4."""
    crossings = Crossings(
        np.arange(4), np.zeros(4), np.array([1.0, 2.0, 3.0, 4.0]), cut=np.array([0, 2, 0, 2], np.int8)
    )
    # After 1 s three quarters remain, after 3 s half of them: 3/8.
    assert crossings.stays_s.tolist() == [1.0, 3.0, 3.0, 4.0]
