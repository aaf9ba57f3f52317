"""Draws and densities of unknown numbers agree with other ways to the same posterior."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import boundary_value
from scipy.special import lambertw

import kernelpde as kp

NOISE, END, SPREAD = 0.02, 1.2, 0.7
TIMES = np.sort(np.random.default_rng(0).uniform(0, END, 15))


def enzyme(speed, half):
    """What is left of a substance by Michaelis and Menten's law: u + K log u = 1 - V t."""
    return half * np.real(lambertw(np.exp((1.0 - speed * TIMES) / half) / half))


VALUES = enzyme(1.0, 1.5) + NOISE * np.random.default_rng(1).standard_normal(15)


def exact(x):
    """The log density with the equation solved for every value of the numbers."""
    missed = enzyme(*np.exp(x)) - VALUES
    return -0.5 * np.sum(missed**2) / NOISE**2 - 0.5 * np.sum((x / SPREAD) ** 2)


def seen(t, u, y):
    return u.value - y


def fraction(t, u, speed, half):
    return u.d("t") + speed * u.value / (half + u.value)


def product(t, u, speed, half):
    return (u.d("t") * (half + u.value) + speed * u.value) * speed**2


def reaction(equation, noise=NOISE):
    return kp.Problem(
        kp.Condition("equation", kp.Box(t=(0, END)).interior, equation),
        kp.Condition("start", np.zeros((1, 1)), lambda t, u: u.value - 1.0),
        kp.Condition("data", TIMES[:, None], seen, noise=noise, data={"y": VALUES}),
        fields=[
            kp.Field("u", 1.0 * kp.Gaussian(1.0)),
            kp.Parameter("speed", 1.0, SPREAD, positive=True),
            kp.Parameter("half", 1.0, SPREAD, positive=True),
        ],
    )


@pytest.fixture(scope="module")
def density():
    return kp.log_density(kp.solve(reaction(fraction), {"equation": 30}))


SHIFTS = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1.5, 1], [-1, 2]], float)


@pytest.mark.parametrize("equation", [fraction, product])
def test_density_is_that_of_exact_solutions(equation):
    """However the equation is written, and far from a Gaussian."""
    found = kp.log_density(kp.solve(reaction(equation), {"equation": 30}))
    root = np.linalg.cholesky(found.covariance)
    places = np.asarray(found.mode) + np.concatenate([np.zeros((1, 2)), SHIFTS]) @ root.T
    value = jax.jit(found)
    ours = np.array([value(x) for x in places])
    theirs = np.array([exact(x) for x in places])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=2e-4)
    assert np.ptp(theirs) > 3.0


def test_gradient_is_that_of_differences(density):
    value = jax.jit(density)
    x = density.mode + jnp.asarray([0.1, -0.05])
    gradient = jax.jit(jax.grad(density))(x)
    slopes = [(value(x + h) - value(x - h)) / 2e-4 for h in 1e-4 * np.eye(2)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-3)


def test_likelihood_is_for_priors_of_ones_own(density):
    given = {"speed": jnp.asarray(1.1), "half": jnp.asarray(1.4)}
    x = jnp.log(jnp.asarray([1.1, 1.4]))
    assert float(density.likelihood(given)) == pytest.approx(float(density(x) - density.prior(x)))
    assert float(density.prior(x)) == pytest.approx(-0.5 * float(jnp.sum((x / SPREAD) ** 2)))
    with pytest.raises(kp.InputError, match="a value for each of"):
        density.likelihood({"speed": jnp.asarray(1.0)})


def test_check_of_the_approximation_says_that_it_does_not_hold():
    """Only ratios of such numbers are known well; their density is bent."""
    solution = kp.solve(reaction(fraction), {"equation": 30})
    with pytest.warns(UserWarning, match="not Gaussian"):
        found = kp.posterior(solution, check_key=jax.random.key(0))
    assert found.importance is not None
    assert found.importance.effective_sample_size < 0.5
    assert "sample(result, key)" in found.warnings


def by_grid(levels):
    """Quantiles of both logarithms, from the exact density on a grid."""
    axes = [np.linspace(-1.4, 1.6, 61), np.linspace(-2.2, 2.4, 93)]
    logs = np.array([[exact(np.array([a, b])) for b in axes[1]] for a in axes[0]])
    mass = np.exp(logs - logs.max())
    found = []
    for k in (0, 1):
        below = np.cumsum(mass.sum(1 - k)) / mass.sum()
        step = axes[k][1] - axes[k][0]
        found.append(np.interp(levels, below, axes[k] + 0.5 * step))
    return np.array(found)


