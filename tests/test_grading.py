"""Points and lengthscales become finer towards inward corners and small holes."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import boundary_value
from scipy.spatial import KDTree

import kernelpde as kp
from kernelpde.adaptive import grade_problem, grading_centers
from kernelpde.geometry import (
    GradingCenters,
    SizeField,
    as_patches,
    density_integral,
    find_grading_centers,
    reentrant_corners,
)

SQUARE = kp.Box(x=(-1.0, 1.0), y=(-1.0, 1.0))
L_SHAPE = SQUARE - kp.Box(x=(0.0, 1.1), y=(-1.1, 0.0))
DISKS = kp.Ball((0.0, 0.0), 1.0) | kp.Ball((1.0, 0.0), 1.0)
UNIT = np.array([[-1.0, 1.0], [-1.0, 1.0]])


def singular(x):
    """r^(2/3) sin(2θ/3), harmonic in the L-shape."""
    r = jnp.sqrt(x[0] ** 2 + x[1] ** 2 + 1e-300)
    angle = jnp.mod(jnp.arctan2(x[1], x[0]), 2 * jnp.pi)
    return r ** (2 / 3) * jnp.sin(2 * angle / 3)


def laplace(kernel, domain=L_SHAPE, exact=singular):
    return boundary_value(domain, lambda x, u: u.laplacian, kernel, exact=exact)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (L_SHAPE, [(0.0, 0.0)]),
        (
            kp.Ball((0.0, 0.0), 1.0) | kp.Ball((1.0, 0.0), 1.0),
            [(0.5, 0.75**0.5), (0.5, -(0.75**0.5))],
        ),
        (
            kp.Box(x=(0.0, 4e6), y=(0.0, 1e-3)) - kp.Box(x=(1e6, 2e6), y=(3e-4, 6e-4)),
            [(1e6, 3e-4), (1e6, 6e-4), (2e6, 3e-4), (2e6, 6e-4)],
        ),
        (kp.Box(x=(0.0, 4.0), y=(0.0, 1.0)) - kp.Ball((2.0, 0.0), 0.3), []),
        (kp.Ball((0.0, 0.0), 1.0), []),
        (SQUARE, []),
        (kp.Ball((0.0, 0.0, 0.0), 1.0) | kp.Ball((1.0, 0.0, 0.0), 1.0), []),
    ],
)
def test_corners_are_found(domain, expected):
    found = reentrant_corners([domain.interior, domain.boundary])
    extent = np.ptp(domain.bounds, axis=1)[: found.shape[1]]
    order = np.lexsort((found / extent).round(6).T)
    known = np.array(expected).reshape(-1, found.shape[1])
    known = known[np.lexsort((known / extent).round(6).T)]
    np.testing.assert_allclose(found[order] / extent, known / extent, atol=1e-9)


HOLES = SQUARE - kp.Ball((0.5, 0.4), 0.04) - kp.Ball((-0.2, -0.6), 0.3)
FLOWER = kp.Implicit(
    lambda x, y: jnp.sqrt(x**2 + y**2) - 1 - 0.3 * jnp.cos(5 * jnp.arctan2(y, x)),
    x=(-1.5, 1.5),
    y=(-1.5, 1.5),
)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (HOLES, [(0.5, 0.4, 0.04), (-0.2, -0.6, 0.3)]),
        (SQUARE - kp.Ball((0.0, 0.0), 0.6), []),
        (kp.Ball((0.0, 0.0), 0.1), []),
        (SQUARE, []),
        (L_SHAPE - kp.Ball((-0.5, 0.5), 0.1), [(0.0, 0.0, 0.0), (-0.5, 0.5, 0.1)]),
        (kp.Box(t=(0, 1), x=(0, 1), time="t"), []),
        (kp.Ball((0.0, 0.0, 0.0), 1.0) - kp.Ball((0.0, 0.0, 0.0), 0.1), []),
    ],
)
def test_small_holes_are_found(domain, expected):
    found = find_grading_centers([domain.interior, domain.boundary])
    order, known = np.argsort(found.radii), np.array(sorted(expected, key=lambda e: e[-1]))
    assert len(found.points) == len(expected)
    if expected:
        np.testing.assert_allclose(found.points[order], known[:, :2], atol=1e-4)
        np.testing.assert_allclose(found.radii[order], known[:, 2], rtol=1e-3)


def test_bends_of_curves_are_found():
    """Where r = 1 + 0.3 cos 5θ is smallest: its curvature there is 13.9."""
    found = find_grading_centers([FLOWER.interior, FLOWER.boundary])
    angles = np.sort(np.arctan2(found.points[:, 1], found.points[:, 0]) % (2 * np.pi))
    np.testing.assert_allclose(angles, (2 * np.arange(5) + 1) * np.pi / 5, atol=0.05)
    assert np.all((found.radii > 0.07) & (found.radii < 0.15))


def test_holes_of_a_mesh_are_found():
    """With the curve through its vertices, and a name for each part of the boundary."""
    bar = kp.read_mesh(Path(__file__).parent.parent / "docs" / "lessons" / "washer.msh")
    found = find_grading_centers([bar.interior, bar["pipe"], bar["outside"]])
    np.testing.assert_allclose(found.points, [[0.4, 0.0]], atol=1e-3)
    np.testing.assert_allclose(found.radii, [0.4], rtol=1e-2)


def test_sizes_are_the_formula():
    rng = np.random.default_rng(0)
    places, given = rng.uniform(-1, 1, (3, 2)), np.array([1e-3, 0.1, 1e-6])
    sizes, points = SizeField.from_centers(places, given, UNIT), rng.uniform(-1, 1, (50, 2))
    apart = np.linalg.norm(points[:, None] - places, axis=2) / 2
    expected = (1 + (1 / (apart**2 + given**2)).sum(axis=1)) ** -0.5
    np.testing.assert_allclose(sizes.evaluate(points), expected, rtol=1e-9)
    np.testing.assert_allclose(jax.vmap(sizes)(points), expected, rtol=1e-9)
    np.testing.assert_allclose(sizes.evaluate(places), given, rtol=0.03)
    # It grows no faster than the distance.
    slopes = np.linalg.norm(jax.vmap(jax.grad(sizes))(points), axis=1)
    assert slopes.max() <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("smallest", [1e-1, 1e-3, 1e-6])
def test_distances_follow_sizes(smallest):
    sizes = SizeField.from_centers(np.zeros((1, 2)), np.array([smallest]), UNIT)
    problem = grade_problem(
        laplace(kp.Gaussian(0.3)), GradingCenters(np.zeros((1, 2)), np.zeros(1)), 10 * smallest
    )
    inside, edge = (c.region for c in problem.conditions)
    # One side of the corner: points on different sides know nothing of each other.
    side = max(as_patches(edge), key=density_integral)
    for region, parameters in ((inside, 2), (side, 1)):
        points = region.sample(600, np.random.default_rng(3)).points
        assert points.shape == (600, 2)
        nearest = KDTree(points).query(points, k=2)[0][:, 1] / 2 / sizes.evaluate(points)
        expected = (sum(density_integral(p) for p in as_patches(region)) / 600) ** (1 / parameters)
        # None are close together; even ones in the plane would be 1.07 of it apart at most.
        assert nearest.min() > 0.3 * expected
        assert 0.6 * expected < np.median(nearest) < 1.2 * expected
    mean = np.mean(inside.sample(2000, np.random.default_rng(4)).points, axis=0)
    assert np.linalg.norm(mean) < 0.2
    assert not np.array_equal(
        inside.sample(40, np.random.default_rng(1)).points,
        inside.sample(40, np.random.default_rng(2)).points,
    )


def test_loads_are_integrals():
    """∫ H⁻² over the square, of H = (1 + (s² + r²)⁻³)^(-1/6), by a fine grid in log r."""
    smallest = 1e-2
    sizes = SizeField.from_centers(np.zeros((1, 2)), np.array([smallest]), UNIT)
    x = np.geomspace(1e-4, 0.5, 300)
    x = np.concatenate([-x[::-1], [0.0], x])
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    values = sizes.evaluate(2 * grid).reshape(len(x), len(x)) ** -2
    expected = np.trapezoid(np.trapezoid(values, x), x)
    np.testing.assert_allclose(
        density_integral(replace(SQUARE.interior, size_field=sizes)), expected, rtol=0.02
    )


def test_graded_problems_have_the_same_solution():
    """Of a smooth problem, since residuals are only multiplied and kernels only changed."""

    def exact(x):
        return jnp.exp(x[0]) * jnp.sin(x[1])

    problem = laplace(kp.Gaussian(0.5), exact=exact)
    finer = grade_problem(problem, grading_centers(problem), 1e-1)
    solution = kp.solve(finer, {"equation": 300, "boundary": 120})
    places = np.random.default_rng(0).uniform(-1, 0, (100, 2))
    np.testing.assert_allclose(solution["u"](places), jax.vmap(exact)(places), atol=5e-4)
    assert "test_grading.py" in finer._tracers()[0].location


@pytest.mark.slow
def test_an_accuracy_in_an_l_shape(tmp_path):
    """Even points and one lengthscale end at about one percent, whatever their number."""
    solution = kp.solve(laplace(kp.Gaussian(0.3)), accuracy=1e-3)
    places = np.random.default_rng(5).uniform(-1, 1, (2000, 2))
    places = places[(places[:, 0] < 0) | (places[:, 1] > 0)]
    known = np.asarray(jax.vmap(singular)(places))
    error = np.linalg.norm(np.asarray(solution["u"](places)) - known) / np.linalg.norm(known)
    assert error < 1e-3
    assert 0.5 < solution.error_estimate["u"].rms / error < 10
    assert solution.problem.at_points(solution.point_sets).num_rows < 3000
    kp.save_solution(tmp_path / "corner.npz", solution)
    again = kp.load_solution(tmp_path / "corner.npz", solution.problem)
    np.testing.assert_array_equal(again["u"](places), solution["u"](places))
    with pytest.raises(kp.InputError, match="kernel"):
        kp.load_solution(tmp_path / "corner.npz", laplace(kp.Gaussian(0.3)))


@pytest.mark.slow
def test_an_accuracy_outside_of_a_small_hole():
    """Even points and one lengthscale end at a few tenths of a percent with 4000 rows."""

    def exact(x):
        return 0.5 * jnp.log((x[0] - 0.5) ** 2 + (x[1] - 0.4) ** 2)

    domain = kp.Box(x=(0, 1), y=(0, 1)) - kp.Ball((0.5, 0.4), 0.04)
    solution = kp.solve(laplace(kp.Gaussian(0.5), domain, exact), accuracy=1e-4)
    places = domain.interior.sample(2000, np.random.default_rng(5), "uniform").points
    known = np.asarray(jax.vmap(exact)(places))
    error = np.linalg.norm(np.asarray(solution["u"](places)) - known) / np.linalg.norm(known)
    assert error < 1e-4
    assert 0.5 < solution.error_estimate["u"].rms / error < 10
    assert solution.problem.at_points(solution.point_sets).num_rows < 2000


@pytest.mark.parametrize("rows", [pytest.param(1, id="700 rows"), pytest.param(2, id="1400 rows")])
def test_two_holes_in_a_plate(rows):
    """Where sizes follow the nearer hole alone, and bend halfway, errors are above a tenth."""
    holes = kp.Ball((1.65, 0.4), 0.12), kp.Ball((0.4, 0.4), 0.12)
    plate = kp.Box(x=(0, 2), y=(0, 0.8))
    domain = plate - holes[0] - holes[1]

    def exact(x):
        away = [(x[0] - 1.65) ** 2 + (x[1] - 0.4) ** 2, (x[0] - 0.4) ** 2 + (x[1] - 0.4) ** 2]
        return 0.2 * jnp.log(away[0]) - 0.1 * jnp.log(away[1]) + 0.3 * x[0] * x[1]

    def robin(x, normal, u):
        return u.normal_derivative + 0.5 * u.value - jax.grad(exact)(x) @ normal - 0.5 * exact(x)

    outer = kp.union([domain[side] for side in plate.boundary_patches])
    inner = kp.union([domain["sphere"], domain["sphere'"]])
    problem = kp.Problem(
        kp.Condition("equation", domain.interior, lambda x, u: -u.laplacian),
        kp.Condition("holes", inner, lambda x, u: u.value - exact(x)),
        kp.Condition("outer", outer, robin),
        fields=[kp.Field("u", kp.Gaussian(0.5))],
    )
    finer = grade_problem(problem, grading_centers(problem), 1e-3)
    (field,) = finer.fields
    finer = finer.with_kernels([kp.kernels.scale_lengthscales([field.kernel], 0.5)[0]])
    points = {"equation": 400 * rows, "holes": 100 * rows, "outer": 200 * rows}
    places = domain.interior.sample(2000, np.random.default_rng(7), "uniform").points
    known = np.asarray(jax.vmap(exact)(places))
    for seed in range(2):
        solution = kp.solve(finer, points, seed=seed, throw=False)
        error = np.linalg.norm(np.asarray(solution["u"](places)) - known) / np.linalg.norm(known)
        assert error < (2e-2 if rows == 1 else 5e-4)


def test_smooth_solutions_stay_even():
    def exact(x):
        return jnp.exp(x[0]) * jnp.sin(x[1])

    solution = kp.solve(laplace(kp.Gaussian(0.3), exact=exact), accuracy=1e-5)
    assert all(
        p.size_field is None for c in solution.problem.conditions for p in as_patches(c.region)
    )


def test_points_on_closed_curves_are_graded_too():
    """A circle ends where it begins: it is not a point."""
    ball = kp.Ball((0.5, 0.5), 0.25, coordinates=("x", "y"))
    domain = kp.Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]) - ball
    problem = boundary_value(domain, lambda x, u: u.laplacian + 1.0, kp.Gaussian(0.3))
    finer = grade_problem(problem, grading_centers(problem), 1e-2)
    blocks = finer.collocate({"equation": 200, "boundary": 150})
    edge = np.asarray(blocks[1].points)
    round_ = np.abs(np.linalg.norm(edge - 0.5, axis=1) - 0.25) < 1e-9
    assert 10 < round_.sum() < 75
    near = np.linalg.norm(edge - 1.0, axis=1) < 0.1
    assert near.sum() > 10
