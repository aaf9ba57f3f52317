"""Radial kernels: functions of a scaled squared distance.

With s = Σᵢ sᵢ(dᵢ), d = x - y, sᵢ = dᵢ² / ℓᵢ², a profile ψ(s) and the partial Bell polynomials
B (Comtet 1974, section 3.3) of the derivatives of sᵢ,

    κ^γ := ∂ᵈ^γ ψ(s) = Σ_{kᵢ ≤ γᵢ} ∏ᵢ B_{γᵢ,kᵢ}(sᵢ', sᵢ'', ...) ψ^(Σ kᵢ)(s)

and ∂ₓ^α ∂ᵧ^β κ = (-1)^|β| κ^(α+β). The polynomials are tabulated once per coordinate. The formula
does not contain the distance itself. It is therefore regular at x = y if the profile's derivatives
in s are exact there.

If ψ' = cψ, the derivatives are products of one factor per coordinate,

    κ^γ = ψ(s) ∏ᵢ h_{γᵢ},    h_n = c Σ_{k=1}^n binom(n-1, k-1) sᵢ^(k) h_{n-k},    h_0 = 1.

κ depends on dᵢ / ℓᵢ only. Its derivatives in a lengthscale are therefore derivatives in d,

    ℓᵢ ∂κ^γ / ∂ℓᵢ = -(dᵢ κ^(γ+eᵢ) + γᵢ κ^γ).

In a coordinate of period P the square dᵢ² is replaced by the squared chord of the circle with
circumference P, (P/π)² sin²(π dᵢ / P), which approximates dᵢ² for small dᵢ.
"""

import abc
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from math import factorial, pi
from operator import getitem
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import check_real
from kernelpde.errors import InputError
from kernelpde.kernels._bell import complete_bell, multiply, partial_bell
from kernelpde.kernels._circle import angle_difference
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials, Periods
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, add, raise_order
from kernelpde.kernels._optional import add_optional, subtract_optional, sum_optional
from kernelpde.kernels._parameters import log_positive, per_coordinate


class AbstractRadial(AbstractKernel):
    """κ(x, y) = ψ(Σᵢ (xᵢ - yᵢ)² / ℓᵢ²), with one lengthscale for all coordinates or one each."""

    log_lengthscale: eqx.AbstractVar[Float[Array, "..."]]
    rate: ClassVar[float | None] = None
    """c if ψ' = cψ, otherwise `None`."""

    @abc.abstractmethod
    def profile(self, s: Array, max_order: int) -> list[Array]:
        """Return ψ and its derivatives in s up to `max_order`."""

    def check_order(self, order: int) -> None:
        """Raise an error if derivatives of this order do not exist."""

    @property
    def lengthscale(self) -> Float[Array, "..."]:
        return jnp.exp(self.log_lengthscale)

    @property
    def is_stationary(self) -> bool:
        return True

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
        log_lengthscales = per_coordinate(
            type(self).__name__, "lengthscale", jnp.asarray(self.log_lengthscale), len(x)
        )
        totals = tuple(sorted({add(alpha, beta) for alpha, beta in orders}))
        self.check_order(max(map(sum, totals)))
        profile = eqx.tree_at(lambda kernel: kernel.log_lengthscale, self, jnp.zeros(()))
        arguments = (profile, tuple(log_lengthscales), x, y)
        values = _derivatives(*arguments, periods=tuple(periods), totals=totals)
        by_order = dict(zip(totals, values, strict=True))
        return [
            -by_order[add(alpha, beta)] if sum(beta) % 2 else by_order[add(alpha, beta)]
            for alpha, beta in orders
        ]


@eqx.filter_custom_jvp
def _derivatives(
    kernel: AbstractRadial,
    log_lengthscales: tuple[Array, ...],
    x: Coordinates,
    y: Coordinates,
    *,
    periods: Periods,
    totals: tuple[MultiIndex, ...],
) -> list[Array]:
    """Return κ^γ for each γ in `totals`. The lengthscale of `kernel` itself is not used."""
    return _tabulated(kernel, log_lengthscales, x, y, periods, totals)


