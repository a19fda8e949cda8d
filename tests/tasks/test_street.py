"""The generated street: reproducible, in Raymobtime's grid, and with the channel that geometry and Fresnel demand."""

import itertools

import numpy as np
import pytest
from scipy.special import fresnel

from mobfl.errors import InputError
from mobfl.tasks.beams import conventions, street_channel, street_frame, street_lidar
from mobfl.tasks.beams.street import street_scenes
from mobfl.tasks.beams.street_frame import HOUSE_FRONTS

BASE_M = street_frame.street_from_map(np.array(conventions.BASE_STATION_M))
NOBODY = np.empty((0, 6))
OPEN_GROUND = np.empty((0, 5))


def box(across_m, along_m, length_m, width_m, height_m):
    """A vehicle by its centre."""
    half = np.array([width_m / 2, length_m / 2])
    return np.array([*(np.array([across_m, along_m]) - half), 0.0, *(np.array([across_m, along_m]) + half), height_m])


def car(across_m, along_m):
    return box(across_m, along_m, 4.645, 1.775, 1.59)


def truck(across_m, along_m):
    return box(across_m, along_m, 12.5, 2.5, 4.3)


def on_roof(vehicle):
    return tuple(float(x) for x in (*(vehicle[:2] + vehicle[3:5]) / 2, vehicle[5]))


@pytest.fixture(scope="module")
def samples():
    return street_scenes(seed=3, first=0, count=20)


# Reproducibility


def as_bytes(samples):
    return [array.tobytes() for array in vars(samples).values()]


def test_a_scene_depends_on_seed_and_number_alone(samples):
    parts = [street_scenes(3, first, 5) for first in (15, 0, 10, 5)]
    in_order = [parts[k] for k in (1, 3, 2, 0)]
    joined = [np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in in_order), strict=True)]
    assert [array.tobytes() for array in joined] == as_bytes(samples)


def test_another_seed_is_another_street(samples):
    assert as_bytes(street_scenes(4, 0, 20)) != as_bytes(samples)


def test_no_scenes_are_empty_arrays_of_the_right_shapes():
    none = street_scenes(3, 7, 0)
    assert none.grid.shape == (0, 20, 200, 10)
    assert none.amplitude.shape == (0, 8, 32)
    assert none.position_m.shape == (0, 3)


def test_a_negative_scene_is_refused():
    with pytest.raises(InputError, match="first and count must be >= 0, got -1 and 2"):
        street_scenes(3, -1, 2)


# What is in a sample


def test_shapes_types_and_order(samples):
    n = len(samples.scene)
    assert (samples.grid.shape, samples.grid.dtype) == ((n, 20, 200, 10), np.int8)
    assert (samples.amplitude.shape, samples.amplitude.dtype) == ((n, 8, 32), np.float32)
    assert samples.line_of_sight.shape == (n,)
    assert (np.diff(samples.scene) >= 0).all()
    assert set(samples.scene) == set(range(20))
    assert np.isfinite(samples.amplitude).all()
    assert (samples.amplitude.max((1, 2)) > 0).all()


def test_grid_has_one_base_station_and_one_receiver_where_the_real_grids_have_them(samples):
    assert set(np.unique(samples.grid)) == {-2, -1, 0, 1}
    cells = np.rint((samples.position_m - [744, 429, 0]) / [1.15, 1.25, 1])
    cells = np.clip(cells, 0, [19, 199, 9]).astype(int)
    for grid, cell in zip(samples.grid, cells, strict=True):
        assert np.argwhere(grid == -1).tolist() == [[2, 105, 4]]
        assert np.argwhere(grid == -2).tolist() == [cell.tolist()]


def test_receivers_stand_on_roofs_of_the_three_kinds(samples):
    assert set(samples.position_m[:, 2]) == {1.59, 3.2, 4.3}


def test_a_truck_is_higher_than_the_base_station_and_its_own_roof_hides_it(samples):
    assert not samples.line_of_sight[samples.position_m[:, 2] == 4.3].any()


