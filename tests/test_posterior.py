"""Posteriors agree with closed forms, refits and repeated experiments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from problems import LINE, boundary_value, observed, regression

import kernelpde as kp
from kernelpde.gallery import darcy, source, string
from kernelpde.inference import central_composite_design

# Most data here are made up, and no prior expects them.
pytestmark = pytest.mark.filterwarnings("ignore:posterior. Standard deviations may be unreliable")


def bent(x, u, load):
    return -u.laplacian - load


def cubic(nugget=0.0):
    """-u″ = q up to noise, and data, for u a random cubic: everything in four weights and q."""
    rng = np.random.default_rng(0)
    inside, where, y = rng.random((6, 1)), rng.random((8, 1)), rng.standard_normal(8)
    problem = kp.Problem(
        kp.Condition("equation", inside, bent, noise=0.1),
        observed(where, y, np.linspace(0.05, 0.1, 8)),
        fields=[kp.Field("u", kp.Polynomial(3)), kp.Parameter("load", 0.5, 2.0)],
    )
    solution = kp.solve(problem, linear_solver=kp.Dense(nugget=nugget, refinement_sweeps=0))

    # Weights: (1 + xy)³ = Σ φⱼ(x) φⱼ(y), φ = (1, √3 x, √3 x², x³), and q = 0.5 + 2 w₄.
    def values(x):
        return np.stack([1 + 0 * x, np.sqrt(3) * x, np.sqrt(3) * x**2, x**3, 0 * x], axis=-1)

    def second(x):
        return np.stack([0 * x, 0 * x, 2 * np.sqrt(3) + 0 * x, 6 * x, 0 * x], axis=-1)

    load = np.array([0, 0, 0, 0, 2.0])
    design = np.concatenate([-second(inside[:, 0]) - load, values(where[:, 0])])
    target = np.concatenate([np.full(6, 0.5), y])
    noise = np.concatenate([np.full(6, 0.1), np.linspace(0.05, 0.1, 8)])
    precision = np.eye(5) + design.T @ (design / noise[:, None] ** 2)
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ (target / noise**2)
    return solution, values, mean, covariance


def test_linear_problems_have_their_exact_posterior():
    solution, values, mean, covariance = cubic()
    posterior = kp.posterior(solution)
    x = np.linspace(0, 1, 7)[:, None]
    phi = values(x[:, 0])
    np.testing.assert_allclose(posterior["u"].mean(x), phi @ mean, rtol=1e-8)
    np.testing.assert_allclose(posterior["u"].covariance(x), phi @ covariance @ phi.T, atol=1e-10)
    np.testing.assert_allclose(
        posterior["u"].std(x), np.sqrt(np.diag(phi @ covariance @ phi.T)), rtol=1e-8
    )
    slope = np.stack([0 * x, np.sqrt(3) + 0 * x, 2 * np.sqrt(3) * x, 3 * x**2, 0 * x], -1)[:, 0]
    np.testing.assert_allclose(
        posterior["u"].d(0).std(x),
        np.sqrt(np.diag(slope @ covariance @ slope.T)),
        rtol=1e-8,
    )
    load = posterior.parameters["load"]
    assert load.mean == pytest.approx(0.5 + 2 * mean[4], rel=1e-8)
    assert load.std == pytest.approx(2 * np.sqrt(covariance[4, 4]), rel=1e-8)
    low, high = load.interval(0.6826894921370859)
    assert high - low == pytest.approx(2 * load.std, rel=1e-8)


def test_averages_under_the_posterior():
    solution, values, mean, covariance = cubic()
    posterior = kp.posterior(solution)
    place, weight = np.polynomial.legendre.leggauss(8)
    phi = 0.5 * weight @ values(0.5 * (place + 1))
    whole = kp.box_averages([[0.0]], [[1.0]])
    np.testing.assert_allclose(posterior["u"].mean(whole), [phi @ mean], rtol=1e-8)
    np.testing.assert_allclose(
        posterior["u"].std(whole), [np.sqrt(phi @ covariance @ phi)], rtol=1e-8
    )


def test_joint_samples_have_mean_and_covariance():
    solution, values, mean, covariance = cubic()
    posterior = kp.posterior(solution)
    x = np.linspace(0, 1, 4)[:, None]
    drawn = posterior.sample({"u": x, "load": None}, jax.random.key(0), 20_000)
    both = np.concatenate([drawn["u"], np.asarray(drawn["load"])[:, None]], axis=1)
    phi = np.concatenate([values(x[:, 0]), [[0, 0, 0, 0, 2.0]]])
    exact = phi @ covariance @ phi.T
    scale = np.sqrt(np.diag(exact))
    assert np.max(np.abs(both.mean(0) - phi @ mean - [0, 0, 0, 0, 0.5]) / scale) < 0.03
    assert np.max(np.abs(np.cov(both.T) - exact) / np.outer(scale, scale)) < 0.03
    alone = posterior["u"].sample(x, jax.random.key(1), 20_000)
    assert np.max(np.abs(np.cov(alone.T) - exact[:4, :4]) / np.outer(scale, scale)[:4, :4]) < 0.03


def test_chi_squared_is_that_of_the_residuals():
    example = darcy(0.2)
    solver = kp.Dense(nugget=1e-10, refinement_sweeps=0)
    solution = kp.solve(example.problem, {"equation": 250, "boundary": 60}, linear_solver=solver)
    found = kp.posterior(solution).chi_squared
    assert set(found) == {"data"}
    direct = (solution.residuals["data"]["rms"] / 1e-3) ** 2
    assert found["data"] == pytest.approx(direct, rel=1e-3)


def test_many_deviations_are_as_good_as_one_by_one():
    example = source()
    solution = kp.solve(
        example.problem,
        {"equation": 200, "boundary": 60},
        linear_solver=kp.Dense(1e-10, refinement_sweeps=0),
    )
    posterior = kp.posterior(solution)
    places = np.random.default_rng(0).random((1500, 2))
    for field in ("u", "f"):
        functionals = posterior[field].functionals(places)
        exact = np.asarray(posterior.components[0].exact_std(functionals))
        many = np.asarray(posterior.std(functionals))
        np.testing.assert_allclose(many, exact, rtol=0.011, atol=1e-7 * exact.max())


def test_intervals_of_a_number_cover_it():
    """60 experiments: the truth lies in the 95% interval as often as it should."""
    inside, scores = 0, []
    for seed in range(60):
        example = string(seed=seed)
        solution = kp.solve(
            example.problem, example.points, linear_solver=kp.Dense(1e-10, refinement_sweeps=0)
        )
        load = kp.posterior(solution).parameters["load"]
        low, high = load.interval()
        inside += low <= 1.5 <= high
        scores.append((load.mean - 1.5) / load.std)
    assert 52 <= inside <= 60
    assert 0.75 < np.std(scores) < 1.25


def test_amplitude_is_calibrated_without_noise():
    """u drawn from the prior with amplitude 3, known at points: the amplitude is found."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 12)[:, None]
    kernel = kp.Matern(1.5, 0.2)
    gram = np.exp(-np.sqrt(3) * abs(x - x.T) / 0.2) * (1 + np.sqrt(3) * abs(x - x.T) / 0.2)
    found = []
    for _ in range(20):
        y = 3.0 * np.linalg.cholesky(gram) @ rng.standard_normal(12)
        problem = regression(x, y, 0.0, kernel)
        found.append(kp.posterior(kp.solve(problem)).amplitude)
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(3.0, rel=0.2)
    assert kp.posterior(kp.solve(problem), amplitude=1.0).amplitude == 1.0


