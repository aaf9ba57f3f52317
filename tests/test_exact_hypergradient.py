"""The gradient through the fixed point, against finite differences of converged solves."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.learning import Objective, Parameters
from kernelpde.linear_solvers import DenseState

SQUARE = kp.Box(x=(0, 1), y=(0, 1))


def objective(residual):
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, residual),
        kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value - x[0] * x[1]),
        fields=[kp.Field("u", kp.Gaussian([0.3, 0.4]))],
    )
    blocks = problem.collocate({"equation": 60, "boundary": 30})
    validation = problem.collocate({"equation": 40, "boundary": 20}, seed=1)
    weights = jnp.asarray(np.repeat([0.01, 1.0], [40, 20]))
    start = tuple(
        jnp.zeros((len(b.points), len(r.nonlinear)))
        for r, b in zip(problem.residuals, blocks, strict=True)
    )
    parameters = Parameters.of(problem.kernels)
    plan, near = DenseState(kp.Dense(nugget=1e-8, refinement=0)), (None,) * len(blocks)
    built = Objective(parameters, problem.residuals, blocks, validation, weights, plan, near)
    return built, jnp.asarray(parameters.vector), start


def source(x):
    return 20.0 * jnp.sin(3 * x[0]) * jnp.cos(2 * x[1])


def burgers_like(x, u):
    return u.value * u.d("x") - 0.2 * u.laplacian - source(x) / 10


def differences(built, theta, start, step=1e-3):
    value = eqx.filter_jit(lambda t: built.value(t, start))
    return np.array(
        [
            (
                8 * (value(theta + step * e) - value(theta - step * e))
                - (value(theta + 2 * step * e) - value(theta - 2 * step * e))
            )
            / (12 * step)
            for e in jnp.eye(len(theta))
        ]
    )


def test_linear_problems_have_no_second_term():
    built, theta, start = objective(lambda x, u: -u.laplacian - source(x))
    _, exact, held = eqx.filter_jit(built.value_and_gradients)(theta, start)
    np.testing.assert_allclose(held, exact, rtol=1e-8)


@pytest.mark.parametrize(
    ("residual", "smallest_gap"),
    [
        (lambda x, u: -u.laplacian + u.value**3 - source(x), 0.0),
        (burgers_like, 1e-5),
    ],
    ids=["elliptic", "burgers-like"],
)
def test_against_finite_differences_of_converged_solves(residual, smallest_gap):
    built, theta, start = objective(residual)
    _, exact, held = eqx.filter_jit(built.value_and_gradients)(theta, start)
    central = differences(built, theta, start)
    scale = np.abs(central).max()
    np.testing.assert_allclose(exact, central, atol=1e-5 * scale)
    # What holding the linearization point costs: nothing to speak of, or a visible part.
    gap = np.abs(np.asarray(held) - np.asarray(exact)).max() / scale
    print(f"relative gap of the linearized gradient: {gap:.1e}")
    assert gap >= smallest_gap


@pytest.mark.slow
def test_learning_can_follow_the_exact_gradient():
    """The second term of the gradient moves the kernel a little, and not at all if it is zero."""
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, burgers_like),
        kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value - x[0] * x[1]),
        fields=[kp.Field("u", kp.Gaussian([0.3, 0.4]))],
    )
    points = {"equation": 40, "boundary": 20}
    options = {
        "linear_solver": kp.Dense(nugget=1e-6, refinement=0),
        "throw": False,
    }
    runs = [
        kp.learn(
            problem,
            points,
            method=kp.learning.Bilevel(hypergradient=which, multistart=False),
            **options,
        )
        for which in ("linearized", "exact")
    ]
    assert runs[1].factorizations > runs[0].factorizations
    vectors = [Parameters.of(run.kernels).vector for run in runs]
    assert 0 < np.max(np.abs(vectors[1] - vectors[0])) < 0.1


def test_exact_gradients_need_points_that_stay():
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, burgers_like),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    with pytest.raises(kp.InputError, match="needs validation points that stay"):
        kp.learn(
            problem,
            {"equation": 20},
            method=kp.learning.Bilevel(hypergradient="exact"),
            validation=kp.KFold(),
        )
