"""Network of two layers for -u'' + u³ = f, with the last layer as the inner variable."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.bilevel._protocol import AbstractResidualCriterion
from kernelpde.bilevel.problems._dense import AbstractDenseLinearized, AbstractDenseProblem

Function = Callable[[Float[Array, ""]], Float[Array, ""]]


def features(theta: Float[Array, " p"], x: Float[Array, " n"]) -> Float[Array, "2 n w"]:
    """Return φⱼ(xᵢ) and φⱼ''(xᵢ) of φⱼ(x) = x (1 - x) tanh(wⱼ x + bⱼ), with θ = (w, b)."""
    slopes, offsets = jnp.split(theta, 2)
    t = jnp.tanh(slopes * x[:, None] + offsets)
    bubble, first = (x * (1.0 - x))[:, None], slopes * (1.0 - t**2)
    second = -2.0 * t * slopes * first
    return jnp.stack([bubble * t, bubble * second + 2.0 * (1.0 - 2.0 * x)[:, None] * first - 2 * t])


class NetworkSolution(NamedTuple):
    """Last layer c, values u(xᵢ) at all points and linearized residuals at validation points."""

    coefficients: Float[Array, " w"]
    values: Float[Array, " n"]
    validation_residual: Float[Array, " m"]


class LinearizedNetwork(AbstractDenseLinearized):
    """The equation linearized about uᵏ: -u'' + 3 (uᵏ)² u = f + 2 (uᵏ)³.

    **Attributes:**

    - `points`: training points and, after these, validation points.
    - `values`: uᵏ at these points.
    - `source`: f at these points.
    - `num_training`: number of training points.
    - `ridge`: δ.
    """

    points: Float[Array, " n"]
    values: Float[Array, " n"]
    source: Float[Array, " n"]
    num_training: int
    ridge: float

    prefers_forward: ClassVar[bool] = False  # pyright: ignore[reportIncompatibleMethodOverride]

    def solve(
        self, theta: Float[Array, " p"], cache_intermediates: bool = False
    ) -> NetworkSolution:
        """Return Π_k(θ), the minimizer of ½ δ ‖c‖² + ½ ‖A c - b‖² / n, by a QR decomposition."""
        del cache_intermediates
        phi, phi_xx = features(theta, self.points)
        matrix = -phi_xx + 3.0 * (self.values**2)[:, None] * phi
        rhs = self.source + 2.0 * self.values**3
        n, width = self.num_training, phi.shape[1]
        scale = jnp.sqrt(1.0 / n)
        stacked = jnp.concatenate([scale * matrix[:n], jnp.sqrt(self.ridge) * jnp.eye(width)])
        q, r = jnp.linalg.qr(stacked)
        coefficients = solve_triangular(r, q[:n].T @ (scale * rhs[:n]))
        return NetworkSolution(
            coefficients, phi @ coefficients, matrix[n:] @ coefficients - rhs[n:]
        )


class Network(AbstractDenseProblem[LinearizedNetwork]):
    """Network u(x) = Σⱼ cⱼ x (1 - x) tanh(wⱼ x + bⱼ) for -u'' + u³ = f, u(0) = u(1) = 0.

    The inner variable is the last layer c, with ‖u‖² = δ ‖c‖² and R(u) = (-u'' + u³ - f) / √n at n
    training points. The hyperparameters θ = (w, b) are the first layer.

    **Arguments:**

    - `source`: f.
    - `num_training`, `num_validation`: numbers of points, equally spaced inside the interval.
    - `ridge`: δ.
    """

    source: Function
    num_training: int = 100
    num_validation: int = 99
    ridge: float = 1e-10

    @property
    def points(self) -> np.ndarray:
        """Training points and, after these, validation points."""
        return np.concatenate(
            [(np.arange(n) + 0.5) / n for n in (self.num_training, self.num_validation)]
        )

    def first_layer(self, width: int, seed: int) -> np.ndarray:
        """Return random slopes, and offsets so that the transitions are inside the interval."""
        rng = np.random.default_rng(seed)
        slopes = width * rng.uniform(-1.0, 1.0, width)
        return np.concatenate([slopes, -slopes * rng.uniform(0.0, 1.0, width)])

    def init(self) -> Float[Array, " n"]:
        return jnp.zeros(len(self.points))

    def linearize(self, theta: np.ndarray, state: Float[Array, " n"]) -> LinearizedNetwork:
        del theta
        points = to_array(self.points)
        source = jax.vmap(self.source)(points)
        return LinearizedNetwork(points, state, source, self.num_training, self.ridge)

    def values(self, solution: NetworkSolution) -> Float[Array, " n"]:
        return solution.values

    def evaluate(
        self, theta: np.ndarray, state: Float[Array, " n"], x: np.ndarray
    ) -> Float[Array, " m"]:
        """Return Π(θ)(x) for the linearization about a state."""
        solution = self.linearize(theta, state).solve(to_array(theta))
        return features(to_array(theta), to_array(x))[0] @ solution.coefficients


class HeldOutResidual(AbstractResidualCriterion[LinearizedNetwork]):
    """Residuals at validation points, R_val(u) = (-u'' + u³ - f) / √m, linearized about uᵏ."""

    def residual(self, theta, linearized, solution: NetworkSolution):
        del theta, linearized
        residual = solution.validation_residual
        return residual / jnp.sqrt(len(residual))
