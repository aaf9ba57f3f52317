"""Unknown numbers, fields and laws are found from data, as independent routes find them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, boundary_value, observed, regression, zero
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import kernelpde as kp
from kernelpde.bilevel import Objective, loss_and_curvature, loss_and_solution
from kernelpde.functionals import (
    Functionals,
    LawArgument,
    Prior,
    Term,
    evaluate_jets,
    gram,
    gram_diagonal,
    nodal_terms,
    point_functionals,
)
from kernelpde.kernels import NodalKernel
from kernelpde.learning import (
    DataDensity,
    LinearizedCollocation,
    ThetaMap,
    prior_penalty,
    sequential_predictor,
    state_fields,
    weak_prior,
    with_large_state_variance,
)
from kernelpde.linear_solvers import DenseState
from kernelpde.problem import coordinate_extents
from kernelpde.solution import initial_jets, nugget_misfit, squared_norm

DIFFUSIVITY = 0.7


def rod(x, u, k):
    return -k * u.laplacian - jnp.sin(jnp.pi * x[0])


def rod_with(where, data, parameter, noise=1e-6):
    return boundary_value(
        LINE, rod, kp.Gaussian(0.3), parameter, more=[observed(where, data, noise)]
    )


@pytest.mark.parametrize(
    "parameter", [kp.Parameter("k", 1.0, 1.0), kp.Parameter("k", 1.0, 1.0, positive=True)]
)
def test_a_diffusivity_from_averages(parameter):
    """u = sin πx / (k π²), seen through its means over nine intervals."""
    low = np.linspace(0, 0.8, 9)[:, None]
    high = low + 0.2
    means = (np.cos(np.pi * low) - np.cos(np.pi * high)) / (0.2 * np.pi**3 * DIFFUSIVITY)
    problem = rod_with(kp.box_averages(low, high), means[:, 0], parameter)
    solution = kp.solve(problem, {"equation": 30, "ends": 2})
    assert solution.parameters["k"] == pytest.approx(DIFFUSIVITY, rel=1e-7)
    x = np.linspace(0, 1, 20)[:, None]
    exact = np.sin(np.pi * x[:, 0]) / (DIFFUSIVITY * np.pi**2)
    np.testing.assert_allclose(solution["u"](x), exact, atol=1e-8)
    with pytest.raises(kp.InputError, match="is a parameter"):
        solution["k"]
    assert "parameter k = 0.7" in repr(solution)
    assert set(problem.hyperparameters) == {"u"}


def test_quadrature_is_exact_for_polynomials():
    averages = kp.box_averages([[0.0, 1.0]], [[2.0, 4.0]], nodes=3)
    x, y = averages.points[0].T
    # mean of x² y³ over (0, 2) x (1, 4): 4/3 · 255/12
    assert averages.weights[0] @ (x**2 * y**3) == pytest.approx(4 / 3 * 255 / 12, rel=1e-13)
    lines = kp.line_integrals([[0.0, 0.0]], [[3.0, 4.0]], nodes=2)
    # ∫ x² ds along a line of length 5: 5 · 9 / 3
    assert lines.weights[0] @ lines.points[0, :, 0] ** 2 == pytest.approx(15.0, rel=1e-13)
    disc = kp.region_averages([kp.Ball((0.5, 0.5), 0.2).interior], nodes=512)
    assert disc.weights[0] @ disc.points[0, :, 0] == pytest.approx(0.5, abs=2e-3)


def test_gram_of_averages_is_the_average_of_the_gram():
    rng = np.random.default_rng(0)
    prior = Prior((1.3 * kp.Gaussian([0.4, 0.6]), kp.Matern(2.5, 0.7)))
    local = Functionals(
        jnp.asarray(rng.random((12, 2))),
        jnp.asarray(rng.standard_normal((12, 2))),
        (Term(0, ((1, 0),)), Term(1, ((0, 0),))),
    )
    wide = Functionals(local.points, local.coefficients, local.terms, 4)
    other = point_functionals(jnp.asarray(rng.random((5, 2))), Term(0, ((0, 0),)))
    groups = np.kron(np.eye(3), np.ones(4))
    full = np.asarray(gram(prior, local, local))
    np.testing.assert_allclose(gram(prior, wide, wide), groups @ full @ groups.T, rtol=1e-12)
    np.testing.assert_allclose(
        gram(prior, wide, other), groups @ np.asarray(gram(prior, local, other)), rtol=1e-12
    )
    np.testing.assert_allclose(
        gram_diagonal(prior, [wide, other]),
        np.concatenate([np.diag(groups @ full @ groups.T), np.diag(gram(prior, other, other))]),
        rtol=1e-12,
    )
    with pytest.raises(TypeError, match="one batch"):
        list(wide)


def darcy_like(noise=0.05):
    """A small nonlinear inverse problem, its points, and the rows at some state."""
    rng = np.random.default_rng(1)
    where = rng.random((9, 1))

    def flow(x, u, a):
        return -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x")) - 1.0

    problem = kp.Problem(
        observed(where, rng.standard_normal(9), noise),
        kp.Condition("equation", LINE.interior, flow),
        kp.Condition("ends", LINE.boundary, zero),
        fields=[kp.Field("u", 0.5 * kp.Gaussian(0.3)), kp.Field("a", 1.2 * kp.Gaussian(0.4))],
    )
    blocks = problem.collocate({"equation": 12, "ends": 2})
    entries = tuple(
        jnp.asarray(rng.standard_normal((len(b.points), len(r.nonlinear))))
        for r, b in zip(problem.residuals, blocks, strict=True)
    )
    return problem, problem.at_points(blocks).linearize(entries)


@pytest.mark.parametrize("noise", [0.05, kp.LearnedNoise(0.05)])
def test_predictive_density_equals_refits_and_has_its_gradient(noise):
    problem, rows = darcy_like(noise)
    parameters = ThetaMap.of(problem.prior, problem.noises)
    plan = DenseState(kp.Dense(nugget=1e-8, refinement_sweeps=0))
    linearized = LinearizedCollocation(parameters, rows, None, jnp.ones(0), plan)
    loss = Objective(DataDensity((0,)), linearized)
    theta = parameters.vector
    value, gradient, normal, _ = loss_and_curvature(jnp.asarray(theta), loss)

    # Refit without each datum.
    batches = rows.batches
    matrix = np.block([[np.asarray(gram(problem.prior, a, b)) for b in batches] for a in batches])
    diagonal = np.diag(matrix) + np.asarray(rows.variance)
    matrix = matrix + np.diag(np.asarray(rows.variance) + 1e-8 * diagonal)
    target, total = np.asarray(rows.rhs), 0.0
    for i in range(9):
        rest = np.delete(np.arange(len(target)), i)
        weights = np.linalg.solve(matrix[np.ix_(rest, rest)], matrix[rest, i])
        mean, variance = weights @ target[rest], matrix[i, i] - weights @ matrix[rest, i]
        total += 0.5 * (target[i] - mean) ** 2 / variance + 0.5 * np.log(variance)
    assert float(value) == pytest.approx(total, rel=1e-7)

    step = 1e-5
    moves = np.concatenate([step * np.eye(len(theta)), -step * np.eye(len(theta))])
    values = [float(loss_and_solution(jnp.asarray(t), loss)[0]) for t in theta + moves]
    up, down = np.split(np.asarray(values), 2)
    np.testing.assert_allclose(gradient, (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
    assert np.all(np.linalg.eigvalsh(np.asarray(normal)) > -1e-9)

    # All data at once: the density of data and equations over that of equations.
    joint = Objective(DataDensity((0,), sequential_predictor), linearized)
    value, gradient, normal, _ = loss_and_curvature(jnp.asarray(theta), joint)
    equations = matrix[9:, 9:]
    both, alone = multivariate_normal(cov=matrix), multivariate_normal(cov=equations)
    expected = alone.logpdf(target[9:]) - both.logpdf(target) - 4.5 * np.log(2 * np.pi)
    assert float(value) == pytest.approx(expected, rel=1e-7)
    values = [float(loss_and_solution(jnp.asarray(t), joint)[0]) for t in theta + moves]
    up, down = np.split(np.asarray(values), 2)
    np.testing.assert_allclose(gradient, (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
    assert np.all(np.linalg.eigvalsh(np.asarray(normal)) > -1e-9)


def test_noise_is_learned_from_data():
    """Regression: noise 0.1 on a sine, begun at 0.02 and at 0.5."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.random((60, 1))
        y = np.sin(2 * np.pi * x[:, 0]) + 0.1 * rng.standard_normal(60)
        for start in (0.02, 0.5):
            problem = regression(x, y, kp.LearnedNoise(start), 1.0 * kp.Gaussian(0.5))
            learned = kp.learn(problem)
            found.append(float(learned.problem.hyperparameters["noise"]["data"]))
            assert learned.covariance is not None
    assert np.median(found) == pytest.approx(0.1, rel=0.15)
    assert min(found) > 0.06
    assert max(found) < 0.16


