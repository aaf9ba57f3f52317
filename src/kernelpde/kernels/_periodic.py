"""The periodic kernel, a product of one factor per coordinate."""

from collections.abc import Sequence
from math import comb, pi

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import numbers
from kernelpde.errors import InputError
from kernelpde.kernels._circle import half_angle
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Periods
from kernelpde.kernels._multiindex import OrderPair, plus
from kernelpde.kernels._parameters import log_of_positive, per_coordinate


class Periodic(AbstractKernel):
    """κ(x, y) = ∏ᵢ exp(-2 sin²(π (xᵢ - yᵢ) / Pᵢ) / ℓᵢ²).

    **Arguments:**

    - `lengthscale`: ℓ, one number or one per coordinate, relative to the radius of the circle onto
      which a period is wound.
    - `period`: P, one number or one per coordinate. It belongs to the domain and is not learned.

    **Example:**

    ```python
    >>> around = kp.Periodic(lengthscale=0.8, period=2.0)
    ```
    """

    log_lengthscale: Float[Array, "..."]
    period: float | tuple[float, ...] = eqx.field(static=True)

    def __init__(self, lengthscale: Numbers, period: float | tuple[float, ...]):
        self.log_lengthscale = log_of_positive("Periodic", "lengthscale", lengthscale)
        periods = numbers("Periodic", "period", period)
        if periods.ndim > 1 or not periods.size:
            raise InputError(
                f"Periodic: period must be a number or one per coordinate; got shape "
                f"{periods.shape}."
            )
        if not (np.isfinite(periods).all() and (periods > 0).all()):
            raise InputError(f"Periodic: period must be positive and finite; got {period}.")
        self.period = tuple(periods.tolist()) if periods.ndim else float(periods)

    @property
    def lengthscale(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_lengthscale)

    def periodized(self, periods: Periods) -> "Periodic":
        own = np.broadcast_to(np.asarray(self.period, dtype=float), len(periods))
        if any(p is not None and p != q for p, q in zip(periods, own, strict=True)):
            raise InputError(
                f"Periodic: its period {self.period} is not that of the domain, {periods}."
            )
        return self

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        dimension = len(x)
        strengths = per_coordinate(
            "Periodic", "lengthscale", jnp.exp(-2.0 * self.log_lengthscale), dimension
        )
        periods = self.period if isinstance(self.period, tuple) else (self.period,) * dimension
        if len(periods) != dimension:
            raise InputError(
                f"Periodic: period has {len(periods)} entries but the points have {dimension} "
                "coordinates. Give one per coordinate, or one for all."
            )
        wanted = {plus(alpha, beta) for alpha, beta in orders}
        factors = [
            _circle(x[i], y[i], strengths[i], periods[i], max(gamma[i] for gamma in wanted))
            for i in range(dimension)
        ]

        def derivative(gamma):
            value = factors[0][gamma[0]]
            for factor, order in zip(factors[1:], gamma[1:], strict=True):
                value = value * factor[order]
            return value

        return [
            (-1.0 if sum(beta) % 2 else 1.0) * derivative(plus(alpha, beta))
            for alpha, beta in orders
        ]


def _circle(x: Array, y: Array, strength: Array, period: float, highest: int) -> list[Array]:
    """g = exp(h) and its derivatives in d = x - y, h = c (cos ωd - 1), by g' = h' g and Leibniz."""
    sine, cosine = half_angle(x, y, period)
    sine_full, cosine_full = 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine
    cycle = [cosine_full, -sine_full, -cosine_full, sine_full]
    omega = 2.0 * pi / period
    h = [strength * omega**k * cycle[k % 4] for k in range(highest + 1)]
    g = [jnp.exp(-2.0 * strength * sine * sine)]
    for n in range(highest):
        g.append(sum((comb(n, k) * h[k + 1] * g[n - k] for k in range(n + 1)), start=jnp.zeros(())))
    return g