@pytest.fixture(scope="module")
def drawn(density):
    records = []
    found = kp.sample(
        density, jax.random.key(1), draws=400, warmup=150, chains=4, callback=records.append
    )
    return found, records


def test_draws_have_the_quantiles_of_the_exact_density(drawn):
    """Up to the scatter of so many effective draws."""
    samples, _ = drawn
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    for name, expected in zip(("speed", "half"), by_grid(levels), strict=True):
        below = [np.mean(np.log(samples[name]) < place) for place in expected]
        scatter = np.sqrt(levels * (1 - levels) / samples.effective_sample_size[name])
        assert np.max(np.abs(below - levels) / scatter) < 4.0


def test_draws_say_how_good_they_are(drawn):
    samples, records = drawn
    assert samples.divergences == sum(r.divergences for r in records[-1:])
    assert max(samples.r_hat.values()) < 1.2
    assert 20 < min(samples.effective_sample_size.values()) < 1600
    assert not samples.converged
    assert "Increase draws" in samples.warnings
    assert "Not Gaussian" in samples.warnings
    assert str(records[-1]).startswith("chain 4 of 4: 550 of 550 draws")
    shown = repr(samples)
    assert re.search(r"speed +[\d.]+ +[\d.]+", shown)
    assert samples.interval("speed")[0] < samples.quantile("speed", 0.5)
    with pytest.raises(kp.InputError, match="unknown name 'sped'"):
        samples["sped"]
    assert len(samples.plot().axes) == 4


def linear(**noise):
    """-u'' = s on the unit interval, so that u = s x (1 - x) / 2, and data of it."""
    where = np.linspace(0.1, 0.9, 7)[:, None]
    shape = 0.5 * where[:, 0] * (1 - where[:, 0])
    values = 3.0 * shape + 0.01 * np.random.default_rng(3).standard_normal(7)
    line = kp.Box(x=(0, 1))
    problem = boundary_value(
        line,
        lambda x, u, s: u.laplacian + s,
        1.0 * kp.Gaussian(0.4),
        kp.Parameter("s", 1.0, 2.0),
        more=[
            kp.Condition("data", where, lambda x, u, y: u.value - y, data={"y": values}, **noise)
        ],
    )
    return problem, shape, values


def test_a_linear_problem_has_its_conjugate_posterior():
    problem, shape, values = linear(noise=0.01)
    solution = kp.solve(problem, {"equation": 15, "ends": 2})
    density = kp.log_density(solution)
    precision = 1 / 2.0**2 + shape @ shape / 0.01**2
    mean = (1.0 / 2.0**2 + shape @ values / 0.01**2) / precision
    places = mean - 1.0 + np.array([-2.0, 0.0, 1.0])[:, None] / np.sqrt(precision)
    found = np.asarray(jax.jit(jax.vmap(density))(jnp.asarray(places)))
    np.testing.assert_allclose(found - found[1], [-2.0, 0.0, -0.5], atol=1e-3)
    # The Gaussian approximation is that of fields and numbers at once: what is expected of u says a
    # little of s as well.
    assert abs(float(density.mode[0]) + 1.0 - mean) * np.sqrt(precision) < 0.1
    assert float(density.covariance[0, 0]) == pytest.approx(1 / precision, rel=0.02)
    found = kp.posterior(solution, check_key=jax.random.key(2))
    assert found.importance is not None
    assert found.importance.effective_sample_size > 0.99
    assert found.warnings == ""


def test_outliers_keep_the_weight_that_they_have_at_the_solution():
    problem, shape, values = linear(noise=kp.StudentT(0.01))
    spoiled = values + np.array([0, 0, 0.3, 0, 0, 0, 0])
    data = replace(problem.conditions[2], data={"y": spoiled})
    problem = problem.with_conditions((*problem.conditions[:2], data))
    solution = kp.solve(problem, {"equation": 15, "ends": 2})
    noise = np.asarray(solution.point_sets[2].noise)
    assert noise[2] > 0.1
    value = jax.jit(kp.log_density(solution))
    missed = [(s * shape - spoiled) / noise for s in (2.8, 3.1)]
    expected = [
        -0.5 * m @ m - 0.5 * (s - 1.0) ** 2 / 4 for m, s in zip(missed, (2.8, 3.1), strict=True)
    ]
    found = [float(value(jnp.asarray([s - 1.0]))) for s in (2.8, 3.1)]
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], abs=2e-3)


