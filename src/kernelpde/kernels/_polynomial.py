"""The polynomial kernel, a function of the dot product."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import factorial, perm, prod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import check_integer
from kernelpde.errors import InputError
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, binomial, subtract
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
        t = self.offset + slope * sum(a * b for a, b in zip(x, y, strict=True))

        def terms(alpha: MultiIndex, beta: MultiIndex) -> Iterator[Array]:
            shared = product(*(range(min(a, b) + 1) for a, b in zip(alpha, beta, strict=True)))
            for k in shared:
                order = sum(alpha) + sum(beta) - sum(k)
                if order > self.degree:
                    continue
                count = binomial(beta, k) * prod(
                    factorial(a) // factorial(a - c) for a, c in zip(alpha, k, strict=True)
                )
                factor = count * perm(self.degree, order)
                term = factor * slope**order * t ** (self.degree - order)
                for point, powers in ((y, subtract(alpha, k)), (x, subtract(beta, k))):
                    for coordinate, power in zip(point, powers, strict=True):
                        if power:
                            term = term * coordinate**power
                yield term

        return [sum_optional(terms(alpha, beta)) for alpha, beta in orders]