def test_the_weak_prior_is_where_it_says():
    problem, _ = darcy_like(kp.LearnedNoise(0.05))
    blocks = problem.collocate({"equation": 12, "ends": 2})
    parameters = ThetaMap.of(problem.prior, problem.noises)
    extents = coordinate_extents(blocks)
    by_domain, as_given = (weak_prior(parameters, extents, which) for which in (True, False))
    # Lengthscale and variance of u, those of a, noise.
    extent = float(np.ptp(np.concatenate([b.points for b in blocks])))
    expected = np.log([0.2 * extent, 0.5, 0.2 * extent, 1.2, 0.05])
    np.testing.assert_allclose(by_domain.center, expected, rtol=1e-12)
    np.testing.assert_allclose(as_given.center, np.log([0.3, 0.5, 0.4, 1.2, 0.05]), rtol=1e-12)
    np.testing.assert_allclose(by_domain.sigma, [0.35, 2.0, 0.35, 2.0, 1.0])


def test_states_are_left_free():
    problem, _ = darcy_like()
    blocks = problem.collocate({"equation": 12, "ends": 2})
    assert state_fields(problem) == (0,)
    free = with_large_state_variance(problem, blocks, 1e-10).hyperparameters
    y = np.random.default_rng(1)
    y.random((9, 1))
    mean_square = np.mean(y.standard_normal(9) ** 2)
    np.testing.assert_allclose(free["u"]["variance"], 1e6 * mean_square, rtol=1e-10)
    np.testing.assert_allclose(free["a"]["variance"], 1.2, rtol=1e-10)
    # The nugget of the state stays below a tenth of the noise, as variances.
    less = with_large_state_variance(problem, blocks, 1e-6).hyperparameters["u"]["variance"]
    noise = np.asarray(blocks[problem.condition_index("data")].noise)
    np.testing.assert_allclose(1e-6 * less, 0.1 * np.mean(noise**2), rtol=1e-10)
    # As much as that or more stays, and so does what is held or has no variance.
    a = problem.prior.kernels[1]
    for kernel in (1e8 * kp.Gaussian(0.3), kp.kernels.freeze(0.5 * kp.Gaussian(0.3))):
        given = problem.with_kernels((kernel, a))
        kept = with_large_state_variance(given, blocks, 1e-10)
        u = point_functionals(blocks[0].points, Term(0, ((0,),)))
        now, before = (gram_diagonal(p.prior, [u]) for p in (kept, given))
        np.testing.assert_array_equal(now, before)
    # Where nothing else is unknown, u itself is what is to be found.
    alone = kp.Problem(problem.conditions[0], fields=[kp.Field("u", 0.5 * kp.Gaussian(0.3))])
    assert state_fields(alone) == ()
    parameters = ThetaMap.of(problem.prior, ())
    held = weak_prior(parameters, coordinate_extents(blocks), pinned_variance_fields=(0,))
    np.testing.assert_allclose(held.sigma, [0.35, 0.1, 0.35, 2.0])


