"""Robust Gauss-Newton iteration for the rows of a level."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from jaxtyping import Float

from kernelpde.arrays import TINY
from kernelpde.boxes._rows import Rows

_RIDGE = 3e-16
"""Ridge of the normal equations per unknown, with columns of norm one. It trades smoothing for
factorizations that fail. From 1e-14 to 1e-18 and with QR errors change by at most a factor of two;
1e-14 costs a factor of three on Burgers."""

_MAX_RIDGE_RAISES = 12
"""Number of factorizations with ridges raised by ten each, after which the matrix is not finite."""

_REFINEMENTS = 2
"""Iterated Tikhonov steps, which remove most of the effect of the ridge. The measured errors are
with two; not tuned."""

_SCALE_EXPONENT = 0.5
"""Exponent of the local size of the operator in the row weights. 0 weights residuals evenly, 1
their sizes in units of the field. On a boundary layer 0 is 14 times less accurate and 1 is 30 times
less accurate, and with 1 Burgers fails."""

_HUBER_THRESHOLD = 1.0
"""Residual in medians above which a row counts less. Without it an unresolved layer raises the
error of the full domain, 300-fold for convection with diffusion 0.001. Thresholds of 0.3 and 3 give
the same errors."""

_INITIAL_DAMPING = 1.0
"""Inverse of the first pseudo-time step, relative to the median size of the operator. Without
pseudo-time steps fronts converge to wrong positions; a larger damping costs steps."""

_DAMPING_DECREASE = 2.0
"""Smallest factor of the pseudo-time step from step to step; it grows with the decrease of the
residual as well. A smaller one costs steps; not tuned."""

_FINAL_DAMPING = 3e-4
"""Damping relative to the first one at which pseudo-transient steps end, after about 12 steps. It
trades steps for the size of the first full step; not tuned."""

_MAX_STEPS = 25
"""Maximum number of steps per level. With 12 the pseudo-transient steps do not end."""

_STEP_TOLERANCE = 1e-2
"""Relative change of the field by a full step that ends a level. Further levels improve the field,
so that a smaller change costs steps without a gain."""

_SLOW_DECREASE = 0.98
"""Ratio of the objective that ends a level: it has converged up to the residual of the level."""

_MIN_PREDICTED_DECREASE = 1e-3
"""Predicted relative decrease of the objective below which a step is omitted; not tuned."""

_ARMIJO = 1e-4
"""Fraction of the predicted decrease that a step must achieve, a customary value."""

_MIN_STEP_FRACTION = 1e-3
"""Fraction of a step at which halving ends; not tuned."""


@dataclass(frozen=True, eq=False)
class Iterate:
    """Coefficients of the basis with the residuals of all rows.

    **Attributes:**

    - `coefficients`: weights of the basis.
    - `residuals`: residuals of all rows.
    - `derivatives`: for each condition, derivatives in its jet values.
    - `scales`: sizes of the linearized operators on their boxes, one per row.
    - `weights`: weights of the rows without downweighting.
    """

    coefficients: Float[np.ndarray, " n"]
    residuals: Float[np.ndarray, " m"]
    derivatives: tuple[Float[np.ndarray, "_ _ _"], ...]
    scales: Float[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]

    def robust_weights(self) -> Float[np.ndarray, " m"]:
        """Return the weights of the rows, smaller for rows with large residuals."""
        sizes = np.abs(self.residuals) / self.scales
        limit = _HUBER_THRESHOLD * np.median(sizes) + TINY
        return self.weights * np.minimum(1.0, np.sqrt(limit / (sizes + TINY)))

    def objective(self, weights: Float[np.ndarray, " m"]) -> float:
        """Return the weighted sum of squared residuals."""
        return float(np.sum((weights * self.residuals) ** 2))


@dataclass(frozen=True, eq=False)
class LevelFit:
    """Result of the iteration on a level.

    **Attributes:**

    - `coefficients`: weights of the basis.
    - `num_steps`: number of factorizations.
    - `is_finite`: whether all residuals are finite.
    """

    coefficients: Float[np.ndarray, " n"]
    num_steps: int
    is_finite: bool


def evaluate(rows: Sequence[Rows], coefficients: Float[np.ndarray, " n"]) -> Iterate:
    """Evaluate all conditions at coefficients."""
    residuals, derivatives, scales, weights = [], [], [], []
    for group in rows:
        values, jacobian = group.linearize(group.jets(coefficients))
        size = operator_scales(jacobian, group.unit_scales)
        residuals.append(values.T.reshape(-1))
        derivatives.append(jacobian)
        scales.append(size.T.reshape(-1))
        typical = np.median(size, axis=0) ** (1.0 - _SCALE_EXPONENT)
        weights.append((group.placed.measures[:, None] / (size**_SCALE_EXPONENT * typical)).T)
    return Iterate(
        coefficients,
        np.concatenate(residuals),
        tuple(derivatives),
        np.concatenate(scales),
        np.concatenate([weight.reshape(-1) for weight in weights]),
    )


def operator_scales(
    jacobian: Float[np.ndarray, "m R T"], unit_scales: Float[np.ndarray, "m T"]
) -> Float[np.ndarray, "m R"]:
    """Return the size of linearized equations on a function that varies by one over a box.

    A residual divided by it is in units of the field.
    """
    sizes = np.einsum("mrt,mt->mr", np.abs(jacobian), unit_scales)
    positive = np.median(sizes, axis=0)
    return np.maximum(sizes, np.where(positive > 0, 1e-9 * positive, 1.0))


def jacobian_matrix(
    rows: Sequence[Rows],
    iterate: Iterate,
    weights: Float[np.ndarray, " m"],
    damping: float = 0.0,
) -> Float[np.ndarray, "m n"]:
    """Return the weighted derivatives of all rows in the coefficients.

    **Arguments:**

    - `damping`: inverse pseudo-time step, relative to the median size of each equation.
    """
    matrix = np.empty((len(iterate.residuals), len(iterate.coefficients)))
    start = 0
    for group, jacobian in zip(rows, iterate.derivatives, strict=True):
        count, num_equations, _ = jacobian.shape
        for equation in range(num_equations):
            selected = slice(start, start + count)
            weighted = jacobian[:, equation] * weights[selected, None]
            target = matrix[selected]
            target[:] = 0.0
            for term, values in enumerate(group.matrices):
                if np.any(weighted[:, term]):
                    target += weighted[:, term, None] * values
            if damping and group.placed.is_interior:
                sign = np.sign(np.sum(jacobian[:, equation] @ group.damping_terms))
                size = sign * damping * np.median(iterate.scales[selected])
                target += (size * weights[selected, None]) * group.values
            start += count
    return matrix


def least_squares(
    matrix: Float[np.ndarray, "m n"], rhs: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " n"]:
    """Return a regularized least-squares solution by normal equations; NaN if there is none.

    Scales the columns of the matrix to norm one.
    """
    norms = np.maximum(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)), TINY)
    matrix /= norms
    (syrk,) = scipy.linalg.get_blas_funcs(("syrk",), (matrix,))
    (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (matrix,))
    normal = syrk(1.0, matrix.T)
    ridge = _RIDGE * len(norms)
    for _ in range(_MAX_RIDGE_RAISES):
        shifted = normal.copy(order="F")
        shifted[np.diag_indices_from(shifted)] += ridge
        factor, info = potrf(shifted, lower=0, clean=0, overwrite_a=1)
        if info == 0:
            break
        ridge *= 10.0
    else:
        return np.full(len(norms), np.nan)
    solution = np.zeros(len(norms))
    for _ in range(1 + _REFINEMENTS):
        gradient = matrix.T @ (rhs - matrix @ solution)
        solution = solution + scipy.linalg.cho_solve((factor, False), gradient, check_finite=False)
    return solution / norms


def project(
    rows: Sequence[Rows], values: Sequence[Float[np.ndarray, " _"]]
) -> Float[np.ndarray, " n"]:
    """Return the coefficients that fit the values of a field at the points of all rows."""
    measures = np.concatenate([group.placed.measures for group in rows])
    matrix = np.concatenate([group.values for group in rows]) * measures[:, None]
    return least_squares(matrix, measures * np.concatenate(values))


def fit(
    rows: Sequence[Rows], coefficients: Float[np.ndarray, " n"], is_damped: bool, is_start: bool
) -> LevelFit:
    """Iterate until the field changes by less than the tolerance.

    **Arguments:**

    - `rows`: rows of all conditions.
    - `coefficients`: initial iterate.
    - `is_damped`: whether the iteration starts with pseudo-transient steps.
    - `is_start`: whether the initial iterate carries information, so that the size of its residuals
      determines weights.
    """
    current = evaluate(rows, coefficients)
    if not np.isfinite(current.residuals).all():
        return LevelFit(coefficients, 0, False)
    damping, norm = (_INITIAL_DAMPING if is_damped else 0.0), None
    for step in range(1, _MAX_STEPS + 1):
        weights = current.robust_weights() if step > 1 or is_start else current.weights
        objective = current.objective(weights)
        if damping and norm is not None:
            damping /= max(_DAMPING_DECREASE, norm / max(np.sqrt(objective), TINY))
        norm = np.sqrt(objective)
        is_transient = damping > _FINAL_DAMPING * _INITIAL_DAMPING
        matrix = jacobian_matrix(rows, current, weights, damping if is_transient else 0.0)
        direction, decrease = _direction(matrix, weights * current.residuals)
        if not is_transient and step > 1 and decrease < _MIN_PREDICTED_DECREASE * objective:
            return LevelFit(current.coefficients, step, True)
        required = -np.inf if is_transient else _ARMIJO * decrease
        trial, fraction = _line_search(rows, current, direction, weights, required)
        if not np.isfinite(trial.residuals).all():
            return LevelFit(current.coefficients, step, False)
        change = _relative_change(rows, current, trial)
        is_slow = trial.objective(weights) > _SLOW_DECREASE * objective
        has_converged = fraction == 1.0 and (change < _STEP_TOLERANCE or is_slow)
        current = trial
        if (has_converged and not is_transient) or fraction < _MIN_STEP_FRACTION:
            return LevelFit(current.coefficients, step, True)
    return LevelFit(current.coefficients, _MAX_STEPS, True)


def _direction(
    matrix: Float[np.ndarray, "m n"], residuals: Float[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " n"], float]:
    """Return the Gauss-Newton step and the decrease of the objective that it predicts."""
    norms = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    step = least_squares(matrix, -residuals)
    predicted = residuals + matrix @ (norms * step)
    return step, float(np.sum(residuals**2) - np.sum(predicted**2))


def _line_search(
    rows: Sequence[Rows],
    current: Iterate,
    direction: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " m"],
    required: float,
) -> tuple[Iterate, float]:
    """Halve a step until the objective decreases enough; return the iterate and the fraction."""
    objective, fraction = current.objective(weights), 1.0
    while True:
        trial = evaluate(rows, current.coefficients + fraction * direction)
        value = trial.objective(weights)
        is_enough = np.isfinite(value) and value <= objective - fraction * required
        if is_enough or fraction < _MIN_STEP_FRACTION:
            return trial, fraction
        fraction /= 2.0


def _relative_change(rows: Sequence[Rows], current: Iterate, trial: Iterate) -> float:
    """Return the change of the field relative to its size, at the interior rows."""
    interior = [group.values for group in rows if group.placed.is_interior]
    step = trial.coefficients - current.coefficients
    change = sum(np.sum((values @ step) ** 2) for values in interior)
    size = sum(np.sum((values @ trial.coefficients) ** 2) for values in interior)
    return float(np.sqrt(change / max(size, TINY)))
