"""Second-order differential operators at points, and the algebra of functions under them.

An operator φ = c + L with L = Σᵢ cᵢ ∂ᵢ + Σ_{k≤l} w_kl ∂ₖ∂ₗ does not require the full second-order
jet of a function. It requires f, Lf, and ∂ₖf in the directions k of its second-order part:

    L(fg) = f Lg + g Lf + Σ w_kl (∂ₖf ∂ₗg + ∂ₗf ∂ₖg),
    L h(f) = h'(f) Lf + h''(f) Σ w_kl ∂ₖf ∂ₗf.

These rules define a small commutative algebra per point. A function of two points has an operator
on each side. It is an element of the left (outer) algebra with components in the right (inner)
algebra. For the heat operator in one space dimension it has 9 numbers per pair of points
instead of 16 derivatives, and for the Laplacian in the plane 16 instead of 25.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, Union

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.kernels._multiindex import MultiIndex
from kernelpde.kernels._optional import add_optional

Pair: TypeAlias = tuple[int, int]

Element: TypeAlias = Union["OperatorElement", Array, float]
"""A number, an array, or a function under the operators of one or both sides."""

Derivatives: TypeAlias = Callable[[int], Array | float]
"""The derivatives of a function of one number, by order."""

VALUE, APPLIED = -1, -2
"""Keys of f and Lf among the components of an element. Other keys are directions."""


class Operators(eqx.Module):
    """M operators φᵢ = cᵢ + Σₖ cᵢₖ ∂ₖ + Σ wᵢₖₗ ∂ₖ∂ₗ, each at its own point.

    **Attributes:**

    - `points`: xᵢ.
    - `value`: cᵢ.
    - `first`: cᵢₖ.
    - `second`: wᵢₖₗ, one column per entry of `pairs`.
    - `pairs`: the (k, l) with k ≤ l that occur.
    """

    points: Float[Array, "M d"]
    value: Float[Array, " M"]
    first: Float[Array, "M d"]
    second: Float[Array, "M P"]
    pairs: tuple[Pair, ...] = eqx.field(static=True)

    @property
    def directions(self) -> tuple[int, ...]:
        """Coordinates k in second derivatives."""
        return tuple(sorted({k for pair in self.pairs for k in pair}))

    @property
    def keys(self) -> tuple[int, ...]:
        """Keys of the components of a function, in the order of their storage."""
        return (VALUE, *self.directions, APPLIED)

    def __len__(self) -> int:
        return self.points.shape[0]


def make_operators(
    points: Float[Array, "M d"],
    coefficients: Float[Array, "M T"],
    orders: Sequence[Sequence[MultiIndex]],
) -> Operators:
    """Make the operators Σₜ cᵢₜ Σ_{γ ∈ Γₜ} ∂^γ, for γ of order two at most."""
    columns: dict[tuple[int, ...], Array] = {}
    for t, group in enumerate(orders):
        for gamma in group:
            directions = tuple(i for i, n in enumerate(gamma) for _ in range(n))
            columns[directions] = add_optional(columns.get(directions), coefficients[:, t])
    zero = jnp.zeros(points.shape[0])
    pairs = tuple(sorted((key[0], key[1]) for key in columns if len(key) == 2))
    second = jnp.stack([columns[p] for p in pairs], axis=1) if pairs else jnp.zeros((len(zero), 0))
    return Operators(
        points,
        columns.get((), zero),
        jnp.stack([columns.get((i,), zero) for i in range(points.shape[1])], axis=1),
        second,
        pairs,
    )


class ProductRule(NamedTuple):
    """Product rule of the elements of one side.

    **Attributes:**

    - `is_outer`: whether components may be elements of the other side.
    - `directions`: coordinates k in second derivatives.
    - `weights`: w_kl by pair of directions.
    """

    is_outer: bool
    directions: tuple[int, ...]
    weights: tuple[tuple[Pair, Array], ...]


class OperatorElement:
    """(f, ∂ₖf, Lf) for the operators of one side.

    **Arguments:**

    - `rule`: product rule of the side.
    - `components`: arrays, numbers or elements of the inner side, by `VALUE`, direction or
      `APPLIED`. Missing components are zero.
    """

    def __init__(self, rule: ProductRule, components: Mapping[int, Element]):
        self.rule, self.components = rule, components

    def _outer_first(
        self, other: Element
    ) -> "tuple[OperatorElement, Element, Mapping[int, Element] | None]":
        """Return both, the outer one first, and the components of the second in its algebra.

        `None` marks a number, array or element that is constant in this algebra.
        """
        if not isinstance(other, OperatorElement):
            return self, other, None
        if other.rule.is_outer == self.rule.is_outer:
            return self, other, other.components
        return (self, other, None) if self.rule.is_outer else (other, self, None)

    def _map(self, function: Callable[[Element], Element]) -> "OperatorElement":
        return OperatorElement(self.rule, {k: function(c) for k, c in self.components.items()})

    def __add__(self, other: Element) -> "OperatorElement":
        first, second, summand = self._outer_first(other)
        components = dict(first.components)
        for key, component in ({VALUE: second} if summand is None else summand).items():
            components[key] = add_optional(components.get(key), component)
        return OperatorElement(first.rule, components)

    __radd__ = __add__

    def __neg__(self) -> "OperatorElement":
        return self._map(lambda component: -component)

    def __sub__(self, other: Element) -> "OperatorElement":
        return self + (-other)

    def __rsub__(self, other: Element) -> "OperatorElement":
        return -self + other

    def __mul__(self, other: Element) -> "OperatorElement":
        first, second, g = self._outer_first(other)
        if g is None:
            return first._map(lambda component: component * second)
        f = self.components
        components: dict[int, Element] = {}

        def add_product(
            key: int,
            left: Element | None,
            right: Element | None,
            factor: Array | float | None = None,
        ) -> None:
            if left is not None and right is not None:
                product = left * right if factor is None else factor * (left * right)
                components[key] = add_optional(components.get(key), product)

        is_square = f is g
        add_product(VALUE, f.get(VALUE), g.get(VALUE))
        for key in (*self.rule.directions, APPLIED):
            add_product(key, f.get(key), g.get(VALUE), 2.0 if is_square else None)
            if not is_square:
                add_product(key, f.get(VALUE), g.get(key))
        for (k, m), weight in self.rule.weights:
            if k == m or is_square:
                add_product(APPLIED, f.get(k), g.get(m), 2.0 * weight)
            else:
                add_product(APPLIED, f.get(k), g.get(m), weight)
                add_product(APPLIED, f.get(m), g.get(k), weight)
        return OperatorElement(self.rule, components)

    __rmul__ = __mul__

    def without_value(self) -> "OperatorElement":
        """Return this element with f = 0 and unchanged derivatives."""
        derivatives = {key: c for key, c in self.components.items() if key != VALUE}
        return OperatorElement(self.rule, derivatives)


def chain_rule(derivatives: Derivatives, element: Element, order: int = 0) -> Element:
    """Return h⁽ⁿ⁾(f), n = `order`, for a function h with known derivatives at the values of f."""
    if not isinstance(element, OperatorElement):
        return derivatives(order)
    f, rule = element.components, element.rule
    value, first, second = (chain_rule(derivatives, f.get(VALUE, 0.0), order + n) for n in range(3))
    components: dict[int, Element] = {VALUE: value}
    for key in (*rule.directions, APPLIED):
        if key in f:
            components[key] = first * f[key]
    for (k, m), weight in rule.weights:
        if k in f and m in f:
            product = second * (weight * (f[k] * f[m]))
            components[APPLIED] = add_optional(components.get(APPLIED), product)
    return OperatorElement(rule, components)


def differences(left: Sequence[Element], right: Sequence[Element]) -> list[Element]:
    """Return the differences of elements."""
    return [a - b for a, b in zip(left, right, strict=True)]


def scalar_part(element: Element) -> Array | float:
    """Return the value f of nested elements."""
    if isinstance(element, OperatorElement):
        return scalar_part(element.components.get(VALUE, 0.0))
    return element


def get_components(element: Element) -> Mapping[int, Element]:
    """Return the components of an element. A number or an array has a value only."""
    return element.components if isinstance(element, OperatorElement) else {VALUE: element}
