"""Kernels of linear combinations of given functions with unknown coefficients."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers, agree
from kernelpde.checking import check_callable
from kernelpde.errors import InputError
from kernelpde.kernels._function import differentiate
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials, Periods
from kernelpde.kernels._multiindex import MultiIndex, OrderPair
from kernelpde.kernels._parameters import call_user_function, log_positive, trace_user_function


def _format_row(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def sum_products(left: Float[Array, " n *_"], right: Float[Array, " n *_"]) -> Array:
    """Return Σᵢ φᵢ(x) φᵢ(y), as a matrix product if x are rows and y are columns."""
    if left.ndim == right.ndim == 3 and left.shape[2] == right.shape[1] == 1:
        return left[:, :, 0].T @ right[:, 0, :]
    return jnp.sum(left * right, axis=0)


class FeatureKernel(AbstractKernel):
    """κ(x, y) = Σᵢ wᵢ φᵢ(x) φᵢ(y): known features of a solution, with unknown coefficients.

    Add it to another kernel to model Σᵢ cᵢ φᵢ with unknown cᵢ of variance wᵢ, for example singular
    functions at corners and cracks, or trends. Multiply a kernel by it to make fields vanish
    exactly where φ does, as in `FeatureKernel(lambda x: x[0] * (1 - x[0])) * Gaussian(0.3)`.

    **Arguments:**

    - `function`: function that maps a point of shape `(d,)` to φ, a number or a vector.
    - `variance`: w, one number, or one for each φ. Trainable.

    On a periodic domain φ must be periodic.
    """

    function: Callable[[Array], Any]
    log_variance: Float[Array, "..."]

    def __init__(self, function: Callable[[Array], Any], variance: Numbers = 1.0):
        check_callable("FeatureKernel", "φ", function, "a function of a point")
        self.function = function
        self.log_variance = log_positive("FeatureKernel", "variance", variance)

    @property
    def variance(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_variance)

    def bind_coordinates(self, names: Sequence[str]) -> "FeatureKernel":
        return trace_user_function(self, "function", len(names))

    def make_periodic(self, periods: Periods) -> "FeatureKernel":
        """Return this kernel, after a check of the periods of φ at random points."""
        rng = np.random.default_rng(0)
        points = rng.uniform(size=(32, len(periods))) * [p or 1.0 for p in periods]
        values = np.asarray(jax.vmap(self._stacked)(jnp.asarray(points)))
        for i, period in enumerate(periods):
            if period is None:
                continue
            shifted = np.asarray(jax.vmap(self._stacked)(jnp.asarray(points).at[:, i].add(period)))
            if not agree(values, shifted):
                raise InputError(
                    f"FeatureKernel: the domain has the period {period:g} in coordinate {i}, but φ "
                    f"does not: φ({_format_row(points[0])}) = {_format_row(values[0])}, and one "
                    f"period further {_format_row(shifted[0])}. Write φ with sines and cosines of "
                    "that period."
                )
        return self

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        count = self._count(len(x))
        left = self._derivatives(x, sorted({alpha for alpha, _ in orders}))
        right = self._derivatives(y, sorted({beta for _, beta in orders}))
        factors = jnp.broadcast_to(self.variance, (count,))
        left = {alpha: (factors * values.T).T for alpha, values in left.items()}
        return [sum_products(left[alpha], right[beta]) for alpha, beta in orders]

    def _count(self, dimension: int) -> int:
        point = jax.ShapeDtypeStruct((dimension,), jnp.float64)
        shape = call_user_function(
            "FeatureKernel", "φ", partial(jax.eval_shape, self._stacked), point
        ).shape
        if self.log_variance.ndim and self.log_variance.shape != shape:
            raise InputError(
                f"FeatureKernel: there are {shape[0]} functions; got {self.log_variance.size} "
                "variances. Give one variance, or one per function."
            )
        return shape[0]

    def _stacked(self, point: Float[Array, " d"]) -> Float[Array, " n"]:
        values = self.function(point)
        values = jnp.stack(values) if isinstance(values, tuple | list) else jnp.asarray(values)
        if values.ndim > 1:
            raise InputError(
                f"FeatureKernel: φ must be one number or a vector; got shape {values.shape}."
            )
        return jnp.atleast_1d(values)

    def _derivatives(
        self, point: Coordinates, orders: Sequence[MultiIndex]
    ) -> dict[MultiIndex, Array]:
        """Return ∂^α φᵢ at points, with i as the first axis."""
        columns = jnp.broadcast_arrays(*map(jnp.asarray, point))
        shape = columns[0].shape

        def values(*coordinates: Array) -> Array:
            return jax.vmap(self._stacked, in_axes=-1, out_axes=-1)(jnp.stack(coordinates))

        flat = [column.reshape(-1) for column in columns]
        partials = differentiate(values, flat, [(alpha, ()) for alpha in orders])
        return {a: v.reshape(-1, *shape) for a, v in zip(orders, partials, strict=True)}
