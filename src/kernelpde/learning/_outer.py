"""Outer residuals ρ(θ) of collocation, which measure generalization."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from kernelpde.bilevel import AbstractResidualCriterion
from kernelpde.learning._linearized import CollocationSolution, LinearizedCollocation
from kernelpde.linear_solvers import DenseSolution

Folds: TypeAlias = Sequence[Array | np.ndarray]
"""Row indices of each fold; empty for leave-one-out."""

Formula: TypeAlias = Callable[[DenseSolution, Folds, Float[Array, " M"]], Float[Array, " q"]]
"""Map from the solution with all rows, their folds and their weights to the outer residual."""


def leave_one_out_residual(inner: DenseSolution) -> Float[Array, " M"]:
    """Return the leave-one-out residuals of all rows, from one factorization.

    With P = K + Σ + ηD and z = P⁻¹ b they are rᵢ = -zᵢ / (P⁻¹)ᵢᵢ, prediction minus target.
    """
    return -inner.weights / inner.factor.diagonal_of_inverse()


def fold_residual(inner: DenseSolution, folds: Folds) -> Float[Array, " M"]:
    """Return the residuals of the rows of each fold, predicted from all other folds.

    By the block inverse identity r_F = -((P⁻¹)_FF)⁻¹ z_F one factorization serves all folds.
    """
    residuals = jnp.zeros_like(inner.weights)
    for fold, precision in _fold_precisions(inner, folds):
        residuals = residuals.at[fold].set(-jnp.linalg.solve(precision, inner.weights[fold]))
    return residuals


def standardized_residuals(
    inner: DenseSolution, folds: Folds
) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """Return z-scores and log σ of all rows, by folds or leave-one-out.

    Leave-one-out gives rᵢ / σᵢ with σᵢ² = 1 / (P⁻¹)ᵢᵢ the variance of row i given all others. A
    fold F gives -L⁻¹ z_F and -log Lᵢᵢ with (P⁻¹)_FF = L Lᵀ.
    """
    if not folds:
        precision = inner.factor.diagonal_of_inverse()
        return -inner.weights / jnp.sqrt(precision), -0.5 * jnp.log(precision)
    z_scores, log_std = jnp.zeros_like(inner.weights), jnp.zeros_like(inner.weights)
    for fold, precision in _fold_precisions(inner, folds):
        fold_scores, fold_log_std = sequential_residuals(inner.weights[fold], precision)
        z_scores, log_std = z_scores.at[fold].set(-fold_scores), log_std.at[fold].set(fold_log_std)
    return z_scores, log_std


def sequential_residuals(
    weights: Float[Array, " d"], precision: Float[Array, "d d"]
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """Return the standardized residuals of rows, and log σ, conditioned on the rows after them.

    These are L⁻¹ z and -log Lᵢᵢ, with L Lᵀ the block of P⁻¹ that belongs to the rows.
    """
    factor = jnp.linalg.cholesky(precision)
    return solve_triangular(factor, weights, lower=True), -jnp.log(jnp.diagonal(factor))


def amplitude_profiled(
    z_scores: Float[Array, " M"], log_std: Float[Array, " M"], weights: Float[Array, " M"]
) -> Float[Array, " M"]:
    """Return ρ with ½ ‖ρ‖² = ½ Σ vᵢ tᵢ² exp(2 Σ vᵢ log σᵢ) for z-scores t and vᵢ = wᵢ / Σ wᵢ.

    Up to a factor and a constant, its logarithm is the negative predictive log density of the rows
    with the optimal common amplitude of the kernels (Rasmussen and Williams, section 5.4.2;
    Sundararajan and Keerthi 2001). A plain sum of squares is dominated by the few rows farthest
    from all others, whose residuals are large for every kernel. Here each residual is relative to
    its predictive standard deviation.
    """
    share = weights / jnp.sum(weights)
    return jnp.sqrt(share) * z_scores * jnp.exp(jnp.sum(share * log_std))


def squared_error(
    inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]
) -> Float[Array, " M"]:
    """Return the weighted residuals of all rows, by folds or leave-one-out."""
    residual = fold_residual(inner, folds) if folds else leave_one_out_residual(inner)
    return weights * residual


def predictive_density(
    inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]
) -> Float[Array, " M"]:
    """Return ρ of `amplitude_profiled` for all rows, by folds or leave-one-out."""
    return amplitude_profiled(*standardized_residuals(inner, folds), weights**2)


def marginal_likelihood(
    inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]
) -> Float[Array, " M+1"]:
    """Return ρ with ½ ‖ρ‖² = ½ (bᵀ P⁻¹ b / M) |P|^(1 / M) =: J.

    Up to a factor and a constant, log J is the negative log density of all rows jointly,
    b ~ N(0, s² P), at the optimal s² = bᵀ P⁻¹ b / M. Only the first entry of ρ is nonzero. The
    other entries add to ρ′ᵀρ′ the missing part of the curvature of log J. This is the average of
    observed and expected information (Gilmour, Thompson and Cullis 1995),

        (∂P z)ᵀ P⁻¹ (∂P z) / (M bᵀz) - (zᵀ ∂P z / (M bᵀz))²,    z = P⁻¹ b.

    It requires only products with ∂P. The expected information requires P⁻¹ ∂P.
    """
    del folds, weights
    factor, count = inner.factor, len(inner.weights)
    energy = _quadratic_form(inner)
    value = energy / count * jnp.exp(factor.log_det() / count)
    constant_weights = jax.lax.stop_gradient(inner.weights)
    product = factor.matrix @ constant_weights + factor.diagonal_shift * constant_weights
    constant_product = jax.lax.stop_gradient(product)
    # The first column is zero, with the derivative ∂P z.
    half_solves = jax.lax.stop_gradient(factor).solve_transposed(
        jnp.stack([product - constant_product, constant_product], axis=1)
    )
    change, direction = half_solves.T
    orthogonal = change - direction * (direction @ change) / (direction @ direction)
    scale = jnp.sqrt(jax.lax.stop_gradient(value / (2.0 * energy)))
    return jnp.concatenate([jnp.sqrt(value)[None], scale * orthogonal])


def kernel_flow(
    inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]
) -> Float[Array, " M"]:
    """Return ρ with ‖ρ‖² = 1 - ‖u_c‖² / ‖u‖² for the solution u_c without the rows of one fold.

    This is the loss of kernel flows (Owhadi and Yoo 2019). For the omitted rows F,
    bᵀ P⁻¹ b - b_cᵀ P_cc⁻¹ b_c = z_Fᵀ ((P⁻¹)_FF)⁻¹ z_F.
    """
    del weights
    return standardized_residuals(inner, folds)[0] / jnp.sqrt(_quadratic_form(inner))


def _quadratic_form(inner: DenseSolution) -> Float[Array, ""]:
    """Return bᵀ P⁻¹ b."""
    return inner.norm_squared + inner.factor.diagonal_shift @ inner.weights**2


def _fold_precisions(
    inner: DenseSolution, folds: Folds
) -> Iterator[tuple[Array | np.ndarray, Float[Array, "_ _"]]]:
    """Yield each fold F with (P⁻¹)_FF."""
    for fold in folds:
        columns = (
            jnp.zeros((len(inner.weights), len(fold))).at[fold, jnp.arange(len(fold))].set(1.0)
        )
        yield fold, inner.factor.solve_columns(columns)[fold]


class CollocationResidual(AbstractResidualCriterion[LinearizedCollocation]):
    """Weighted validation residuals ρ(θ).

    **Attributes:**

    - `formula`: map from the solution with all rows to ρ, if there are no validation points.
    """

    formula: Formula = eqx.field(static=True, default=squared_error)

    def residual(self, theta, linearized, solution: CollocationSolution):
        del theta
        weights, validation = linearized.row_weights, linearized.validation_system
        if validation is not None:
            return weights * (solution.validation_values - validation.rhs)
        inner = solution.linear_solution
        assert isinstance(inner, DenseSolution)
        return self.formula(inner, linearized.folds, weights)
