"""Learning lengthscales that vary from place to place."""

import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.errors import InputError
from kernelpde.gallery import burgers, eikonal, layer
from kernelpde.learning import (
    Loss,
    ThetaMap,
    damped_direction,
    loss_and_curvature,
    loss_and_gradient,
    outer_loss,
    stationary_kernels,
    with_varying_lengthscales,
)
from kernelpde.linear_solvers import DenseState


def small_loss(kernel):
    """The outer loss of Burgers' equation at a state that is not zero."""
    problem = burgers().problem.with_kernels((kernel,))

    def rows(counts, seed):
        blocks = problem.collocate(counts, seed=seed)
        state = tuple(
            jnp.asarray(np.random.default_rng(seed).normal(size=(len(b.points), len(r.nonlinear))))
            for r, b in zip(problem.residuals, blocks, strict=True)
        )
        return problem.at_points(blocks).linearize(state)

    training = rows({"equation": 40, "ends": 8, "initial": 10}, 0)
    validation = rows({"equation": 30, "ends": 6, "initial": 8}, 1)
    weights = jnp.asarray(np.random.default_rng(2).uniform(0.5, 1.0, len(validation.rhs)))
    solver = DenseState(kp.Dense(nugget=1e-8, refinement_sweeps=0))
    return Loss(ThetaMap.of(problem.prior), training, validation, weights, solver, None)


def bumps():
    field = kp.BumpLengthscale([0.4, 0.3], [(0, 1), (-1, 1)], (2, 3))
    numbers = 0.3 * np.random.default_rng(3).normal(size=(2, 6))
    return kp.Gibbs(eqx.tree_at(lambda f: f.coefficients, field, jnp.asarray(numbers)))


@pytest.fixture(scope="module")
def loss():
    return small_loss(bumps())


def test_gradients_agree_forwards_backwards_and_by_differences(loss):
    theta = jnp.asarray(loss.theta_map.vector)
    _, backwards, _, _ = loss_and_gradient(theta, loss)
    _, forwards, _, _ = loss_and_curvature(theta, loss)
    size = np.max(np.abs(forwards))
    np.testing.assert_allclose(backwards / size, forwards / size, rtol=0, atol=1e-9)
    value = eqx.filter_jit(lambda t: outer_loss(t, loss)[0])
    direction = np.random.default_rng(4).normal(size=len(theta))
    h = 1e-4
    differences = sum(
        w * (float(value(theta + k * h * direction)) - float(value(theta - k * h * direction)))
        for k, w in ((1, 2 / 3), (2, -1 / 12))
    )
    np.testing.assert_allclose(differences / h, np.asarray(backwards) @ direction, rtol=1e-6)


def test_damped_direction_solves_the_normal_equations(loss):
    theta = jnp.asarray(loss.theta_map.vector)
    damping = 0.3
    gradient, step = damped_direction(theta, loss, jnp.asarray(damping), 60)
    _, expected, square, _ = loss_and_curvature(theta, loss)
    expected, square = np.asarray(expected), np.asarray(square)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-9 * np.max(np.abs(expected)))
    curvature = expected @ square @ expected / (expected @ expected)
    normal = square + damping * curvature * np.eye(len(theta))
    exact = -np.linalg.solve(normal, expected)
    np.testing.assert_allclose(step, exact, rtol=0, atol=2e-3 * np.max(np.abs(exact)))


def test_constant_first_then_varying():
    problem = burgers().problem
    blocks = problem.collocate({"equation": 5, "ends": 4, "initial": 4})
    sums = (
        2.0 * kp.Gibbs(kp.BumpLengthscale([0.4, 0.3], [(0, 1), (-1, 1)], (2, 3)))
        + kp.Gaussian(0.7),
    )
    constant = stationary_kernels(sums, blocks)
    assert constant is not None
    assert isinstance(constant[0].first.kernel, kp.Gaussian)
    changed = eqx.tree_at(
        lambda k: k[0].first.kernel.log_lengthscale, constant, jnp.log(jnp.array([0.2, 0.1]))
    )
    back = with_varying_lengthscales(sums, changed)
    np.testing.assert_allclose(back[0].first.kernel.lengthscale(jnp.ones(2)), [0.2, 0.1])
    np.testing.assert_allclose(back[0].second.lengthscale, 0.7)
    assert stationary_kernels((kp.Gaussian(0.3),), blocks) is None
    held = kp.freeze(sums[0].first.kernel, lambda k: k.lengthscale.coefficients)
    assert stationary_kernels((held,), blocks) is None


