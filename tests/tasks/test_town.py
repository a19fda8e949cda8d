"""The generated town: reproducible, a consistent map, and vehicles that drive as people do."""

import numpy as np
import pytest

from mobfl.errors import InputError
from mobfl.rng import stream
from mobfl.tasks.trajectories import town, town_driving
from mobfl.tasks.trajectories.recordings import LEFT, OBSERVED, RIGHT, STEP_S, STEPS, YES
from mobfl.tasks.trajectories.town import town_recordings, traffic
from mobfl.tasks.trajectories.town_driving import idm_acceleration
from mobfl.tasks.trajectories.town_map import town_lanes, town_map

SEED = 5
WIDTH_M = 1.9  # of a vehicle


@pytest.fixture(scope="module")
def recordings():
    return town_recordings(SEED, 0, 200)


@pytest.fixture(scope="module")
def true_traffic():
    """Some recordings' vehicles and tracks before anybody measured them."""
    keys = (np.array([stream(SEED, "town"), number], np.uint64) for number in range(40))
    return [traffic(np.random.Generator(np.random.Philox(key=key))) for key in keys]


# Reproducibility


def as_bytes(recordings):
    return [(one.name, one.city, one.positions.tobytes()) for one in recordings]


def test_a_recording_depends_on_seed_and_number_alone(recordings):
    parts = as_bytes(town_recordings(SEED, 10, 10)), as_bytes(town_recordings(SEED, 0, 10))
    assert parts[1] + parts[0] == as_bytes(recordings[:20])


def test_another_seed_is_other_traffic(recordings):
    other = town_recordings(SEED + 1, 0, 5)
    assert all(a.positions.tobytes() != b.positions.tobytes() for a, b in zip(other, recordings, strict=False))


def test_recordings_are_named_by_seed_and_number():
    assert [(one.name, one.city) for one in town_recordings(0, 17, 1)] == [("town-0-000017", "TOWN")]
    assert town_recordings(0, 17, 0) == []


def test_numbers_are_checked():
    with pytest.raises(InputError, match="first and count must be >= 0, got -1 and 3"):
        town_recordings(0, -1, 3)


# The map


def headings(lines, end):
    steps = lines[:, 1] - lines[:, 0] if end == 0 else lines[:, -1] - lines[:, -2]
    return steps / np.linalg.norm(steps, axis=1, keepdims=True)


def test_every_lane_has_ten_points_and_is_short():
    lanes = town_map()
    assert (np.diff(lanes.offsets) == 10).all()
    lengths_m = np.array([np.linalg.norm(np.diff(lanes.line(i), axis=0), axis=1).sum() for i in range(len(lanes))])
    assert lengths_m.min() > 5
    assert lengths_m.max() < 40


def test_a_lane_continues_where_and_as_its_predecessor_ends():
    lanes = town_map()
    lines = lanes.points.reshape(len(lanes), 10, 2)
    before, after = lanes.successors.T
    assert np.linalg.norm(lines[before, -1] - lines[after, 0], axis=1).max() < 0.05
    # The last and the first of ten chords: in the sharpest turn (11 m) they differ by a chord's angle.
    cosine = (headings(lines, 1)[before] * headings(lines, 0)[after]).sum(axis=1)
    assert cosine.min() > np.cos(np.radians(10))


def test_nobody_can_leave_the_town_and_every_lane_can_be_reached():
    lanes = town_map()
    assert set(lanes.successors[:, 0]) == set(lanes.successors[:, 1]) == set(range(len(lanes)))


def test_neighbours_are_mutual_parallel_and_a_lane_apart():
    lanes = town_map()
    lines = lanes.points.reshape(len(lanes), 10, 2)
    has_left = np.flatnonzero(lanes.left >= 0)
    assert len(has_left) > 50
    assert (lanes.right[lanes.left[has_left]] == has_left).all()
    assert (lanes.left >= 0).sum() == (lanes.right >= 0).sum()
    apart_m = lines[lanes.left[has_left]] - lines[has_left]
    distance_m = np.linalg.norm(apart_m, axis=-1)
    assert distance_m.min() > 2
    assert distance_m.max() < 5
    for end in (0, 1):
        ahead, beside = headings(lines, end)[has_left], headings(lines, end)[lanes.left[has_left]]
        assert (ahead * beside).sum(axis=1).min() > 0.99
    across = ahead[:, None, 0] * apart_m[..., 1] - ahead[:, None, 1] * apart_m[..., 0]
    assert (across > 0).all(), "left is left"


