"""Kernels of fields that are evaluated once per point: κ(x, y) = k(p(x), p(y)).

The fields p may be costly, a neural network for example; k is a formula. At every point the fields
and their derivatives are reduced to what the point's operator sees of them (`_operators`), which is
O(M) work; the pairwise stage is arithmetic on numbers.

The derivative in the fields is exact and needs no tape of that arithmetic. If p changes by δp, then
κ changes by H δp with H = ∂k/∂p, and the operator on the left gives

    φ(H δp) = (φH) δp + H Lδp + Σ w_kl (∂ₖH ∂ₗδp + ∂ₗH ∂ₖδp):

the same few parts of one more function, H, serve for every part of every field's change. Products
with vectors contract them, tile by tile.
"""

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._function import nested_partials
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Scale, Sum
from kernelpde.kernels._multiindex import OrderPair
from kernelpde.kernels._operators import OPERATED, VALUE, Element, Operators, Rule, plus

Pairing: TypeAlias = Callable[
    [list[Any], list[Any], list[Any], list[Any]],
    tuple[Any, Callable[[], tuple[list[Any], list[Any]]]],
]
"""k(x, y, p, q), in numbers or in elements of the operators' algebra, and a function that gives
∂k/∂pᵢ and ∂k/∂qᵢ."""

_TILE = 2**17
"""Pairs of points in a tile: its temporaries stay in the cache. Measured."""


