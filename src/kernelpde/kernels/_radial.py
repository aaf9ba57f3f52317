"""Radial kernels: functions of a scaled squared distance.

With s = Σᵢ wᵢ (xᵢ - yᵢ)², wᵢ = 1 / ℓᵢ², and a profile ψ(s), write d = x - y. Then

    ∂ᵈ^γ ψ(s) = Σ_{mᵢ ≤ γᵢ/2} ∏ᵢ [ γᵢ! / (mᵢ! (γᵢ - 2mᵢ)!) (2 wᵢ dᵢ)^(γᵢ - 2mᵢ) wᵢ^mᵢ ]
                ψ^(|γ| - Σ mᵢ)(s)

and ∂ₓ^α ∂ᵧ^β κ = (-1)^|β| ∂ᵈ^(α+β) ψ. The formula does not contain the distance itself. It is
therefore regular at x = y if the profile's derivatives in s are exact there.

In a coordinate of period P the square dᵢ² is replaced by the squared chord of the circle with
circumference P, (P/π)² sin²(π dᵢ / P), which approximates dᵢ² for small dᵢ. With its derivatives
sᵢ', sᵢ'', ... and the partial Bell polynomials B (Comtet 1974, section 3.3),

    ∂ᵈ^γ ψ(s) = Σ_{kᵢ ≤ γᵢ} ∏ᵢ B_{γᵢ,kᵢ}(sᵢ', sᵢ'', ...) ψ^(Σ kᵢ)(s).
"""

import abc
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from math import comb, factorial, pi, prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import check_real
from kernelpde.errors import InputError
from kernelpde.kernels._circle import angle_difference
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials, Periods
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, add
from kernelpde.kernels._optional import sum_optional
from kernelpde.kernels._parameters import log_positive, per_coordinate


class AbstractRadial(AbstractKernel):
    """κ(x, y) = ψ(Σᵢ (xᵢ - yᵢ)² / ℓᵢ²), with one lengthscale for all coordinates or one each."""

    log_lengthscale: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def profile(self, s: Array, max_order: int) -> tuple[Array | None, list[Array | float]]:
        """Return ψ and its derivatives in s up to `max_order` as a common factor and cofactors.

        A factor of `None` is 1.
        """

    @property
    def lengthscale(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_lengthscale)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        return self.periodic_partials(x, y, orders, (None,) * len(x))

    def make_periodic(self, periods: Periods) -> "AbstractKernel":
        return self if all(period is None for period in periods) else PeriodicRadial(self, periods)

    def split_lengthscales(self, extents: Float[np.ndarray, " d"]) -> "AbstractRadial":
        if self.log_lengthscale.ndim or len(extents) < 2:
            return self
        logs = np.log(extents)
        log_lengthscales = jnp.asarray(self.log_lengthscale + (logs - logs.mean()))
        return eqx.tree_at(lambda kernel: kernel.log_lengthscale, self, log_lengthscales)

    def periodic_partials(
        self,
        x: Coordinates,
        y: Coordinates,
        orders: Sequence[OrderPair],
        periods: Sequence[float | None],
    ) -> list[Array | None]:
        """Return `partials` of the kernel made periodic."""
        weights = per_coordinate(
            type(self).__name__, "lengthscale", jnp.exp(-2.0 * self.log_lengthscale), len(x)
        )
        totals = sorted({add(alpha, beta) for alpha, beta in orders})
        squares = []
        for i, weight in enumerate(weights):
            period = periods[i]
            if period is None:
                d = x[i] - y[i]
                squares.append([weight * d * d, 2.0 * weight * d, 2.0 * weight])
            else:
                max_order = max(gamma[i] for gamma in totals)
                squares.append(_chord(x[i], y[i], weight, period, max_order))
        s = sum(square[0] for square in squares)
        factor, profile = self.profile(jnp.asarray(s), max(map(sum, totals)))
        is_periodic = any(period is not None for period in periods)
        derivatives = {}
        for gamma in totals:
            if is_periodic:
                cofactor = _periodic_chain_rule(gamma, profile, squares)
            else:
                slopes = [square[1] for square in squares]
                cofactor = _radial_chain_rule(gamma, profile, slopes, weights)
            derivatives[gamma] = (jnp.ones(()) if factor is None else factor) * cofactor
        return [
            -derivatives[add(alpha, beta)] if sum(beta) % 2 else derivatives[add(alpha, beta)]
            for alpha, beta in orders
        ]