def test_what_kernels_hold_against_a_solution():
    rng = np.random.default_rng(8)
    where, values = np.sort(rng.random((12, 1)), axis=0), rng.standard_normal(12)
    exact = np.arange(12) < 7
    problem = kp.Problem(
        observed(where[exact], values[exact], name="exact"),
        observed(where[~exact], values[~exact], 0.3, name="noisy"),
        fields=[kp.Field("u", 2.0 * kp.Gaussian(0.4))],
    )
    nugget = 1e-3
    solution = kp.solve(problem, linear_solver=kp.Dense(nugget=nugget, refinement_sweeps=0))
    # With the formulas of a textbook: z = (K + T)⁻¹ y, u = κ z.
    gram_matrix = 2.0 * np.exp(-((where - where.T) ** 2) / (2 * 0.4**2))
    noise = np.where(exact, 0.0, 0.3**2)
    added = noise + nugget * (2.0 + noise)
    z = np.linalg.solve(gram_matrix + np.diag(added), values)
    norm, given_way = z @ gram_matrix @ z, np.sum((z**2 * added)[exact])
    np.testing.assert_allclose(squared_norm(solution, (0,)), norm, rtol=1e-8)
    np.testing.assert_allclose(nugget_misfit(solution), given_way, rtol=1e-8)
    assert given_way > 4.0
    with pytest.warns(UserWarning, match="nugget_misfit should be below 4"):
        posterior = kp.posterior(solution)
    np.testing.assert_allclose(posterior.nugget_misfit, given_way, rtol=1e-8)
    assert squared_norm(solution, ()) == 0.0


def wavy(lengthscale, noise=0.02):
    """-(e^a u')' = 1 with a that is not smooth, and u of a lengthscale to begin with."""
    rng = np.random.default_rng(6)
    fine = np.linspace(0, 1, 4001)
    slope = (0.5 - fine) * np.exp(-0.8 * np.sin(14 * fine))
    u = np.concatenate([[0], np.cumsum((slope[1:] + slope[:-1]) / 2)]) * (fine[1] - fine[0])
    weight = np.exp(-0.8 * np.sin(14 * fine))
    ramp = np.concatenate([[0], np.cumsum((weight[1:] + weight[:-1]) / 2)]) * (fine[1] - fine[0])
    u -= u[-1] * ramp / ramp[-1]
    where = np.sort(rng.random(60))
    y = np.interp(where, fine, u)
    noise = noise * float(np.sqrt(np.mean(y**2)))
    return boundary_value(
        LINE,
        lambda x, u, a: -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x")) - 1.0,
        1.0 * kp.Gaussian(lengthscale),
        kp.Field("a", kp.Gaussian(0.15)),
        more=[observed(where[:, None], y + noise * rng.standard_normal(60), noise)],
    )


