"""Bilevel optimization of any inner problem: hypergradients, fixed points, resumed runs."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import kernelpde as kp
from kernelpde import bilevel
from kernelpde.bilevel.problems import CrossValidation, HeldOutResidual, KernelRegression, Network


def manufactured(x):
    return jnp.sin(6 * jnp.pi * x**2)


def source(x):
    return -jax.grad(jax.grad(manufactured))(x) + manufactured(x) ** 3


def friedman(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Friedman's first function of ten inputs, of which five matter, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    y += 10 * x[:, 3] + 5 * x[:, 4] + rng.standard_normal(count)
    return x, (y - 14.4) / 5.0


NETWORK = Network(source, num_training=40, num_validation=39, ridge=1e-8)
REGRESSION = KernelRegression(*friedman(60))
FOLDS = tuple(tuple(range(start, 60, 12)) for start in range(12))
LOGARITHMS = np.log(np.r_[np.ones(10), 0.3])
CASES = {
    "network": (NETWORK, HeldOutResidual(), NETWORK.first_layer(12, seed=1)),
    "leave-one-out": (
        REGRESSION,
        CrossValidation(standardized=False),
        np.log(np.r_[np.ones(10), 0.3]),
    ),
    "folds": (REGRESSION, CrossValidation(FOLDS), LOGARITHMS),
    "predictive density": (REGRESSION, CrossValidation(), LOGARITHMS),
}


@pytest.mark.parametrize("case", CASES)
def test_the_hypergradient_is_that_of_one_linearization(case):
    """Forward, backward and by differences, about a state that is not zero."""
    inner, criterion, theta = CASES[case]
    state = jnp.asarray(0.3 * np.random.default_rng(3).standard_normal(len(inner.init())))
    objective = bilevel.Objective(criterion, inner.linearize(theta, state), kp.L2(1e-3))
    value = jax.jit(lambda t: bilevel.outer_loss(t, objective)[0])
    direction = np.random.default_rng(4).standard_normal(len(theta))
    h = 1e-4
    slope = sum(
        w * (float(value(theta + k * h * direction)) - float(value(theta - k * h * direction)))
        for k, w in ((1, 2 / 3), (2, -1 / 12))
    )
    forward = bilevel.loss_and_curvature(jnp.asarray(theta), objective)
    reverse = bilevel.loss_and_gradient(jnp.asarray(theta), objective)
    assert slope / h == pytest.approx(float(forward.gradient @ direction), rel=1e-6)
    np.testing.assert_allclose(reverse.gradient, forward.gradient, rtol=1e-6, atol=1e-9)
    jacobian = jax.jacrev(lambda t: bilevel.outer_residual(t, objective)[0])(jnp.asarray(theta))
    np.testing.assert_allclose(forward.curvature, jacobian.T @ jacobian, rtol=1e-6, atol=1e-9)


def settled(theta, state, steps=8):
    """Return the inner solution after further linearizations at a fixed θ."""
    for _ in range(steps):
        solution = NETWORK.linearize(theta, state).solve(jnp.asarray(theta))
        state = solution.values
    return solution


def test_the_state_converges_to_the_nonlinear_inner_problem():
    """At the fixed point a Newton step of ½ δ ‖c‖² + ½ ‖R(u)‖², by autodiff, is zero."""
    inner, criterion, start = CASES["network"]
    learned = bilevel.minimize(criterion, inner, start, max_factorizations=150)
    solution = settled(learned.theta, learned.state)
    x, (slopes, offsets) = jnp.asarray(inner.points[:40]), jnp.split(jnp.asarray(learned.theta), 2)

    def loss(c):
        def u(x):
            return x * (1 - x) * jnp.tanh(slopes * x + offsets) @ c

        def residual(x):
            return -jax.grad(jax.grad(u))(x) + u(x) ** 3 - source(x)

        return 0.5 * inner.ridge * (c @ c) + 0.5 * jnp.mean(jax.vmap(residual)(x) ** 2)

    c = solution.coefficients
    newton = jnp.linalg.solve(jax.hessian(loss)(c), jax.grad(loss)(c))
    assert float(jnp.linalg.norm(newton)) < 1e-4 * float(jnp.linalg.norm(c))
    grid = np.linspace(0, 1, 301)

    def error(theta, state):
        return float(jnp.abs(inner.evaluate(theta, state, grid) - manufactured(grid)).max())

    untrained = settled(start, inner.init()).values
    assert error(learned.theta, solution.values) < 0.1 * error(start, untrained)


@pytest.mark.parametrize("folds", [None, ((0, 3, 7), tuple(range(8, 25)), (1, 2, 4, 5, 6))])
def test_cross_validation_of_regression_equals_refits(folds):
    x, y = friedman(25)
    theta = np.log(np.r_[np.full(10, 1.5), 0.3])
    inner = KernelRegression(x, y)
    criterion = CrossValidation(folds, standardized=False)
    objective = bilevel.Objective(criterion, inner.linearize(theta, inner.init()))
    residual, expected = bilevel.outer_residual(jnp.asarray(theta), objective)[0], []
    for fold in folds or [(i,) for i in range(25)]:
        rest = np.setdiff1d(np.arange(25), fold)
        mean, _ = KernelRegression(x[rest], y[rest]).predict(theta, x[list(fold)])
        expected.extend(y[list(fold)] - np.asarray(mean))
    np.testing.assert_allclose(5 * residual, expected, atol=1e-10)


def test_relevant_inputs_are_learned():
    x, y = friedman(120)
    theta = np.log(np.r_[np.ones(10), 0.3])
    learned = bilevel.minimize(CrossValidation(), KernelRegression(x, y), theta)
    assert learned.converged
    lengthscales = np.exp(learned.theta[:-1])
    # The fifth input has a linear effect, which long lengthscales represent.
    assert lengthscales[:4].max() < lengthscales[5:].min()
    x_test, y_test = friedman(400, seed=1)
    density = []
    for hyperparameters in (theta, learned.theta):
        mean, std = KernelRegression(x, y).predict(hyperparameters, x_test)
        density.append(norm(mean, std).logpdf(y_test).mean())
    assert density[1] > density[0] + 0.3


class Stop(Exception):
    """Raised to interrupt a run."""


@pytest.mark.parametrize("after", [2, 5, 20])
def test_a_run_resumes_bit_for_bit(tmp_path, after):
    """During the comparison of starts, with and without updates, and in the steps."""
    inner, criterion, theta = CASES["network"]
    thetas = tuple(NETWORK.first_layer(12, seed) for seed in range(4))
    settings = {"starts": bilevel.Starts(thetas, theta, num_updates=2), "max_steps": 6}

    def minimize(checkpoint=None, callback=None):
        return bilevel.minimize(
            criterion, inner, theta, checkpoint=checkpoint, callback=callback, settings=settings
        )

    records = []

    def stop(record):
        records.append(record)
        if len(records) == after:
            raise Stop

    whole = minimize()
    with pytest.raises(Stop):
        minimize(tmp_path / "run", stop)
    rest = minimize(tmp_path / "run")
    np.testing.assert_array_equal(rest.theta, whole.theta)
    np.testing.assert_array_equal(rest.state, whole.state)
    assert [r.loss for r in rest.evaluations] == [r.loss for r in whole.evaluations]
    assert rest.factorizations == whole.factorizations


def test_limits_and_other_runs(tmp_path):
    inner, criterion, theta = CASES["network"]
    learned = bilevel.minimize(
        criterion, inner, theta, max_factorizations=20, checkpoint=tmp_path / "run"
    )
    assert learned.result is kp.RESULTS.max_factorizations_reached
    assert 20 <= learned.factorizations < 30
    with pytest.raises(kp.InputError, match="belongs to another run"):
        bilevel.minimize(criterion, inner, theta + 1.0, checkpoint=tmp_path / "run")


def test_the_package_does_not_need_collocation():
    code = (
        "import sys, kernelpde.bilevel.problems\n"
        "loaded = {name.split('.')[1] for name in sys.modules if name.startswith('kernelpde.')}\n"
        "print(*sorted(loaded))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    allowed = {"arrays", "bilevel", "checking", "compiling", "errors", "io", "results"}
    assert set(result.stdout.split()) <= allowed
