"""Regularizers R(θ) of the outer problem."""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY, to_array
from kernelpde.checking import check_real


class AbstractRegularizer(eqx.Module):
    """Penalty R(θ) = ½ Σ ρ(θ)² on the hyperparameters, defined by its residual ρ."""

    @abc.abstractmethod
    def weighted_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " q"]:
        """Return ρ(θ), which is appended to the outer residual."""

    def at_loss(self, loss: float) -> "AbstractRegularizer":
        """Return the penalty for outer losses of this size, by default the same."""
        del loss
        return self


class L2(AbstractRegularizer):
    """Quadratic penalty R(θ) = ½ w Σ θᵢ²; for a positive hyperparameter θᵢ is its logarithm.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(regularizer=kp.L2(1e-3))
    ```
    """

    weight: float

    def __check_init__(self):
        check_real("L2", "weight", self.weight, at_least=0)

    def weighted_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return jnp.sqrt(self.weight) * theta


class L1(AbstractRegularizer):
    """Absolute-value penalty R(θ) = w Σ |θᵢ|, smoothed to √(θᵢ² + ε²) - ε.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(regularizer=kp.L1(1e-3))
    ```
    """

    weight: float
    smoothing: float = 1e-3

    def __check_init__(self):
        check_real("L1", "weight", self.weight, at_least=0)
        check_real("L1", "smoothing", self.smoothing, greater_than=0)

    def weighted_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        epsilon = self.smoothing
        # (√(θ² + ε²) - ε) as a square: θ² / (√(θ² + ε²) + ε), whose root is smooth at 0.
        return theta * jnp.sqrt(2.0 * self.weight / (jnp.sqrt(theta**2 + epsilon**2) + epsilon))


class LogNormal(AbstractRegularizer):
    """Prior log θᵢ ~ N(log m, s²) on positive hyperparameters: R = ½ Σ ((log θᵢ - log m) / s)².

    **Arguments:**

    - `median`: m.
    - `sigma`: s, in units of the logarithm.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(regularizer=kp.LogNormal(median=0.3, sigma=1.0))
    ```
    """

    median: float
    sigma: float

    def __check_init__(self):
        check_real("LogNormal", "median", self.median, greater_than=0)
        check_real("LogNormal", "sigma", self.sigma, greater_than=0)

    def weighted_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return (theta - jnp.log(self.median)) / self.sigma


class GaussianPrior(AbstractRegularizer):
    """Independent priors θᵢ ~ N(mᵢ, sᵢ²) on the entries of θ: R = ½ Σ ((θᵢ - mᵢ) / sᵢ)².

    **Arguments:**

    - `center`: m.
    - `sigma`: s; infinite for a flat prior.
    """

    center: Float[Array, " p"]
    sigma: Float[Array, " p"]

    def weighted_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return (theta - self.center) / self.sigma


class RelativePrior(AbstractRegularizer):
    """Priors θᵢ ~ N(mᵢ, sᵢ²) beside N residuals of unknown variance: R = (J / N) Σ ((θ - m) / s)².

    The loss J of the last step is N / 2 times an estimate of this variance.

    **Arguments:**

    - `center`, `sigma`: m and s.
    - `num_residuals`: N.
    """

    center: Float[Array, " p"]
    sigma: Float[Array, " p"]
    num_residuals: int

    def weighted_residuals(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """Return the residuals for J = N / 2."""
        return (theta - self.center) / self.sigma

    def at_loss(self, loss: float) -> GaussianPrior:
        scale = np.sqrt(self.num_residuals / (2.0 * max(loss, TINY)))
        return GaussianPrior(self.center, to_array(np.asarray(self.sigma) * scale))
