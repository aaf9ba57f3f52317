"""Hypergradients, folds and the inner map agree with independent routes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

import kernelpde as kp
from kernelpde.bilevel import Objective, loss_and_curvature, loss_and_gradient, outer_residual
from kernelpde.functionals import concatenate, gram
from kernelpde.gallery import elliptic
from kernelpde.learning import (
    CollocationResidual,
    LinearizationPoint,
    LinearizedCollocation,
    ThetaMap,
    fold_residual,
    kernel_flow,
    leave_one_out_residual,
    marginal_likelihood,
    prediction_std,
    predictive_density,
    solve_inner,
    squared_error,
)
from kernelpde.linear_solvers import DenseState

KERNEL = 1.3 * kp.Gaussian([0.25, 0.35]) + kp.Polynomial(2)


def state(problem, blocks, seed=0):
    """Some state: random entries, so that coefficients differ from point to point."""
    rng = np.random.default_rng(seed)
    entries = tuple(
        jnp.asarray(rng.standard_normal((len(b.points), len(r.nonlinear))))
        for r, b in zip(problem.residuals, blocks, strict=True)
    )
    return LinearizationPoint(entries, jnp.zeros(sum(len(b.points) for b in blocks)))


def setting(
    kernel=KERNEL, noise=0.0, nugget=1e-6, folds=None, regularizer=None, judge=squared_error
):
    square = kp.Box(x=(0, 1), y=(0, 1))
    problem = kp.Problem(
        kp.Condition(
            "equation", square.interior, lambda x, u: -u.laplacian + u.value**3 - x[0], noise=noise
        ),
        kp.Condition("boundary", square.boundary, lambda x, u: u.value - x[1]),
        fields=[kp.Field("u", kernel)],
    )
    blocks = problem.collocate({"equation": 40, "boundary": 20})
    rows = problem.at_points(blocks).linearize(state(problem, blocks).jets)
    validation = None
    count = len(rows.rhs)
    if folds is None:
        others = problem.collocate({"equation": 25, "boundary": 10}, seed=1)
        validation = problem.at_points(others).linearize(state(problem, others, 1).jets)
        count = len(validation.rhs)
    weights = jnp.asarray(np.random.default_rng(2).random(count))
    solver = DenseState(kp.Dense(nugget=nugget, refinement_sweeps=0))
    parameters = ThetaMap.of(problem.prior)
    linearized = LinearizedCollocation(parameters, rows, validation, weights, solver, folds or ())
    return problem, Objective(CollocationResidual(judge), linearized, regularizer)


FOLDS = tuple(np.array_split(np.random.default_rng(3).permutation(60), 4))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": 0.3},
        {"folds": FOLDS},
        {"folds": "one"},
        {"folds": FOLDS, "judge": predictive_density},
        {"folds": "one", "judge": predictive_density},
        {"folds": "one", "judge": marginal_likelihood, "noise": 0.3},
        {"folds": FOLDS[:1], "judge": kernel_flow},
        {"regularizer": kp.LogNormal(0.5, 2.0)},
        {"regularizer": kp.L2(0.3)},
        {"regularizer": kp.L1(0.3)},
    ],
    ids=[
        "held-out",
        "relaxed",
        "folds",
        "leave-one-out",
        "folds-std",
        "one-std",
        "evidence",
        "kernel-flow",
        "log-normal",
        "l2",
        "l1",
    ],
)
def test_hypergradients_against_finite_differences(options):
    options = dict(options)
    one_out = options.get("folds") == "one"
    if one_out:
        options["folds"] = FOLDS
    _, loss = setting(**options)
    linear = loss.linearized
    if one_out:
        loss = eqx.tree_at(lambda x: x.linearized.folds, loss, ())
    theta = jnp.asarray(linear.theta_map.vector)
    value = eqx.filter_jit(lambda t: 0.5 * jnp.sum(outer_residual(t, loss)[0] ** 2))
    step = 1e-4
    central = np.array(
        [
            # Fourth order, so that the step can stay clear of rounding.
            (
                8 * (value(theta + step * e) - value(theta - step * e))
                - (value(theta + 2 * step * e) - value(theta - 2 * step * e))
            )
            / (12 * step)
            for e in jnp.eye(len(theta))
        ]
    )
    forward = loss_and_curvature(theta, loss)
    reverse = loss_and_gradient(theta, loss)
    scale = np.abs(central).max()
    np.testing.assert_allclose(forward[1], central, atol=1e-6 * scale)
    np.testing.assert_allclose(reverse[1], forward[1], atol=1e-9 * scale)
    assert forward[0] == pytest.approx(float(value(theta)), rel=1e-9)
    assert reverse[0] == pytest.approx(float(forward[0]), rel=1e-9)


def test_normal_matrix_is_that_of_the_jacobian():
    _, loss = setting()
    linear = loss.linearized
    theta = jnp.asarray(linear.theta_map.vector)
    jacobian = jax.jacrev(lambda t: outer_residual(t, loss)[0])(theta)
    np.testing.assert_allclose(
        loss_and_curvature(theta, loss)[2], jacobian.T @ jacobian, rtol=1e-7, atol=1e-12
    )


def test_inner_map_is_the_representer_formula():
    problem, loss = setting(noise=0.2)
    linear = loss.linearized
    inner = solve_inner(
        problem.prior,
        linear.training_system,
        DenseState(kp.Dense(nugget=0.0, refinement_sweeps=0)),
    )
    union = concatenate(linear.training_system.batches)
    matrix = np.asarray(gram(problem.prior, union, union))
    expected = np.linalg.solve(
        matrix + np.diag(linear.training_system.variance),
        linear.training_system.rhs,
    )
    np.testing.assert_allclose(inner.weights, expected, rtol=1e-6)
    np.testing.assert_allclose(inner.row_values, matrix @ expected, rtol=1e-8, atol=1e-8)


def refit(problem, rows, solver, left_out):
    """Predict some rows from all others, with a factorization of its own."""
    union = concatenate(rows.batches)
    kept = np.setdiff1d(np.arange(len(rows.rhs)), left_out)
    matrix = np.asarray(gram(problem.prior, union, union))
    lifted = (
        matrix + np.diag(rows.variance) + solver.nugget * np.diag(np.diag(matrix) + rows.variance)
    )
    z = np.linalg.solve(lifted[np.ix_(kept, kept)], np.asarray(rows.rhs)[kept])
    return lifted[np.ix_(left_out, kept)] @ z - np.asarray(rows.rhs)[left_out]


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_folds_from_one_factorization_equal_refits(noise):
    problem, loss = setting(noise=noise, nugget=1e-4)
    linear = loss.linearized
    inner = solve_inner(problem.prior, linear.training_system, linear.solver_state)
    found = fold_residual(inner, FOLDS)
    for fold in FOLDS:
        expected = refit(problem, linear.training_system, linear.solver_state, fold)
        np.testing.assert_allclose(found[fold], expected, rtol=1e-6, atol=1e-8)


def test_leave_one_out_from_one_factorization_equals_refits():
    problem, loss = setting(nugget=1e-4)
    linear = loss.linearized
    inner = solve_inner(problem.prior, linear.training_system, linear.solver_state)
    found = leave_one_out_residual(inner)
    for i in range(len(found)):
        expected = refit(problem, linear.training_system, linear.solver_state, np.array([i]))
        np.testing.assert_allclose(found[i], expected[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("folds", [FOLDS, tuple(np.arange(60)[:, None])], ids=["folds", "one"])
def test_standardized_folds_are_the_predictive_density_at_its_best_amplitude(folds):
    """min over a of Σ_F -log N(b_F; mean, a² cov) from refits, against the loss."""
    problem, loss = setting(noise=0.3, nugget=1e-4, folds=FOLDS, judge=predictive_density)
    linear = loss.linearized
    loss = eqx.tree_at(lambda x: x.linearized.row_weights, loss, jnp.ones(60))
    if len(folds) == 60:
        loss = eqx.tree_at(lambda x: x.linearized.folds, loss, ())
    rows, solver = linear.training_system, linear.solver_state
    union = concatenate(rows.batches)
    matrix = np.asarray(gram(problem.prior, union, union)) + np.diag(rows.variance)
    matrix += solver.nugget * np.diag(np.diag(matrix))
    summed, logdet = 0.0, 0.0
    for fold in folds:
        kept = np.setdiff1d(np.arange(60), fold)
        gain = np.linalg.solve(matrix[np.ix_(kept, kept)], matrix[np.ix_(kept, fold)]).T
        covariance = matrix[np.ix_(fold, fold)] - gain @ matrix[np.ix_(kept, fold)]
        miss = np.asarray(rows.rhs)[fold] - gain @ np.asarray(rows.rhs)[kept]
        summed += miss @ np.linalg.solve(covariance, miss)
        logdet += np.linalg.slogdet(covariance)[1]
    expected = 0.5 * summed / 60 * np.exp(logdet / 60)
    found = loss_and_gradient(jnp.asarray(linear.theta_map.vector), loss)[0]
    assert float(found) == pytest.approx(expected, rel=1e-7)


def lifted(problem, loss):
    """P, by NumPy."""
    linear = loss.linearized
    union = concatenate(linear.training_system.batches)
    matrix = np.asarray(gram(problem.prior, union, union)) + np.diag(
        linear.training_system.variance
    )
    return matrix + linear.solver_state.nugget * np.diag(np.diag(matrix))


def test_evidence_is_that_of_a_normal_distribution():
    """min over s of -log N(b; 0, s² P), by SciPy; its information by the mean of many b."""
    problem, loss = setting(noise=0.3, nugget=1e-4, folds=FOLDS, judge=marginal_likelihood)
    linear = loss.linearized
    theta, matrix = jnp.asarray(linear.theta_map.vector), lifted(problem, loss)
    target = np.asarray(linear.training_system.rhs)
    lowest = minimize_scalar(
        lambda t: -multivariate_normal(cov=np.exp(2 * t) * matrix).logpdf(target),
        bounds=(-6, 6),
        options={"xatol": 1e-9},
    ).fun
    value, _, normal, _ = loss_and_curvature(theta, loss)
    found = 0.5 * 60 * (np.log(2 * value) + 1 + np.log(2 * np.pi))
    assert found == pytest.approx(lowest, rel=1e-9)

    # Half of tr(P⁻¹ ∂P P⁻¹ ∂P) less what the amplitude takes, with ∂P by differences.
    step = 1e-4
    slopes = []
    for e in np.eye(len(theta)):
        moved = [problem.with_prior(linear.theta_map.prior(theta + s * e)) for s in (step, -step)]
        up, down = (lifted(p, loss) for p in moved)
        slopes.append(np.linalg.solve(matrix, (up - down) / (2 * step)))
    traces = np.array([np.trace(a) for a in slopes])
    expected = np.array([[np.sum(a * b.T) for b in slopes] for a in slopes]) / 2
    expected -= np.outer(traces, traces) / (2 * 60)
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(60), matrix, 400)
    total = np.zeros_like(expected)
    for b in draws:
        other = eqx.tree_at(lambda x: x.linearized.training_system.rhs, loss, jnp.asarray(b))
        value, gradient, normal, _ = loss_and_curvature(theta, other)
        # Of log J from J, without the square of the gradient that the first root brings.
        total += (normal / value - np.outer(gradient, gradient) / (2 * value**2)) * 30
    scale = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        total / 400 / np.outer(scale, scale), expected / np.outer(scale, scale), atol=0.15
    )


def test_deviations_of_held_out_residuals():
    """Of a conditioned normal distribution, by NumPy."""
    problem, loss = setting(noise=0.3, nugget=1e-4)
    linear = loss.linearized
    found = prediction_std(
        problem.prior,
        linear.training_system,
        linear.solver_state,
        linear.validation_system,
    )
    trained, held = (
        concatenate(rows.batches) for rows in (linear.training_system, linear.validation_system)
    )
    cross = np.asarray(gram(problem.prior, trained, held))
    prior = np.diag(np.asarray(gram(problem.prior, held, held)))
    known = prior - np.sum(cross * np.linalg.solve(lifted(problem, loss), cross), axis=0)
    expected = np.sqrt(
        np.maximum(known, 1e-4 * prior) + np.asarray(linear.validation_system.variance)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_kernel_flow_is_what_half_of_the_rows_lose():
    problem, loss = setting(noise=0.3, nugget=1e-4, folds=FOLDS[:1], judge=kernel_flow)
    linear = loss.linearized
    kept = np.setdiff1d(np.arange(60), FOLDS[0])
    matrix, target = lifted(problem, loss), np.asarray(linear.training_system.rhs)
    whole = target @ np.linalg.solve(matrix, target)
    half = target[kept] @ np.linalg.solve(matrix[np.ix_(kept, kept)], target[kept])
    value = loss_and_gradient(jnp.asarray(linear.theta_map.vector), loss)[0]
    assert 2 * float(value) == pytest.approx(1 - half / whole, rel=1e-8)


def test_compiled_once_for_all_linearizations():
    """State, coefficients and batch are arguments: new ones trace nothing anew."""
    _, loss = setting()
    linear = loss.linearized
    theta = jnp.asarray(linear.theta_map.vector)
    loss_and_curvature(theta, loss)
    other = jax.tree.map(lambda leaf: 1.01 * leaf if eqx.is_inexact_array(leaf) else leaf, loss)
    moved = jnp.asarray(np.asarray(theta) + 0.1)
    before = len(_EVENTS)
    loss_and_curvature(moved, other)
    assert len(_EVENTS) == before


_EVENTS: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: (
        _EVENTS.append(event) if event.endswith("backend_compile_duration") else None
    )
)


def test_regularizers_have_their_formulas():
    theta = jnp.asarray([0.3, -1.2])
    assert 0.5 * jnp.sum(kp.L2(0.7).weighted_residuals(theta) ** 2) == pytest.approx(
        0.5 * 0.7 * (0.09 + 1.44)
    )
    smooth = sum(np.sqrt(t**2 + 1e-6) - 1e-3 for t in (0.3, 1.2))
    assert 0.5 * jnp.sum(kp.L1(0.7).weighted_residuals(theta) ** 2) == pytest.approx(
        0.7 * smooth, rel=1e-12
    )
    prior = kp.LogNormal(2.0, 0.5).weighted_residuals(theta)
    np.testing.assert_allclose(prior, (np.array([0.3, -1.2]) - np.log(2.0)) / 0.5, rtol=1e-14)


def test_weights_by_condition_name():
    example = elliptic(0.3)
    with pytest.raises(kp.InputError, match="unknown key of weights 'edge'; expected 'equation'"):
        kp.learn(
            example.problem,
            {"equation": 20, "boundary": 10},
            validation=kp.HeldOut(weights={"edge": 1.0}),
        )
    with pytest.raises(kp.InputError, match="at least one of them positive"):
        kp.learn(
            example.problem,
            {"equation": 20, "boundary": 10},
            validation=kp.HeldOut(weights={"equation": 0.0, "boundary": 0.0}),
        )
