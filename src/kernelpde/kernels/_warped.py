"""Kernels of warped points: radial kernels after a learned change of coordinates."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.checking import check_callable
from kernelpde.errors import InputError
from kernelpde.kernels._nonstationary import AbstractNonstationary, Pairing, Slopes
from kernelpde.kernels._operators import Element, chain_rule, differences, scalar_part
from kernelpde.kernels._parameters import call_user_function, per_coordinate, trace_user_function
from kernelpde.kernels._radial import AbstractRadial


class Warped(AbstractNonstationary):
    """κ(x, y) = ψ(Σᵢ (gᵢ(x) - gᵢ(y))² / ℓᵢ²) with a learned map g: a deep kernel.

    Deep kernel learning (Wilson, Hu, Salakhutdinov and Xing 2016). The map g is evaluated once per
    point.

    **Arguments:**

    - `kernel`: radial kernel with ψ and ℓ.
    - `warp`: g, a function of a point that returns a vector of any length. Its inexact array
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
        check_callable(
            "Warped", "the warp", self.warp, "a function of a point that returns a vector"
        )

    def bind_coordinates(self, names: Sequence[str]) -> "Warped":
        return trace_user_function(self, "warp", len(names))

    def local_parameters(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        """Return gᵢ / ℓᵢ."""
        warped = call_user_function(
            "Warped", "the warp", lambda point: jnp.atleast_1d(self.warp(point)), x
        )
        if warped.ndim != 1:
            raise InputError(f"Warped: the warp must return a vector; got shape {warped.shape}.")
        inverse = jnp.exp(-self.kernel.log_lengthscale)
        return warped * jnp.stack(per_coordinate("Warped", "lengthscale", inverse, len(warped)))

    @property
    def pair_function(self) -> Pairing:
        return RadialPairing(self.kernel)


class RadialPairing(eqx.Module):
    """ψ(Σ (pᵢ - qᵢ)²), with the derivatives ±2 (pᵢ - qᵢ) ψ' in pᵢ and qᵢ."""

    kernel: AbstractRadial

    def __call__(
        self, x: Sequence[Element], y: Sequence[Element], p: Sequence[Element], q: Sequence[Element]
    ) -> tuple[Element, Slopes]:
        warped_differences = differences(p, q)
        squares = [d * d for d in warped_differences]
        s = sum(squares[1:], start=squares[0])
        profile = _ProfileDerivatives(self.kernel, jnp.asarray(scalar_part(s)))

        def slopes() -> tuple[list[Element], list[Element]]:
            slope = 2.0 * chain_rule(profile, s, 1)
            left = [slope * difference for difference in warped_differences]
            return left, [-derivative for derivative in left]

        return chain_rule(profile, s), slopes


class _ProfileDerivatives:
    """Cache of the derivatives ψ⁽ⁿ⁾ at one array of s."""

    def __init__(self, kernel: AbstractRadial, s: Array):
        self.kernel, self.s, self.cache = kernel, s, {}

    def __call__(self, order: int) -> Array:
        if order not in self.cache:
            self.kernel.check_order(order)
            self.cache[order] = self.kernel.profile(self.s, order)[order]
        return self.cache[order]
