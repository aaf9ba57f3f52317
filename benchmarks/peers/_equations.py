"""The equations of a problem for methods that are linear in their unknowns, or have parameters.

A residual F(x, j₁, ..., j_T) is known to kernelpde as a function of the derivatives jₜ that occur
in it. Whatever can differentiate its own functions can be put into it: the equations and the points
that a peer gets are those that kernelpde gets, line by line.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.gallery import Example

Function = Callable[[jax.Array], jax.Array]
"""From a point to the values of all fields."""

Network = Callable[[jax.Array, jax.Array], jax.Array]
"""From parameters and a point to the values of all fields."""

BOUNDARY = 100.0
"""Boundary and initial conditions count so much more than equations inside of the domain, as usual
for least squares with features; kernelpde has no such number."""


class Rows:
    """All rows of a problem at given points.

    **Arguments:**

    - `example`: the problem.
    - `points`: how many of each condition.
    - `seed`: of the points.
    """

    def __init__(self, example: Example, points: dict[str, int], seed: int):
        self.problem = example.problem
        self.blocks = self.problem.collocate(points, seed=seed, sampling="halton")
        self.fields = len(self.problem.fields)
        everywhere = np.concatenate([block.points for block in self.blocks])
        self.bounds = np.stack([everywhere.min(0), everywhere.max(0)], axis=1)
        inside = max(max(t.order for t in r.terms) for r in self.problem.residuals)
        self.weights = []
        for residual, block in zip(self.problem.residuals, self.blocks, strict=True):
            low = max(term.order for term in residual.terms) < inside
            self.weights.append((BOUNDARY if low else 1.0) / np.sqrt(block.rows_per_equation))

    def linearized(self, index: int, entries: Sequence[jax.Array]) -> tuple[Any, Any]:
        """Residuals of a condition and their slopes in the entries, for entries of shape (n,)."""
        residual, block = self.problem.residuals[index], self.blocks[index]
        axes = (0, None if block.normals is None else 0, 0, 0)
        return jax.vmap(residual.value_and_jacobian, in_axes=axes)(
            block.points, block.normals, block.data, tuple(entries)
        )

    def residuals(self, network: Network, parameters: jax.Array) -> tuple[jax.Array, jax.Array]:
        """All rows, weighted, and their derivatives in the parameters, point by point."""
        values, slopes = [], []
        for residual, block, weight in zip(
            self.problem.residuals, self.blocks, self.weights, strict=True
        ):

            def row(p: jax.Array, point: Any, normal: Any, datum: Any, residual=residual) -> Any:
                entries = [along(lambda x: network(p, x), t)(point) for t in residual.terms]
                found = residual.value_and_jacobian(point, normal, datum, entries)[0]
                return found, found

            axes = (None, 0, None if block.normals is None else 0, 0)
            every = jax.vmap(jax.jacrev(row, has_aux=True), in_axes=axes)
            slope, value = every(parameters, block.points, block.normals, block.data)
            values.append(weight * value.reshape(-1))
            slopes.append(weight * slope.reshape(-1, len(parameters)))
        return jnp.concatenate(values), jnp.concatenate(slopes)


def along(function: Function, term: Any) -> Function:
    """The entry of a jet of a function, as a function of the point."""

    def entry(x: jax.Array) -> jax.Array:
        return sum(
            (derivative(function, term.field, order)(x) for order in term.orders), jnp.zeros(())
        )

    return entry


def derivative(function: Function, field: int, order: Sequence[int]) -> Function:
    def value(x: jax.Array) -> jax.Array:
        return function(x)[field]

    found = value
    for axis, times in enumerate(order):
        for _ in range(times):
            found = _slope(found, axis)
    return found


def _slope(function: Function, axis: int) -> Function:
    def slope(x: jax.Array) -> jax.Array:
        direction = jnp.zeros_like(x).at[axis].set(1.0)
        return jax.jvp(function, (x,), (direction,))[1]

    return slope


def embedded(problem: Any, bounds: np.ndarray, x: jax.Array) -> jax.Array:
    """A point with sine and cosine in place of periodic coordinates, the others from -1 to 1."""
    periods = problem.space.periods or (None,) * len(x)
    parts = []
    for axis, (period, (low, high)) in enumerate(zip(periods, bounds, strict=True)):
        if period is None:
            parts.append((2 * x[axis : axis + 1] - low - high) / (high - low))
        else:
            angle = 2 * jnp.pi * x[axis] / period
            parts.append(jnp.stack([jnp.sin(angle), jnp.cos(angle)]))
    return jnp.concatenate(parts)