class PeriodicRadial(AbstractKernel):
    """A radial kernel of the chord length in periodic coordinates.

    For nearby points it agrees with the radial kernel, so that lengthscales keep their meaning.

    **Arguments:**

    - `kernel`: any radial kernel.
    - `periods`: one per coordinate, `None` where it is not periodic.
    """

    kernel: AbstractRadial
    periods: Periods = eqx.field(static=True)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        return self.kernel.periodic_partials(x, y, orders, self.periods)

    def make_periodic(self, periods: Periods) -> "PeriodicRadial":
        if self.periods != periods:
            raise InputError(
                f"PeriodicRadial: periods must match the domain, {periods}; got {self.periods}."
            )
        return self

    def periods_in(self, dimension: int) -> Periods:
        del dimension
        return self.periods


def _chord(x: Array, y: Array, weight: Array, period: float, max_order: int) -> list[Array]:
    """Return w (P/π)² sin²(π (x - y) / P) and at least two derivatives in x."""
    half_sine, cosines = angle_difference(x, y, period)
    omega = 2.0 * pi / period
    return [(period / pi) ** 2 * weight * half_sine * half_sine] + [
        -2.0 * weight * omega ** (n - 2) * cosines[n % 4] for n in range(1, max(max_order, 2) + 1)
    ]


def _periodic_chain_rule(
    gamma: MultiIndex, profile: list[Array | float], squares: list[list[Array]]
) -> Array | float:
    """Return ∂ᵈ^γ ψ(s) by the formula with Bell polynomials."""

    def terms() -> Iterator[Array | float]:
        for k in product(*(range(1 if g else 0, g + 1) for g in gamma)):
            bells = list(map(_bell, gamma, k, squares))
            factors = [bell for bell in bells if bell is not None]
            if len(factors) == len(bells):
                yield prod(factors, start=profile[sum(k)])

    total = sum_optional(terms())
    return 0.0 if total is None else total


def _bell(n: int, k: int, derivatives: list[Array]) -> Array | float | None:
    """Return B_{n,k}(s', s'', ...), `None` if zero. Derivatives that are not listed are zero."""
    if n == 0 or k == 0:
        return 1.0 if n == k else None

    def terms() -> Iterator[Array]:
        for i in range(1, min(n - k + 1, len(derivatives) - 1) + 1):
            remainder = _bell(n - i, k - 1, derivatives)
            if remainder is not None:
                yield comb(n - 1, i - 1) * derivatives[i] * remainder

    return sum_optional(terms())


