"""A corridor's traffic: the same vehicles at every station, as many as theory says, each at its own speed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mobfl import Crossings, InputError, Scenario
from mobfl.mobility.cities import city_traffic, read_city, write_city
from mobfl.mobility.corridor import corridor_crossings
from mobfl.mobility.poisson import poisson_table
from mobfl.scenario import at_station, listed

FALSE_ALARMS = 1e-6


def corridor(duration_s: float = 20_000.0, traffic: dict[str, Any] | None = None, **keys: Any) -> Scenario:
    tables = {"corridor": {"stations": 4, "turns_off": 0.3, **keys}, "training": {"duration_s": duration_s}}
    return Scenario.from_dict(tables | {"traffic": traffic or {}})


@pytest.mark.parametrize("traffic", [{}, {"speed_sd_mps": 5.0, "participation": 0.5}])
def test_the_first_station_has_the_traffic_of_a_road_alone(traffic: dict[str, Any]) -> None:
    city = corridor(traffic=traffic)
    first, alone = corridor_crossings(city, 1)[0], poisson_table(city.alone, 1)
    for column in ("keys", "enter_s", "leave_s"):
        assert np.array_equal(getattr(first, column), getattr(alone, column))


@pytest.mark.parametrize("traffic", [{}, {"speed_sd_mps": 5.0}])
def test_every_station_has_poisson_traffic_from_the_beginning(traffic: dict[str, Any]) -> None:
    """At one declared rate of false alarms: counts in windows are Poisson with λ, the first windows included."""
    for table in corridor_crossings(corridor(traffic=traffic), 3):
        counts = np.histogram(table.enter_s, np.arange(0.0, 20_000.0, 100.0))[0]
        assert stats.poisson.sf(counts.sum() - 1, 0.1 * 100 * len(counts)) > FALSE_ALARMS
        assert stats.poisson.cdf(counts.sum(), 0.1 * 100 * len(counts)) > FALSE_ALARMS
        dispersion = counts.var(ddof=1) / counts.mean() * (len(counts) - 1)
        assert (
            min(stats.chi2.cdf(dispersion, len(counts) - 1), stats.chi2.sf(dispersion, len(counts) - 1)) > FALSE_ALARMS
        )


def test_a_share_turns_off_behind_every_station() -> None:
    first, *others = corridor_crossings(corridor(joins=False), 5)
    early = first.vehicle[first.enter_s < 19_000.0]
    for place, table in enumerate(others, start=1):
        stayed = int(np.isin(early, table.vehicle).sum())
        low, high = stats.binom.interval(1 - FALSE_ALARMS, len(early), 0.7**place)
        assert low <= stayed <= high


def test_vehicles_keep_their_speed() -> None:
    first, second, *_ = corridor_crossings(corridor(traffic={"speed_sd_mps": 5.0}, turns_off=0.0), 2)
    both, i, j = np.intersect1d(first.vehicle, second.vehicle, return_indices=True)
    assert len(both) > 1000
    np.testing.assert_allclose(first.dwell_s[i], second.dwell_s[j], rtol=1e-9)
    np.testing.assert_allclose(second.enter_s[j] - first.enter_s[i], first.dwell_s[i] * 1000 / 400, rtol=1e-6)


def test_a_visit_has_a_key_of_its_own_and_a_vehicle_one_for_all() -> None:
    first, second, *_ = corridor_crossings(corridor(turns_off=0.0), 2)
    _, i, j = np.intersect1d(first.vehicle, second.vehicle, return_indices=True)
    assert np.array_equal(first.vehicle_keys[i], second.vehicle_keys[j])
    assert not np.isin(first.keys, second.keys).any()


def test_stations_apart_share_no_vehicle() -> None:
    city = Scenario.from_dict({"stations": [{}, {"traffic": {"arrivals_per_s": 0.3}}]})
    tables = [table for each in city_traffic(city, 1) for table in each.crossings]
    assert not np.isin(tables[0].vehicle, tables[1].vehicle).any()
    assert tables[1].arrivals_per_s == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("name", ["city.csv", "city.parquet"])
def test_a_table_of_a_citys_crossings_is_written_and_read(name: str, tmp_path: Path) -> None:
    city = Scenario.from_dict({"stations": [{"name": "a"}, {"name": "b"}, {"name": "nobody"}]})
    made = {
        "a": Crossings.sorted(["x", "y"], [1.0, 2.5], [4.0, 5.0]),
        "b": Crossings.sorted(["x"], [7.0], [9.0]),
        "nobody": Crossings(np.array([], np.dtypes.StringDType()), np.empty(0), np.empty(0)),
    }
    write_city(made, tmp_path / name)
    found = read_city(city, tmp_path / name)
    assert {key: each.fingerprint() for key, each in found.items()} == {k: e.fingerprint() for k, e in made.items()}


def test_a_station_that_the_scenario_does_not_know_is_told_with_its_line(tmp_path: Path) -> None:
    city = Scenario.from_dict({"stations": [{"name": "a"}]})
    (tmp_path / "t.csv").write_text("station,vehicle,enter_s,leave_s\na,x,1,2\nz,x,3,4\n")
    with pytest.raises(InputError, match=r"a station of the scenario \(a\), got z"):
        read_city(city, tmp_path / "t.csv")
    with pytest.raises(InputError, match="a corridor makes its own traffic"):
        read_city(corridor(), tmp_path / "t.csv")


@pytest.mark.parametrize("every_m", [1234567.8, 900.3])
def test_stretches_far_along_a_corridor_are_as_long_as_the_first(every_m: float) -> None:
    city = Scenario.from_dict({"corridor": {"stations": 40, "every_m": every_m}})
    lengths_m = [at_station(city, place).road.length_m for place in range(40)]
    assert lengths_m == pytest.approx([400.0] * 40, rel=1e-9)
    assert listed(city)[39].section.startswith(f"stretch:{39 * every_m:.15g}:")


def test_a_corridor_that_would_take_billions_of_vehicles_is_refused_before_they_are_made() -> None:
    city = Scenario.from_dict({"corridor": {"stations": 2, "every_m": 1e12}})
    with pytest.raises(
        InputError, match=r"corridor must bring at most 20000000 vehicles onto the road, got about 5e\+09"
    ):
        corridor_crossings(city, 1)
