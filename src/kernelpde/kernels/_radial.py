"""Radial kernels: functions of one scaled squared distance, and one formula for their derivatives.

With s = Σᵢ wᵢ (xᵢ - yᵢ)², wᵢ = 1 / ℓᵢ², and a profile ψ(s), write d = x - y. Then

    ∂ᵈ^γ ψ(s) = Σ_{mᵢ ≤ γᵢ/2} ∏ᵢ [ γᵢ! / (mᵢ! (γᵢ - 2mᵢ)!) (2 wᵢ dᵢ)^(γᵢ - 2mᵢ) wᵢ^mᵢ ]
                ψ^(|γ| - Σ mᵢ)(s)

and ∂ₓ^α ∂ᵧ^β κ = (-1)^|β| ∂ᵈ^(α+β) ψ. The distance itself never appears, so nothing is singular at
x = y as long as the profile's derivatives in s are exact there.

In a coordinate of period P the square dᵢ² is replaced by the squared chord of the circle onto which
the period is wound, (P/π)² sin²(π dᵢ / P), which is dᵢ² for points close together. With its
derivatives sᵢ', sᵢ'', ... and the partial Bell polynomials B (Comtet 1974, section 3.3),

    ∂ᵈ^γ ψ(s) = Σ_{kᵢ ≤ γᵢ} ∏ᵢ B_{γᵢ,kᵢ}(sᵢ', sᵢ'', ...) ψ^(Σ kᵢ)(s).
"""

import abc
from collections.abc import Sequence
from functools import partial
from itertools import product
from math import comb, factorial, pi, prod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import real_number
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError
from kernelpde.kernels._circle import half_angle
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Periods
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, plus
from kernelpde.kernels._parameters import log_of_positive, per_coordinate


class AbstractRadial(AbstractKernel):
    """κ(x, y) = ψ(Σᵢ (xᵢ - yᵢ)² / ℓᵢ²), with one lengthscale for all coordinates or one each."""

    log_lengthscale: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def profile(self, s: Array, highest: int) -> tuple[Array | None, list[Array | float]]:
        """ψ and its derivatives in s up to order `highest`: a common factor and the cofactors.

        The factor is multiplied in once at the end; `None` stands for 1.
        """

    @property
    def lengthscale(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_lengthscale)

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        return self.periodic_partials(x, y, orders, (None,) * len(x))

    def periodized(self, periods: Periods) -> "AbstractKernel":
        return self if all(period is None for period in periods) else PeriodicRadial(self, periods)

    def periodic_partials(
        self,
        x: Coordinates,
        y: Coordinates,
        orders: Sequence[OrderPair],
        periods: Sequence[float | None],
    ) -> list[Array | None]:
        """As `partials`, for the kernel that is periodic in the coordinates with a period."""
        owner = type(self).__name__
        weights = per_coordinate(owner, "lengthscale", jnp.exp(-2.0 * self.log_lengthscale), len(x))
        difference = [a - b for a, b in zip(x, y, strict=True)]
        wanted = sorted({plus(alpha, beta) for alpha, beta in orders})
        highest = [max(gamma[i] for gamma in wanted) for i in range(len(x))]
        straight = all(period is None for period in periods)
        squares = [
            [w * d * d, 2.0 * w * d, 2.0 * w] if period is None else _chord(a, b, w, period, most)
            for a, b, w, d, period, most in zip(
                x, y, weights, difference, periods, highest, strict=True
            )
        ]
        s = sum(square[0] for square in squares)
        factor, profile = self.profile(jnp.asarray(s), max(map(sum, wanted)))
        one = jnp.ones(()) if factor is None else factor
        slopes = [square[1] for square in squares]
        derivative = {
            gamma: one
            * (
                _radial(gamma, profile, slopes, weights)
                if straight
                else _wound(gamma, profile, squares)
            )
            for gamma in wanted
        }
        return [
            -derivative[plus(alpha, beta)] if sum(beta) % 2 else derivative[plus(alpha, beta)]
            for alpha, beta in orders
        ]


