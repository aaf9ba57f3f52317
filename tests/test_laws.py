"""Unknown laws: functions of the solution, against independent routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.functionals import (
    Functionals,
    LawArgument,
    Prior,
    Term,
    evaluate_jets,
    gram,
    gram_diagonal,
    nodal_terms,
)
from kernelpde.kernels import NodalKernel
from kernelpde.solution import initial_jets

LINE = kp.Box(x=(0, 1))
RANGE = LawArgument("u", 0.5, 2.0)


def temperature(x, source):
    """u with -((1 + u²) u')' = source and cold ends: u + u³ / 3 = source x (1 - x) / 2."""
    half = 0.75 * source * x * (1 - x)
    root = np.sqrt(half**2 + 1)
    return np.cbrt(half + root) + np.cbrt(half - root)


def heat(x, u, k, q=6.0):
    there = k(u.value)
    return -(there.value * u.laplacian + there.d("T") * u.d("x") ** 2) - q


def rod(noise=1e-3, source=6.0, upper=0.8, kernel=None, learned=False):
    rng = np.random.default_rng(3)
    x = np.linspace(0.03, 0.97, 25)[:, None]
    data = {"y": temperature(x[:, 0], source) + noise * rng.standard_normal(25)}
    return kp.Problem(
        kp.Condition("heat", LINE.interior, heat),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
        kp.Condition(
            "data",
            x,
            lambda x, u, y: u.value - y,
            data=data,
            noise=kp.LearnedNoise(3 * noise) if learned else noise,
        ),
        fields=[
            kp.Field("u", 1.0 * kp.Gaussian(0.2)),
            kp.Law("k", kernel or 1.0 * kp.Gaussian(0.5), T=(0, upper), mean=1.0),
        ],
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
    kernels = (
        kp.Gaussian(0.4),
        NodalKernel(2.0 * kp.Matern(2.5, 0.7), tuple(RANGE.nodes.tolist()), 1.5),
    )
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
    np.testing.assert_allclose(gram(Prior(kernels), batch, batch), expected, atol=1e-12)
    np.testing.assert_allclose(
        gram_diagonal(Prior(kernels), [batch]), np.diag(expected), atol=1e-12
    )
    # Averages over two points each, and entries of an expansion.
    pairs = Functionals(batch.points, batch.coefficients, terms, 2)
    summed = expected.reshape(3, 2, 3, 2).sum((1, 3))
    np.testing.assert_allclose(gram(Prior(kernels), pairs, pairs), summed, atol=1e-12)
    entries = evaluate_jets(Prior(kernels), batch.points, terms, [batch])
    np.testing.assert_allclose(entries[:, 1:], np.tile(law @ c[:, 1:].sum(0), (6, 1)), atol=1e-11)
    # The general route through derivatives of kernels gives the same.
    held = (kernels[0], kp.freeze(kernels[1]))
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
    learned = kp.learn(rod(learned=learned_noise), {"heat": 40, "ends": 2})
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
    problem = rod()
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
    small = rod(upper=0.4)
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
    problem, points = rod(), {"heat": 30, "ends": 2}
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
    kp.save_solution(tmp_path / "rod.npz", plain)
    loaded = kp.load_solution(tmp_path / "rod.npz", problem)
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
        kp.solve(rod(), {"heat": 30, "ends": 2}).plot("k")


@pytest.mark.slow
def test_laws_with_other_linear_solvers():
    at, points = np.linspace(0.1, 0.6, 6), {"heat": 900, "ends": 2}
    dense, low = (
        kp.solve(rod(), points, linear_solver=solver)["k"](at)
        for solver in (kp.Dense(nugget=1e-10), kp.LowRank(nugget=1e-10))
    )
    np.testing.assert_allclose(low, dense, rtol=2e-3)
    with pytest.raises(kp.InputError, match="no sparse approximation"):
        kp.solve(rod(), points, linear_solver=kp.Sparse())
