"""Rounds on a shared radio: by hand, against the constant link, SimPy and queueing theory."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from mobfl import Crossings, Scenario, Tracks, load_scenario
from mobfl.mobility.poisson import poisson_crossings
from mobfl.rounds.air import Shadows, delays_and_channel
from mobfl.rounds.draws import Draws
from mobfl.rounds.orders import AsManyAsFit, FixedPlan
from mobfl.rounds.rows import Outcome, Rounds, joined
from mobfl.rounds.rules import simulate_rounds
from mobfl.rounds.window import Cars, Crowd, Log, Stretch, Turn, run_stretch
from radio_in_simpy import told_by_simpy

# Everybody at the cap: 20 MHz · 0.92 · 7.4 = 136.16 Mbit/s, and no jitter of the steps.
AT_THE_CAP_BPS = 20e6 * 0.92 * 7.4
STEADY = {"compute": {"min_step_s": 0.5, "extra_step_s": 0.0}}


def road(model_bytes: int, radio: dict[str, object] | None = None, **tables: object) -> Scenario:
    given = {"path_loss": "urban-los", "shadowing_db": 0.0, "vehicle_dbm": 60.0, "station_dbm": 60.0, **(radio or {})}
    return Scenario.from_dict({"link": {"model_bytes": model_bytes}, "radio": given, **STEADY, **tables})


def rounds_of(scenario: Scenario, vehicles: Crossings, plan: FixedPlan, seed: int = 0, **changes: object) -> Rounds:
    delays, channel = delays_and_channel(scenario)
    assert channel is not None
    return joined(list(simulate_rounds([vehicles], plan, delays, seed, channel=replace(channel, **changes))))


def told(scenario: Scenario, vehicles: Crossings, plan: FixedPlan, **changes: object) -> list[tuple[object, ...]]:
    """Round, vehicle, when it began to train and to send, when it was over, and how."""
    rows = rounds_of(scenario, vehicles, plan, **changes).vehicles
    assert rows is not None
    delays, _ = delays_and_channel(scenario)
    keys = ("round", "vehicle", "train_s", "upload_s", "end_s")
    return [
        (*(row[key] if row[key] is None else round(row[key], 6) for key in keys), row["outcome"])
        for row in rows.to_dicts(delays)
    ]


# One second alone at the cap, two where two send.
ONE_SECOND = round(AT_THE_CAP_BPS / 8)


def crossings(*times: tuple[float, float]) -> Crossings:
    return Crossings.sorted(np.arange(len(times)), *np.array(times).T)


def test_two_who_send_at_once_share_the_band_and_a_broadcast_serves_both() -> None:
    vehicles = crossings((0.0, 30.0), (0.0, 30.0), (1.5, 30.0))
    assert told(road(ONE_SECOND), vehicles, FixedPlan(4, 10.0))[:3] == [
        # A second of broadcast, two seconds of steps; the third one downloads alone, as the others are done with it.
        (0, 0, 1.0, 3.0, 5.25, "uploaded"),
        (0, 1, 1.0, 3.0, 5.25, "uploaded"),
        # It sends from 4.5 s on as one of three, so the first two need 0.75 s for the last quarter each.
        (0, 2, 2.5, 4.5, 6.0, "uploaded"),
    ]


def test_unicasts_share_the_downlink() -> None:
    vehicles = crossings((0.0, 30.0), (0.0, 30.0))
    assert told(road(ONE_SECOND, {"download": "unicast"}), vehicles, FixedPlan(4, 10.0))[:2] == [
        (0, 0, 2.0, 4.0, 6.0, "uploaded"),
        (0, 1, 2.0, 4.0, 6.0, "uploaded"),
    ]


def test_in_turn_whoever_is_ready_first_sends_first() -> None:
    vehicles = crossings((0.0, 30.0), (0.0, 30.0), (0.5, 30.0))
    assert told(road(ONE_SECOND, {"sharing": "fifo"}), vehicles, FixedPlan(4, 10.0))[:3] == [
        # While the third one's download takes half of the downlink from 0.5 s on, the broadcast takes 0.5 s longer.
        (0, 0, 1.5, 3.5, 4.5, "uploaded"),
        (0, 1, 1.5, 4.5, 5.5, "uploaded"),
        (0, 2, 2.0, 5.5, 6.5, "uploaded"),
    ]


def test_why_it_was_lost() -> None:
    vehicles = crossings((0.0, 3.2), (0.0, 2.5), (0.0, 30.0), (7.5, 30.0))
    assert told(road(ONE_SECOND), vehicles, FixedPlan(4, 10.0))[:4] == [
        (0, 0, 1.0, 3.0, 3.2, "radio"),  # its steps were done, its upload was not
        (0, 1, 1.0, None, 2.5, "radio"),  # without transfers its two seconds would have been enough
        (0, 2, 1.0, 3.0, 4.1, "uploaded"),
        (0, 3, 8.5, None, 10.0, "radio"),
    ]
    late = crossings((0.0, 1.5), (8.5, 30.0))
    assert [row[-1] for row in told(road(ONE_SECOND), late, FixedPlan(4, 10.0))[:2]] == ["left_early", "round_over"]


def test_what_arrived_of_an_upload_counts_where_that_is_asked_for() -> None:
    vehicles = crossings((0.0, 3.25), (0.0, 30.0))
    rows = rounds_of(road(ONE_SECOND), vehicles, FixedPlan(4, 10.0), partial=True).vehicles
    assert rows is not None
    assert rows.transfers is not None
    assert [Outcome(each).name for each in rows.outcome[:2]] == ["PARTIAL", "UPLOADED"]
    assert rows.transfers.sent[:2] == pytest.approx([0.125, 1.0], abs=1e-6)
    assert rows.transfers.bps(8.0 * ONE_SECOND, rows.end_s)[:1] == pytest.approx(AT_THE_CAP_BPS / 2, rel=1e-6)


def test_who_takes_as_many_steps_as_fit_plans_at_its_present_rate() -> None:
    """Three find the air free after the broadcast, take all the steps that leave a second, and then share it."""
    vehicles = crossings((0.0, 30.0), (0.0, 30.0), (0.0, 30.0))
    plan = FixedPlan(AsManyAsFit(), 10.0)
    block = rounds_of(road(ONE_SECOND), vehicles, plan)
    rows = block.vehicles
    assert rows is not None
    assert rows.steps[:3].tolist() == [16, 16, 16]
    assert [Outcome(each).name for each in rows.outcome[:3]] == ["RADIO"] * 3
    alone = rounds_of(road(ONE_SECOND), crossings((0.0, 30.0)), plan)
    assert (alone.longest[0], alone.uploads[0]) == (16, 1)
    short = rounds_of(road(ONE_SECOND), crossings((0.0, 30.0)), FixedPlan(AsManyAsFit(), 2.4))
    assert short.vehicles is not None
    assert short.vehicles.outcome[0] == Outcome.SAT_OUT


@pytest.mark.parametrize("asked", [12, AsManyAsFit("leaving"), AsManyAsFit("nothing")])
def test_alone_at_a_constant_rate_it_is_the_constant_link(asked: int | AsManyAsFit) -> None:
    """One vehicle at a time, so nobody shares anything."""
    enter = np.cumsum(np.random.default_rng(1).uniform(21.0, 60.0, 400))
    vehicles = Crossings(np.arange(400), enter, enter + 20.0)
    jitter = {"compute": {"min_step_s": 0.2, "extra_step_s": 0.2}}
    on_air = road(ONE_SECOND, {"download": "unicast"}, **jitter)
    transfer_s = 8.0 * ONE_SECOND / AT_THE_CAP_BPS
    constant = Scenario.from_dict({"link": {"download_s": transfer_s, "upload_s": transfer_s}, **jitter})
    plan = FixedPlan(asked, 11.3)
    ours = rounds_of(on_air, vehicles, plan, seed=3).vehicles
    delays, _ = delays_and_channel(constant)
    theirs = joined(list(simulate_rounds([vehicles], plan, delays, 3))).vehicles
    assert ours is not None
    assert theirs is not None
    done = ours.outcome == Outcome.UPLOADED
    assert done.tolist() == (theirs.outcome == Outcome.UPLOADED).tolist()
    assert done.sum() > 100
    assert ours.steps[done].tolist() == theirs.steps[done].tolist()
    for mine, other in zip(ours.stages_s(delays), theirs.stages_s(delays), strict=True):
        assert mine[done] == pytest.approx(other[done], abs=1e-9, rel=0)


def test_a_track_says_where_the_vehicle_is() -> None:
    """Both stay 20 s on 400 m; one waits at the far end, where its upload is slow, the other at the station."""
    scenario = road(30_000_000, {"path_loss": "urban-nlos", "vehicle_dbm": 23.0}, road={"length_m": 400.0})
    plan, done = FixedPlan(2, 20.0), {}
    for name, waits_m in (("station", 200.0), ("far end", 399.0)):
        times, ways = np.array([0.0, 1.0, 19.0, 20.0]), np.array([0.0, waits_m, waits_m, 400.0])
        tracks = Tracks(np.array([0, 4]), times, np.full(4, np.nan), np.full(4, np.nan), ways)
        rows = rounds_of(scenario, Crossings(np.arange(1), times[:1], times[-1:], tracks), plan).vehicles
        assert rows is not None
        done[name] = Outcome(rows.outcome[0]).name, float(rows.end_s[0])
    assert done["station"][0] == "UPLOADED"
    # Beyond the first second it is 11.2 m away: at the cap, 8·30e6/136.16e6 = 1.76 s for the upload.
    assert done["station"][1] < 6.0
    assert done["far end"] == ("RADIO", 20.0)


# ---- SimPy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sharing", "download", "fading", "model_bytes", "more"),
    [
        ("equal", "broadcast", "none", 3_000_000, {}),
        ("equal", "unicast", "rayleigh", 3_000_000, {}),
        ("fifo", "broadcast", "none", 1_000_000, {}),
        ("equal", "broadcast", "none", 8_000_000, {"path_loss": "highway-los", "hidden_share": 0.6}),
    ],
)
def test_the_same_rounds_in_simpy(
    sharing: str, download: str, fading: str, model_bytes: int, more: dict[str, object]
) -> None:
    given = {"path_loss": "urban-nlos", "sharing": sharing, "download": download, "fading": fading, **more}
    scenario = Scenario.from_dict(
        {
            "radio": given,
            "link": {"model_bytes": model_bytes},
            "traffic": {"arrivals_per_s": 0.4, "speed_mps": 15.0, "speed_sd_mps": 4.0},
            "compute": {"min_step_s": 0.1, "extra_step_s": 0.1},
        }
    )
    round_s, steps, vehicles = 12.0, 20, 400
    crossings = next(poisson_crossings(scenario, 5))
    crossings = crossings.take(np.arange(len(crossings)) < vehicles)
    plan = FixedPlan(steps, round_s)
    ours = rounds_of(scenario, crossings, plan, seed=5).vehicles
    assert ours is not None
    delays, channel = delays_and_channel(scenario)
    assert channel is not None
    theirs = told_by_simpy(channel, Draws(delays, 5), 5, crossings, round_s, steps)
    assert len(ours) == len(theirs) > 700
    assert set(ours.outcome.tolist()) >= {Outcome.UPLOADED, Outcome.RADIO, Outcome.LEFT_EARLY, Outcome.ROUND_OVER}
    assert ours.transfers is not None
    for i, (number, vehicle, outcome, train_s, send_s, end_s) in enumerate(theirs):
        assert (ours.round[i], ours.vehicle[i]) == (number, vehicle)
        assert Outcome(ours.outcome[i]).name.lower() == outcome, (number, vehicle)
        times = (ours.transfers.train_s[i], ours.transfers.send_s[i], ours.end_s[i])
        # With fading compiled code looks the rate up.
        rounding_s = 1e-4 if fading == "rayleigh" else 1e-7
        assert times == pytest.approx((train_s, send_s, end_s), abs=rounding_s, nan_ok=True), (number, vehicle)


# ---- queueing theory --------------------------------------------------------------------------------


def sojourns(load: float, arrivals: int, seed: int, **radio: object) -> tuple[np.ndarray, float]:
    """How long uploads take that begin at random and whom nothing else hinders, and how long one takes alone."""
    channel = delays_and_channel(road(ONE_SECOND, dict(radio)))[1]
    assert channel is not None
    alone_s = 8.0 * ONE_SECOND / AT_THE_CAP_BPS
    enter = np.cumsum(np.random.default_rng(seed).exponential(alone_s / load, arrivals))
    air = channel.air(0)._replace(down_bits=1e-6, broadcast=False, cell_s=1e9)
    count = len(enter)
    cars = Cars(
        np.arange(count), np.arange(count).astype(np.uint64), enter, np.full(count, 1e15), np.zeros(count, np.int64),
        np.zeros(count, np.int8), np.full(count, -1), enter,
    )  # fmt: skip
    laws = Draws(delays_and_channel(road(ONE_SECOND))[0], 0).laws(1)._replace(least_s=np.array([1e-9]))
    log = Log.empty(count)
    stretch = Stretch(0.0, math.inf, 0.0)
    crowd = Crowd.of(count, 0, count)
    turn, shadows = Turn.none(count), Shadows.none(count)
    run_stretch(air, stretch, cars, turn, shadows, laws, None, 1, _NO_WAYS, crowd, log, 0, False)
    order = np.argsort(log.vehicle)
    return (log.end_s - log.begin_s)[order], alone_s


_NO_WAYS = (np.zeros(1, np.int64), np.empty(0), np.empty(0))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_sharing_equally_is_processor_sharing(load: float) -> None:
    """M/G/1-PS: the mean time in the system is S/(1 − ρ), whatever the law of S. At 1 in 10,000 a false alarm."""
    means = [sojourns(load, 2500, seed)[0][500:].mean() for seed in range(24)]
    alone_s = sojourns(load, 10, 0)[1]
    error = np.std(means, ddof=1) / math.sqrt(len(means))
    assert abs(np.mean(means) - alone_s / (1 - load)) < 4.7 * error  # Student's t, 23 degrees of freedom


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_in_turn_it_is_a_queue(load: float) -> None:
    """M/D/1: the mean time in the system is S·(1 + ρ/(2(1 − ρ))) (Pollaczek, Khinchine)."""
    means = [sojourns(load, 2500, seed, sharing="fifo")[0][500:].mean() for seed in range(24)]
    alone_s = sojourns(load, 10, 0)[1]
    error = np.std(means, ddof=1) / math.sqrt(len(means))
    assert abs(np.mean(means) - alone_s * (1 + load / (2 * (1 - load)))) < 4.7 * error


# ---- cells and shadows ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper-radio", "urban-radio", "highway-radio"])
def test_halving_the_cells_changes_hardly_anybody(name: str) -> None:
    scenario = load_scenario(name)
    plan = FixedPlan(20, 12.0)
    traffic = next(poisson_crossings(scenario, 2))
    coarse, fine = (rounds_of(scenario, traffic, plan, cell_s=cell_s).vehicles for cell_s in (0.1, 0.05))
    assert coarse is not None
    assert fine is not None
    assert len(coarse) > 8_000
    assert (coarse.outcome != fine.outcome).mean() < 1e-3


def test_who_is_behind_another_loses_what_that_takes_all_along_the_way() -> None:
    """Six in ten are, and of these Φ(−5/4) lose nothing. Whoever is not hidden hears as without anybody in between."""
    from mobfl.rounds.air import gain

    plain = load_scenario("highway-radio").with_values({"radio.shadowing_db": 0.0})
    count, nowhere = 4000, (np.zeros(1, np.int64), np.zeros(1), np.zeros(1))
    airs = [
        delays_and_channel(plain.with_values({"radio.hidden_share": share}))[1].air(7)  # type: ignore[union-attr]
        for share in (0.0, 0.6, 1.0)
    ]
    heard = np.array(
        [
            [
                [gain(air, at_s, 0, np.uint64(key), 0.0, 20.0, nowhere, -1, Shadows.none(1)) for at_s in (1.0, 12.0)]
                for key in range(count)
            ]
            for air in airs
        ]
    )
    lost_db = 10 * np.log10(heard[0] / heard[1:])  # (shares, vehicles, instants)
    assert lost_db[..., 0] == pytest.approx(lost_db[..., 1], abs=1e-9)
    some_db, all_db = lost_db[..., 0]
    assert ((some_db == 0) | (np.abs(some_db - all_db) < 1e-9)).all()  # nobody else's draw is moved
    never = ndtr(-5 / 4)
    for found_db, share in ((some_db, 0.6), (all_db, 1.0)):
        lossy = share * (1 - never)
        assert (found_db > 0).mean() == pytest.approx(lossy, abs=4.5 * math.sqrt(lossy * (1 - lossy) / count))
    behind_db = np.maximum(0.0, 5 + 4 * ndtri((np.arange(count) + 0.5) / count))
    assert np.sort(all_db) == pytest.approx(behind_db, abs=1.5)
    assert all_db.mean() == pytest.approx(behind_db.mean(), abs=4.5 * behind_db.std() / math.sqrt(count))


def test_shadows_belong_to_vehicle_and_place() -> None:
    """They are normal with the correlation e^(−Δ/d) along the way, and the same whatever was asked for before."""
    from mobfl.rounds.air import _shadow

    air = delays_and_channel(load_scenario("urban-radio"))[1].air(7)  # type: ignore[union-attr]
    count, places = 4000, np.array([3.0, 3.0 + 13.0, 55.5, 120.0])
    keys = np.arange(count).astype(np.uint64)
    state = Shadows.none(count)
    drawn = np.array([[_shadow(air, place, i, keys[i], state) for place in places] for i in range(count)])
    again = np.array([[_shadow(air, place, i, keys[i], state) for place in places[::-1]] for i in range(200)])
    assert again[:, ::-1].tolist() == drawn[:200].tolist()
    bound = 4.5 / math.sqrt(count)
    assert np.abs(drawn.mean(axis=0)).max() < bound
    assert np.abs(drawn.var(axis=0) - 1).max() < bound * math.sqrt(2)
    found = np.corrcoef(drawn.T)
    expected = np.exp(-np.abs(places[:, None] - places) / 13.0)
    assert np.abs(found - expected).max() < bound + 0.02  # in between two drawn places it is a little more
