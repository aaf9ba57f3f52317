"""The periodic kernel."""

import operator
from collections.abc import Iterator, Sequence
from functools import reduce
from math import comb, pi

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import to_float_array
from kernelpde.errors import InputError
from kernelpde.kernels._circle import angle_difference
from kernelpde.kernels._kernel import (
    AbstractKernel,
    Coordinates,
    CoordinateSet,
    Partials,
    Periods,
)
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, add
from kernelpde.kernels._parameters import log_positive, per_coordinate


class Periodic(AbstractKernel):
    """κ(x, y) = ∏ᵢ exp(-2 sin²(π (xᵢ - yᵢ) / Pᵢ) / ℓᵢ²).

    **Arguments:**

    - `lengthscale`: ℓ, one number or one per coordinate, relative to the radius of the circle that
      represents a period.
    - `period`: P, one number or one per coordinate. Fixed.

    **Example:**

    ```python
    >>> around = kp.Periodic(lengthscale=0.8, period=2.0)
    ```
    """

    log_lengthscale: Float[Array, "..."]
    period: float | tuple[float, ...] = eqx.field(static=True)

    def __init__(self, lengthscale: Numbers, period: float | tuple[float, ...]):
        self.log_lengthscale = log_positive("Periodic", "lengthscale", lengthscale)
        periods = to_float_array("Periodic", "period", period)
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

    @property
    def is_stationary(self) -> bool:
        return True

    def make_periodic(self, periods: Periods) -> "Periodic":
        kernel_periods = self.periods_in(len(periods))
        if any(p not in (None, kernel_periods[i]) for i, p in enumerate(periods)):
            raise InputError(
                f"Periodic: period must be the period of the domain, {periods}; got {self.period}."
            )
        return self

    def parameters_in(self, coordinates: tuple[int, ...]) -> Iterator[tuple[Array, CoordinateSet]]:
        del coordinates
        # The lengthscale is relative to the radius of a circle.
        yield from ((leaf, 2.0 * pi) for leaf in jax.tree.leaves(self))

    def periods_in(self, dimension: int) -> tuple[float, ...]:
        periods = self.period if isinstance(self.period, tuple) else (self.period,) * dimension
        if len(periods) != dimension:
            raise InputError(
                f"Periodic: period has {len(periods)} entries but the points have {dimension} "
                "coordinates. Give one per coordinate, or one for all."
            )
        return periods

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        dimension = len(x)
        strengths = per_coordinate(
            "Periodic", "lengthscale", jnp.exp(-2.0 * self.log_lengthscale), dimension
        )
        totals = {add(alpha, beta) for alpha, beta in orders}
        factors = [
            _circle(x[i], y[i], strengths[i], period, max(gamma[i] for gamma in totals))
            for i, period in enumerate(self.periods_in(dimension))
        ]

        def derivative(gamma: MultiIndex) -> Array:
            return reduce(operator.mul, map(operator.getitem, factors, gamma))

        return [
            (-1.0 if sum(beta) % 2 else 1.0) * derivative(add(alpha, beta))
            for alpha, beta in orders
        ]


def _circle(x: Array, y: Array, strength: Array, period: float, max_order: int) -> list[Array]:
    """Return g = exp(h) and its derivatives in d = x - y, for h = c (cos ωd - 1).

    The derivatives follow from g' = h' g and the product rule.
    """
    half_sine, cosines = angle_difference(x, y, period)
    omega = 2.0 * pi / period
    h = [strength * omega**k * cosines[k % 4] for k in range(max_order + 1)]
    g = [jnp.exp(-2.0 * strength * half_sine * half_sine)]
    for n in range(max_order):
        g.append(sum((comb(n, k) * h[k + 1] * g[n - k] for k in range(n + 1)), start=jnp.zeros(())))
    return g
