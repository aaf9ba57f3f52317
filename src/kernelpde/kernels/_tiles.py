"""Computation on many rows, in tiles of equal size."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


def num_rows(rows: PyTree) -> int:
    """Return the length of the leading axis of a pytree of arrays."""
    return jax.tree.leaves(rows)[0].shape[0]


def pad_rows(rows: PyTree, multiple: int) -> PyTree:
    """Repeat the last row until the number of rows is a multiple of `multiple`."""
    extra = -num_rows(rows) % multiple
    if not extra:
        return rows

    def pad(leaf: Array) -> Array:
        # Copies of a row lie inside the domain, where kernels and residuals are finite.
        return jnp.concatenate([leaf, jnp.broadcast_to(leaf[-1:], (extra, *leaf.shape[1:]))])

    return jax.tree.map(pad, rows)


def split_rows(rows: PyTree, num_tiles: int) -> PyTree:
    """Pad rows, and reshape their leading axis to tiles and rows of a tile."""
    size = -(-num_rows(rows) // num_tiles)

    def split(leaf: Array) -> Array:
        return leaf.reshape(leaf.shape[0] // size, size, *leaf.shape[1:])

    return jax.tree.map(split, pad_rows(rows, size))


def map_tiles(
    function: Callable, rows: PyTree, num_tiles: int, *, cache_intermediates: bool = False
) -> Array:
    """Return `function(rows)` computed in at most `num_tiles` tiles.

    **Arguments:**

    - `function`: function of rows that returns an array with one entry per row.
    - `rows`: pytree of arrays with one leading axis.
    - `num_tiles`: maximum number of tiles.
    - `cache_intermediates`: whether reverse-mode derivatives store intermediate arrays of all tiles
      instead of recomputing them.
    """
    function = function if cache_intermediates else jax.checkpoint(function)
    values = jax.lax.map(function, split_rows(rows, num_tiles))
    return values.reshape(-1, *values.shape[2:])[: num_rows(rows)]
