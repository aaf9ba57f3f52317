"""`solve` inside of jit, grad and vmap agrees with finite differences and loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, boundary_value, observed

import kernelpde as kp

POINTS = {"equation": 20, "ends": 2}
PLACE = jnp.array([[0.3], [0.6]])


def forward(kernel: kp.kernels.AbstractKernel | None = None) -> kp.Problem:
    """-u'' + u³ = c sin(πx), of which c is an input."""
    return boundary_value(
        LINE,
        lambda x, u, c: -u.laplacian + u.value**3 - c * jnp.sin(jnp.pi * x[0]),
        kp.Gaussian(0.3) if kernel is None else kernel,
        inputs={"c": 20.0},
    )


def functional(c) -> jax.Array:
    """A functional of the solution."""
    return jnp.sum(kp.solve(forward(), POINTS, inputs={"c": c})["u"](PLACE) ** 2)


def difference(function, at: float, step: float = 1e-3) -> float:
    """A derivative by central differences of fourth order."""
    values = [float(function(at + k * step)) for k in (-2, -1, 1, 2)]
    return float(np.dot(values, [1, -8, 8, -1]) / (12 * step))


def test_derivatives_in_an_input():
    expected = difference(functional, 20.0, 0.05)
    assert jax.jit(jax.grad(functional))(20.0) == pytest.approx(expected, rel=1e-6)
    assert jax.jit(jax.jacfwd(functional))(20.0) == pytest.approx(expected, rel=1e-6)


def test_traced_and_eager_iterations_are_the_same():
    """Both end after the same steps, at weights that differ by rounding."""
    discretization = kp.discretize(forward(), POINTS)
    for max_steps in (1, 2, 3, 50):
        options = {"max_steps": max_steps, "throw": False}
        eager = kp.solve(discretization, **options)
        traced = jax.jit(
            lambda c, options=options: kp.solve(discretization, inputs={"c": c}, **options)
        )(20.0)
        assert int(traced.result_code) == eager.result_code
        np.testing.assert_allclose(traced["u"](PLACE), eager["u"](PLACE), rtol=1e-9)


def test_many_inputs_at_once_are_what_a_loop_gives():
    problem = forward()
    discretization = kp.discretize(problem, POINTS)

    def values(c):
        solution = kp.solve(discretization, inputs={"c": c})
        return solution["u"](PLACE), solution.converged, solution

    inputs = jnp.linspace(5.0, 30.0, 50)
    found, converged, solutions = jax.jit(jax.vmap(values))(inputs)
    assert converged.shape == (50,)
    assert converged.all()
    loop = [kp.solve(problem, POINTS, inputs={"c": float(c)})["u"](PLACE) for c in inputs]
    np.testing.assert_allclose(found, np.stack(loop), rtol=1e-10, atol=0)
    again = jax.vmap(lambda solution: solution["u"](PLACE))(solutions)
    np.testing.assert_allclose(again, found, rtol=1e-12, atol=0)
    with pytest.raises(kp.InputError, match="batched"):
        _ = solutions.result
    with pytest.raises(kp.InputError, match="batched"):
        solutions["u"](PLACE)


def test_a_solution_inside_of_jit():
    solution = kp.solve(forward(), POINTS)

    @jax.jit
    def slope(solution, points):
        return solution["u"].gradient(points)[..., 0] + solution["u"](points)

    expected = solution["u"].gradient(PLACE)[..., 0] + solution["u"](PLACE)
    np.testing.assert_allclose(slope(solution, PLACE), expected, rtol=1e-8)
    along = jax.vmap(jax.grad(lambda point: solution["u"](point)))(PLACE)
    np.testing.assert_allclose(along, solution["u"].gradient(PLACE), rtol=1e-9)


def test_derivative_in_a_lengthscale():
    def at(lengthscale):
        problem = forward(kp.Gaussian(lengthscale))
        return kp.solve(problem, {"equation": 6, "ends": 2}, throw=False)["u"](PLACE)[0]

    expected = difference(at, 0.3)
    assert jax.jit(jax.grad(at))(0.3) == pytest.approx(expected, rel=1e-6)


def test_derivative_in_a_number_that_a_residual_closes_over():
    def at(c):
        problem = boundary_value(LINE, lambda x, u: -u.laplacian + u.value**3 - c, kp.Gaussian(0.3))
        return kp.solve(problem, POINTS)["u"](PLACE)[0]

    assert jax.jit(jax.grad(at))(20.0) == pytest.approx(difference(at, 20.0, 0.05), rel=1e-6)


WHERE = np.linspace(0.1, 0.9, 5)[:, None]


def inverse(y) -> kp.Problem:
    """-k u'' = 10 with unknown k, from data y with noise."""
    return boundary_value(
        LINE,
        lambda x, u, k: k * u.laplacian + 10.0,
        kp.Gaussian(0.2),
        kp.Parameter("k", 1.0, 0.5, positive=True),
        more=[observed(WHERE, y, 0.01)],
    )


def test_derivative_in_a_datum_of_an_inverse_problem():
    values = 4.0 * WHERE[:, 0] * (1 - WHERE[:, 0])

    def found(datum):
        y = jnp.asarray(values).at[2].set(datum)
        return kp.solve(
            inverse(y), {"equation": 12, "ends": 2}, solver=kp.LevenbergMarquardt(tolerance=1e-10)
        ).parameters["k"]

    expected = difference(found, 1.0, 1e-2)
    assert jax.jit(jax.grad(found))(1.0) == pytest.approx(expected, rel=1e-6)


def test_derivative_in_the_parameters_of_a_network():
    network = eqx.nn.MLP("scalar", "scalar", 4, 1, jnp.tanh, key=jax.random.key(0))
    problem = boundary_value(
        LINE,
        lambda x, u, source: -u.laplacian + u.value**3 - 10.0 * source(x[0]),
        kp.Gaussian(0.3),
        inputs={"source": network},
    )
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)

    def at(weights):
        changed = jax.tree.unflatten(structure, [weights, *leaves[1:]])
        given = {"source": eqx.combine(changed, rest)}
        return kp.solve(problem, POINTS, inputs=given)["u"](PLACE)[0]

    gradient = jax.jit(jax.grad(at))(leaves[0])
    direction = jnp.asarray(np.random.default_rng(0).normal(size=leaves[0].shape))
    expected = difference(lambda t: at(leaves[0] + t * direction), 0.0, 1e-2)
    assert jnp.sum(gradient * direction) == pytest.approx(expected, rel=1e-6)


def test_derivative_of_a_complex_periodic_problem():
    circle = kp.Box(x=(0.0, 2 * np.pi), periodic="x")

    def at(k):
        problem = kp.Problem(
            kp.Condition(
                "equation",
                circle.interior,
                lambda x, u, k: (
                    u.laplacian
                    + (k + 0.5j) * u.value
                    + 0.1 * abs(u.value) ** 2 * u.value
                    - jnp.exp(1j * x[0])
                ),
            ),
            fields=[kp.ComplexField("u", kp.Gaussian(1.0))],
            inputs={"k": 2.0},
        )
        value = kp.solve(problem, {"equation": 20}, inputs={"k": k})["u"](jnp.array([0.7]))
        return jnp.real(value) + 2.0 * jnp.imag(value)

    assert jax.jit(jax.grad(at))(2.0) == pytest.approx(difference(at, 2.0, 0.01), rel=1e-6)


@pytest.mark.parametrize(
    ("solver", "exact", "kernel"),
    [
        (kp.LowRank(), kp.LowRank(), kp.Gaussian(0.4)),
        # Conjugate gradients scatter: their own differences are good to 5e-6 only.
        (
            kp.Sparse(1e-10, tolerance=1e-12),
            kp.Dense(1e-10, refinement_sweeps=0),
            kp.Matern(4.5, 0.4),
        ),
    ],
    ids=["low rank", "sparse"],
)
def test_derivatives_with_other_solvers(solver, exact, kernel):
    points = {"equation": 150, "ends": 2}
    found, reference = (
        kp.discretize(forward(kernel), points, linear_solver=each) for each in (solver, exact)
    )

    def at(discretization, c):
        return kp.solve(
            discretization, inputs={"c": c}, solver=kp.LevenbergMarquardt(tolerance=1e-9)
        )["u"](PLACE)[0]

    expected = difference(lambda c: at(reference, c), 20.0, 0.5)
    gradient = jax.jit(jax.grad(lambda c: at(found, c)))(20.0)
    assert gradient == pytest.approx(expected, rel=1e-6)
    with pytest.raises(kp.InputError, match="discretize"):
        jax.jit(
            lambda c: (
                kp.solve(forward(kernel), points, inputs={"c": c}, linear_solver=solver).result_code
            )
        )(20.0)


def test_no_answer_without_convergence():
    """An error inside of jit, a truth value or NaN where errors are not asked for."""

    def at(c, throw):
        solution = kp.solve(forward(), POINTS, inputs={"c": c}, max_steps=1, throw=throw)
        return solution["u"](PLACE)[0], solution.converged

    _, converged = jax.jit(lambda c: at(c, False))(20.0)
    assert not converged
    assert np.isnan(jax.jit(jax.grad(lambda c: at(c, False)[0]))(20.0))
    with pytest.raises(RuntimeError, match="did not converge"):
        jax.jit(lambda c: at(c, True)[0])(20.0)


def test_inputs_are_checked():
    problem = forward()
    with pytest.raises(kp.InputError, match="Did you mean 'c'"):
        kp.solve(problem, POINTS, inputs={"C": 1.0})
    with pytest.raises(kp.InputError, match="NaN"):
        kp.solve(problem, POINTS, inputs={"c": np.nan})
    with pytest.raises(kp.InputError, match="no residual has the input 'd'"):
        kp.Problem(
            kp.Condition("equation", LINE.interior, lambda x, u: u.laplacian),
            fields=[kp.Field("u", kp.Gaussian(0.3))],
            inputs={"d": 1.0},
        )
    with pytest.raises(kp.InputError, match="comes with its points"):
        kp.solve(kp.discretize(problem, POINTS), POINTS)


def test_a_discretization_is_an_argument():
    @jax.jit
    def values(discretization, c):
        return kp.solve(discretization, inputs={"c": c})["u"](PLACE)

    discretization = kp.discretize(forward(), POINTS)
    expected = kp.solve(forward(), POINTS, inputs={"c": 12.0})["u"](PLACE)
    np.testing.assert_allclose(values(discretization, 12.0), expected, rtol=1e-10)


def _system() -> kp.Problem:
    """Two fields of sizes a thousand apart, which are scaled by their own exponents."""
    return boundary_value(
        LINE,
        lambda x, u, v, c: (
            -u.laplacian + 1e-3 * v.value - c,
            -v.laplacian - 1e3 * u.value + u.value * v.value,
        ),
        kp.Gaussian(0.3),
        kp.Field("v", kp.Gaussian(0.3)),
        edge=lambda x, u, v: (u.value, v.value),
        inputs={"c": 1.0},
    )


def _own_points() -> kp.Problem:
    return kp.Problem(
        kp.Condition(
            "equation",
            np.linspace(0.05, 0.95, 15)[:, None],
            lambda x, u, c: -u.laplacian + u.value**3 - c,
        ),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
        inputs={"c": 1.0},
    )


def _learned_noise() -> kp.Problem:
    at = np.linspace(0.05, 0.95, 15)
    return kp.Problem(
        kp.Condition(
            "data",
            at[:, None],
            lambda x, u, y, c: u.value - c * y,
            noise=kp.LearnedNoise(0.1),
            data={"y": np.sin(3 * at)},
        ),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.3))],
        inputs={"c": 1.0},
    )


@pytest.mark.parametrize(
    ("make", "points", "field"),
    [(_system, POINTS, "v"), (_own_points, {"ends": 2}, "u"), (_learned_noise, None, "u")],
)
def test_other_problems_inside_are_as_outside(make, points, field):
    def values(c):
        return kp.solve(make(), points, inputs={"c": c})[field](PLACE)

    np.testing.assert_allclose(jax.jit(values)(2.0), values(2.0), rtol=1e-8)


_reaction = 1.0


def test_a_discretization_sees_a_changed_global():
    global _reaction
    problem = boundary_value(
        LINE, lambda x, u: -u.laplacian + _reaction * u.value - 1.0, kp.Gaussian(0.3)
    )
    discretization = kp.discretize(problem, POINTS)
    for _reaction in (1.0, 100.0):
        root = np.sqrt(_reaction)
        exact = (1 - np.cosh(root * (PLACE[:, 0] - 0.5)) / np.cosh(root / 2)) / _reaction
        np.testing.assert_allclose(kp.solve(discretization)["u"](PLACE), exact, rtol=2e-3)