def test_hyperparameters_and_learned_noise_are_part_of_it():
    """The density in log σ and in kernels is that of a Gaussian with their covariance."""
    problem, shape, values = linear(noise=kp.LearnedNoise(0.02))
    solution = kp.solve(problem, {"equation": 15, "ends": 2})
    density = kp.log_density(solution, hyperparameters=0.5)
    assert density.names[0] == "s"
    assert density.names[-1] == "noise of data"
    assert len(set(density.names)) == len(density.names) == len(density.mode) > 2
    where = {"s": 2.5, "noise of data": np.log(0.015)}
    places = []
    for sigma in (0.012, 0.03):
        x = np.array(density.mode)
        x[0], x[-1] = where["s"] - 1.0, np.log(sigma)
        places.append(jnp.asarray(x))
    value = jax.jit(density)
    ours = [float(value(x) - density.prior(x)) for x in places]
    missed = where["s"] * shape - values
    theirs = [
        -0.5 * np.sum(missed**2) / sigma**2 - len(values) * np.log(sigma) for sigma in (0.012, 0.03)
    ]
    assert ours[1] - ours[0] == pytest.approx(theirs[1] - theirs[0], abs=1e-3)
    gradient = jax.jit(jax.grad(density))(places[0])
    slopes = [
        (value(places[0] + h) - value(places[0] - h)) / 2e-3
        for h in 1e-3 * np.eye(len(density.mode))
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=2e-3, atol=2e-2)


def test_a_complex_field_and_averages():
    """u = s exp(ix) from averages of it: the same posterior as by hand."""
    line = kp.Box(x=(0, 1))
    ends = np.linspace(0, 1, 6)
    boxes = kp.box_averages(ends[:-1, None], ends[1:, None])
    shape = (np.exp(1j * ends[1:]) - np.exp(1j * ends[:-1])) / 0.2j
    values = 2.0 * shape + 0.01
    problem = kp.Problem(
        kp.Condition("equation", line.interior, lambda x, u: u.d("x") - 1j * u.value),
        kp.Condition("start", np.zeros((1, 1)), lambda x, u, s: u.value - s),
        kp.Condition(
            "data",
            boxes,
            lambda x, u, y: u.value - y[0] - 1j * y[1],
            noise=0.01,
            data={"y": np.stack([values.real, values.imag], 1)},
        ),
        fields=[kp.ComplexField("u", 1.0 * kp.Gaussian(0.6)), kp.Parameter("s", 1.0, 1.0)],
    )
    density = kp.log_density(kp.solve(problem, {"equation": 15}))
    places = jnp.asarray([[0.95], [1.0], [1.08]])
    value = jax.jit(density)
    ours = np.array([value(x) for x in places])
    missed = [(1.0 + x) * shape - values for x in np.asarray(places)[:, 0]]
    theirs = [-0.5 * np.sum(np.abs(m) ** 2) / 0.01**2 for m in missed]
    theirs -= 0.5 * np.asarray(places)[:, 0] ** 2
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=2e-3)


def test_what_has_no_such_density_is_refused():
    problem, *_ = linear(noise=0.01)
    solution = kp.solve(problem, {"equation": 15, "ends": 2})
    with pytest.raises(kp.InputError, match="at least 2"):
        kp.sample(solution, jax.random.key(0), chains=1)
    with pytest.raises(kp.InputError, match="pass hyperparameters to log_density"):
        kp.sample(kp.log_density(solution), jax.random.key(0), hyperparameters=1.0)
    unfinished = kp.solve(reaction(fraction), {"equation": 30}, max_steps=1, throw=False)
    with pytest.raises(kp.SolveError, match="did not converge"):
        kp.log_density(unfinished)
    line = kp.Box(x=(0, 1))
    known = boundary_value(line, lambda x, u: u.laplacian + 1.0, kp.Gaussian(0.4))
    with pytest.raises(kp.InputError, match="got no data"):
        kp.log_density(kp.solve(known, {"equation": 15, "ends": 2}))