class AbstractComposed(AbstractKernel):
    """κ(x, y) = k(x, y, p(x), p(y)) with fields p.

    Subclasses provide the fields, whose hyperparameters are differentiated through them, and the
    formula, whose own numbers, if any, are its array leaves.
    """

    @abc.abstractmethod
    def fields(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        """p(x)."""

    @property
    @abc.abstractmethod
    def pairing(self) -> Pairing:
        """k and its derivatives in p(x) and p(y)."""

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        """By nested differentiation: for products, restrictions and equations of higher order."""
        dimension = len(x)

        def value(*coordinates: Array) -> Array:
            sides = [list(coordinates[:dimension]), list(coordinates[dimension:])]
            found = [self._everywhere(side) for side in sides]
            return self.pairing(*sides, *found)[0]

        return list(nested_partials(value, x, y, orders))

    def _everywhere(self, coordinates: list[Array]) -> list[Array]:
        """p at points given by arrays of coordinates."""
        together = jnp.stack(jnp.broadcast_arrays(*coordinates), axis=-1)
        flat = jax.vmap(self.fields)(together.reshape(-1, len(coordinates)))
        return [flat[:, i].reshape(together.shape[:-1]) for i in range(flat.shape[1])]


def summands(
    kernel: AbstractKernel,
) -> tuple[AbstractKernel | None, list[tuple[Array | None, AbstractComposed]]]:
    """κ = κ₀ + Σ σᵢ² κᵢ with composed kernels κᵢ and the rest κ₀; `None` stands for σ² = 1."""
    if isinstance(kernel, AbstractComposed):
        return None, [(None, kernel)]
    if isinstance(kernel, Frozen):
        rest, found = summands(kernel.kernel)
        return (rest, found) if found else (kernel, [])
    if isinstance(kernel, Scale):
        rest, found = summands(kernel.kernel)
        variance = kernel.variance
        if not found:
            return kernel, []
        scaled: list[tuple[Array | None, AbstractComposed]] = [
            (variance if s is None else variance * s, one) for s, one in found
        ]
        return None if rest is None else eqx.tree_at(lambda k: k.kernel, kernel, rest), scaled
    if isinstance(kernel, Sum):
        (one, first), (two, second) = summands(kernel.first), summands(kernel.second)
        rest = two if one is None else one if two is None else Sum(one, two)
        return rest, first + second
    return kernel, []


class Seen(eqx.Module):
    """Operators with what they see of the fields at their points.

    **Attributes:**

    - `operators`: φ.
    - `fields`: for each point and field, its parts in the order of `Operators.keys`.
    """

    operators: Operators
    fields: Float[Array, "M n P"]

    def __len__(self) -> int:
        return len(self.operators)


def seen(kernel: AbstractComposed, operators: Operators) -> Seen:
    """The fields of a kernel as operators see them: one evaluation of the fields per point."""
    points = operators.points

    # Derivatives along a direction for all points at once: in reverse mode several times faster
    # than a Jacobian per point.
    def along(function: Callable, direction: Float[Array, "M d"]) -> Callable:
        return lambda at: jax.jvp(function, (at,), (direction,))[1]

    everywhere = jax.vmap(kernel.fields)
    axes = {k: jnp.zeros_like(points).at[:, k].set(1.0) for k in operators.directions}
    operated = along(everywhere, operators.first)(points)
    for c, (k, m) in enumerate(operators.pairs):
        second = along(along(everywhere, axes[k]), axes[m])(points)
        operated = operated + operators.second[:, c, None] * second
    first = [along(everywhere, axes[k])(points) for k in operators.directions]
    fields = jnp.stack([everywhere(points), *first, operated], axis=2)
    # Fused into the pairwise stage, the fields would be computed again for every pair; and with
    # tangents XLA's CPU code for some such fusions gives wrong numbers (seen with jaxlib 0.10.2 for
    # a network at a handful of points, where the same program unfused is right).
    return Seen(operators, jax.lax.optimization_barrier(fields))


def composed_gram(pairing: Pairing, left: Seen, right: Seen) -> Float[Array, "M N"]:
    """φᵢ ψⱼ κ."""
    value, _ = _pairwise(pairing, left, right, (1, 0))
    return _by_right(right, _by_left(left, value, 1), 0)


def composed_diagonal(pairing: Pairing, both: Seen) -> Float[Array, " M"]:
    """φᵢ φᵢ κ."""
    value, _ = _pairwise(pairing, both, both, (None, None))
    return _by_right(both, _by_left(both, value, None), None)


def composed_product(
    pairing: Pairing, left: Seen, right: Seen, vector: Float[Array, " N"], keep: bool = False
) -> Float[Array, " M"]:
    """Σⱼ φᵢ ψⱼ κ vⱼ, tile by tile.

    **Arguments:**

    - `pairing`, `left`, `right`, `vector`: k, φ, ψ, v.
    - `keep`: whether derivatives keep the arrays they are made of, to be taken many times in
      different directions, instead of computing a tile again each time.
    """
    if left is right:
        return _symmetric_product(pairing, left.operators, left.fields, vector, keep=keep)
    both = (left.operators, right.operators, left.fields, right.fields)
    return _product(pairing, *both, vector, keep=keep)


def _plain_product(
    pairing, left_operators, right_operators, left_fields, right_fields, vector, *, keep
):
    right = Seen(right_operators, right_fields)

    def tile(rows: Seen) -> Float[Array, " T"]:
        return composed_gram(pairing, rows, right) @ vector

    return _by_tiles(tile, Seen(left_operators, left_fields), len(right), keep)


@eqx.filter_custom_jvp
def _product(pairing, left_operators, right_operators, left_fields, right_fields, vector, *, keep):
    return _plain_product(
        pairing, left_operators, right_operators, left_fields, right_fields, vector, keep=keep
    )


@_product.def_jvp
def _(primals, tangents, *, keep):
    pairing, left_operators, right_operators, left_fields, right_fields, vector = primals
    *others, left_change, right_change, vector_change = tangents
    value = _product(*primals, keep=keep)
    right = Seen(right_operators, right_fields)
    total = _of_others(primals, (*others, None, None, vector_change), keep)
    at_left = jnp.zeros_like(left_fields) if left_change is None else left_change
    at_right = None if right_change is None else right_change * vector[:, None, None]

    def tile(rows: tuple[Seen, Array]) -> Float[Array, " T"]:
        here, change = rows
        slopes, others_slopes = _pairwise(pairing, here, right, (1, 0))[1]()
        found = jnp.zeros(len(here))
        for i, slope in enumerate(slopes if left_change is not None else []):
            arrays = _shifts(here, {k: _by_right(right, p, 0) for k, p in slope.parts.items()}, 1)
            for c, array in enumerate(arrays):
                found = found + change[:, i, c] * (array @ vector)
        if at_right is not None:
            for i, slope in enumerate(others_slopes):
                for c, array in enumerate(_shifts(right, _by_left(here, slope, 1).parts, 0)):
                    found = found + array @ at_right[:, i, c]
        return found

    if left_change is not None or right_change is not None:
        rows = (Seen(left_operators, left_fields), at_left)
        total = plus(total, _by_tiles(tile, rows, len(right), keep))
    return value, total


@eqx.filter_custom_jvp
def _symmetric_product(pairing, operators, fields, vector, *, keep):
    return _plain_product(pairing, operators, operators, fields, fields, vector, keep=keep)


@_symmetric_product.def_jvp
def _(primals, tangents, *, keep):
    pairing, operators, fields, vector = primals
    pairing_change, operators_change, fields_change, vector_change = tangents
    value = _symmetric_product(*primals, keep=keep)
    total = _of_others(
        (pairing, operators, operators, fields, fields, vector),
        (pairing_change, operators_change, operators_change, None, None, vector_change),
        keep,
    )
    if fields_change is None:
        return value, total
    whole = Seen(operators, fields)

    def tile(rows: tuple[Seen, Array, Array]) -> tuple[Float[Array, " T"], Float[Array, " M"]]:
        # What changes on the left here changes on the right elsewhere.
        here, change, weights = rows
        slopes, _ = _pairwise(pairing, here, whole, (1, 0))[1]()
        direct, mirrored = jnp.zeros(len(here)), jnp.zeros(len(whole))
        for i, slope in enumerate(slopes):
            arrays = _shifts(here, {k: _by_right(whole, p, 0) for k, p in slope.parts.items()}, 1)
            for c, array in enumerate(arrays):
                direct = direct + change[:, i, c] * (array @ vector)
                mirrored = mirrored + (change[:, i, c] * weights) @ array
        return direct, mirrored

    rows = (whole, fields_change, vector)
    return value, plus(total, _by_tiles(tile, rows, len(whole), keep))


def _of_others(primals, tangents, keep: bool) -> Array | None:
    """The part of the change that does not come from the fields: by ordinary differentiation."""
    if all(leaf is None for leaf in jax.tree.leaves(tangents, is_leaf=lambda x: x is None)):
        return None
    return eqx.filter_jvp(partial(_plain_product, keep=keep), primals, tangents)[1]


def _by_tiles(function: Callable, rows: Any, columns: int, keep: bool) -> Array:
    """`function` of some rows at a time.

    It returns an array with an entry for each row, and if it returns a second one, that is added up
    over the tiles and added to the first.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    tiles = max(1, -(-count * columns // _TILE))
    size = -(-count // tiles)
    tiles = -(-count // size)
    added = tiles * size - count
    within = function if keep else jax.checkpoint(function)
    outcome = jax.eval_shape(function, jax.tree.map(lambda leaf: leaf[:size], rows))
    mirrored = isinstance(outcome, tuple)

    def padded(leaf: Array) -> Array:
        # Repeated rows are inside the domain, where everything is finite; their changes are zero.
        extra = jnp.broadcast_to(leaf[-1:], (added, *leaf.shape[1:]))
        return jnp.concatenate([leaf, extra]).reshape(tiles, size, *leaf.shape[1:])

    def masked(leaf: Array) -> Array:
        extra = jnp.zeros((added, *leaf.shape[1:]))
        return jnp.concatenate([leaf, extra]).reshape(tiles, size, *leaf.shape[1:])

    if mirrored:
        here, *changes = rows
        stacked = (jax.tree.map(padded, here), *(masked(change) for change in changes))

        def body(total: Array, tile: Any) -> tuple[Array, Array]:
            direct, other = within(tile)
            return total + other, direct

        total, direct = jax.lax.scan(body, jnp.zeros(outcome[1].shape), stacked)
        return direct.reshape(-1)[:count] + total
    result = jax.lax.map(within, jax.tree.map(padded, rows))
    return result.reshape(-1)[:count]


def _pairwise(pairing: Pairing, left: Seen, right: Seen, axes: tuple[int | None, int | None]):
    """k and its slopes as elements; `axes` are those to be inserted on either side."""
    sides = []
    for side, axis, outer in ((left, axes[0], True), (right, axes[1], False)):
        ops = side.operators
        weights = tuple((p, _spread(ops.second[:, c], axis)) for c, p in enumerate(ops.pairs))
        rule = Rule(outer, ops.directions, weights)
        position = [
            Element(
                rule,
                {VALUE: _spread(ops.points[:, i], axis), OPERATED: _spread(ops.first[:, i], axis)}
                | ({i: 1.0} if i in ops.directions else {}),
            )
            for i in range(ops.points.shape[1])
        ]
        fields = [
            Element(
                rule, {key: _spread(side.fields[:, i, c], axis) for c, key in enumerate(ops.keys)}
            )
            for i in range(side.fields.shape[1])
        ]
        sides.append((position, fields))
    (x, p), (y, q) = sides
    return pairing(x, y, p, q)


def _spread(numbers: Float[Array, " M"], axis: int | None) -> Array:
    return numbers if axis is None else jnp.expand_dims(numbers, axis)


def _by_left(left: Seen, element: Element, axis: int | None) -> Any:
    """φ of an element of the outer algebra: an element of the inner one."""
    value = _spread(left.operators.value, axis) * element.parts[VALUE]
    return value + element.parts[OPERATED] if OPERATED in element.parts else value


def _by_right(right: Seen, part: Any, axis: int | None) -> Array:
    """ψ of an element of the inner algebra: numbers."""
    if not isinstance(part, Element):
        return _spread(right.operators.value, axis) * part
    value = _spread(right.operators.value, axis) * part.parts[VALUE]
    return value + part.parts[OPERATED] if OPERATED in part.parts else value


def _shifts(side: Seen, slope: dict[int, Array], axis: int) -> list[Array]:
    """What each part of a field's change is multiplied by, from the parts of H on that side."""
    ops = side.operators
    value, operated = slope[VALUE], slope.get(OPERATED)
    at_value = _spread(ops.value, axis) * value
    found = {
        VALUE: at_value if operated is None else at_value + operated,
        OPERATED: value,
    }
    for c, (k, m) in enumerate(ops.pairs):
        weight = _spread(ops.second[:, c], axis)
        for one, two in {(k, m), (m, k)}:
            if two in slope:
                term = (2.0 * weight if k == m else weight) * slope[two]
                found[one] = found[one] + term if one in found else term
    zero = jnp.zeros(value.shape)
    # Kept apart from the sums over them: fused, each would compute all that they share anew.
    return jax.lax.optimization_barrier([found.get(key, zero) for key in ops.keys])
