"""The positive definite solve: values, derivatives, nuggets, failures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernelpde.errors import InputError
from kernelpde.linear_solvers import RESULTS as LINEAR
from kernelpde.linear_solvers import (
    Dense,
    cholesky,
    factorize,
    generic_cholesky,
    lapack_cholesky,
    restore_matrix,
)


def spd(size, seed, condition=1e3):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = (q * np.geomspace(1, 1 / condition, size)) @ q.T
    scales = np.geomspace(0.1, 10.0, size)
    matrix = scales[:, None] * matrix * scales
    return jnp.asarray((matrix + matrix.T) / 2)


MATRIX = spd(30, 0, 20.0)
NOISE = jnp.asarray(np.diag(MATRIX) * np.random.default_rng(1).random(30) * (np.arange(30) % 2))
RHS = jnp.asarray(np.random.default_rng(2).standard_normal(30))
DIRECTION = 0.1 * spd(30, 3)
MAX_NUGGET = 1e-6


def test_panels_give_the_factor_of_the_whole():
    """Large matrices are factored some rows at a time, and the other triangle stays."""
    root = np.random.default_rng(0).standard_normal((23, 23))
    matrix = root @ root.T + 23 * np.eye(23)
    whole, good = cholesky(jnp.asarray(matrix))
    parts, fine = cholesky(jnp.asarray(matrix), panel_size=7)
    assert bool(good)
    assert bool(fine)
    np.testing.assert_allclose(np.triu(parts), np.triu(whole), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.tril(parts, -1), np.tril(matrix, -1))
    assert not bool(cholesky(jnp.asarray(matrix - 40 * np.eye(23)), panel_size=7)[1])


def test_solve_with_noise_per_row():
    solved = factorize(MATRIX, NOISE, 0.0, MAX_NUGGET).solve(RHS, 2)
    expected = np.linalg.solve(np.asarray(MATRIX) + np.diag(NOISE), RHS)
    np.testing.assert_allclose(solved, expected, rtol=1e-9)


def test_nugget_is_relative_to_the_diagonal():
    factor = factorize(MATRIX, NOISE, 1e-3, MAX_NUGGET)
    total = np.asarray(MATRIX) + np.diag(NOISE)
    lifted = total + 1e-3 * np.diag(np.diag(total))
    np.testing.assert_allclose(factor.solve(RHS), np.linalg.solve(lifted, RHS), rtol=1e-9)
    assert factor.log_det() == pytest.approx(np.linalg.slogdet(lifted)[1], rel=1e-12)
    np.testing.assert_allclose(
        factor.diagonal_of_inverse(), np.diag(np.linalg.inv(lifted)), rtol=1e-9
    )


def test_scaling_rows_scales_the_solution():
    """Diagonal scaling commutes with everything: nugget, factor and refinement."""
    scales = jnp.asarray(2.0 ** np.random.default_rng(4).integers(-20, 20, 30))
    plain = factorize(MATRIX, NOISE, 1e-6, MAX_NUGGET).solve(RHS, 2)
    scaled_matrix = scales[:, None] * MATRIX * scales
    scaled = factorize(scaled_matrix, scales**2 * NOISE, 1e-6, MAX_NUGGET)
    np.testing.assert_array_equal(scaled.solve(scales * RHS, 2) * scales, plain)


def test_refinement_removes_the_bias_of_the_nugget():
    exact = np.linalg.solve(np.asarray(MATRIX), RHS)

    def error(sweeps):
        solved = factorize(MATRIX, 0 * NOISE, 1e-4, MAX_NUGGET).solve(RHS, sweeps)
        return np.linalg.norm(solved - exact) / np.linalg.norm(exact)

    assert error(1) < 0.2 * error(0)
    assert error(2) < 0.2 * error(1)


def everything(t):
    factor = factorize(MATRIX + t * DIRECTION, NOISE * (1 + t), 1e-3, MAX_NUGGET)
    return jnp.stack(
        [
            jnp.sum(factor.solve(RHS * (1 + t * t + t), 2) ** 2),
            factor.log_det(),
            jnp.sum(jnp.log(factor.diagonal_of_inverse())),
        ]
    )


def test_derivatives_against_finite_differences():
    step = 1e-5
    central = (everything(step) - everything(-step)) / (2 * step)
    forward = jax.jacfwd(everything)(0.0)
    reverse = jax.jacrev(everything)(0.0)
    np.testing.assert_allclose(forward, central, rtol=2e-8)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(jax.jacrev(everything))(0.0), forward, rtol=1e-10)


def test_second_derivatives():
    step = 1e-4
    slope = jax.jacfwd(lambda t: everything(t)[0])
    central = (slope(step) - slope(-step)) / (2 * step)
    assert jax.jacfwd(slope)(0.0) == pytest.approx(float(central), rel=1e-6)


def count(jaxpr, name):
    total = 0
    for equation in jaxpr.eqns:
        total += equation.primitive.name == name
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                total += count(inner, name)
    return total


def test_the_gradient_adds_no_factorization_and_no_matrix_product():
    def loss(t):
        return jnp.sum(
            factorize(MATRIX + t * DIRECTION, NOISE, 1e-12, MAX_NUGGET).solve(RHS, 2) ** 2
        )

    value, gradient = jax.make_jaxpr(loss)(0.0), jax.make_jaxpr(jax.grad(loss))(0.0)
    assert count(value.jaxpr, "ffi_call") > 0
    assert count(gradient.jaxpr, "ffi_call") == count(value.jaxpr, "ffi_call")
    assert count(gradient.jaxpr, "cholesky") == count(value.jaxpr, "cholesky")


def test_batched_factorizations():
    stack = jnp.stack([spd(12, seed) for seed in range(3)])
    noise, rhs = jnp.zeros(12), jnp.arange(1.0, 13.0)
    solved = jax.jit(jax.vmap(lambda m: factorize(m, noise, 1e-12, MAX_NUGGET).solve(rhs, 2)))(
        stack
    )
    for matrix, solution in zip(stack, solved, strict=True):
        np.testing.assert_allclose(solution, np.linalg.solve(matrix, rhs), rtol=1e-6)


def test_batched_escalation_is_per_matrix():
    singular = jnp.ones((4, 4)) - 1e-9 * jnp.eye(4)
    stack = jnp.stack([singular, jnp.eye(4) + 1.0])
    nuggets = jax.vmap(lambda m: factorize(m, jnp.zeros(4), 1e-12, MAX_NUGGET).nugget)(stack)
    assert nuggets[0] > 1e-12
    assert nuggets[1] == 1e-12


def test_escalation_finds_the_first_nugget_that_works():
    # Eigenvalues of the scaled matrix: 4 - 3e and, three times, -e: any nugget above e will do.
    e = 3e-9
    matrix = (1 + e) * jnp.ones((4, 4)) - e * jnp.eye(4)
    factor = factorize(matrix, jnp.zeros(4), 1e-12, MAX_NUGGET)
    assert factor.nugget == pytest.approx(1e-8, rel=1e-12)
    assert factor.result == LINEAR.nugget_raised
    lifted = np.asarray(matrix) + 1e-8 * np.eye(4)
    solved = factor.solve(jnp.arange(4.0), 0)
    np.testing.assert_allclose(lifted @ solved, np.arange(4.0), atol=1e-6)


def test_failures_have_a_code_and_a_message():
    indefinite = factorize(jnp.array([[1.0, 2.0], [2.0, 1.0]]), jnp.zeros(2), 1e-12, MAX_NUGGET)
    assert indefinite.result == LINEAR.not_positive_definite
    assert "largest nugget" in LINEAR[indefinite.result]
    assert indefinite.nugget == 1e-6
    nan = factorize(jnp.full((2, 2), jnp.nan), jnp.zeros(2), 1e-12, MAX_NUGGET)
    assert nan.result == LINEAR.not_finite
    for factor in (indefinite, nan):
        assert np.isnan(factor.solve(jnp.ones(2))).all()
        assert np.isnan(factor.log_det())
        assert np.isnan(factor.diagonal_of_inverse()).all()


def test_condition_is_a_lower_bound_that_follows_the_truth():
    for condition in (1e3, 1e6):
        matrix = spd(40, 5, condition)
        scale = 1 / np.sqrt(np.diag(matrix))
        truth = np.linalg.cond(scale[:, None] * np.asarray(matrix) * scale)
        bound = float(factorize(matrix, jnp.zeros(40), 0.0, MAX_NUGGET).condition_number())
        assert truth / 100 < bound <= truth


def test_factor_leaves_the_lower_triangle_on_every_platform():
    for function in (lapack_cholesky, generic_cholesky):
        both, positive = jax.jit(function)(MATRIX)
        assert positive
        factor = np.triu(both)
        np.testing.assert_allclose(factor.T @ factor, MATRIX, rtol=1e-10, atol=1e-13)
        np.testing.assert_array_equal(np.tril(both, -1), np.tril(MATRIX, -1))
        np.testing.assert_array_equal(restore_matrix(both, jnp.diagonal(MATRIX)), MATRIX)


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"nugget must be .*at least 0 and at most 1; got -1"):
        Dense(nugget=-1.0)
    with pytest.raises(InputError, match="refinement_sweeps must be at least 0; got -1"):
        Dense(refinement_sweeps=-1)