@pytest.mark.slow
def test_the_learned_lengthscale_shows_the_shock():
    """Smallest in x where the shock forms, near x = 0 towards t = 1; and the error falls.

    The code is that of the page on rough solutions.
    """
    page = (Path(__file__).parent.parent / "docs" / "rough.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(block, "rough.md", "exec"), space)
    learned, example = space["learned"], burgers()
    points = {"equation": 600, "ends": 100, "initial": 120}
    before = kp.solve(
        space["problem"], points, linear_solver=kp.Dense(nugget=1e-10), max_steps=12, throw=False
    )
    errors = [example.errors(s)["u"]["l2"] for s in (before, learned.solution)]
    assert errors[1] < 0.2 * errors[0]
    times, places = np.linspace(0, 1, 11), np.linspace(-0.9, 0.9, 19)
    grid = np.stack(np.meshgrid(times, places, indexing="ij"), axis=-1)
    field = jax.vmap(jax.vmap(learned.kernels[0].lengthscale))(jnp.asarray(grid))
    assert abs(places[np.argmin(field[-1, :, 1])]) <= 0.2
    assert np.min(field[-1, :, 1]) < 0.7 * np.median(field[0, :, 1])


@pytest.mark.paper
def test_the_learned_lengthscale_shows_the_kink():
    """Smaller at the center, where all kinks meet, than in the middle of the four triangles."""
    example = eikonal(shape=(5, 5))
    points = {"equation": 300, "boundary": 100}
    learned = kp.learn(
        example.problem,
        points,
        method=kp.learning.Bilevel(
            final=kp.learning.FinalSolve(points, linear_solver=kp.Dense(nugget=1e-8))
        ),
        linear_solver=kp.Dense(nugget=1e-8, refinement_sweeps=0),
        max_steps=14,
        throw=False,
    )
    at = learned.kernels[0].lengthscale
    center = float(at(jnp.array([0.5, 0.5]))[0])
    between = [[0.5, 0.2], [0.2, 0.5], [0.8, 0.5], [0.5, 0.8]]
    assert center < min(float(at(jnp.array(p))[0]) for p in between)


def test_the_layer_solves_its_equation():
    example = layer()
    u = example.references["u"]
    points = np.random.default_rng(0).uniform(0.02, 0.98, (40, 2))
    h = 1e-3

    def at(dx, dy):
        return u(points + h * np.array([dx, dy]))

    first = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))
    second = ((1, 3 / 2), (2, -3 / 20), (3, 1 / 90))
    slope = sum(w * (at(k, 0) - at(-k, 0)) for k, w in first) / h
    both = sum(w * (at(k, 0) + at(-k, 0) + at(0, k) + at(0, -k)) for k, w in second)
    laplacian = (both - 2 * 49 / 18 * at(0, 0)) / h**2
    expected = np.sin(np.pi * points[:, 1]) + 0.02 * np.pi**2 * at(0, 0)
    np.testing.assert_allclose(slope - 0.02 * laplacian, expected, atol=1e-6)
    sides = np.array([[0, 0.3], [1, 0.3], [0.4, 0], [0.4, 1]])
    np.testing.assert_allclose(u(sides), 0, atol=1e-12)


def test_unknown_kernels_are_refused():
    with pytest.raises(InputError, match="'bumps', 'network' or 'matern'; got 'cubic'"):
        burgers(kernel="cubic")
