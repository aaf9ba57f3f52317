"""Kernels of warped points: a stationary kernel after a learned change of coordinates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.checking import function
from kernelpde.errors import InputError
from kernelpde.kernels._composed import AbstractComposed, Pairing
from kernelpde.kernels._operators import chained, number
from kernelpde.kernels._parameters import called, per_coordinate
from kernelpde.kernels._radial import AbstractRadial


class Warped(AbstractComposed):
    """κ(x, y) = ψ(Σᵢ (gᵢ(x) - gᵢ(y))² / ℓᵢ²) with a learned map g: a deep kernel.

    Wilson, Hu, Salakhutdinov and Xing (2016); here g is evaluated once per point.

    **Arguments:**

    - `kernel`: a radial kernel, with ψ and ℓ.
    - `warp`: g, a function of a point that returns a vector, of any length. Its inexact array
      leaves are hyperparameters.

    **Example:**

    ```python
    >>> deep = kp.Warped(kp.Gaussian(0.3), lambda x: jnp.tanh(3 * x))
    ```
    """

    kernel: AbstractRadial
    warp: Callable[[Array], Array]

    def __check_init__(self):
        if not isinstance(self.kernel, AbstractRadial):
            raise InputError(
                f"Warped: expected a radial kernel such as Gaussian or Matern; got {self.kernel!r}."
            )
        function("Warped", "the warp", self.warp, "a function of a point that returns a vector")

    def fields(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        """gᵢ / ℓᵢ."""

        def given(place: Array) -> Array:
            return jnp.atleast_1d(self.warp(place))

        moved = called("Warped", "the warp", given, x)
        if moved.ndim != 1:
            raise InputError(f"Warped: the warp must return a vector; got shape {moved.shape}.")
        inverse = jnp.exp(-self.kernel.log_lengthscale)
        return moved * jnp.stack(per_coordinate("Warped", "lengthscale", inverse, len(moved)))

    @property
    def pairing(self) -> Pairing:
        return Profiled(self.kernel)


class Profiled(eqx.Module):
    """ψ(Σ (pᵢ - qᵢ)²): the slope in pᵢ is 2 (pᵢ - qᵢ) ψ'."""

    kernel: AbstractRadial

    def __call__(self, x: list[Any], y: list[Any], p: list[Any], q: list[Any]):
        differences = [one - two for one, two in zip(p, q, strict=True)]
        squares = [d * d for d in differences]
        s = sum(squares[1:], start=squares[0])
        profile = _Profile(self.kernel, number(s))

        def slopes() -> tuple[list[Any], list[Any]]:
            slope = 2.0 * chained(profile, s, 1)
            found = [slope * difference for difference in differences]
            return found, [-one for one in found]

        return chained(profile, s), slopes


class _Profile:
    """ψ⁽ⁿ⁾ at one array of s."""

    def __init__(self, kernel: AbstractRadial, s: Array):
        self.kernel, self.s, self.known = kernel, s, {}

    def __call__(self, _: Any, order: int) -> Array:
        if order not in self.known:
            factor, cofactors = self.kernel.profile(self.s, order)
            value = jnp.asarray(cofactors[order])
            self.known[order] = value if factor is None else factor * value
        return self.known[order]
