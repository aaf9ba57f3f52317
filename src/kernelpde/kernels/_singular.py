"""Kernels of singular functions at corners of planar domains, with unknown coefficients."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.kernels._features import sum_products
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials
from kernelpde.kernels._multiindex import MultiIndex, OrderPair

_MIN_SQUARED_RADIUS = 1e-60
"""Lower bound of r², so that functions and their derivatives are finite at the corner itself."""


@dataclass(frozen=True)
class SingularFunction:
    """φ(x) = Re(C z^λ) or Re(C z^λ log z) with z = a·(x - p), near a corner p of a planar domain.

    Both are harmonic in the coordinates (Re z, Im z), in which the principal part of the equation
    at p is the Laplacian.

    **Attributes:**

    - `corner`: p.
    - `axes`: a, a complex number for each coordinate. The first side of the corner is mapped to the
      positive real axis.
    - `angle`: interior angle ω between the mapped sides. The branch cut is opposite to its
      bisector.
    - `exponent`: λ.
    - `phase`: argument of C, whose modulus is 1.
    - `has_log`: whether the logarithm is a factor.
    """

    corner: tuple[float, float]
    axes: tuple[complex, complex]
    angle: float
    exponent: float
    phase: float
    has_log: bool


class SingularKernel(AbstractKernel):
    """κ(x, y) = Σᵢ φᵢ(x) φᵢ(y) with the singular functions φᵢ of corners.

    Solutions of elliptic equations behave like Σ cᵢ φᵢ near corners, with unknown cᵢ, and are
    smooth besides. `add_corner_functions` adds these kernels to the kernels of a problem.

    **Arguments:**

    - `functions`: φᵢ.
    """

    functions: tuple[SingularFunction, ...] = eqx.field(static=True)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        left = self.derivatives(x, {alpha for alpha, _ in orders})
        right = self.derivatives(y, {beta for _, beta in orders})
        return [sum_products(left[alpha], right[beta]) for alpha, beta in orders]

    def derivatives(
        self, point: Coordinates, orders: Iterable[MultiIndex]
    ) -> dict[MultiIndex, Float[Array, " n *_"]]:
        """Return ∂^α φᵢ at points, with i as the first axis.

        The derivative of z^μ (c + d log z) is z^(μ-1) (μ c + d + μ d log z).
        """
        corners = np.array([function.corner for function in self.functions])
        axes = np.array([function.axes for function in self.functions])
        angles, exponents, phases, logs = np.array(
            [(f.angle, f.exponent, f.phase, f.has_log) for f in self.functions], dtype=float
        ).T
        columns = jnp.broadcast_arrays(*map(jnp.asarray, point))
        functions = (-1,) + (1,) * columns[0].ndim

        def per_function(values: np.ndarray) -> np.ndarray:
            return values.reshape(functions)

        # Angles between ω/2 - π and ω/2 + π: the bisector is rotated onto the positive real axis.
        rotated = axes * np.exp(-0.5j * angles)[:, None]
        real, imag = (
            sum(
                per_function(weights[:, i]) * (column - per_function(corners[:, i]))
                for i, column in enumerate(columns)
            )
            for weights in (rotated.real, rotated.imag)
        )
        theta = per_function(angles / 2) + jnp.arctan2(imag, real)
        log_radius = 0.5 * jnp.log(jnp.maximum(real**2 + imag**2, _MIN_SQUARED_RADIUS))
        derivatives = {}
        for order in orders:
            power, constant, log = exponents, 1.0 - logs, logs
            for _ in range(sum(order)):
                power, constant, log = power - 1.0, power * constant + log, power * log
            factor = np.prod(axes**order, axis=1) * np.exp(1j * phases)
            argument = per_function(power) * theta + per_function(np.angle(factor))
            amplitude = per_function(np.abs(factor)) * jnp.exp(per_function(power) * log_radius)
            real_part = per_function(constant) + per_function(log) * log_radius
            derivatives[order] = amplitude * (
                real_part * jnp.cos(argument) - per_function(log) * theta * jnp.sin(argument)
            )
        return derivatives

    def __repr__(self) -> str:
        corners = dict.fromkeys(function.corner for function in self.functions)
        return f"SingularKernel({len(self.functions)} functions at {len(corners)} corners)"