def test_a_kernel_of_a_state_that_is_too_smooth_is_seen_and_mended():
    x = np.linspace(0.03, 0.97, 40)
    truth, counts = 0.8 * np.sin(14 * x), {"equation": 60, "ends": 2}

    def covered(posterior):
        low, high = posterior["a"].interval(x[:, None], 0.95)
        return float(np.mean((low <= truth) & (truth <= high)))

    solver = kp.Dense(nugget=1e-10, refinement_sweeps=0)
    short = kp.posterior(kp.solve(wavy(0.1), counts, linear_solver=solver))
    assert not short.warnings
    assert short.nugget_misfit < 1.0
    assert covered(short) >= 0.9
    # Twice the lengthscale: data are still where they are expected, a is not where it is.
    with pytest.warns(UserWarning, match="nugget_misfit"):
        long = kp.posterior(kp.solve(wavy(0.2), counts, linear_solver=solver))
    assert "Data are not" not in long.warnings
    assert covered(long) < 0.5
    learned = kp.learn(wavy(0.2), counts)
    assert learned.converged
    assert prior_penalty(learned.solution) < 0.5
    found = kp.posterior(learned)
    assert not found.warnings
    assert covered(found) >= 0.9
    # What is held fixed by the user stays where it is.
    kernels = wavy(0.2).prior.kernels
    frozen = wavy(0.2).with_kernels((kp.kernels.freeze(kernels[0]), kernels[1]))
    kept = kp.learn(frozen, counts, throw=False).problem.hyperparameters["u"]
    assert not kept


@pytest.mark.parametrize("periodic", [True, False])
def test_states_are_suited_with_periods_learned_noise_and_own_points(periodic):
    rng = np.random.default_rng(0)
    where = rng.random((40, 1))
    y = np.sin(2 * np.pi * where[:, 0]) + 0.01 * rng.standard_normal(40)

    def equation(x, u, r):
        return -u.laplacian + r * u.value - (4 * jnp.pi**2 + 30.0) * jnp.sin(2 * jnp.pi * x[0])

    circle = kp.Box(x=(0, 1), periodic="x")
    inside, ends = np.linspace(0, 1, 41)[1:-1, None], np.array([[0.0], [1.0]])
    conditions = (
        [kp.Condition("equation", circle.interior, equation)]
        if periodic
        else [kp.Condition("equation", inside, equation), kp.Condition("ends", ends, zero)]
    )
    problem = kp.Problem(
        *conditions,
        observed(where, y, kp.LearnedNoise(0.03)),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.6)), kp.Parameter("r", 20.0, 15.0)],
    )
    learned = kp.learn(problem, {"equation": 40} if periodic else None)
    assert learned.converged
    assert prior_penalty(learned.solution) < 1.0
    found = kp.posterior(learned)
    assert not found.warnings
    assert abs(found.parameters["r"].mean - 30.0) < 2.5 * found.parameters["r"].std


def test_what_is_learned_from_data_does_not_depend_on_units():
    rng = np.random.default_rng(4)
    where = rng.random((25, 1))
    data = 0.5 * where[:, 0] * (1 - where[:, 0]) + 2e-3 * rng.standard_normal(25)
    found = []
    for unit in (1.0, 1e5):

        def flow(x, u, a, unit=unit):
            return -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x")) - unit

        learned = kp.learn(
            boundary_value(
                LINE,
                flow,
                unit**2 * kp.Gaussian(0.2),
                kp.Field("a", 1.0 * kp.Gaussian(0.2)),
                more=[observed(where, unit * data, 2e-3 * unit)],
            ),
            {"equation": 30, "ends": 2},
        )
        posterior, places = kp.posterior(learned), np.linspace(0.1, 0.9, 9)[:, None]
        found.append([posterior["a"].mean(places), posterior["a"].std(places)])
    np.testing.assert_allclose(found[0], found[1], rtol=2e-3, atol=2e-3)