def test_the_next_measurement_is_the_one_whose_refit_leaves_least():
    example = string(observations=3)
    solver = kp.Dense(1e-10, refinement_sweeps=0)
    solution = kp.solve(example.problem, example.points, linear_solver=solver)
    posterior = kp.posterior(solution)
    candidates, grid = np.linspace(0.1, 0.9, 5)[:, None], np.linspace(0, 1, 11)[:, None]
    choice = kp.next_measurement(
        posterior, posterior["u"].functionals(candidates), 0.01, posterior["u"].functionals(grid)
    )
    before = np.sum(np.asarray(posterior["u"].std(grid)) ** 2)
    for number, place in enumerate(candidates):
        extra = observed(place[None], [0.1], 0.01, name="extra")
        more = kp.Problem(
            *example.problem.conditions,
            extra,
            fields=[kp.Field("u", example.problem.fields[0].kernel), kp.Parameter("load", 0, 5.0)],
        )
        after = kp.posterior(kp.solve(more, example.points, linear_solver=solver))
        left = np.sum(np.asarray(after["u"].std(grid)) ** 2)
        assert choice.gain[number] == pytest.approx(1 - left / before, rel=1e-4)
    assert choice.best == int(np.argmax(choice.gain))


def peak(x):
    return jnp.exp(-0.5 * ((x - 0.7) / 0.03) ** 2)


def bump(x, u):
    return u.laplacian - jax.grad(jax.grad(peak))(x[0])


