"""Nonstationary kernels: κ(x, y) = k(x, y, p(x), p(y)) with local parameters p.

Local parameters are evaluated once per point, by a neural network for example. The pair function k
is a formula. At every point, local parameters and their derivatives are reduced to the components
under the point's operator (`_operators`), at a cost of O(M). Only arithmetic remains per pair.

Derivatives in p are exact and store no intermediate arrays of that arithmetic. A change δp changes
κ by H δp with H = ∂k/∂p, and the operator on the left gives

    φ(H δp) = (φH) δp + H Lδp + Σ w_kl (∂ₖH ∂ₗδp + ∂ₗH ∂ₖδp).

The components of the single function H therefore serve all components of all δp. Products with
vectors contract them, tile by tile.
"""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from kernelpde.arrays import FLOAT_BYTES
from kernelpde.kernels._function import nested_partials
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, NonstationarySplit, Partials
from kernelpde.kernels._multiindex import OrderPair
from kernelpde.kernels._operators import (
    APPLIED,
    VALUE,
    Element,
    OperatorElement,
    Operators,
    ProductRule,
    get_components,
)
from kernelpde.kernels._optional import add_optional
from kernelpde.kernels._tiles import map_tiles, pad_rows, split_rows
from kernelpde.memory import CACHE_BYTES, LIVE_ARRAYS

Slopes: TypeAlias = Callable[[], tuple[list[Element], list[Element]]]
"""A function that returns ∂k/∂pᵢ and ∂k/∂qᵢ."""

Pairing: TypeAlias = Callable[
    [Sequence[Element], Sequence[Element], Sequence[Element], Sequence[Element]],
    tuple[Element, Slopes],
]
"""k(x, y, p, q) for numbers or elements of the operators' algebra, with its slopes."""