def test_what_cannot_be_is_refused():
    with pytest.raises(kp.InputError, match="standard deviation must be positive"):
        kp.Parameter("k", 1.0, 0.0)
    with pytest.raises(kp.InputError, match="the mean must be positive"):
        kp.Parameter("k", -1.0, 1.0, positive=True)
    with pytest.raises(kp.InputError, match="initial must be positive"):
        kp.LearnedNoise(0.0)
    with pytest.raises(kp.InputError, match="weights must be of shapes"):
        kp.Averages(np.zeros((3, 2)), np.ones(3))
    with pytest.raises(kp.InputError, match="with lower <= upper"):
        kp.box_averages([[1.0]], [[0.0]])
    x = np.linspace(0, 1, 5)[:, None]
    noisy = observed(x, x[:, 0], kp.LearnedNoise(0.1))
    problem = kp.Problem(noisy, fields=[kp.Field("u", kp.Gaussian(0.3))])
    with pytest.raises(kp.InputError, match="LeaveOneOutPredictive"):
        kp.learn(problem, validation=kp.KFold())
    exact = kp.Condition("equation", LINE.interior, zero)
    clean = kp.Problem(exact, fields=[kp.Field("u", kp.Gaussian(0.3))])
    with pytest.raises(kp.InputError, match="has no data"):
        kp.learn(clean, {"equation": 5}, validation=kp.LeaveOneOutPredictive())


WAVE = 2 * np.pi


def _source(case: str) -> tuple[kp.Problem, dict]:
    """-u'' = f, f from 30 noisy values or means of u = sin 2πx + cos(4πx) / 2, or exp(2πi x)."""
    rng = np.random.default_rng(5)
    domain = kp.Box(x=(0, 1), periodic="x" if case == "periodic" else ())
    where = rng.random((30, 1))
    noise = kp.LearnedNoise(0.1) if case == "learned noise" else 0.02
    data = {"y": np.sin(WAVE * where[:, 0]) + np.cos(2 * WAVE * where[:, 0]) / 2}
    places = where
    if case == "averages":
        places = kp.box_averages(0.9 * where, 0.9 * where + 0.1)
        lower, upper = (
            -np.cos(WAVE * x) / WAVE + np.sin(2 * WAVE * x) / (4 * WAVE)
            for x in (0.9 * where[:, 0], 0.9 * where[:, 0] + 0.1)
        )
        data = {"y": (upper - lower) / 0.1}
    if case == "complex":
        data = {"y": np.cos(WAVE * where[:, 0]), "z": np.sin(WAVE * where[:, 0])}
    data = {name: y + 0.02 * rng.standard_normal(30) for name, y in data.items()}
    size = kp.Gaussian(0.2) if case == "no variance" else 1.0 * kp.Gaussian(0.2)
    field = kp.ComplexField if case == "complex" else kp.Field
    problem = kp.Problem(
        kp.Condition("equation", domain.interior, lambda x, u, f: -u.laplacian - f.value),
        kp.Condition(
            "data",
            places,
            lambda x, u, y, z=0.0: u.value - (y + 1j * z if case == "complex" else y),
            noise=noise,
            data=data,
        ),
        fields=[field("u", size), field("f", 1.0 * kp.Gaussian(0.2))],
    )
    own = np.linspace(0, 1, 41)[:, None]
    return problem, {"equation": own if case == "own points" else 40}


@pytest.mark.parametrize(
    "case", ["periodic", "learned noise", "own points", "no variance", "averages", "complex"]
)
def test_error_bars_of_what_was_learned_hold(case):
    problem, points = _source(case)
    posterior = kp.posterior(kp.learn(problem, points))
    assert len(posterior.components) > 3
    assert not posterior.warnings
    x = np.linspace(0.02, 0.98, 49)[:, None]
    truth = WAVE**2 * (
        np.exp(1j * WAVE * x[:, 0])
        if case == "complex"
        else np.sin(WAVE * x[:, 0]) + 2 * np.cos(2 * WAVE * x[:, 0])
    )
    mean, deviation = (np.asarray(each(x)) for each in (posterior["f"].mean, posterior["f"].std))
    # Root mean square of f is 62, or 39: error bars say something, and what they say is true.
    assert np.median(deviation) < 15.0
    assert np.mean(np.abs(mean - truth) < 2.45 * deviation) > 0.9


