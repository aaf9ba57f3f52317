"""The Gibbs kernel: a Gaussian kernel with a spatially varying lengthscale."""

from collections.abc import Callable, Sequence
from math import factorial, log

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from kernelpde.checking import check_callable
from kernelpde.errors import InputError
from kernelpde.kernels._nonstationary import AbstractNonstationary, Pairing, Slopes
from kernelpde.kernels._operators import (
    Derivatives,
    Element,
    OperatorElement,
    chain_rule,
    differences,
    scalar_part,
)
from kernelpde.kernels._parameters import call_user_function, trace_user_function


class Gibbs(AbstractNonstationary):
    """κ(x, y) = ∏ᵢ √(2 ℓᵢ(x) ℓᵢ(y) / qᵢ) exp(-Σᵢ (xᵢ - yᵢ)² / qᵢ), qᵢ = ℓᵢ(x)² + ℓᵢ(y)².

    Section 5.4 of the paper (Gibbs 1998; Rasmussen and Williams, section 4.2.3). Where ℓ is
    constant it is the Gaussian kernel with that lengthscale.

    **Arguments:**

    - `lengthscale`: ℓ, a function of a point that returns a positive number for all coordinates or
      one for each: a `NetworkLengthscale`, a `BumpLengthscale`, or any function or
      `equinox.Module`. Its inexact array leaves are hyperparameters.

    **Example:**

    ```python
    >>> steep = kp.Gibbs(lambda x: 0.05 + 0.5 * x)  # short lengthscales near x = 0
    ```
    """

    lengthscale: Callable[[Array], Array]

    def __check_init__(self):
        expected = "a function of a point; a constant one is Gaussian(0.2)"
        check_callable("Gibbs", "the lengthscale", self.lengthscale, expected)

    def bind_coordinates(self, names: Sequence[str]) -> "Gibbs":
        return trace_user_function(self, "lengthscale", len(names))

    def local_parameters(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        """Return ℓᵢ² and ½ Σ log 2^½ ℓᵢ, the logarithm of the factor that depends on x alone."""
        lengths = call_user_function(
            "Gibbs", "the lengthscale", lambda point: jnp.atleast_1d(self.lengthscale(point)), x
        )
        repeats = x.shape[0] // max(lengths.shape[0], 1)
        if lengths.ndim != 1 or lengths.shape[0] not in (1, x.shape[0]):
            raise InputError(
                f"Gibbs: the lengthscale must be one number or one per coordinate, {x.shape[0]}; "
                f"got shape {lengths.shape}."
            )
        amplitude = 0.5 * repeats * jnp.sum(jnp.log(lengths) + 0.5 * log(2.0), keepdims=True)
        return jnp.concatenate([lengths**2, amplitude])

    @property
    def pair_function(self) -> Pairing:
        return _gibbs


def _gibbs(
    x: Sequence[Element], y: Sequence[Element], p: Sequence[Element], q: Sequence[Element]
) -> tuple[Element, Slopes]:
    """log κ = m(x) + m(y) - ½ Σ log q - Σ D r with r = 1/q and D = (x - y)²; ∂κ/∂q = κ (D r - ½) r.

    One q for several coordinates has the sum of their D, and ½ for each.
    """
    *left_squares, left_amplitude = p
    *right_squares, right_amplitude = q
    squares = [d * d for d in differences(x, y)]
    half = 0.5
    if len(left_squares) == 1:
        half *= len(squares)
        squares = [sum(squares[1:], start=squares[0])]
    exponent = _without_value(left_amplitude) + _without_value(right_amplitude)
    scalar_exponent = scalar_part(left_amplitude) + scalar_part(right_amplitude)
    prefactor: Array | float = 1.0
    cofactors = []
    for distance, left, right in zip(squares, left_squares, right_squares, strict=True):
        reciprocal, logarithm, powers = _powers(
            1.0 / jnp.asarray(scalar_part(left) + scalar_part(right))
        )
        r = chain_rule(reciprocal, left + right)
        exponent = exponent + (-half) * chain_rule(logarithm, left + right) - distance * r
        scalar_exponent = scalar_exponent - scalar_part(distance) * powers[0]
        prefactor = prefactor * _power(powers[0], half)
        cofactors.append((distance * r - half) * r)
    # The algebra supplies derivatives only, so that the value costs one exponential and one root.
    value = jnp.exp(scalar_exponent) * prefactor
    kappa = chain_rule(lambda order: value, exponent)

    def slopes() -> tuple[list[Element], list[Element]]:
        derivatives = [kappa * cofactor for cofactor in cofactors] + [kappa]
        return derivatives, derivatives

    return kappa, slopes


def _powers(inverse: Array) -> tuple[Derivatives, Derivatives, list[Array]]:
    """Return 1/q and log q (up to a constant) as derivatives of any order, and powers of 1/q."""
    powers = [inverse]
    for _ in range(4):
        powers.append(powers[-1] * inverse)

    def reciprocal(order: int) -> Array:
        return (-1.0) ** order * factorial(order) * powers[order]

    def logarithm(order: int) -> Array | float:
        return 0.0 if order == 0 else reciprocal(order - 1)

    return reciprocal, logarithm, powers


def _power(base: Array, exponent: float) -> Array:
    integer, half = divmod(round(2 * exponent), 2)
    root = jnp.sqrt(base) if half else 1.0
    return root * base**integer if integer else jnp.asarray(root)


def _without_value(element: Element) -> Element:
    """Remove the value of an element. A plain number becomes zero."""
    return element.without_value() if isinstance(element, OperatorElement) else 0.0


def find_gibbs(kernels: PyTree) -> list[Gibbs]:
    """Return all Gibbs kernels in a tree."""

    def is_gibbs(node: PyTree) -> bool:
        return isinstance(node, Gibbs)

    return list(filter(is_gibbs, jax.tree.leaves(kernels, is_leaf=is_gibbs)))
