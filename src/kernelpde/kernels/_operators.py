"""Second-order differential operators at points, and the algebra in which they act.

An operator φ = c + L with L = Σᵢ cᵢ ∂ᵢ + Σ_{k≤l} w_kl ∂ₖ∂ₗ does not need the whole second-order jet
of a function but f, the first derivatives ∂ₖf in the directions k of its second-order part, and Lf:

    L(fg) = f Lg + g Lf + Σ w_kl (∂ₖf ∂ₗg + ∂ₗf ∂ₖg),
    L h(f) = h'(f) Lf + h''(f) Σ w_kl ∂ₖf ∂ₗf.

These are the rules of a small commutative algebra, one per point. A function of two points has an
operator on each side; it is an element of the left algebra whose parts are elements of the right.
For the heat operator in one space dimension that is 9 numbers per pair of points where derivatives
would be 16, and for the Laplacian in the plane 16 where they would be 25.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.kernels._multiindex import MultiIndex

Pair: TypeAlias = tuple[int, int]

VALUE, OPERATED = -1, -2
"""Keys of f and Lf among the parts of an element; the others are numbers of directions."""


class Operators(eqx.Module):
    """M operators φᵢ = cᵢ + Σₖ cᵢₖ ∂ₖ + Σ wᵢₖₗ ∂ₖ∂ₗ, each at its own point.

    **Attributes:**

    - `points`: where.
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
        """The k that occur in second derivatives."""
        return tuple(sorted({k for pair in self.pairs for k in pair}))

    @property
    def keys(self) -> tuple[int, ...]:
        """What these operators see of a function, in the order in which it is stored."""
        return (VALUE, *self.directions, OPERATED)

    def __len__(self) -> int:
        return self.points.shape[0]


def operators(
    points: Float[Array, "M d"],
    coefficients: Float[Array, "M T"],
    orders: Sequence[Sequence[MultiIndex]],
) -> Operators:
    """Σₜ cᵢₜ Σ_{γ ∈ Γₜ} ∂^γ as operators; every γ must be of second order at most."""
    found: dict[tuple[int, ...], Array] = {}
    for t, group in enumerate(orders):
        for gamma in group:
            along = tuple(i for i, n in enumerate(gamma) for _ in range(n))
            column = coefficients[:, t]
            found[along] = found[along] + column if along in found else column
    zero = jnp.zeros(points.shape[0])
    pairs = tuple(sorted((along[0], along[1]) for along in found if len(along) == 2))
    return Operators(
        points,
        found.get((), zero),
        jnp.stack([found.get((i,), zero) for i in range(points.shape[1])], axis=1),
        jnp.stack([found[pair] for pair in pairs], axis=1) if pairs else jnp.zeros((len(zero), 0)),
        pairs,
    )


class Rule(NamedTuple):
    """How the elements of a side multiply.

    **Attributes:**

    - `outer`: whether they may have elements of the other side as parts.
    - `directions`: of the side's operators.
    - `weights`: w for each pair of them.
    """

    outer: bool
    directions: tuple[int, ...]
    weights: tuple[tuple[Pair, Array], ...]


class Element:
    """(f, ∂ₖf, Lf) for the operators of one side.

    **Arguments:**

    - `rule`: of the side.
    - `parts`: by `VALUE`, direction or `OPERATED`: arrays, numbers, or elements of the inner side.
      What is missing is zero.
    """

    def __init__(self, rule: Rule, parts: dict[int, Any]):
        self.rule, self.parts = rule, parts

    def _within(self, other: Any) -> bool:
        """Whether `other` is an element of the algebra around this one."""
        return isinstance(other, Element) and other.rule.outer and not self.rule.outer

    def _beside(self, other: Any) -> bool:
        return isinstance(other, Element) and other.rule.outer == self.rule.outer

    def __add__(self, other: Any) -> "Element":
        if self._within(other):
            return other + self
        parts = dict(self.parts)
        for key, part in (other.parts if self._beside(other) else {VALUE: other}).items():
            parts[key] = plus(parts.get(key), part)
        return Element(self.rule, parts)

    __radd__ = __add__

    def __neg__(self) -> "Element":
        return Element(self.rule, {key: -part for key, part in self.parts.items()})

    def __sub__(self, other: Any) -> "Element":
        return self + (-other)

    def __rsub__(self, other: Any) -> "Element":
        return other + (-self)

    def __mul__(self, other: Any) -> "Element":
        if self._within(other):
            return other * self
        if not self._beside(other):
            return Element(self.rule, {key: part * other for key, part in self.parts.items()})
        f, g = self.parts, other.parts
        found: dict[int, Any] = {}
        add = partial(_add_product, found)
        square = f is g
        add(VALUE, f.get(VALUE), g.get(VALUE))
        for key in (*self.rule.directions, OPERATED):
            add(key, f.get(key), g.get(VALUE), 2.0 if square else None)
            if not square:
                add(key, f.get(VALUE), g.get(key))
        for (k, m), weight in self.rule.weights:
            if k == m or square:
                add(OPERATED, f.get(k), g.get(m), 2.0 * weight)
            else:
                add(OPERATED, f.get(k), g.get(m), weight)
                add(OPERATED, f.get(m), g.get(k), weight)
        return Element(self.rule, found)

    __rmul__ = __mul__

    def without_value(self) -> "Element":
        """The same with f = 0 but its derivatives as they are."""
        return Element(self.rule, {key: p for key, p in self.parts.items() if key != VALUE})


def _add_product(found: dict[int, Any], key: int, one: Any, two: Any, factor: Any = None) -> None:
    """Add a product to a part, unless one of its factors is zero."""
    if one is not None and two is not None:
        product = one * two if factor is None else factor * (one * two)
        found[key] = plus(found.get(key), product)


def chained(derivatives: Callable[[Any, int], Any], element: Any, order: int = 0) -> Any:
    """h⁽ⁿ⁾(f), n = `order`, for a function h of numbers given by all its derivatives."""
    if not isinstance(element, Element):
        return derivatives(element, order)
    parts, rule = element.parts, element.rule
    inside = parts.get(VALUE, 0.0)
    value, slope, bend = (chained(derivatives, inside, order + n) for n in range(3))
    found = {VALUE: value}
    for key in (*rule.directions, OPERATED):
        if key in parts:
            found[key] = slope * parts[key]
    for (k, m), weight in rule.weights:
        if k in parts and m in parts:
            curved = bend * (weight * (parts[k] * parts[m]))
            found[OPERATED] = plus(found.get(OPERATED), curved)
    return Element(rule, found)


def number(element: Any) -> Any:
    """f itself, at the bottom of nested elements."""
    return number(element.parts.get(VALUE, 0.0)) if isinstance(element, Element) else element


def plus(one: Any, two: Any) -> Any:
    """The sum of what is there."""
    return two if one is None else one if two is None else one + two