def test_the_map_and_the_street_are_two_views_of_one_position(samples):
    there = street_frame.street_from_map(samples.position_m)
    np.testing.assert_allclose(street_frame.map_from_street(there), samples.position_m, rtol=1e-12)


def test_statistics_are_near_the_real_street(samples):
    """Bounds far wider than the spread of 100 scenes; real s010 in parentheses."""
    many = street_scenes(1, 0, 100)
    best = many.amplitude.reshape(len(many.scene), -1).argmax(1)
    shares = np.sort(np.bincount(best, minlength=256))[::-1] / len(best)
    assert 0.08 < shares[0] < 0.20  # (0.145)
    assert 0.60 < shares[:10].sum() < 0.80  # (0.683)
    assert 0.70 < (best // 32 == 4).mean() < 0.88  # (0.727)
    assert 0.06 < (many.grid == 1).any(3).mean() < 0.10  # (0.078)


# Paths: an oracle that shares nothing with the kernels, by mirroring in plain NumPy


def mirrored(point, front):
    image = point.copy()
    image[int(front[0])] = 2 * front[1] - image[int(front[0])]
    return image


def crossing(a, b, front):
    """Where the segment meets the front, or None."""
    axis = int(front[0])
    if (a[axis] - front[1]) * (b[axis] - front[1]) >= 0:
        return None
    point = a + (b - a) * (front[1] - a[axis]) / (b[axis] - a[axis])
    return point if front[2] <= point[1 - axis] <= front[3] else None


def concrete(a, b, front):
    permittivity = 5.31 - 1j * 0.8967 / (2 * np.pi * 60e9 * 8.8541878128e-12)
    normal = abs((b - a)[int(front[0])]) / np.linalg.norm(b - a)
    root = np.sqrt(permittivity - 1 + normal**2)
    return abs((normal - root) / (normal + root))


def oracle_paths(antenna, vehicles):
    """(number, image's distance, what is left, first corner, last corner) of every path, without regard to vehicles."""
    rows = [(0, np.linalg.norm(antenna - BASE_M), 1.0, antenna, BASE_M)]
    count = len(HOUSE_FRONTS)
    for i, front in enumerate(HOUSE_FRONTS):
        image = mirrored(BASE_M, front)
        point = crossing(antenna, image, front)
        if point is not None:
            rows.append((1 + i, np.linalg.norm(antenna - image), concrete(antenna, image, front), point, point))
    for i, j in itertools.permutations(range(count), 2):
        image = mirrored(BASE_M, HOUSE_FRONTS[i])
        twice = mirrored(image, HOUSE_FRONTS[j])
        last = crossing(antenna, twice, HOUSE_FRONTS[j])
        first = None if last is None else crossing(last, image, HOUSE_FRONTS[i])
        if first is not None:
            left = concrete(antenna, twice, HOUSE_FRONTS[j]) * concrete(last, image, HOUSE_FRONTS[i])
            number = 1 + count + 4 * vehicles + i * count + j
            rows.append((number, np.linalg.norm(antenna - twice), left, first, last))
    return rows


def oracle_amplitudes(antenna, vehicles, phases, heading):
    """|Wᴴ H F| from explicit array responses and DFT matrices."""
    x_axis = street_frame.street_from_map(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    x_axis = (x_axis[0] - x_axis[1])[:2]
    channel = np.zeros((8, 32), complex)
    for number, distance, left, first, last in oracle_paths(antenna, vehicles):
        gain = left * (299_792_458.0 / 60e9) / (4 * np.pi * distance) * np.exp(-1j * phases[number])
        out, back = (first - BASE_M)[:2], (last - antenna)[:2]
        transmit = np.exp(-1j * np.pi * np.arange(32) * (out @ x_axis) / np.linalg.norm(out))
        receive = np.exp(-1j * np.pi * np.arange(8) * heading * back[1] / np.linalg.norm(back))
        channel += gain * np.outer(receive.conj(), transmit)
    codebook = {n: np.exp(-2j * np.pi * np.outer(range(n), range(n)) / n) / np.sqrt(n) for n in (8, 32)}
    return np.abs(codebook[8].conj().T @ channel @ codebook[32])


@pytest.mark.parametrize("across_m", [-5.25, -2.25, 6.05, 9.05])
@pytest.mark.parametrize("along_m", [20.0, 75.3, 101.7, 114.0, 160.2, 213.0])
def test_empty_street_has_the_channel_of_the_image_method(across_m, along_m):
    me = car(across_m, along_m)
    phases = np.random.default_rng(5).uniform(0, 2 * np.pi, street_channel.most_paths(1))
    paths, which = street_channel.trace_paths(on_roof(me), me[np.newaxis], HOUSE_FRONTS)
    expected = oracle_amplitudes(np.array(on_roof(me)), 1, phases, -1.0)
    assert len(paths) > 3
    amplitude = street_channel.beam_amplitudes(paths, phases[which], -1.0)
    np.testing.assert_allclose(amplitude, expected, rtol=1e-5, atol=1e-6 * expected.max())


def test_a_reflection_is_as_long_as_the_distance_to_the_image():
    antenna = on_roof(car(6.05, 60.0))
    paths, which = street_channel.trace_paths(antenna, NOBODY, HOUSE_FRONTS)
    expected = oracle_paths(np.array(antenna), 0)
    assert which.tolist() == [row[0] for row in expected]
    np.testing.assert_allclose(paths[:, 0], [row[1] for row in expected], rtol=1e-12)


def test_a_truck_reflects_like_metal_in_its_side():
    antenna, wall = on_roof(car(-2.25, 80.0)), truck(6.0, 97.0)
    paths, which = street_channel.trace_paths(antenna, wall[np.newaxis], OPEN_GROUND)
    image = BASE_M * [-1, 1, 1] + [2 * wall[0], 0, 0]
    assert which.tolist() == [0, 1]  # the direct path and the truck's west side
    assert paths[1, 0] == pytest.approx(np.linalg.norm(image - antenna))
    assert paths[1, 1] == 1.0


# Blocking


def left_of_direct_path(antenna, *vehicles):
    paths, which = street_channel.trace_paths(antenna, np.array(vehicles).reshape(-1, 6), OPEN_GROUND)
    return paths[0, 1] if len(which) and which[0] == 0 else 0.0


def half_way(antenna):
    return ((BASE_M + antenna) / 2)[:2]


def test_a_truck_between_cuts_the_line_of_sight_and_a_car_does_not():
    antenna = on_roof(car(6.05, 150.0))
    assert left_of_direct_path(antenna) == 1.0
    assert left_of_direct_path(antenna, car(*half_way(antenna))) == 1.0
    assert left_of_direct_path(antenna, truck(*half_way(antenna))) < 0.1


def test_a_truck_beside_the_line_or_behind_the_antenna_cuts_nothing():
    antenna = on_roof(car(6.05, 150.0))
    across_m, along_m = half_way(antenna)
    assert left_of_direct_path(antenna, truck(across_m + 15.0, along_m)) == 1.0
    assert left_of_direct_path(antenna, truck(6.05, 170.0)) == 1.0


def test_two_trucks_between_leave_nothing():
    antenna = on_roof(car(6.05, 150.0))
    near = BASE_M[:2] + 0.8 * (np.array(antenna[:2]) - BASE_M[:2])
    assert left_of_direct_path(antenna, truck(*half_way(antenna)), truck(*near)) == 0.0


def test_ones_own_car_is_below_every_path_and_ones_own_truck_bends_the_direct_one():
    small, large = car(6.05, 150.0), truck(6.05, 150.0)
    assert left_of_direct_path(on_roof(small), small) == 1.0
    assert 0.1 < left_of_direct_path(on_roof(large), large) <= 10 ** (-6.0 / 20)


@pytest.mark.parametrize("parameter", [0.0, 0.3, 1.0, 3.0, 10.0, 30.0])
def test_knife_edge_is_fresnels_integral(parameter):
    """The standard's closed form is within a quarter of a decibel of the integral."""
    sine, cosine = fresnel(parameter)
    exact = np.hypot(1 - cosine - sine, cosine - sine) / 2
    assert 20 * np.log10(street_channel._knife_edge(parameter) / exact) == pytest.approx(0.0, abs=0.25)


# Beams


def test_the_strongest_pair_of_a_pure_line_of_sight_points_at_the_other_end():
    for along_m in np.linspace(20.0, 210.0, 39):
        antenna = on_roof(car(6.05, along_m))
        paths, _ = street_channel.trace_paths(antenna, NOBODY, OPEN_GROUND)
        amplitude = street_channel.beam_amplitudes(paths, np.zeros(1), -1.0)
        there = street_frame.map_from_street(np.array(antenna)) - conventions.BASE_STATION_M
        x_cosine = there[0] / np.hypot(there[0], there[1])
        forward_cosine = -(BASE_M - antenna)[1] / np.hypot(*(BASE_M - antenna)[:2])
        expected = (np.rint(-4 * forward_cosine) % 8, np.rint(-16 * x_cosine) % 32)
        assert np.unravel_index(amplitude.argmax(), amplitude.shape) == expected


def test_beams_share_out_what_the_arrays_receive():
    """Unit-norm DFT beams are an orthonormal basis: over all pairs, the power is 8 · 32 times one antenna's."""
    paths, _ = street_channel.trace_paths(on_roof(car(6.05, 150.0)), NOBODY, OPEN_GROUND)
    amplitude = street_channel.beam_amplitudes(paths, np.zeros(1), 1.0).astype(float)
    one_antenna = street_channel.WAVELENGTH_M / (4 * np.pi * paths[0, 0])
    assert (amplitude**2).sum() == pytest.approx(256 * one_antenna**2, rel=1e-5)


# LIDAR


def seen(own, *others, fronts=OPEN_GROUND):
    cells = np.zeros(conventions.GRID_SHAPE, np.int8)
    street_lidar.scan(np.array([own, *others]), 0, fronts, cells)
    return cells


def cells_of(vehicle):
    """Every cell of the column over a box, a margin of a cell included."""
    x, y = np.meshgrid(*(np.linspace(vehicle[k], vehicle[k + 3], 60) for k in range(2)))
    points = street_frame.map_from_street(np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1))
    return {street_frame.cell_of(point)[:2] for point in points}


def test_alone_on_open_ground_the_lidar_sees_nothing():
    assert not seen(car(6.05, 100.0)).any()


def test_lidar_hits_lie_on_the_vehicle_and_reach_its_height():
    bus = box(-2.25, 110.0, 9.0, 2.4, 3.2)
    cells = seen(car(6.05, 100.0), bus)
    assert {tuple(cell) for cell in np.argwhere(cells.any(2)).tolist()} <= cells_of(bus)
    assert cells.any((0, 1)).tolist() == [True] * 4 + [False] * 6


def test_a_truck_hides_the_car_behind_it_but_not_another_truck_above_a_car():
    hidden, before = car(-2.25, 140.0), truck(-2.25, 125.0)
    me = car(-2.25, 105.0)
    assert (seen(me, before, hidden) == seen(me, before)).all()
    assert (seen(me, car(-2.25, 125.0), truck(-2.25, 145.0)) != seen(me, car(-2.25, 125.0))).any()


def test_house_fronts_are_seen_up_to_the_lidars_range():
    cells = seen(car(6.05, 100.0), fronts=HOUSE_FRONTS[2:3])
    x, y, _ = np.nonzero(cells)
    assert set(x.tolist()) == {19}
    reach_m = street_frame.street_from_map(np.array([770.0, 429 + 1.25 * y.min()]))[1] - 100.0
    assert 90.0 < reach_m < 101.0