def test_lanes_that_turn_say_so():
    lanes = town_map()
    lines = lanes.points.reshape(len(lanes), 10, 2)
    (start_x, start_y), (end_x, end_y) = headings(lines, 0).T, headings(lines, 1).T
    turned = start_x * end_y - start_y * end_x
    assert (turned[lanes.turn == LEFT] > 0.2).all()
    assert (turned[lanes.turn == RIGHT] < -0.2).all()
    assert (lanes.intersection[lanes.turn != 0] == YES).all()


def test_vehicles_hold_an_answer_for_every_fork_and_see_each_line_to_stop_at():
    lanes = town_lanes()
    assert lanes["fork"].max() + 1 == town_driving.VEHICLE["turns_off"].shape[0]
    yields = lanes[lanes["yields"]]
    assert len(yields) == 4
    assert (yields["end_shared_m"] < yields["length_m"] - 2).all()
    assert (yields["end_twin"] >= 0).all()


# Recordings


def test_agents_are_seen_throughout_and_others_come_and_go(recordings):
    assert all(np.isfinite(one.positions[0]).all() for one in recordings)
    others = np.concatenate([one.positions[1:] for one in recordings])
    missing = np.isnan(others[..., 0])
    assert 0.02 < missing.mean() < 0.3
    assert not missing.all(axis=1).any()


def test_there_is_company_within_a_hundred_metres(recordings):
    assert 8 < np.mean([len(one.positions) for one in recordings]) < 20
    for one in recordings:
        distance_m = np.linalg.norm(one.positions[:, OBSERVED - 1] - one.positions[0, OBSERVED - 1], axis=1)
        assert np.nanmax(distance_m) < 102


def test_constant_velocity_is_not_enough(recordings):
    agents = np.array([one.positions[0] for one in recordings])
    now_m, velocity_mps = agents[:, OBSERVED - 1], (agents[:, OBSERVED - 1] - agents[:, OBSERVED - 6]) / 0.5
    ahead_s = STEP_S * np.arange(1, STEPS - OBSERVED + 1)
    predicted_m = now_m[:, None] + velocity_mps[:, None] * ahead_s[:, None]
    assert 2.2 < np.linalg.norm(agents[:, OBSERVED:] - predicted_m, axis=-1).mean() < 3.8


def test_the_noise_is_a_tracker_s():
    noise_m = town._noise_m(np.random.default_rng(1), 2000)
    assert noise_m.shape == (2000, STEPS, 2)
    assert noise_m.std() == pytest.approx(np.hypot(0.12, 0.03), rel=0.03)
    step_to_step = (noise_m[:, 1:] * noise_m[:, :-1]).mean() / 0.12**2
    assert step_to_step == pytest.approx(np.exp(-0.1 / 0.5), rel=0.03)


# Traffic


def test_vehicles_drive_on_centre_lines_unless_they_change_lanes(true_traffic):
    points = town_lanes()["points"].reshape(-1, 2)
    for _, tracks in true_traffic[:10]:
        position_m, aside_m = tracks.position_m[:, ::10], tracks.aside_m[:, ::10]
        off_m = np.linalg.norm(position_m[:, :, None] - points, axis=-1).min(axis=-1)
        assert off_m[aside_m == 0].max() < 0.7, "no further than half the points' distance"
        assert np.abs(aside_m).max() <= 3.5
        assert off_m.max() < 2