@pytest.mark.parametrize("by", ["residual", "std"])
def test_refined_points_go_where_the_residual_is_large(by):
    """u is a narrow bump at 0.7."""
    problem = boundary_value(LINE, bump, kp.Matern(4.5, 0.1))

    def error(solution):
        x = np.linspace(0, 1, 400)[:, None]
        return np.sqrt(np.mean((np.asarray(solution["u"](x)) - peak(x[:, 0])) ** 2))

    options = {"linear_solver": kp.Dense(1e-10), "throw": False}
    even = kp.solve(problem, {"equation": 24, "ends": 2}, **options)
    refined = kp.refine(
        problem,
        {"equation": 8, "ends": 2},
        condition="equation",
        target_count=24,
        indicator=by,
        **options,
    )
    assert refined.point_sets[0].rows_per_equation == 24
    if by == "residual":
        near = np.abs(np.asarray(refined.point_sets[0].points) - 0.7) < 0.1
        assert np.mean(near) > 0.35
        assert error(refined) < 0.4 * error(even)
    with pytest.raises(kp.InputError, match="must exceed the initial number of points, 8; got 8"):
        kp.refine(problem, {"equation": 8, "ends": 2}, condition="equation", target_count=8)


def test_hyperparameters_that_are_not_known_widen_the_posterior():
    rng = np.random.default_rng(3)
    x = rng.random((12, 1))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.standard_normal(12)
    problem = regression(x, y, 0.1, 1.0 * kp.Gaussian(0.5))
    learned = kp.learn(problem)
    assert learned.solution is not None
    posterior = kp.posterior(learned)
    assert posterior.failed_weight == 0.0
    grid = np.linspace(-0.3, 1.3, 30)[:, None]
    single = kp.posterior(learned.solution)
    assert np.mean(posterior["u"].std(grid)) > np.mean(single["u"].std(grid))
    # By another route: each member alone, with scipy's quadrature of its density.
    weights, place = posterior.weights, posterior["u"].functionals(grid[3:4])
    means = np.array([float(m.mean(place)[0]) for m in posterior.components])
    spreads = np.array([float(m.std(place)[0]) for m in posterior.components])

    def density(value):
        return float(weights @ scipy.stats.norm.pdf(value, means, spreads))

    low, high = (float(end[0]) for end in posterior["u"].interval(grid[3:4], 0.8))
    reach = 12 * spreads.max() + np.ptp(means)
    below = scipy.integrate.quad(density, means.min() - reach, low, limit=200)[0]
    inside = scipy.integrate.quad(density, low, high, limit=200)[0]
    np.testing.assert_allclose([below, inside], [0.1, 0.8], atol=1e-7)
    mean = scipy.integrate.quad(
        lambda v: v * density(v), means.min() - reach, means.max() + reach, limit=200
    )[0]
    np.testing.assert_allclose(posterior["u"].mean(grid[3:4]), [mean], atol=1e-7)
    drawn = np.asarray(posterior["u"].sample(grid, jax.random.key(1), 20_000))
    covariance = np.asarray(posterior["u"].covariance(grid))
    np.testing.assert_allclose(np.sqrt(np.diagonal(covariance)), posterior["u"].std(grid))
    scale = np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)))
    np.testing.assert_allclose(np.cov(drawn.T) / scale, covariance / scale, atol=0.05)


def test_contraction_is_what_data_have_removed_of_the_variance():
    # Near the data u is known, far away nothing is; the load is a number that they determine.
    where, noise = np.array([[0.1], [0.15]]), 0.1
    problem = regression(where, np.array([0.3, 0.2]), noise, 4.0 * kp.Gaussian(0.02))
    posterior = kp.posterior(kp.solve(problem))
    found = np.asarray(posterior["u"].contraction(np.array([[0.1], [0.9]])))
    k = 4.0 * np.exp(-0.5 * (0.05 / 0.02) ** 2)
    gram, row = np.array([[4.0, k], [k, 4.0]]), np.array([4.0, k])
    exact = row @ np.linalg.solve(gram + noise**2 * np.eye(2), row) / 4.0
    np.testing.assert_allclose(found, [exact, 0.0], atol=1e-9)
    example = string()
    load = kp.posterior(kp.solve(example.problem, example.points)).parameters["load"]
    expected = 1.0 - (load.std / load.parameter.std) ** 2
    np.testing.assert_allclose(load.contraction, expected, rtol=1e-12)
    assert 0.9 < load.contraction < 1.0


def test_values_of_hyperparameters_have_the_moments_of_their_density():
    root = np.random.default_rng(0).normal(size=(4, 4))
    shifts, weights = central_composite_design(root @ root.T)
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_allclose(weights @ shifts, np.zeros(4), atol=1e-12)
    np.testing.assert_allclose((shifts.T * weights) @ shifts, root @ root.T, rtol=1e-10)


def test_no_posterior_without_convergence():
    example = darcy(0.2)
    solution = kp.solve(example.problem, {"equation": 40, "boundary": 16}, max_steps=1, throw=False)
    with pytest.raises(kp.SolveError, match="did not converge"):
        kp.posterior(solution)
