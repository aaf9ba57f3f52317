"""Kernel regression as an inner problem."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.bilevel._protocol import AbstractResidualCriterion
from kernelpde.bilevel.problems._dense import AbstractDenseLinearized, AbstractDenseProblem

Kernel: TypeAlias = Callable[
    [Float[Array, " q"], Float[Array, "m d"], Float[Array, "n d"]], Float[Array, "m n"]
]
"""Map from parameters and two sets of inputs to a matrix of covariances."""


def gaussian_kernel(
    log_lengthscales: Float[Array, " d"], left: Float[Array, "m d"], right: Float[Array, "n d"]
) -> Float[Array, "m n"]:
    """Return exp(-½ Σᵢ (xᵢ - yᵢ)² / ℓᵢ²) for all pairs of inputs."""
    difference = (left[:, None] - right[None]) * jnp.exp(-log_lengthscales)
    return jnp.exp(-0.5 * jnp.sum(difference**2, axis=-1))


class RegressionSolution(NamedTuple):
    """Weights z = P⁻¹ y, the lower Cholesky factor of P, and the values Π(θ)(xᵢ)."""

    weights: Float[Array, " n"]
    factor: Float[Array, "n n"]
    fitted: Float[Array, " n"]


class LinearizedRegression(AbstractDenseLinearized):
    """Kernel regression; it is linear, so its linearization is exact."""

    inputs: Float[Array, "n d"]
    targets: Float[Array, " n"]
    kernel: Kernel = eqx.field(static=True)

    prefers_forward: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride]

    def solve(
        self, theta: Float[Array, " p"], cache_intermediates: bool = False
    ) -> RegressionSolution:
        """Return Π(θ) = κ(·, x) P⁻¹ y with P = κ(x, x) + σ² I."""
        del cache_intermediates
        noise = jnp.exp(2.0 * theta[-1])
        matrix = self.kernel(theta[:-1], self.inputs, self.inputs)
        factor = jnp.linalg.cholesky(matrix + noise * jnp.eye(len(self.targets)))
        weights = cho_solve((factor, True), self.targets)
        return RegressionSolution(weights, factor, self.targets - noise * weights)


class KernelRegression(AbstractDenseProblem[LinearizedRegression]):
    """Kernel regression min_u ½ ‖u‖²_θ + ½ Σᵢ (u(xᵢ) - yᵢ)² / σ².

    **Arguments:**

    - `inputs`, `targets`: xᵢ and yᵢ.
    - `kernel`: covariance function of amplitude 1. θ consists of its parameters and of log σ, the
      logarithm of the noise relative to the amplitude.

    **Example:**

    ```python
    >>> x = np.random.default_rng(0).random((40, 1))
    >>> problem = kp.bilevel.problems.KernelRegression(x, np.sin(6 * x[:, 0]))
    >>> criterion = kp.bilevel.problems.CrossValidation()
    >>> kp.bilevel.minimize(criterion, problem, np.log([0.5, 0.1])).converged
    True
    ```
    """

    inputs: Float[Array, "n d"] = eqx.field(converter=to_array)
    targets: Float[Array, " n"] = eqx.field(converter=to_array)
    kernel: Kernel = eqx.field(static=True, default=gaussian_kernel)

    def init(self) -> Float[Array, " n"]:
        return jnp.zeros_like(self.targets)

    def linearize(self, theta: np.ndarray, state: Float[Array, " n"]) -> LinearizedRegression:
        del theta, state
        return LinearizedRegression(self.inputs, self.targets, self.kernel)

    def values(self, solution: RegressionSolution) -> Float[Array, " n"]:
        return solution.fitted

    def predict(
        self, theta: np.ndarray, inputs: np.ndarray
    ) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
        """Return mean and standard deviation of new data, at the amplitude of leave-one-out."""
        parameters = to_array(theta)
        weights, factor, _ = self.linearize(theta, self.init()).solve(parameters)
        cross = self.kernel(parameters[:-1], self.inputs, to_array(inputs))
        whitened = solve_triangular(factor, cross, lower=True)
        noise = jnp.exp(2.0 * parameters[-1])
        variance = 1.0 + noise - jnp.sum(whitened**2, axis=0)
        amplitude = jnp.mean(weights**2 / _inverse_diagonal(factor))
        return cross.T @ weights, jnp.sqrt(amplitude * jnp.maximum(variance, noise))


class CrossValidation(AbstractResidualCriterion[LinearizedRegression]):
    """Cross-validation from one factorization, leave-one-out by default.

    Let z = P⁻¹ y and (P⁻¹)_FF = L Lᵀ for a fold F. Its data, predicted from all others, have the
    residual ((P⁻¹)_FF)⁻¹ z_F and the covariance ((P⁻¹)_FF)⁻¹. The standardized residuals
    t_F = L⁻¹ z_F and log σ_F = -log diag L give the predictive density,

        J = 1/(2n) Σᵢ tᵢ² exp(2/n Σᵢ log σᵢ),

    whose logarithm is the negative log density per datum at the best amplitude, up to a factor and
    a constant.

    **Arguments:**

    - `folds`: indices of the data of each fold; `None` for leave-one-out.
    - `standardized`: whether to use the predictive density. Otherwise J is the mean of the squared
      residuals.
    """

    folds: tuple[tuple[int, ...], ...] | None = None
    standardized: bool = True

    def residual(self, theta, linearized, solution: RegressionSolution):
        del theta, linearized
        if self.folds is None:
            scale = jnp.sqrt(_inverse_diagonal(solution.factor))
            scores, log_std = solution.weights / scale, -jnp.log(scale)
            residuals = scores / scale
        else:
            scores, log_std, residuals = self._by_folds(solution)
        if self.standardized:
            residuals = scores * jnp.exp(jnp.mean(log_std))
        return residuals / jnp.sqrt(len(residuals))

    def _by_folds(self, solution: RegressionSolution):
        """Return standardized residuals, log standard deviations and residuals of all folds."""
        assert self.folds is not None
        inverse = cho_solve((solution.factor, True), jnp.eye(len(solution.weights)))
        columns = []
        for fold in map(np.array, self.folds):
            root = jnp.linalg.cholesky(inverse[np.ix_(fold, fold)])
            scores = solve_triangular(root, solution.weights[fold], lower=True)
            residuals = solve_triangular(root.T, scores)
            columns.append(jnp.stack([scores, -jnp.log(jnp.diagonal(root)), residuals]))
        return jnp.concatenate(columns, axis=1)


def _inverse_diagonal(factor: Float[Array, "n n"]) -> Float[Array, " n"]:
    """Return the diagonal of P⁻¹ from the Cholesky factor of P."""
    inverse = solve_triangular(factor, jnp.eye(len(factor)), lower=True)
    return jnp.sum(inverse**2, axis=0)