def test_speeds_and_accelerations_are_possible(true_traffic):
    for _, tracks in true_traffic:
        speed_mps = np.linalg.norm(np.diff(tracks.position_m, axis=1), axis=-1) / STEP_S
        assert speed_mps.max() < 17.5
        keeps_lane = (tracks.aside_m[:, 2:] == 0) & (tracks.aside_m[:, 1:-1] == 0) & (tracks.aside_m[:, :-2] == 0)
        acceleration_mps2 = (np.diff(speed_mps, axis=1) / STEP_S)[keeps_lane]
        assert acceleration_mps2.max() < 3
        assert acceleration_mps2.min() > -8.5
        assert (acceleration_mps2 < -5).mean() < 0.01


def test_traffic_turns_waits_and_changes_lanes(true_traffic):
    turn = np.concatenate([town_lanes()["turn"][tracks.lane] for _, tracks in true_traffic])
    moved_m = np.concatenate(
        [np.linalg.norm(tracks.position_m[:, -1] - tracks.position_m[:, 0], axis=1) for _, tracks in true_traffic]
    )
    changes = np.concatenate([(tracks.aside_m != 0).any(axis=1) for _, tracks in true_traffic])
    assert 0.02 < (turn == LEFT).any(axis=1).mean() < 0.3
    assert 0.01 < (turn == RIGHT).any(axis=1).mean() < 0.3
    assert 0.03 < (moved_m < 1).mean() < 0.3
    assert 0.05 < changes.mean() < 0.3


def test_vehicles_on_one_lane_keep_clear_of_each_other(true_traffic):
    for vehicles, tracks in true_traffic:
        for step in range(0, STEPS, 7):
            order = np.lexsort((tracks.along_m[:, step], tracks.lane[:, step]))
            same = np.diff(tracks.lane[order, step]) == 0
            lengths_m = vehicles["length_m"][order]
            gap_m = np.diff(tracks.along_m[order, step]) - (lengths_m[1:] + lengths_m[:-1]) / 2
            assert gap_m[same].min(initial=np.inf) > 0


def overlaps(position_m, ahead, length_m, width_m):
    """Which pairs of upright boxes overlap: no side of either parts them."""
    across = np.stack([-ahead[:, 1], ahead[:, 0]], axis=1)
    apart_m = position_m[None] - position_m[:, None]
    parted = np.zeros(apart_m.shape[:2], np.bool_)
    for axis in (ahead, across):
        half_m = np.abs(ahead @ axis.T) * length_m[:, None] / 2 + np.abs(across @ axis.T) * width_m / 2
        clear = np.abs((apart_m * axis[:, None]).sum(axis=-1)) > half_m.T + half_m.diagonal()[:, None]
        parted |= clear | clear.T
    return np.argwhere(np.triu(~parted, 1))


def test_nobody_collides_anywhere(true_traffic):
    lanes = town_lanes()
    found = []
    for number, (vehicles, tracks) in enumerate(true_traffic):
        for step in range(0, STEPS, 7):
            lane = tracks.lane[:, step]
            point = np.rint(tracks.along_m[:, step] / lanes["length_m"][lane] * 27).astype(int)
            ahead = lanes["directions"][lane, point]
            pairs = overlaps(tracks.position_m[:, step], ahead, vehicles["length_m"], WIDTH_M)
            found += [(number, step, *pair) for pair in pairs.tolist()]
    assert found == []