def _radial_chain_rule(
    gamma: MultiIndex, profile: list[Array | float], slopes: list[Array], weights: list[Array]
) -> Array | float:
    """Return ∂ᵈ^γ ψ(s) by the first formula of this module's docstring."""
    total = 0.0
    for m in product(*(range(g // 2 + 1) for g in gamma)):
        # Scalars are multiplied first, at no cost per pair.
        term = prod(map(_num_pairings, gamma, m)) * prod(
            weights[i] ** k for i, k in enumerate(m) if k
        )
        term = term * profile[sum(gamma) - sum(m)]
        for i, g in enumerate(gamma):
            if g > 2 * m[i]:
                term = term * slopes[i] ** (g - 2 * m[i])
        total = term + total if any(m) else term
    return total


def _num_pairings(n: int, k: int) -> int:
    """Return n! / (k! (n - 2k)!)."""
    return factorial(n) // (factorial(k) * factorial(n - 2 * k))


class Gaussian(AbstractRadial):
    """κ(x, y) = exp(-s / 2), s = Σᵢ (xᵢ - yᵢ)² / ℓᵢ².

    **Example:**

    ```python
    >>> two_scales = kp.Gaussian([0.5, 0.1]) + 0.1 * kp.Gaussian(0.05)
    ```
    """

    log_lengthscale: Float[Array, "..."]

    def __init__(self, lengthscale: Numbers):
        self.log_lengthscale = log_positive("Gaussian", "lengthscale", lengthscale)

    def profile(self, s: Array, max_order: int) -> tuple[Array | None, list[Array | float]]:
        return jnp.exp(-0.5 * s), [(-0.5) ** n for n in range(max_order + 1)]


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
        self.log_lengthscale = log_positive("RationalQuadratic", "lengthscale", lengthscale)
        self.log_alpha = log_positive("RationalQuadratic", "alpha", alpha, single=True)

    @property
    def alpha(self) -> Float[Array, ""]:
        return jnp.exp(self.log_alpha)

    def profile(self, s: Array, max_order: int) -> tuple[Array | None, list[Array | float]]:
        a = self.alpha
        base = 1.0 + s / (2.0 * a)
        cofactors: list[Array | float] = [1.0]
        for n in range(max_order):
            cofactors.append((-0.5 * (a + n) / a) * cofactors[-1] / base)
        return jnp.exp(-a * jnp.log1p(s / (2.0 * a))), cofactors


class Matern(AbstractRadial):
    """The Matern kernel of smoothness ν = p + 1/2, whose functions are p times differentiable.

    κ(x, y) = 2^(1-ν) / Γ(ν) z^ν K_ν(z), z = √(2ν s), s = Σᵢ (xᵢ - yᵢ)² / ℓᵢ².

    **Arguments:**

    - `nu`: ν, one of 0.5, 1.5, 2.5, ... . Functionals of order k on both sides require ν > k,
      and second-order equations therefore at least 2.5.
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
        self.nu = check_real("Matern", "nu", nu, advice=advice)
        if self.nu <= 0 or (2 * self.nu) % 2 != 1:
            raise InputError(
                f"Matern: nu must be a half-integer 0.5, 1.5, 2.5, ...; got {nu}. {advice}"
            )
        self.log_lengthscale = log_positive("Matern", "lengthscale", lengthscale)

    def profile(self, s: Array, max_order: int) -> tuple[Array | None, list[Array | float]]:
        p = round(self.nu - 0.5)
        if max_order > 2 * p:
            raise InputError(
                f"Matern: nu = {self.nu} allows derivatives up to order {2 * p} in "
                f"both arguments together, but order {max_order} is needed. Use nu = "
                f"{(max_order + 1) // 2 + 0.5} or higher."
            )
        at_zero = factorial(2 * p) / (factorial(p) * 2.0**p)
        rate = 2.0 * self.nu
        return None, [
            (-0.5 * rate) ** n / at_zero * _reduced_bessel(p - n, rate * s)
            for n in range(max_order + 1)
        ]


_ZERO_SQUARE = 1e-60
"""Squared scaled distance up to which points coincide, so that negative powers stay finite."""


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _reduced_bessel(p: int, t: Array) -> Array:
    """Return √(2/π) z^ν K_ν(z) with ν = p + 1/2 and z = √t, for any integer p.

    Since d/dt [z^ν K_ν] = -½ z^(ν-1) K_(ν-1), the derivative is this function with p - 1. It is
    singular at t = 0 for negative p. The radial formula multiplies it by a higher power of the
    coordinates' differences there, so that the singular value is replaced by 0.
    """
    is_positive = t > _ZERO_SQUARE
    z = jnp.where(is_positive, jnp.sqrt(jnp.where(is_positive, t, 1.0)), 0.0)
    degree = p if p >= 0 else -p - 1
    polynomial = sum(
        factorial(degree + k) / (factorial(k) * factorial(degree - k) * 2.0**k) * z ** (degree - k)
        for k in range(degree + 1)
    )
    value = jnp.exp(-z) * polynomial
    if p >= 0:
        return value
    return jnp.where(is_positive, value * jnp.where(is_positive, z, 1.0) ** (2 * p + 1), 0.0)


@_reduced_bessel.defjvp
def _(p, primals, tangents):
    (t,), (t_dot,) = primals, tangents
    return _reduced_bessel(p, t), -0.5 * _reduced_bessel(p - 1, t) * t_dot
