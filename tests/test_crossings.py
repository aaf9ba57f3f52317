"""Shapes, integrals, known functions and vectors with solvers, windows, noise and periods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.kernels import FeatureKernel

SQUARE = kp.Box(x=(0, 1), y=(0, 1))
FLOWER = kp.Implicit(
    lambda x, y: jnp.sqrt(x**2 + y**2 + 1e-30) - 0.8 - 0.15 * jnp.cos(5 * jnp.arctan2(y, x)),
    x=(-1, 1),
    y=(-1, 1),
)


def smooth(x):
    return jnp.sin(2 * x[0]) * jnp.exp(x[1])


def poisson(domain, kernel):
    def equation(x, u):
        return u.laplacian - jnp.trace(jax.hessian(smooth)(x))

    return kp.Problem(
        kp.Condition("equation", domain.interior, equation),
        kp.Condition("boundary", domain.boundary, lambda x, u: u.value - smooth(x)),
        fields=[kp.Field("u", kernel)],
    )


def error(solution, domain, exact=smooth, field="u"):
    x = domain.interior.sample(300, np.random.default_rng(5)).points
    truth = np.asarray(jax.vmap(exact)(x))
    return np.linalg.norm(np.asarray(solution[field](x)) - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize(
    ("solver", "bound"),
    [(kp.Dense(), 1e-6), (kp.LowRank(max_rank=300), 1e-4), (kp.Sparse(), 2e-2)],
    ids=["dense", "low rank", "sparse"],
)
def test_an_implicit_shape_with_every_solver(solver, bound):
    kernel = kp.Matern(2.5, 0.5) if isinstance(solver, kp.Sparse) else kp.Gaussian(0.6)
    problem = poisson(FLOWER, kernel)
    points = {"equation": 400, "boundary": 120}
    solution = kp.solve(problem, points, linear_solver=solver, throw=False)
    assert error(solution, FLOWER) < bound


@pytest.mark.parametrize(
    ("solver", "bound"),
    [(kp.Dense(), 1e-6), (kp.LowRank(max_rank=250), 1e-4), (kp.Sparse(), 1e-2)],
    ids=["dense", "low rank", "sparse"],
)
def test_known_functions_with_solvers(solver, bound):
    def exact(x):
        return smooth(x) + 3 * jnp.exp(4 * x[0])

    def equation(x, u):
        return u.laplacian - jnp.trace(jax.hessian(exact)(x))

    kernel = kp.Matern(2.5, 0.5) if isinstance(solver, kp.Sparse) else kp.Gaussian(0.6)
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, equation),
        kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value - exact(x)),
        fields=[kp.Field("u", kernel + FeatureKernel(lambda x: jnp.exp(4 * x[0])))],
    )
    solution = kp.solve(
        problem, {"equation": 250, "boundary": 80}, linear_solver=solver, throw=False
    )
    assert error(solution, SQUARE, exact) < bound


def test_windows_on_an_extruded_shape():
    disc = kp.Ball((0, 0), 1.0, coordinates=("x", "y"))
    domain = kp.Extrusion(disc, t=(0, 1))

    def exact(x):
        return jnp.exp(-2 * x[0]) * jnp.sin(x[1]) * jnp.sin(x[2])

    problem = kp.Problem(
        kp.Condition(
            "equation", domain.interior, lambda x, u: u.d("t") - u.d("x", "x") - u.d("y", "y")
        ),
        kp.Condition("boundary", domain.boundary, lambda x, u: u.value - exact(x)),
        kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x)),
        fields=[kp.Field("u", kp.Gaussian([0.8, 1.0, 1.0]))],
    )
    evolution = kp.march(problem, 2, {"equation": 200, "boundary": 100, "initial": 80})
    assert evolution.converged
    assert error(evolution, domain, exact) < 1e-4


def test_an_integral_on_a_periodic_domain():
    """-u'' = 4π² sin 2πx on a circle has a solution up to a constant; its mean settles that."""
    circle = kp.Box(x=(0, 1), periodic="x")
    problem = kp.Problem(
        kp.Condition(
            "equation",
            circle.interior,
            lambda x, u: -u.d("x", "x") - 4 * jnp.pi**2 * jnp.sin(2 * jnp.pi * x[0]),
        ),
        kp.Condition(
            "mean",
            kp.PointCloud([[0.3]]),
            lambda x, u: kp.integral(lambda y, u: u.value, over=circle.interior) - 2.0,
        ),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    solution = kp.solve(problem, {"equation": 40})
    assert error(solution, circle, lambda x: 2 + jnp.sin(2 * jnp.pi * x[0])) < 1e-7


def test_measured_integrals_with_learned_noise_and_outliers():
    """A density from noisy amounts up to x, some of them wrong."""
    line = kp.Box(x=(0, 1))
    rng = np.random.default_rng(3)
    x = np.sort(rng.random(60))
    amounts = x + 0.3 * np.sin(3 * x) + 0.01 * rng.standard_normal(60)
    wrong = amounts.copy()
    wrong[[10, 35]] += 0.7

    def problem(noise, data):
        return kp.Problem(
            kp.Condition(
                "amounts",
                kp.PointCloud(x[:, None], coordinates=("x",)),
                lambda x, u, amount: kp.integral(lambda y, u: u.value, start=[0.0], end=x) - amount,
                data={"amount": data},
                noise=noise,
            ),
            kp.Condition("flat", line.side(x=0), lambda x, u: u.value - 1.9),
            fields=[kp.Field("u", kp.Gaussian(0.4))],
        )

    def exact(x):
        return 1 + 0.9 * jnp.cos(3 * x[0])

    learned = kp.learn(problem(kp.LearnedNoise(0.05), amounts), {"flat": 1}, throw=False)
    (level,) = (np.asarray(c.noise_std) for c in learned.problem.conditions if c.name == "amounts")
    assert 0.006 < float(level) < 0.016
    assert error(learned.solution, line, exact) < 0.1
    robust = kp.solve(problem(kp.StudentT(0.01), wrong), {"flat": 1}, throw=False)
    plain = kp.solve(problem(0.01, wrong), {"flat": 1}, throw=False)
    assert 3 * error(robust, line, exact) < error(plain, line, exact)


@pytest.mark.parametrize("solver", [kp.LowRank, kp.Sparse])
def test_kernels_that_hold_functions_with_solvers_and_devices(solver):
    mesh = jax.make_mesh((1,), ("rows",))
    problem = poisson(SQUARE, kp.Gaussian(0.5) + FeatureKernel(lambda x: jnp.exp(x[0])))
    points = {"equation": 120, "boundary": 40}
    found = [
        kp.solve(problem, points, linear_solver=chosen, throw=False)["u"]([[0.3, 0.6]])
        for chosen in (kp.Dense(1e-8), solver(1e-8), solver(1e-8, mesh=mesh))
    ]
    np.testing.assert_allclose(found[2], found[1], rtol=1e-9)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)
