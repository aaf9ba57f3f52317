"""Data of which some are wrong: Student's t as noise, against independent routes."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import kernelpde as kp

LINE = kp.Box(x=(0, 1))


def fitted(noise, spoiled=True, count=30, places=None):
    """Values of sin 4x with noise of 0.05, two of them off by 2; a problem of regression."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.random((count, 1)), axis=0)
    y = np.sin(4 * x[:, 0]) + 0.05 * rng.standard_normal(count)
    if spoiled:
        y[[7, 20]] += [2.0, -2.0]
    problem = kp.Problem(
        kp.Condition("data", x, lambda x, u, y: u.value - y, data={"y": y}, noise=noise),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.3))],
    )
    return problem, x, y


def test_the_mode_is_that_of_students_density():
    problem, x, y = fitted(kp.StudentT(0.05, df=3.0))
    solution = kp.solve(problem)
    matrix = np.exp(-((x - x.T) ** 2) / (2 * 0.3**2))
    root = np.linalg.cholesky(matrix + 1e-10 * np.eye(len(x)))

    def minus_log_density(w):
        r = root @ w - y
        return 0.5 * w @ w + 2.0 * np.sum(np.log1p(r**2 / (3.0 * 0.05**2)))

    start = np.linalg.solve(root, np.sin(4 * x[:, 0]))
    best = minimize(minus_log_density, start, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(solution["u"](x), root @ best.x, atol=2e-3)
    # The noise that each datum was given is that of its residual.
    r = np.asarray(solution["u"](x)) - y
    expected = 0.05 * np.sqrt((3.0 + (r / 0.05) ** 2) / 4.0)
    np.testing.assert_allclose(solution.point_sets[0].noise, expected, rtol=0.02)


def test_outliers_do_little_harm():
    at = np.linspace(0.05, 0.95, 40)[:, None]
    truth = np.sin(4 * at[:, 0])

    def error(noise, spoiled):
        solution = kp.solve(fitted(noise, spoiled)[0])
        return float(np.sqrt(np.mean((np.asarray(solution["u"](at)) - truth) ** 2)))

    clean = error(0.05, False)
    assert error(kp.StudentT(0.05), True) < 1.5 * clean
    assert error(kp.StudentT(0.05), False) < 1.2 * clean
    assert error(0.05, True) > 5 * clean


@pytest.mark.parametrize("averages", [False, True])
def test_learning_and_posterior_with_outliers(averages):
    # -u'' = f, f = 10 from values or means of u = 5 x (1 - x), one of 20 far off.
    rng = np.random.default_rng(4)
    x = 0.9 * rng.random((20, 1))
    y = 5 * x[:, 0] * (1 - x[:, 0])
    where = x
    if averages:
        where = kp.box_averages(x, x + 0.1)
        a, b = x[:, 0], x[:, 0] + 0.1
        y = 50 * ((b**2 - a**2) / 2 - (b**3 - a**3) / 3)
    y = y + 0.01 * rng.standard_normal(20)
    y[11] += 1.5
    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u, f: -u.laplacian - f.value),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
        kp.Condition(
            "data", where, lambda x, u, y: u.value - y, data={"y": y}, noise=kp.StudentT(0.01)
        ),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.3)), kp.Field("f", 10.0 * kp.Gaussian(0.4))],
    )
    learned = kp.learn(problem, {"equation": 30, "ends": 2})
    noise = np.asarray(learned.solution.point_sets[2].noise)
    assert noise[11] > 0.3
    assert np.median(noise) < 0.015
    posterior = kp.posterior(learned)
    at = np.linspace(0.1, 0.9, 17)[:, None]
    low, high = posterior["f"].interval(at)
    assert np.mean((low < 10.0) & (high > 10.0)) > 0.9
    np.testing.assert_allclose(np.mean(np.asarray(posterior["f"].mean(at))), 10.0, atol=0.7)


def test_mistakes_with_outliers_are_refused():
    for scale in (0.0, -1.0, np.inf, [[1.0]]):
        with pytest.raises(kp.InputError, match="StudentT"):
            kp.StudentT(scale)
    with pytest.raises(kp.InputError, match="df must be positive"):
        kp.StudentT(0.1, df=0.0)
    with pytest.raises(kp.InputError, match="requires user-supplied points"):
        kp.Condition("equation", LINE.interior, lambda x, u: u.value, noise=kp.StudentT(0.1))
    problem, *_ = fitted(kp.StudentT(0.05))
    discretization = kp.discretize(problem)
    with pytest.raises(kp.InputError, match="not supported inside jit"):
        jax.jit(lambda d: kp.solve(d).result_code)(discretization)