@_derivatives.def_jvp
def _(primals, tangents, *, periods, totals):
    kernel, log_lengthscales, x, y = primals
    kernel_dot, scale_dots, x_dots, y_dots = tangents
    # The scaling identity does not hold in periodic coordinates.
    is_scaled = [dot is not None and p is None for dot, p in zip(scale_dots, periods, strict=True)]
    shifts = list(map(subtract_optional, x_dots, y_dots))
    axes = [i for i, shift in enumerate(shifts) if is_scaled[i] or shift is not None]
    raised = {raise_order(gamma, i) for gamma in totals for i in axes}
    orders = tuple(sorted({*totals, *raised}))
    evaluated = _derivatives(*primals, periods=periods, totals=orders)
    values = dict(zip(orders, evaluated, strict=True))
    # As arrays, or else reverse mode sums over all pairs of points once per derivative.
    shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
    scales = {i: jnp.broadcast_to(scale_dots[i], shape) for i in axes if is_scaled[i]}
    rates = {
        i: add_optional(shifts[i], -(x[i] - y[i]) * scales[i] if i in scales else None)
        for i in axes
    }

    def terms(gamma: MultiIndex) -> Iterator[Array]:
        for i in axes:
            yield values[raise_order(gamma, i)] * rates[i]
        counts = [gamma[i] * scale for i, scale in scales.items() if gamma[i]]
        if counts:
            yield -sum(counts) * values[gamma]

    outputs = [sum_optional(terms(gamma)) for gamma in totals]
    plain_dots = tuple(None if i in scales else dot for i, dot in enumerate(scale_dots))
    if jax.tree.leaves((kernel_dot, plain_dots)):

        def profile(kernel: AbstractRadial, log_lengthscales: tuple[Array, ...]) -> list[Array]:
            return _tabulated(kernel, log_lengthscales, x, y, periods, totals)

        _, others = eqx.filter_jvp(profile, (kernel, log_lengthscales), (kernel_dot, plain_dots))
        outputs = list(map(add_optional, outputs, others))
    return [values[gamma] for gamma in totals], outputs


def _tabulated(
    kernel: AbstractRadial,
    log_lengthscales: tuple[Array, ...],
    x: Coordinates,
    y: Coordinates,
    periods: Periods,
    totals: tuple[MultiIndex, ...],
) -> list[Array]:
    """Return κ^γ by tables of each coordinate."""
    max_orders = [max(gamma[i] for gamma in totals) for i in range(len(x))]
    squares = [
        _square(x[i], y[i], jnp.exp(-2.0 * log_lengthscales[i]), period, max_orders[i])
        for i, period in enumerate(periods)
    ]
    s = jnp.asarray(sum(square[0] for square in squares))
    if kernel.rate is not None:
        (value,) = kernel.profile(s, 0)
        tables = [
            complete_bell(square, n, kernel.rate)
            for square, n in zip(squares, max_orders, strict=True)
        ]
        return [multiply(map(getitem, tables, gamma), value) for gamma in totals]
    profile = kernel.profile(s, max(map(sum, totals)))
    bells = list(map(partial_bell, squares, max_orders))

    def chain_rule(gamma: MultiIndex) -> Array:
        def terms() -> Iterator[Array]:
            for k in product(*(range(g + 1) for g in gamma)):
                factors = [bells[i][gamma[i]][k[i]] for i in range(len(k))]
                if all(factor is not None for factor in factors):
                    yield multiply(factors, profile[sum(k)])

        return sum_optional(terms())

    return [chain_rule(gamma) for gamma in totals]


def _square(x: Array, y: Array, weight: Array, period: float | None, max_order: int) -> list[Array]:
    """Return w (x - y)², or w (P/π)² sin²(π (x - y) / P), and the derivatives that are not zero."""
    if period is None:
        d = x - y
        return [weight * d * d, 2.0 * weight * d, 2.0 * weight]
    half_sine, cosines = angle_difference(x, y, period)
    omega = 2.0 * pi / period
    return [(period / pi) ** 2 * weight * half_sine * half_sine] + [
        -2.0 * weight * omega ** (n - 2) * cosines[n % 4] for n in range(1, max_order + 1)
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

    @property
    def is_stationary(self) -> bool:
        return True

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


class Gaussian(AbstractRadial):
    """κ(x, y) = exp(-s / 2), s = Σᵢ (xᵢ - yᵢ)² / ℓᵢ².

    **Example:**

    ```python
    >>> two_scales = kp.Gaussian([0.5, 0.1]) + 0.1 * kp.Gaussian(0.05)
    ```
    """

    rate: ClassVar[float | None] = -0.5
    log_lengthscale: Float[Array, "..."]

    def __init__(self, lengthscale: Numbers):
        self.log_lengthscale = log_positive("Gaussian", "lengthscale", lengthscale)

    def profile(self, s: Array, max_order: int) -> list[Array]:
        value = jnp.exp(-0.5 * s)
        return [(-0.5) ** n * value if n else value for n in range(max_order + 1)]


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

    def profile(self, s: Array, max_order: int) -> list[Array]:
        a = self.alpha
        base = 1.0 + s / (2.0 * a)
        derivatives = [jnp.exp(-a * jnp.log1p(s / (2.0 * a)))]
        for n in range(max_order):
            derivatives.append((-0.5 * (a + n) / a) * derivatives[-1] / base)
        return derivatives


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

    def check_order(self, order: int) -> None:
        if order > 2 * self.nu - 1:
            raise InputError(
                f"Matern: nu = {self.nu} allows derivatives up to order {2 * self.nu - 1:g} in "
                f"both arguments together, but order {order} is needed. Use nu = "
                f"{(order + 1) // 2 + 0.5} or higher."
            )

    def profile(self, s: Array, max_order: int) -> list[Array]:
        p = round(self.nu - 0.5)
        at_zero = factorial(2 * p) / (factorial(p) * 2.0**p)
        scale = 2.0 * self.nu
        return [
            (-0.5 * scale) ** n / at_zero * _reduced_bessel(p - n, scale * s)
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