class AbstractNonstationary(AbstractKernel):
    """κ(x, y) = k(x, y, p(x), p(y)) with local parameters p.

    Subclasses implement the local parameters and the pair function. The array leaves of both are
    hyperparameters.
    """

    @abc.abstractmethod
    def local_parameters(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        """Return p(x)."""

    @property
    @abc.abstractmethod
    def pair_function(self) -> Pairing:
        """The function k with its derivatives in p(x) and p(y)."""

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        """Differentiate by nesting, for products, restrictions and equations of higher order."""
        dimension = len(x)

        def value(*coordinates: Array) -> Array:
            left, right = list(coordinates[:dimension]), list(coordinates[dimension:])
            parameters = (self._evaluate(left), self._evaluate(right))
            return jnp.asarray(self.pair_function(left, right, *parameters)[0])

        return list(nested_partials(value, x, y, orders))

    def split_nonstationary(self) -> NonstationarySplit:
        return None, ((None, self),)

    def _evaluate(self, coordinates: list[Array]) -> list[Array]:
        """Return p at points given by arrays of coordinates."""
        points = jnp.stack(jnp.broadcast_arrays(*coordinates), axis=-1)
        flat = jax.vmap(self.local_parameters)(points.reshape(-1, len(coordinates)))
        return [flat[:, i].reshape(points.shape[:-1]) for i in range(flat.shape[1])]


class OperatorValues(eqx.Module):
    """Operators with the values of local parameters under them.

    **Attributes:**

    - `operators`: φ.
    - `parameters`: components of each local parameter at each point, in the order of
      `Operators.keys`.
    """

    operators: Operators
    parameters: Float[Array, "M n P"]

    def __len__(self) -> int:
        return len(self.operators)


def apply_operators(kernel: AbstractNonstationary, operators: Operators) -> OperatorValues:
    """Apply operators to the local parameters of a kernel, evaluated once per point."""
    points = operators.points

    # Directional derivatives for all points at once are several times faster in reverse mode than a
    # Jacobian per point.
    def differentiate(function: Callable, direction: Float[Array, "M d"]) -> Callable:
        return lambda at: jax.jvp(function, (at,), (direction,))[1]

    evaluate = jax.vmap(kernel.local_parameters)
    axes = {k: jnp.zeros_like(points).at[:, k].set(1.0) for k in operators.directions}
    applied = differentiate(evaluate, operators.first)(points)
    for c, (k, m) in enumerate(operators.pairs):
        second = differentiate(differentiate(evaluate, axes[k]), axes[m])(points)
        applied = applied + operators.second[:, c, None] * second
    first = [differentiate(evaluate, axes[k])(points) for k in operators.directions]
    parameters = jnp.stack([evaluate(points), *first, applied], axis=2)
    # Fused into the pairwise stage, local parameters would be computed again for every pair. With
    # tangents, XLA's CPU code for some such fusions also gives wrong numbers (seen with jaxlib
    # 0.10.2 for a network at a handful of points, where the same program unfused is right).
    return OperatorValues(operators, jax.lax.optimization_barrier(parameters))


def nonstationary_gram(
    pair_function: Pairing, left: OperatorValues, right: OperatorValues
) -> Float[Array, "M N"]:
    """Return φᵢ ψⱼ κ."""
    value, _ = _evaluate_pairs(pair_function, left, right, (1, 0))
    return jnp.asarray(_apply(right, _apply(left, value, 1), 0))


def nonstationary_diagonal(pair_function: Pairing, values: OperatorValues) -> Float[Array, " M"]:
    """Return φᵢ φᵢ κ."""
    value, _ = _evaluate_pairs(pair_function, values, values, (None, None))
    return jnp.asarray(_apply(values, _apply(values, value, None), None))


def nonstationary_matvec(
    pair_function: Pairing,
    left: OperatorValues,
    right: OperatorValues,
    vector: Float[Array, " N"],
    cache_intermediates: bool = False,
) -> Float[Array, " M"]:
    """Return Σⱼ φᵢ ψⱼ κ vⱼ, computed tile by tile.

    **Arguments:**

    - `pair_function`, `left`, `right`, `vector`: k, φ, ψ, v.
    - `cache_intermediates`: whether derivatives store the intermediate arrays of all tiles instead
      of recomputing them. Faster if many directions are differentiated.
    """
    if left is right:
        return _symmetric_product(
            pair_function, left, vector, cache_intermediates=cache_intermediates
        )
    return _product(pair_function, left, right, vector, cache_intermediates=cache_intermediates)


def _plain_product(pair_function, left, right, vector, *, cache_intermediates):
    def tile(rows: OperatorValues) -> Float[Array, " T"]:
        return nonstationary_gram(pair_function, rows, right) @ vector

    num_tiles = _num_tiles(left, right)
    return map_tiles(tile, left, num_tiles, cache_intermediates=cache_intermediates)


def _num_tiles(left: OperatorValues, right: OperatorValues) -> int:
    return max(1, -(-len(left) * len(right) * LIVE_ARRAYS * FLOAT_BYTES // CACHE_BYTES))


def _without_parameters(tangent: OperatorValues) -> OperatorValues:
    return eqx.tree_at(lambda t: t.parameters, tangent, None, is_leaf=lambda leaf: leaf is None)


_product = eqx.filter_custom_jvp(_plain_product)


@_product.def_jvp
def _(primals, tangents, *, cache_intermediates):
    pair_function, left, right, vector = primals
    pair_tangent, left_tangent, right_tangent, vector_tangent = tangents
    value = _product(*primals, cache_intermediates=cache_intermediates)
    remaining = (_without_parameters(left_tangent), _without_parameters(right_tangent))
    total = _other_tangents(
        primals, (pair_tangent, *remaining, vector_tangent), cache_intermediates
    )
    left_tangent, right_tangent = left_tangent.parameters, right_tangent.parameters
    if left_tangent is None and right_tangent is None:
        return value, total
    weighted = None if right_tangent is None else right_tangent * vector[:, None, None]

    def tile(rows: tuple[OperatorValues, Array | None]) -> Float[Array, " T"]:
        row_values, row_tangent = rows
        left_slopes, right_slopes = _evaluate_pairs(pair_function, row_values, right, (1, 0))[1]()
        tile_tangent = jnp.zeros(len(row_values))
        if row_tangent is not None:
            for i, c, array in _left_shifts(row_values, right, left_slopes):
                tile_tangent = tile_tangent + row_tangent[:, i, c] * (array @ vector)
        if weighted is not None:
            for i, slope in enumerate(right_slopes):
                components = get_components(_apply(row_values, slope, 1))
                for c, array in enumerate(_shifts(right, components, 0)):
                    tile_tangent = tile_tangent + array @ weighted[:, i, c]
        return tile_tangent

    num_tiles = _num_tiles(left, right)
    rows = (left, left_tangent)
    tangent = map_tiles(tile, rows, num_tiles, cache_intermediates=cache_intermediates)
    return value, add_optional(total, tangent)


@eqx.filter_custom_jvp
def _symmetric_product(pair_function, values, vector, *, cache_intermediates):
    return _plain_product(
        pair_function, values, values, vector, cache_intermediates=cache_intermediates
    )


@_symmetric_product.def_jvp
def _(primals, tangents, *, cache_intermediates):
    pair_function, values, vector = primals
    pair_tangent, values_tangent, vector_tangent = tangents
    value = _symmetric_product(*primals, cache_intermediates=cache_intermediates)
    remaining = _without_parameters(values_tangent)
    total = _other_tangents(
        (pair_function, values, values, vector),
        (pair_tangent, remaining, remaining, vector_tangent),
        cache_intermediates,
    )
    if values_tangent.parameters is None:
        return value, total

    def tile(
        rows: tuple[OperatorValues, Array, Array],
    ) -> tuple[Float[Array, " T"], Float[Array, " M"]]:
        # A change of the left parameters of a pair is one of the right parameters of its mirror.
        row_values, row_tangent, weights = rows
        slopes, _ = _evaluate_pairs(pair_function, row_values, values, (1, 0))[1]()
        direct, mirrored = jnp.zeros(len(row_values)), jnp.zeros(len(values))
        for i, c, array in _left_shifts(row_values, values, slopes):
            direct = direct + row_tangent[:, i, c] * (array @ vector)
            mirrored = mirrored + (row_tangent[:, i, c] * weights) @ array
        return direct, mirrored

    compute = tile if cache_intermediates else jax.checkpoint(tile)

    def step(mirrored: Array, rows: PyTree) -> tuple[Array, Array]:
        direct, tile_mirrored = compute(rows)
        return mirrored + tile_mirrored, direct

    count, num_tiles = len(values), _num_tiles(values, values)
    padded = pad_rows((values, values_tangent.parameters, vector), -(-count // num_tiles))
    padded = (padded[0], padded[1].at[count:].set(0.0), padded[2])
    mirrored, direct = jax.lax.scan(step, jnp.zeros(count), split_rows(padded, num_tiles))
    return value, add_optional(total, direct.reshape(-1)[:count] + mirrored)


def _other_tangents(primals, tangents, cache_intermediates: bool) -> Array | None:
    """Return the tangent without changes of local parameters, by ordinary differentiation."""
    if not jax.tree.leaves(tangents):
        return None
    function = partial(_plain_product, cache_intermediates=cache_intermediates)
    return eqx.filter_jvp(function, primals, tangents)[1]


def _evaluate_pairs(
    pair_function: Pairing,
    left: OperatorValues,
    right: OperatorValues,
    axes: tuple[int | None, int | None],
):
    """Return k and its slopes as elements, with the new `axes` inserted on the two sides."""

    def elements(values: OperatorValues, axis: int | None, is_outer: bool):
        ops = values.operators
        weights = tuple((p, _expand(ops.second[:, c], axis)) for c, p in enumerate(ops.pairs))
        rule = ProductRule(is_outer, ops.directions, weights)
        coordinates = []
        for i in range(ops.points.shape[1]):
            components: dict[int, Element] = {
                VALUE: _expand(ops.points[:, i], axis),
                APPLIED: _expand(ops.first[:, i], axis),
            }
            if i in ops.directions:
                components[i] = 1.0
            coordinates.append(OperatorElement(rule, components))
        parameters = [
            OperatorElement(
                rule,
                {k: _expand(values.parameters[:, i, c], axis) for c, k in enumerate(ops.keys)},
            )
            for i in range(values.parameters.shape[1])
        ]
        return coordinates, parameters

    x, p = elements(left, axes[0], True)
    y, q = elements(right, axes[1], False)
    return pair_function(x, y, p, q)


def _expand(values: Float[Array, " M"], axis: int | None) -> Array:
    return values if axis is None else jnp.expand_dims(values, axis)


def _apply(values: OperatorValues, element: Element, axis: int | None) -> Element:
    """Apply the operators of the outer, else the inner algebra, to an element of that algebra."""
    components = get_components(element)
    value = _expand(values.operators.value, axis) * components[VALUE]
    return value + components[APPLIED] if APPLIED in components else value


def _left_shifts(
    left: OperatorValues, right: OperatorValues, slopes: Sequence[Element]
) -> Iterator[tuple[int, int, Array]]:
    """Iterate over local parameters i, their components c, and the factors of these on the left."""
    for i, slope in enumerate(slopes):
        components = {k: _apply(right, p, 0) for k, p in get_components(slope).items()}
        for c, array in enumerate(_shifts(left, components, 1)):
            yield i, c, array


def _shifts(values: OperatorValues, slope: Mapping[int, Element], axis: int) -> list[Array]:
    """Return the factors of the components of δp in φ(H δp), from the components of H."""
    ops = values.operators
    value = jnp.asarray(slope[VALUE])
    factors = {
        VALUE: add_optional(_expand(ops.value, axis) * value, slope.get(APPLIED)),
        APPLIED: value,
    }
    for c, (k, m) in enumerate(ops.pairs):
        weight = _expand(ops.second[:, c], axis)
        for left, right in {(k, m), (m, k)}:
            if right in slope:
                term = (2.0 * weight if k == m else weight) * slope[right]
                factors[left] = add_optional(factors.get(left), term)
    zero = jnp.zeros(value.shape)
    # Fused with the sums over them, the factors would repeat the computations that they share.
    return jax.lax.optimization_barrier([factors.get(key, zero) for key in ops.keys])
