"""Domains: points where they should be, normals that point outwards, measures that add up."""

import numpy as np
import pytest
from scipy.stats import qmc

import kernelpde as kp
from kernelpde.geometry import METHODS, union, unit_points

SQUARE = kp.Box(x=(-1, 2), y=(0, 1))
BALL = kp.Ball((0.5, 0.5), 0.4)
DOMAINS = {
    "box-1d": kp.Box(x=(0, 3)),
    "box-2d": SQUARE,
    "box-3d": kp.Box(x=(0, 1), y=(0, 2), z=(0, 3)),
    "disc": BALL,
    "ball-3d": kp.Ball((0, 0, 1), 2.0),
    "ball-5d": kp.Ball(np.zeros(5), 1.5),
    "intersection": SQUARE & kp.Ball((0, 0), 0.8),
    "union": SQUARE | kp.Ball((2, 0.5), 0.4),
    "difference": SQUARE - BALL,
}


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", DOMAINS)
def test_interior_points_are_inside(name):
    domain = DOMAINS[name]
    sample = domain.interior.sample(400, rng())
    assert sample.points.shape == (400, len(domain.space.coordinates))
    assert (domain.signed_distance(sample.points) < 0).all()
    assert sample.normals is None


@pytest.mark.parametrize("name", DOMAINS)
def test_boundary_points_and_normals(name):
    domain = DOMAINS[name]
    sample = domain.boundary.sample(2 if name == "box-1d" else 300, rng())
    np.testing.assert_allclose(domain.signed_distance(sample.points), 0.0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(sample.normals, axis=1), 1.0, rtol=1e-14)
    step = 1e-6
    assert (domain.signed_distance(sample.points + step * sample.normals) > 0).all()
    assert (domain.signed_distance(sample.points - step * sample.normals) < 0).all()


def test_shares_of_the_boundary_follow_the_measure():
    # The half disc of radius 0.8 above y = 0: arc 0.8 pi, straight side 1.6.
    half = SQUARE & kp.Ball((0, 0), 0.8)
    points = half.boundary.sample(20_000, rng()).points
    straight = np.mean(points[:, 1] == 0)
    assert straight == pytest.approx(1.6 / (1.6 + 0.8 * np.pi), abs=0.015)


@pytest.mark.parametrize("stretch", [1.0, 1e-9, 1e9])
def test_sides_of_a_box_have_equal_shares_in_all_units(stretch):
    box = kp.Box(x=(0, 1), y=(0, stretch))
    points = box.boundary.sample(81, rng(), "halton").points / [1.0, stretch]
    counts = [int(np.sum(points[:, axis] == end)) for axis in (0, 1) for end in (0, 1)]
    assert sorted(counts) == [20, 20, 20, 21]
    np.testing.assert_allclose(
        points, kp.Box(x=(0, 1), y=(0, 1)).boundary.sample(81, rng(), "halton").points, atol=1e-15
    )


def test_interior_of_a_difference_has_the_right_area():
    ring = kp.Ball((0, 0), 1.0) - kp.Ball((0, 0), 0.5)
    inside = ring.signed_distance(
        kp.Box(x=(-1, 1), y=(-1, 1)).interior.sample(4096, rng(), "sobol")[0]
    )
    assert np.mean(inside < 0) * 4 == pytest.approx(0.75 * np.pi, abs=0.02)


LEGS = kp.Box(x=(0, 2), y=(0, 0.8)), kp.Box(x=(0, 0.8), y=(0, 2))
UNIT, LEFT = kp.Box(x=(0, 1), y=(0, 1)), kp.Box(x=(-1, 0), y=(0, 0.1 + 0.2))


@pytest.mark.parametrize(
    ("domain", "length"),
    [
        (LEGS[0] | LEGS[1], 8.0),
        (LEGS[1] | LEGS[0], 8.0),
        (LEGS[0] & LEGS[1], 3.2),
        (LEGS[0] - LEGS[1], 4.0),
        (UNIT | UNIT, 4.0),
        (UNIT & UNIT, 4.0),
        (UNIT | LEFT, 6.0),
        (UNIT - LEFT, 4.0),
        (UNIT - kp.Box(x=(0, 1), y=(0.5, 1)), 3.0),
        ((UNIT | LEFT) - kp.Box(x=(-1, 1), y=(0, 0.3)), 3.4),
        (kp.Extrusion(LEGS[0] | LEGS[1], t=(0, 0.5)), 4.0),
        (kp.Box(x=(0, 1e-6), y=(0, 1e3)) | kp.Box(x=(0, 1e-6), y=(0, 500.0)), 2e3),
        (kp.Ball((0, 0), 1.0) | kp.Ball((0, 0), 1.0), 2 * np.pi),
        (UNIT - kp.Polygon([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]), 2 + np.sqrt(2)),
    ],
)
def test_sides_that_coincide_are_there_once(domain, length):
    """Where two domains touch, the boundary is what has the combination on one side only."""
    assert domain.surface_area == pytest.approx(length, rel=2e-4)
    points, normals, _ = domain.boundary.sample(500, np.random.default_rng(3), "uniform")
    step = 1e-5 * np.ptp(domain.bounds, axis=1).min()
    at = points.copy()
    if domain.space.time is not None:
        at[:, 0] = 0.25
    assert np.all(domain.contains(at - step * normals))
    assert not np.any(domain.contains(at + step * normals))