def test_the_check_for_collisions_sees_one():
    position_m, ahead = np.array([[0.0, 0.0], [3.0, 1.0], [-1.0, 2.5]]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert overlaps(position_m, ahead, np.array([4.6, 4.6, 4.6]), 1.9).tolist() == [[0, 1]]


# Stories with vehicles placed by hand


def lane_from(x_m, y_m):
    """The first lane that starts here."""
    distance_m = np.linalg.norm(town_lanes()["points"][:, 0] - np.array([x_m, y_m]), axis=1)
    assert distance_m.min() < 0.01
    return int(distance_m.argmin())


def car(lane, along_m, speed_mps, acceleration_mps2=1.8, wish_s=np.inf):
    """One that goes straight on at every fork."""
    one = np.zeros((), town_driving.VEHICLE)
    one["length_m"], one["headway_s"], one["acceleration_mps2"] = 4.5, 1.2, acceleration_mps2
    one["lane"], one["along_m"], one["speed_mps"], one["came_from"] = lane, along_m, speed_mps, -1
    one["desired_mps"], one["wish_s"] = 13.0, wish_s
    return one


def drive(*cars, seconds, clock_s=0.0):
    return town.Tracks(*town_driving.drive(town_lanes(), np.array(cars), clock_s, 0, round(seconds / STEP_S)))


def test_acceleration_on_a_free_road_is_the_formula_s():
    for speed_mps, desired_mps in ((0.0, 13.0), (6.5, 13.0), (13.0, 13.0), (15.0, 13.0)):
        expected = 1.5 * (1 - (speed_mps / desired_mps) ** 4)
        assert idm_acceleration(speed_mps, desired_mps, np.inf, 0.0, 1.2, 1.5) == pytest.approx(expected)


def test_acceleration_behind_a_leader_is_the_formula_s():
    wanted_m = 2.0 + 10 * 1.2 + 10 * 3 / (2 * np.sqrt(1.5 * 2.0))
    expected = 1.5 * (1 - (10 / 13) ** 4 - (wanted_m / 40) ** 2)
    assert idm_acceleration(10.0, 13.0, 40.0, 3.0, 1.2, 1.5) == pytest.approx(expected)
    assert idm_acceleration(10.0, 13.0, 0.5, 10.0, 1.2, 1.5) == -8.0, "nobody brakes harder than tyres allow"


def test_a_follower_brakes_and_stops_behind_a_standing_leader():
    parked = [car(lane_from(x_m, 80), 20.0, 0.0, acceleration_mps2=1e-6) for x_m in (5.25, 8.75)]  # no way around
    tracks = drive(*parked, car(lane_from(5.25, 20), 1.0, 12.0), seconds=25)
    gap_m = tracks.position_m[0, :, 1] - tracks.position_m[2, :, 1] - 4.5
    speed_mps = np.diff(tracks.position_m[2, :, 1]) / STEP_S
    assert gap_m[0] == pytest.approx(74.5)
    assert 1.5 < gap_m[-1] < 2.5
    assert speed_mps[-1] < 0.05
    assert (np.diff(speed_mps) / STEP_S).min() > -4, "in good time"


def test_a_vehicle_stops_at_red_and_goes_on_green():
    north_south_again_s = 40.0
    tracks = drive(car(lane_from(5.25, -80), 1.0, 10.0), seconds=40, clock_s=15.0)
    front_m = tracks.position_m[0, :, 1] + 2.25
    waiting, going = front_m[round((north_south_again_s - 15) / STEP_S)], front_m[-1]
    assert -23 < waiting < -20
    assert going > 20


def test_who_joins_lets_those_with_priority_pass():
    slip_road, main_road = int(np.flatnonzero(town_lanes()["yields"])[0]), lane_from(-50, 8.75)
    joining = car(int(town_lanes()["before"][slip_road]), 1.0, 8.0)
    joint_x_m = -110
    alone = drive(joining, seconds=20)
    both = drive(joining, car(main_road, 1.0, 10.0), seconds=20)
    alone_at, joined_at, passed_at = (
        int(np.argmax(x_m < joint_x_m))
        for x_m in (alone.position_m[0, :, 0], both.position_m[0, :, 0], both.position_m[1, :, 0])
    )
    assert passed_at < joined_at
    assert joined_at > alone_at + 5


def test_a_lane_change_takes_some_seconds_and_is_smooth():
    tracks = drive(car(lane_from(5.25, 110), 1.0, 10.0, wish_s=0.0), seconds=8)
    changing = tracks.aside_m[0] != 0
    assert 3 <= changing.sum() * STEP_S <= 5
    steps_m = np.diff(tracks.position_m[0], axis=0)
    assert np.linalg.norm(np.diff(steps_m, axis=0), axis=1).max() < 0.1, "no jump"