class PeriodicRadial(AbstractKernel):
    """A radial kernel whose distance is measured along a chord in the periodic coordinates.

    The lengthscales mean what they mean without: for points close together nothing changes.

    **Arguments:**

    - `kernel`: any radial kernel.
    - `periods`: one per coordinate, `None` where it is not periodic.
    """

    kernel: AbstractRadial
    periods: Periods = eqx.field(static=True)

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        return self.kernel.periodic_partials(x, y, orders, self.periods)

    def periodized(self, periods: Periods) -> "PeriodicRadial":
        if self.periods != periods:
            raise InputError(f"A kernel of periods {self.periods} in a domain of {periods}.")
        return self


def _chord(x: Array, y: Array, weight: Array, period: float, highest: int) -> list[Array]:
    """w (P/π)² sin²(π (x - y) / P) and its derivatives in x, at least two of them."""
    sine, cosine = half_angle(x, y, period)
    double, complement = 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine
    cycle = [complement, -double, -complement, double]
    omega = 2.0 * pi / period
    return [(period / pi) ** 2 * weight * sine * sine] + [
        -2.0 * weight * omega ** (n - 2) * cycle[n % 4] for n in range(1, max(highest, 2) + 1)
    ]


def _wound(
    gamma: MultiIndex, profile: list[Array | float], squares: list[list[Array]]
) -> Array | float:
    """The formula with Bell polynomials for one γ."""
    total = None
    for k in product(*(range(1 if g else 0, g + 1) for g in gamma)):
        term = profile[sum(k)]
        for square, g, j in zip(squares, gamma, k, strict=True):
            bell = _bell(g, j, square)
            term = None if bell is None or term is None else term * bell
        if term is not None:
            total = term if total is None else total + term
    return 0.0 if total is None else total


def _bell(n: int, k: int, derivatives: list[Array]) -> Array | float | None:
    """B_{n,k}(s', s'', ...), `None` for zero; derivatives beyond those listed are zero."""
    if n == 0 or k == 0:
        return 1.0 if n == k else None
    total = None
    for i in range(1, min(n - k + 1, len(derivatives) - 1) + 1):
        rest = _bell(n - i, k - 1, derivatives)
        if rest is not None:
            term = comb(n - 1, i - 1) * derivatives[i] * rest
            total = term if total is None else total + term
    return total


