"""The polynomial kernel, a function of the dot product."""

import operator
from collections.abc import Iterator, Sequence
from math import perm, prod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import check_integer
from kernelpde.errors import InputError
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, binomial, sub_indices, subtract
from kernelpde.kernels._optional import sum_optional
from kernelpde.kernels._parameters import log_positive


class Polynomial(AbstractKernel):
    """κ(x, y) = (c + a x·y)^p.

    With t = c + a x·y and F(t) = t^p,

        ∂ₓ^α ∂ᵧ^β κ = Σ_{k ≤ α, β} binom(β, k) α! / (α-k)! a^(|α|+|β|-|k|) y^(α-k) x^(β-k)
                      F^(|α|+|β|-|k|)(t).

    **Arguments:**

    - `degree`: p, a positive integer.
    - `offset`: c.
    - `slope`: a.

    **Example:**

    ```python
    >>> trend = kp.Gaussian(0.3) + kp.Polynomial(degree=2)
    ```
    """

    log_offset: Float[Array, ""]
    log_slope: Float[Array, ""]
    degree: int = eqx.field(static=True)

    def __init__(self, degree: int, offset: Numbers = 1.0, slope: Numbers = 1.0):
        self.degree = check_integer("Polynomial", "degree", degree)
        if self.degree < 1:
            raise InputError(f"Polynomial: degree must be a positive integer; got {degree}.")
        self.log_offset = log_positive("Polynomial", "offset", offset, single=True)
        self.log_slope = log_positive("Polynomial", "slope", slope, single=True)

    @property
    def offset(self) -> Float[Array, ""]:
        return jnp.exp(self.log_offset)

    @property
    def slope(self) -> Float[Array, ""]:
        return jnp.exp(self.log_slope)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        slope = self.slope
        t = self.offset + slope * sum(map(operator.mul, x, y))

        def terms(alpha: MultiIndex, beta: MultiIndex) -> Iterator[Array]:
            for k in sub_indices(tuple(map(min, alpha, beta))):
                order = sum(alpha) + sum(beta) - sum(k)
                if order > self.degree:
                    continue
                factor = binomial(beta, k) * prod(map(perm, alpha, k)) * perm(self.degree, order)
                term = factor * slope**order * t ** (self.degree - order)
                powers = (*subtract(alpha, k), *subtract(beta, k))
                for coordinate, power in zip((*y, *x), powers, strict=True):
                    if power:
                        term = term * coordinate**power
                yield term

        return [sum_optional(terms(alpha, beta)) for alpha, beta in orders]
