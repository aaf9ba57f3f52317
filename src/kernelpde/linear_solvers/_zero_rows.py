"""Padding of functionals and index arrays to common sizes."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from kernelpde.functionals import Functionals

PADDING_MULTIPLE = 64
"""Ranks and numbers of neighbors are padded to multiples of it, which limits the number of compiled
programs. Half of it compiles more programs, double pads more rows. Not measured."""


def pad_functionals(functionals: Functionals, extra: int) -> Functionals:
    """Append `extra` zero functionals at the last point."""
    widths = ((0, extra), (0, 0))
    return Functionals(
        jnp.pad(functionals.points, widths, mode="edge"),
        jnp.pad(functionals.coefficients, widths),
        functionals.terms,
    )


def pad_indices(
    groups: Sequence[Int[np.ndarray, " _"]], size: int, padding_index: int
) -> Int[np.ndarray, "n s"]:
    """Return groups of indices as the rows of one array."""
    padded = np.full((len(groups), size), padding_index, dtype=np.int32)
    for n, group in enumerate(groups):
        padded[n, : len(group)] = group
    return padded
