"""Unknown numbers, averages, and learning from noisy data, against independent routes."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import kernelpde as kp
from kernelpde.functionals import Functionals, Prior, Term, gram, gram_diagonal, point_functionals
from kernelpde.learning import (
    Loss,
    ThetaMap,
    batched_losses,
    density_and_curvature,
    prior_penalty,
    sequential_predictor,
    state_fields,
    weak_prior,
    with_large_state_variance,
)
from kernelpde.linear_solvers import DenseState
from kernelpde.problem import coordinate_extents
from kernelpde.solution import nugget_misfit, squared_norm

LINE = kp.Box(x=(0, 1))
DIFFUSIVITY = 0.7


def rod(x, u, k):
    return -k * u.laplacian - jnp.sin(jnp.pi * x[0])


def zero(x, u):
    return u.value


def seen(x, u, y):
    return u.value - y


def rod_with(where, data, parameter, noise=1e-6):
    return kp.Problem(
        kp.Condition("equation", LINE.interior, rod),
        kp.Condition("ends", LINE.boundary, zero),
        kp.Condition("data", where, seen, data={"y": data}, noise=noise),
        fields=[kp.Field("u", kp.Gaussian(0.3)), parameter],
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
        gram(prior, wide, other),
        groups @ np.asarray(gram(prior, local, other)),
        rtol=1e-12,
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
        kp.Condition("data", where, seen, noise=noise, data={"y": rng.standard_normal(9)}),
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
    loss = Loss(parameters, rows, None, jnp.ones(0), plan, None, data=(0,))
    theta = parameters.vector
    value, gradient, normal, _ = density_and_curvature(jnp.asarray(theta), loss)

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
    values, _, _ = batched_losses(jnp.asarray(theta + moves), loss)
    up, down = np.split(np.asarray(values), 2)
    np.testing.assert_allclose(gradient, (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
    assert np.all(np.linalg.eigvalsh(np.asarray(normal)) > -1e-9)

    # All data at once: the density of data and equations over that of equations.
    joint = Loss(
        parameters, rows, None, jnp.ones(0), plan, None, data=(0,), predictor=sequential_predictor
    )
    value, gradient, normal, _ = density_and_curvature(jnp.asarray(theta), joint)
    equations = matrix[9:, 9:]
    both, alone = multivariate_normal(cov=matrix), multivariate_normal(cov=equations)
    expected = alone.logpdf(target[9:]) - both.logpdf(target) - 4.5 * np.log(2 * np.pi)
    assert float(value) == pytest.approx(expected, rel=1e-7)
    up, down = np.split(np.asarray(batched_losses(jnp.asarray(theta + moves), joint)[0]), 2)
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
            problem = kp.Problem(
                kp.Condition("data", x, seen, noise=kp.LearnedNoise(start), data={"y": y}),
                fields=[kp.Field("u", 1.0 * kp.Gaussian(0.5))],
            )
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
        kp.Condition("exact", where[exact], seen, data={"y": values[exact]}),
        kp.Condition("noisy", where[~exact], seen, data={"y": values[~exact]}, noise=0.3),
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
    return kp.Problem(
        kp.Condition(
            "equation",
            LINE.interior,
            lambda x, u, a: -jnp.exp(a.value) * (u.laplacian + a.d("x") * u.d("x")) - 1.0,
        ),
        kp.Condition("ends", LINE.boundary, zero),
        kp.Condition(
            "data",
            where[:, None],
            seen,
            data={"y": y + noise * rng.standard_normal(60)},
            noise=noise,
        ),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(lengthscale)), kp.Field("a", kp.Gaussian(0.15))],
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
        kp.Condition("data", where, seen, data={"y": y}, noise=kp.LearnedNoise(0.03)),
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
            kp.Problem(
                kp.Condition("equation", LINE.interior, flow),
                kp.Condition("ends", LINE.boundary, zero),
                kp.Condition("data", where, seen, noise=2e-3 * unit, data={"y": unit * data}),
                fields=[
                    kp.Field("u", unit**2 * kp.Gaussian(0.2)),
                    kp.Field("a", 1.0 * kp.Gaussian(0.2)),
                ],
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
    noisy = kp.Condition("data", x, seen, noise=kp.LearnedNoise(0.1), data={"y": x[:, 0]})
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
