"""The Gibbs kernel: a Gaussian whose lengthscale varies from place to place."""

from collections.abc import Callable
from math import factorial, log
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.checking import function
from kernelpde.errors import InputError
from kernelpde.kernels._composed import AbstractComposed, Pairing
from kernelpde.kernels._operators import Element, chained, number
from kernelpde.kernels._parameters import called


class Gibbs(AbstractComposed):
    """κ(x, y) = ∏ᵢ √(2 ℓᵢ(x) ℓᵢ(y) / qᵢ) exp(-Σᵢ (xᵢ - yᵢ)² / qᵢ), qᵢ = ℓᵢ(x)² + ℓᵢ(y)².

    Section 5.4 of the paper (Gibbs 1998; Rasmussen and Williams, section 4.2.3). Where ℓ is
    constant it is the Gaussian kernel with that lengthscale.

    **Arguments:**

    - `lengthscale`: ℓ, a function of a point that returns one positive number for all coordinates
      or one for each: a `Network`, a field of `Bumps`, or any `equinox.Module` or function of
      yours. Its inexact array leaves are hyperparameters.

    **Example:**

    ```python
    >>> steep = kp.Gibbs(lambda x: 0.05 + 0.5 * x)  # short lengthscales near x = 0
    ```
    """

    lengthscale: Callable[[Array], Array]

    def __check_init__(self):
        expected = "a function of a point; a constant one is Gaussian(0.2)"
        function("Gibbs", "the lengthscale", self.lengthscale, expected)

    def fields(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        """ℓᵢ² and ½ Σ log 2^½ ℓᵢ, the logarithm of the factor that belongs to one point alone."""

        def given(place: Array) -> Array:
            return jnp.atleast_1d(self.lengthscale(place))

        lengths = called("Gibbs", "the lengthscale", given, x)
        repeats = x.shape[0] // max(lengths.shape[0], 1)
        if lengths.ndim != 1 or lengths.shape[0] not in (1, x.shape[0]):
            raise InputError(
                f"Gibbs: the lengthscale must be one number or one per coordinate, {x.shape[0]}; "
                f"got shape {lengths.shape}."
            )
        amplitude = 0.5 * repeats * jnp.sum(jnp.log(lengths) + 0.5 * log(2.0), keepdims=True)
        return jnp.concatenate([lengths**2, amplitude])

    @property
    def pairing(self) -> Pairing:
        return _gibbs


def _gibbs(x: list[Any], y: list[Any], p: list[Any], q: list[Any]):
    """log κ = m(x) + m(y) - ½ Σ log q - Σ D r with r = 1/q and D = (x - y)²; ∂κ/∂q = κ (D r - ½) r.

    One q for several coordinates has the sum of their D, and ½ for each.
    """
    *a, here = p
    *b, there = q
    differences = [u - v for u, v in zip(x, y, strict=True)]
    squares = [d * d for d in differences]
    half = 0.5
    if len(a) == 1:
        half *= len(squares)
        squares = [sum(squares[1:], start=squares[0])]
    exponent = _derivatives_of(here) + _derivatives_of(there)
    bottom, cofactors = number(here) + number(there), []
    prefactor: Any = 1.0
    for distance, one, two in zip(squares, a, b, strict=True):
        reciprocal, logarithm, powers = _powers(1.0 / (number(one) + number(two)))
        r = chained(reciprocal, one + two)
        exponent = exponent + (-half) * chained(logarithm, one + two) - distance * r
        bottom = bottom - number(distance) * powers[0]
        prefactor = prefactor * _power(powers[0], half)
        cofactors.append((distance * r - half) * r)
    # The value comes from one exponential and one root; the algebra only needs its derivatives.
    value = jnp.exp(bottom) * prefactor
    kappa = chained(lambda _, order: value, exponent)

    def slopes() -> tuple[list[Any], list[Any]]:
        found = [kappa * cofactor for cofactor in cofactors] + [kappa]
        return found, found

    return kappa, slopes


def _powers(inverse: Array):
    """1/q and log q (up to a constant) by their derivatives, given 1/q."""
    powers = [inverse]
    for _ in range(4):
        powers.append(powers[-1] * inverse)

    def reciprocal(_: Any, order: int) -> Array:
        return (-1.0) ** order * factorial(order) * powers[order]

    def logarithm(_: Any, order: int) -> Array | float:
        return 0.0 if order == 0 else reciprocal(None, order - 1)

    return reciprocal, logarithm, powers


def _power(inverse: Array, exponent: float) -> Array:
    whole, half = divmod(round(2 * exponent), 2)
    root = jnp.sqrt(inverse) if half else 1.0
    return root * inverse**whole if whole else jnp.asarray(root)


def _derivatives_of(element: Any) -> Any:
    """An element without its value; nothing of a plain number."""
    return element.without_value() if isinstance(element, Element) else 0.0


def gibbs_in(kernels: Any) -> list[Gibbs]:
    """The kernels of a tree whose lengthscale varies from place to place."""
    nodes = jax.tree.leaves(kernels, is_leaf=lambda node: isinstance(node, Gibbs))
    return [node for node in nodes if isinstance(node, Gibbs)]