def fitted(noise, spoiled=True, count=30, places=None):
    """Values of sin 4x with noise of 0.05, two of them off by 2; a problem of regression."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.random((count, 1)), axis=0)
    y = np.sin(4 * x[:, 0]) + 0.05 * rng.standard_normal(count)
    if spoiled:
        y[[7, 20]] += [2.0, -2.0]
    problem = regression(x, y, noise, 1.0 * kp.Gaussian(0.3))
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
    problem = boundary_value(
        LINE,
        lambda x, u, f: -u.laplacian - f.value,
        1.0 * kp.Gaussian(0.3),
        kp.Field("f", 10.0 * kp.Gaussian(0.4)),
        more=[observed(where, y, kp.StudentT(0.01))],
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


RANGE = LawArgument("u", 0.5, 2.0)


def temperature(x, source):
    """u with -((1 + u²) u')' = source and cold ends: u + u³ / 3 = source x (1 - x) / 2."""
    half = 0.75 * source * x * (1 - x)
    root = np.sqrt(half**2 + 1)
    return np.cbrt(half + root) + np.cbrt(half - root)


def heat(x, u, k, q=6.0):
    there = k(u.value)
    return -(there.value * u.laplacian + there.d("T") * u.d("x") ** 2) - q


def conducting_rod(noise=1e-3, source=6.0, upper=0.8, kernel=None, learned=False):
    rng = np.random.default_rng(3)
    x = np.linspace(0.03, 0.97, 25)[:, None]
    data = {"y": temperature(x[:, 0], source) + noise * rng.standard_normal(25)}
    return boundary_value(
        LINE,
        heat,
        1.0 * kp.Gaussian(0.2),
        kp.Law("k", kernel or 1.0 * kp.Gaussian(0.5), T=(0, upper), mean=1.0),
        more=[
            kp.Condition(
                "data",
                x,
                lambda x, u, y: u.value - y,
                data=data,
                noise=kp.LearnedNoise(3 * noise) if learned else noise,
            )
        ],
        names=("heat", "ends"),
        inputs={"q": source},
    )


def test_polynomials_pass_through_nodes():
    nodes, at = RANGE.nodes, np.linspace(0.4, 2.1, 50)
    power = np.polynomial.Polynomial([0.3, -1.0, 0.5, 0.2, -0.1])
    for order in range(4):
        found = RANGE.basis(jnp.asarray(at), order) @ power(nodes)
        expected = power.deriv(order)(at) if order else power(at)
        np.testing.assert_allclose(found, expected, atol=1e-11 * 100**order)
    # Beyond reach a straight line.
    low, high = RANGE.node_range
    there = RANGE.basis(jnp.asarray([high + 1.0, low - 2.0])) @ power(nodes)
    slope = power.deriv()
    expected = [power(high) + slope(high), power(low) - 2 * slope(low)]
    np.testing.assert_allclose(there, expected, atol=1e-9)


def test_draws_are_those_of_the_kernel():
    # A tenth of the range: the shortest lengthscale for which the docs promise it.
    kernel = kp.Gaussian(0.15)
    at = np.linspace(0.5, 2.0, 33)
    basis = np.asarray(RANGE.basis(jnp.asarray(at)))
    on_nodes = np.asarray(NodalKernel(kernel, tuple(RANGE.nodes.tolist()), 1.5).covariance)
    exact = np.exp(-((at[:, None] - at) ** 2) / (2 * 0.15**2))
    assert np.abs(basis @ on_nodes @ basis.T - exact).max() < 5e-3
    longer = np.asarray(NodalKernel(kp.Gaussian(0.3), tuple(RANGE.nodes.tolist()), 1.5).covariance)
    exact = np.exp(-((at[:, None] - at) ** 2) / (2 * 0.3**2))
    assert np.abs(basis @ longer @ basis.T - exact).max() < 1e-7


def test_gram_of_fields_and_laws():
    rng = np.random.default_rng(0)
    field_kernel = kp.Gaussian(0.4)
    law_kernel = NodalKernel(2.0 * kp.Matern(2.5, 0.7), tuple(RANGE.nodes.tolist()), 1.5)
    prior = Prior((field_kernel, law_kernel))
    terms = (Term(0, ((1,),)), *nodal_terms(1, 1))
    batch = Functionals(
        jnp.asarray(rng.random((6, 1))), jnp.asarray(rng.standard_normal((6, len(terms)))), terms
    )
    x, c = np.asarray(batch.points), np.asarray(batch.coefficients)
    apart = (x - x.T) / 0.4
    field = (1 - apart**2) / 0.4**2 * np.exp(-(apart**2) / 2)
    nodes = RANGE.nodes
    s = np.sqrt(5) * np.abs(nodes[:, None] - nodes) / 0.7
    law = 2.0 * (1 + s + s**2 / 3) * np.exp(-s)
    expected = np.outer(c[:, 0], c[:, 0]) * field + c[:, 1:] @ law @ c[:, 1:].T
    np.testing.assert_allclose(gram(prior, batch, batch), expected, atol=1e-12)
    np.testing.assert_allclose(gram_diagonal(prior, [batch]), np.diag(expected), atol=1e-12)
    # Averages over two points each, and entries of an expansion.
    pairs = Functionals(batch.points, batch.coefficients, terms, 2)
    summed = expected.reshape(3, 2, 3, 2).sum((1, 3))
    np.testing.assert_allclose(gram(prior, pairs, pairs), summed, atol=1e-12)
    entries = evaluate_jets(prior, batch.points, terms, [batch])
    np.testing.assert_allclose(entries[:, 1:], np.tile(law @ c[:, 1:].sum(0), (6, 1)), atol=1e-11)
    # The general route through derivatives of kernels gives the same.
    held = Prior((field_kernel, kp.freeze(law_kernel)))
    np.testing.assert_allclose(gram(held, batch, batch), expected, atol=1e-11)


def test_a_law_of_a_known_argument_is_regression():
    rng = np.random.default_rng(1)
    x = rng.random((15, 1))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.standard_normal(15)
    problem = kp.Problem(
        kp.Condition("data", x, lambda x, f, y: f(2.0 * x[0]).value - y, data={"y": y}, noise=0.1),
        fields=[kp.Law("f", 0.7 * kp.Gaussian(0.6), s=(0, 2), mean=0.4)],
    )
    posterior = kp.posterior(kp.solve(problem))

    def covariance(a, b):
        return 0.7 * np.exp(-((a[:, None] - b) ** 2) / (2 * 0.6**2))

    at = np.linspace(0.1, 1.9, 9)
    matrix = covariance(2 * x[:, 0], 2 * x[:, 0]) + 0.01 * np.eye(15)
    cross = covariance(at, 2 * x[:, 0])
    mean = 0.4 + cross @ np.linalg.solve(matrix, y - 0.4)
    variance = 0.7 - np.sum(cross * np.linalg.solve(matrix, cross.T).T, axis=1)
    found = posterior["f"]
    np.testing.assert_allclose(found.mean(at), mean, atol=1e-7)
    np.testing.assert_allclose(found.std(at), np.sqrt(variance), rtol=1e-5)
    np.testing.assert_allclose(posterior.solution["f"](at), mean, atol=1e-7)
    step = 1e-4
    slope = (found.mean(at + step) - found.mean(at - step)) / (2 * step)
    np.testing.assert_allclose(found.d("s").mean(at), slope, atol=1e-6)
    low, high = found.interval(at, 0.9)
    np.testing.assert_allclose((low + high) / 2, mean, atol=1e-6)
    drawn = found.sample(at, jax.random.key(0), 4000)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * np.sqrt(variance.max() / 4000))
    joint = posterior.sample({"f": at}, jax.random.key(1), 4000)["f"]
    np.testing.assert_allclose(joint.mean(0), mean, atol=5 * np.sqrt(variance.max() / 4000))
    assert joint.shape == (4000, 9)


@pytest.mark.parametrize("learned_noise", [False, True])
def test_a_conductivity_is_found(learned_noise):
    learned = kp.learn(conducting_rod(learned=learned_noise), {"heat": 40, "ends": 2})
    posterior = kp.posterior(learned)
    assert not posterior.warnings
    law = learned.solution["k"]
    low, high = law.range_used
    # Temperatures reach from 0 to 0.6604, where u + u³ / 3 = 0.75.
    assert -0.01 < low < 0.05
    assert 0.62 < high < 0.68
    at = np.linspace(0.05, 0.63, 30)
    truth = 1 + at**2
    assert np.abs(law(at) / truth - 1).max() < 0.05
    assert np.abs(law.d("T")(at) - 2 * at).max() < 0.6
    ends = posterior["k"].interval(at)
    assert np.mean((ends[0] <= truth) & (truth <= ends[1])) > 0.9
    # Data say much of it there, and less beyond.
    assert np.min(posterior["k"].contraction(at)) > 0.9
    with pytest.warns(UserWarning, match="extrapolated"):
        beyond = posterior["k"].contraction(np.array([0.85]))
    assert float(beyond[0]) < np.min(posterior["k"].contraction(at))


@pytest.mark.slow
def test_laws_under_transformations():
    problem = conducting_rod()
    points = {"heat": 30, "ends": 2}
    discretization = kp.discretize(problem, points)

    def at_half(q):
        solution = kp.solve(discretization, inputs={"q": q})
        return solution["k"](jnp.asarray(0.5))

    outside = kp.solve(discretization)
    value, slope = jax.value_and_grad(at_half)(6.0)
    np.testing.assert_allclose(value, outside["k"](0.5), rtol=1e-6)
    step = 1e-3
    expected = (at_half(6.0 + step) - at_half(6.0 - step)) / (2 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-3)
    # With the source and the data doubled k would be the same; with the source alone it doubles.
    many = jax.vmap(at_half)(jnp.asarray([6.0, 6.6]))
    np.testing.assert_allclose(many[1] / many[0], 1.1, rtol=5e-3)


def test_a_range_that_is_too_small_is_said():
    small = conducting_rod(upper=0.4)
    solution = kp.solve(small, {"heat": 30, "ends": 2}, throw=False)
    assert solution.result is kp.RESULTS.law_out_of_range
    with pytest.raises(kp.SolveError, match="wider range"):
        kp.solve(small, {"heat": 30, "ends": 2})
    inside = jax.jit(
        lambda q: (
            kp.solve(
                kp.discretize(small, {"heat": 30, "ends": 2}), inputs={"q": q}, throw=False
            ).result_code
        )
    )
    assert int(inside(6.0)) == list(kp.RESULTS).index(kp.RESULTS.law_out_of_range)


def test_starts_files_and_pictures_of_laws(tmp_path):
    problem, points = conducting_rod(), {"heat": 30, "ends": 2}
    plain = kp.solve(problem, points)
    started = kp.solve(
        problem,
        points,
        start={"u": lambda x: x[0] * (1 - x[0]), "k": lambda T: 1 + T**2},
    )
    at = np.linspace(0.1, 0.6, 11)
    np.testing.assert_allclose(started["k"](at), plain["k"](at), rtol=1e-5)
    (entries, *_) = initial_jets(problem, {"k": lambda T: 1 + T**2}, plain.point_sets)
    nodes = problem.laws[0].argument.nodes
    for column, term in zip(entries.T, problem.residuals[0].nonlinear_terms, strict=True):
        expected = 0.0 if term.node_index is None else nodes[term.node_index] ** 2
        np.testing.assert_allclose(column, expected, atol=1e-14)
    kp.save_solution(tmp_path / "conducting_rod.npz", plain)
    loaded = kp.load_solution(tmp_path / "conducting_rod.npz", problem)
    np.testing.assert_allclose(loaded["k"](at), plain["k"](at), rtol=1e-12)
    posterior = kp.posterior(plain)
    for figure in (plain["k"].plot(reference=lambda T: 1 + T**2), posterior["k"].plot()):
        assert figure.axes[0].get_xlabel() == "T"
    plain.plot()
    assert "k" in plain.problem.hyperparameters
    assert set(plain.problem.hyperparameters["k"]) == {"kernel.lengthscale", "variance"}
    assert plain.error_estimate["u"].rms < 0.1


@pytest.mark.parametrize(
    ("residual", "words"),
    [
        (lambda x, u, k: k.value * u.laplacian, "before it is called"),
        (lambda x, u, k: k(u).value * u.laplacian, r"k\(u.value\), not k\(u\)"),
        (lambda x, u, k: k(u.value) * u.laplacian, "no number"),
        (lambda x, u, k: k(u.gradient).value * u.laplacian, "one number"),
        (lambda x, u, k: k(u.value).d("x") * u.laplacian, "function of 'T'"),
    ],
)
def test_mistakes_in_calls_are_refused(residual, words):
    with pytest.raises(kp.InputError, match=words):
        kp.Problem(
            kp.Condition("heat", LINE.interior, residual),
            fields=[kp.Field("u", kp.Gaussian(0.2)), kp.Law("k", kp.Gaussian(0.5), T=(0, 1))],
        )


def test_mistakes_in_laws_are_refused():
    kernel = kp.Gaussian(0.3)
    for ends in (3.0, (1, 0), (0, np.inf), (0, 1, 2)):
        with pytest.raises(kp.InputError, match="range"):
            kp.Law("k", kernel, u=ends)
    with pytest.raises(kp.InputError, match="one range"):
        kp.Law("k", kernel)
    with pytest.raises(kp.InputError, match="one range"):
        kp.Law("k", kernel, u=(0, 1), v=(0, 1))
    with pytest.raises(kp.InputError, match="mean"):
        kp.Law("k", kernel, u=(0, 1), mean="one")
    fields = [kp.Field("u", kernel), kp.Law("k", kernel, T=(0, 1), mean=1.0)]
    heated = kp.Condition("heat", LINE.interior, heat)
    with pytest.raises(kp.InputError, match="all unknowns are fields"):
        kp.Problem(heated, fields=fields, mixing=np.eye(2), inputs={"q": 1.0})
    with pytest.raises(kp.InputError, match="is a law"):
        kp.solve(conducting_rod(), {"heat": 30, "ends": 2}).plot("k")


@pytest.mark.slow
def test_laws_with_other_linear_solvers():
    at, points = np.linspace(0.1, 0.6, 6), {"heat": 900, "ends": 2}
    dense, low = (
        kp.solve(conducting_rod(), points, linear_solver=solver)["k"](at)
        for solver in (kp.Dense(nugget=1e-10), kp.LowRank(nugget=1e-10))
    )
    np.testing.assert_allclose(low, dense, rtol=2e-3)
    with pytest.raises(kp.InputError, match="no sparse approximation"):
        kp.solve(conducting_rod(), points, linear_solver=kp.Sparse())