def _radial(
    gamma: MultiIndex, profile: list[Array | float], slopes: list[Array], weights: list[Array]
) -> Array | float:
    """The formula of this module's docstring for one γ."""
    total = 0.0
    for m in product(*(range(g // 2 + 1) for g in gamma)):
        # Numbers first, then arrays: the scalar part costs nothing per pair.
        term = prod(
            factorial(g) // (factorial(k) * factorial(g - 2 * k))
            for g, k in zip(gamma, m, strict=True)
        ) * prod(w**k for w, k in zip(weights, m, strict=True) if k)
        term = term * profile[sum(gamma) - sum(m)]
        for slope, g, k in zip(slopes, gamma, m, strict=True):
            if g > 2 * k:
                term = term * slope ** (g - 2 * k)
        total = term + total if any(m) else term
    return total


class Gaussian(AbstractRadial):
    """κ(x, y) = exp(-s / 2), s = Σᵢ (xᵢ - yᵢ)² / ℓᵢ².

    **Example:**

    ```python
    >>> two_scales = kp.Gaussian([0.5, 0.1]) + 0.1 * kp.Gaussian(0.05)
    ```
    """

    log_lengthscale: Float[Array, "..."]

    def __init__(self, lengthscale: Numbers):
        self.log_lengthscale = log_of_positive("Gaussian", "lengthscale", lengthscale)

    def profile(self, s: Array, highest: int) -> tuple[Array | None, list[Array | float]]:
        return jnp.exp(-0.5 * s), [(-0.5) ** n for n in range(highest + 1)]


@earlier_names(mixture="alpha")
class RationalQuadratic(AbstractRadial):
    """κ(x, y) = (1 + s / 2α)^(-α), s = Σᵢ (xᵢ - yᵢ)² / ℓᵢ²: a mixture of Gaussians of all widths.

    The profile's derivatives are ψ⁽ⁿ⁾(s) = (-1/2)ⁿ α (α+1) ⋯ (α+n-1) / αⁿ (1 + s / 2α)^(-α-n).

    **Example:**

    ```python
    >>> all_widths = kp.RationalQuadratic(lengthscale=0.5, alpha=2.0)
    ```
    """

    log_lengthscale: Float[Array, "..."]
    log_alpha: Float[Array, ""]

    def __init__(self, lengthscale: Numbers, alpha: Numbers = 1.0):
        self.log_lengthscale = log_of_positive("RationalQuadratic", "lengthscale", lengthscale)
        self.log_alpha = log_of_positive("RationalQuadratic", "alpha", alpha, single=True)

    @property
    def alpha(self) -> Float[Array, ""]:
        return jnp.exp(self.log_alpha)

    def profile(self, s: Array, highest: int) -> tuple[Array | None, list[Array | float]]:
        a = self.alpha
        base = 1.0 + s / (2.0 * a)
        cofactors: list[Array | float] = [1.0]
        for n in range(highest):
            cofactors.append((-0.5 * (a + n) / a) * cofactors[-1] / base)
        return jnp.exp(-a * jnp.log1p(s / (2.0 * a))), cofactors


@earlier_names(smoothness="nu")
class Matern(AbstractRadial):
    """The Matern kernel of smoothness ν = p + 1/2, whose functions are p times differentiable.

    κ(x, y) = 2^(1-ν) / Γ(ν) z^ν K_ν(z), z = √(2ν s), s = Σᵢ (xᵢ - yᵢ)² / ℓᵢ².

    **Arguments:**

    - `nu`: ν, one of 0.5, 1.5, 2.5, ... . A functional of order k on both sides needs
      ν > k: second-order equations need at least 2.5.
    - `lengthscale`: ℓ, one number or one per coordinate.

    **Example:**

    ```python
    >>> rough = kp.Matern(nu=3.5, lengthscale=0.2)  # three derivatives
    ```
    """

    log_lengthscale: Float[Array, "..."]
    nu: float = eqx.field(static=True)

    def __init__(self, nu: float, lengthscale: Numbers):
        advice = "It comes before the lengthscale: Matern(4.5, 0.2)."
        given = real_number("Matern", "nu", nu, advice=advice)
        if given <= 0 or (2 * given) % 2 != 1:
            raise InputError(
                f"Matern: nu must be a half-integer 0.5, 1.5, 2.5, ...; got {nu}. {advice}"
            )
        self.nu = given
        self.log_lengthscale = log_of_positive("Matern", "lengthscale", lengthscale)

    def profile(self, s: Array, highest: int) -> tuple[Array | None, list[Array | float]]:
        p = round(self.nu - 0.5)
        if highest > 2 * p:
            raise InputError(
                f"Matern: nu = {self.nu} allows derivatives up to order {2 * p} in "
                f"both arguments together, but order {highest} is needed. Use nu = "
                f"{(highest + 1) // 2 + 0.5} or higher."
            )
        at_zero = factorial(2 * p) / (factorial(p) * 2.0**p)
        rate = 2.0 * self.nu
        return None, [
            (-0.5 * rate) ** n / at_zero * _reduced_bessel(p - n, rate * s)
            for n in range(highest + 1)
        ]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _reduced_bessel(p: int, t: Array) -> Array:
    """√(2/π) z^ν K_ν(z) with ν = p + 1/2 and z = √t, for any integer p.

    Since d/dt [z^ν K_ν] = -½ z^(ν-1) K_(ν-1), the derivative is the same function with p - 1. For
    negative p it is singular at t = 0, but there the radial formula multiplies it by a higher power
    of the coordinates' differences, so that its place is taken by 0.
    """
    apart = t > 1e-60
    z = jnp.where(apart, jnp.sqrt(jnp.where(apart, t, 1.0)), 0.0)
    degree = p if p >= 0 else -p - 1
    polynomial = sum(
        factorial(degree + k) / (factorial(k) * factorial(degree - k) * 2.0**k) * z ** (degree - k)
        for k in range(degree + 1)
    )
    value = jnp.exp(-z) * polynomial
    if p >= 0:
        return value
    return jnp.where(apart, value * jnp.where(apart, z, 1.0) ** (2 * p + 1), 0.0)


@_reduced_bessel.defjvp
def _(p, primals, tangents):
    (t,), (t_dot,) = primals, tangents
    return _reduced_bessel(p, t), -0.5 * _reduced_bessel(p - 1, t) * t_dot