@pytest.mark.parametrize("method", METHODS)
def test_sampling_methods_are_reproducible_and_fill_the_box(method):
    count = 256
    first = SQUARE.interior.sample(count, rng(1), method).points
    again = SQUARE.interior.sample(count, rng(1), method).points
    np.testing.assert_array_equal(first, again)
    assert first.shape == (count, 2)
    np.testing.assert_allclose(first.mean(axis=0), [0.5, 0.5], atol=0.15)
    if method != "grid":
        other = SQUARE.interior.sample(count, rng(2), method).points
        assert not np.array_equal(first, other)


def test_even_samples_have_larger_gaps_than_random_ones():
    def smallest_gap(method):
        points = kp.Box(x=(0, 1), y=(0, 1)).interior.sample(225, rng(3), method).points
        gaps = np.linalg.norm(points[:, None] - points[None], axis=-1) + 9 * np.eye(225)
        return gaps.min()

    assert smallest_gap("poisson") > 5 * smallest_gap("uniform")
    assert smallest_gap("grid") == pytest.approx(1 / 15, rel=1e-12)


def test_sides_have_names_and_can_be_found_by_value():
    assert set(SQUARE.boundary_patches) == {"x=-1", "x=2", "y=0", "y=1"}
    sample = SQUARE.side(x=2).sample(5, rng())
    assert (sample.points[:, 0] == 2).all()
    np.testing.assert_array_equal(sample.normals, np.tile([1.0, 0.0], (5, 1)))
    np.testing.assert_array_equal(SQUARE["x=2"].sample(5, rng()).points, sample.points)


def test_space_time_boxes_keep_time_out_of_the_boundary():
    box = kp.Box(t=(0, 1), x=(-1, 1), time="t")
    assert set(box.boundary_patches) == {"x=-1", "x=1"}
    assert (box.initial.sample(7, rng()).points[:, 0] == 0).all()
    assert (box.final.sample(7, rng()).points[:, 0] == 1).all()
    both = union([box.initial, box.boundary]).sample(4000, rng()).points
    assert np.mean(both[:, 0] == 0) == pytest.approx(0.5, abs=0.03)


def test_point_clouds_are_taken_as_they_are():
    points = rng().random((6, 2))
    cloud = kp.PointCloud(points, normals=np.tile([0.0, 1.0], (6, 1)))
    sample = cloud.sample(None, rng())
    np.testing.assert_array_equal(sample.points, points)
    assert cloud.has_normals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kp.Box(), "at least one interval"),
        (lambda: kp.Box(x=(1, 0)), r"x must be an interval .* got \(1, 0\)"),
        (lambda: kp.Box(x=(0, 1), time="t"), "unknown time coordinate 't'; expected 'x'"),
        (lambda: SQUARE.side(x=0.5), "x must be -1 or 2; got 0.5"),
        (lambda: SQUARE.side(z=0), "unknown coordinate 'z'; expected 'x', 'y'"),
        (lambda: SQUARE["z=0"], "Box: unknown boundary piece 'z=0'; expected 'x=-1'"),
        (lambda: SQUARE.initial, "with a time coordinate; got Box"),
        (lambda: kp.Ball((0, 0), -1.0), "radius must be positive and finite; got -1.0"),
        (lambda: kp.Ball((0,), 1.0), "an interval is a Box"),
        (lambda: SQUARE & kp.Box(a=(0, 1), b=(0, 1)), "needs the same coordinates"),
        (lambda: (SQUARE & kp.Box(x=(5, 6), y=(0, 1))).interior, "is empty"),
        (lambda: SQUARE.interior.sample(10, rng(), "grid"), "Use 9 or 16"),
        (lambda: SQUARE.interior.sample(10, rng(), "random"), "unknown method 'random'"),
        (lambda: SQUARE.interior.sample(0, rng()), "number of points must be at least 1; got 0"),
        (lambda: kp.Box(x=(0, 1)).side(x=0).sample(3, rng()), "is a single point; got 3"),
        (
            lambda: kp.Box(x=(0, 1)).boundary.sample(3, rng()),
            "must be 2, since it consists of single points; got 3",
        ),
        (lambda: BALL.interior.sample(9, rng(), "grid"), "a grid does not fit it"),
        (lambda: (BALL - SQUARE).interior.sample(9, rng()), "'interior' is empty"),
        (lambda: kp.PointCloud([1.0, 2.0]), r"points must be of shape \(n, d\)"),
        (lambda: kp.PointCloud([[0.0, np.nan]]), "NaN or infinite entry in row 0"),
        (lambda: kp.PointCloud([[0.0, 1.0]], normals=[[1.0]]), "normals must be of the same shape"),
    ],
)
def test_bad_geometry_is_refused(make, message):
    with pytest.raises(kp.InputError, match=message):
        make()


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 12])
def test_halton_points_are_those_of_scipy(dimension):
    """Which draws them too, after a second of importing."""
    for count in (1, 10, 1000):
        ours, theirs = np.random.default_rng(count), np.random.default_rng(count)
        for _ in range(2):
            points = unit_points(count, dimension, "halton", ours)
            np.testing.assert_array_equal(points, qmc.Halton(dimension, rng=theirs).random(count))
