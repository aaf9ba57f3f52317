"""Known functions with unknown factors, as a kernel."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import function as checked_function
from kernelpde.errors import InputError
from kernelpde.kernels._function import differentiated
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Periods
from kernelpde.kernels._multiindex import MultiIndex, OrderPair
from kernelpde.kernels._parameters import called, log_of_positive


def _row(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


class Features(AbstractKernel):
    """κ(x, y) = Σᵢ wᵢ φᵢ(x) φᵢ(y): known features of a solution, with unknown coefficients.

    Added to another kernel, it models Σᵢ cᵢ φᵢ with unknown cᵢ of variance wᵢ: singular
    functions at corners and cracks, trends. Multiplied by one, as in `Features(lambda x: x[0] *
    (1 - x[0])) * Gaussian(0.3)`, it makes fields vanish exactly where φ does.

    **Arguments:**

    - `function`: takes a point of shape `(d,)` and returns φ there, one number or a vector.
    - `variance`: w, one number, or one for each φ. They are learned.

    On a periodic domain φ has to be periodic by itself; where it is not, it is refused.
    """

    function: Callable[[Array], Any]
    log_variance: Float[Array, "..."]

    def __init__(self, function: Callable[[Array], Any], variance: Numbers = 1.0):
        checked_function("Features", "φ", function, "a function of a point")
        self.function = function
        self.log_variance = log_of_positive("Features", "variance", variance)

    @property
    def variance(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_variance)

    def periodized(self, periods: Periods) -> "Features":
        """Itself, if φ has these periods, as seen at some points."""
        rng = np.random.default_rng(0)
        points = rng.uniform(size=(32, len(periods))) * [p or 1.0 for p in periods]
        values = np.asarray(jax.vmap(self._stacked)(jnp.asarray(points)))
        for i, period in enumerate(periods):
            if period is None:
                continue
            moved = np.asarray(jax.vmap(self._stacked)(jnp.asarray(points).at[:, i].add(period)))
            if not np.allclose(values, moved, rtol=1e-6, atol=1e-9 * np.nanmax(np.abs(values))):
                raise InputError(
                    f"Features: the domain has the period {period:g} in coordinate {i}, but φ "
                    f"does not: φ({_row(points[0])}) = {_row(values[0])}, one period on "
                    f"{_row(moved[0])}. Write φ with sines and cosines of that period."
                )
        return self

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        count = self._count(len(x))
        left = self._derivatives(x, sorted({alpha for alpha, _ in orders}))
        right = self._derivatives(y, sorted({beta for _, beta in orders}))
        factors = jnp.broadcast_to(self.variance, (count,))
        return [
            sum(
                (factors[i] * left[alpha][i] * right[beta][i] for i in range(1, count)),
                start=factors[0] * left[alpha][0] * right[beta][0],
            )
            for alpha, beta in orders
        ]

    def _count(self, dimension: int) -> int:
        point = jax.ShapeDtypeStruct((dimension,), jnp.float64)
        shape = called("Features", "φ", partial(jax.eval_shape, self._stacked), point).shape
        if self.log_variance.ndim and self.log_variance.shape != shape:
            raise InputError(
                f"Features: there are {shape[0]} functions; got {self.log_variance.size} variances."
            )
        return shape[0]

    def _stacked(self, point: Float[Array, " d"]) -> Float[Array, " n"]:
        found = self.function(point)
        values = jnp.stack(found) if isinstance(found, tuple | list) else jnp.asarray(found)
        if values.ndim > 1:
            raise InputError(
                f"Features: φ must be one number or a vector; got shape {values.shape}."
            )
        return jnp.atleast_1d(values)

    def _derivatives(
        self, point: Coordinates, orders: Sequence[MultiIndex]
    ) -> dict[MultiIndex, Array]:
        """∂^α φᵢ at points, i first."""
        columns = jnp.broadcast_arrays(*map(jnp.asarray, point))
        shape = columns[0].shape

        def values(*coordinates: Array) -> Array:
            return jax.vmap(self._stacked, in_axes=-1, out_axes=-1)(jnp.stack(coordinates))

        flat = [column.reshape(-1) for column in columns]
        found = differentiated(values, flat, [(alpha, ()) for alpha in orders])
        return {a: v.reshape(-1, *shape) for a, v in zip(orders, found, strict=True)}
