"""Curved sides of meshes that end at corners."""

import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp


def sector(angle: float, sides: int, height: float = 1.0, **options) -> kp.Mesh:
    """A part of an ellipse around its center, in triangles that meet there."""
    along = np.linspace(0, angle, sides + 1)
    arc = np.stack([np.cos(along), height * np.sin(along)], axis=1)
    cells = np.array([[0, k, k + 1] for k in range(1, sides + 1)])
    return kp.Mesh(np.concatenate([[[0.0, 0.0]], arc]), cells, **options)


def farthest(mesh: kp.Mesh, height: float = 1.0) -> float:
    """The largest distance of boundary points from the curve, about."""
    drawn = mesh.boundary.sample(2000, np.random.default_rng(0), "uniform").points
    radii = np.linalg.norm(drawn / [1, height], axis=1)
    curved = (drawn.min(axis=1) > 1e-9) & (radii > 0.9)
    assert curved.sum() > 200
    return float(np.abs(radii[curved] - 1).max())


def test_the_last_side_of_a_curve_is_curved():
    assert farthest(sector(np.pi / 2, 12)) < 1e-5
    assert farthest(sector(np.pi / 2, 12, feature_angle=1.0)) > 1e-3
    coarse, fine = (farthest(sector(np.pi / 2, sides, 0.7), 0.7) for sides in (12, 24))
    assert coarse / fine > 6


def test_a_long_straight_side_beside_a_short_arc_stays_straight():
    """Half of a stadium: its straight sides are one facet each, and tangent to the arc."""
    turn = np.linspace(-np.pi / 2, np.pi / 2, 25)
    arc = np.stack([2 + 0.5 * np.cos(turn), 0.5 * np.sin(turn)], axis=1)
    points = np.concatenate([[[0.0, 0.0], [0.0, -0.5]], arc, [[0.0, 0.5]]])
    cells = np.array([[0, k, k + 1] for k in range(1, len(points) - 1)])
    drawn = kp.Mesh(points, cells).boundary.sample(1000, np.random.default_rng(0)).points
    straight = drawn[(drawn[:, 0] < 2) & (drawn[:, 0] > 1e-6)]
    assert len(straight) > 200
    np.testing.assert_allclose(np.abs(straight[:, 1]), 0.5, atol=1e-12)
    radii = np.linalg.norm(drawn[drawn[:, 0] > 2] - [2, 0], axis=1)
    np.testing.assert_allclose(radii, 0.5, atol=1e-5)


@pytest.mark.slow
def test_graded_points_on_a_curved_side_at_a_corner_that_points_inwards():
    mesh = sector(1.5 * np.pi, 36)

    def exact(x):
        theta = jnp.mod(jnp.arctan2(x[1], x[0]), 2 * jnp.pi)
        return (x[0] ** 2 + x[1] ** 2) ** (1 / 3) * jnp.sin(2 * theta / 3)

    problem = kp.Problem(
        kp.Condition("equation", mesh.interior, lambda x, u: u.laplacian),
        kp.Condition("boundary", mesh.boundary, lambda x, u: u.value - exact(x)),
        fields=[kp.Field("u", kp.Gaussian(0.5))],
    )
    solution = kp.solve(problem, accuracy=1e-3)
    assert solution.converged
    points = np.asarray(solution.point_sets[1].points)
    radii = np.linalg.norm(points, axis=1)
    on_arc = radii > 0.95
    on_arc &= np.abs(points).min(axis=1) > 1e-6
    assert on_arc.sum() > 10
    assert np.abs(radii[on_arc] - 1).max() < 1e-4
    assert np.sort(radii)[5] < 0.05
    where = mesh.interior.sample(300, np.random.default_rng(1), "uniform").points
    truth = np.array([float(exact(p)) for p in where])
    error = np.asarray(solution["u"](where)) - truth
    assert np.sqrt(np.mean(error**2)) < 2e-3 * np.sqrt(np.mean(truth**2))
