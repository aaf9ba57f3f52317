"""Cholesky factors in the memory of the matrix.

`jax.lax.linalg.cholesky` keeps its matrices by rows while LAPACK wants columns, and cleans the
unused triangle; on the CPU the two transpositions and the cleaning cost as much as half a
factorization. A symmetric matrix needs neither: read by columns, its rows are the matrix itself.
Here LAPACK factors the array in place and the other triangle keeps what it held.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


def cholesky(matrix: Float[Array, "M M"]) -> tuple[Float[Array, "M M"], Bool[Array, ""]]:
    """R with A = Rᵀ R, in the upper triangle; below it A stays as it was.

    **Arguments:**

    - `matrix`: A, symmetric.

    **Returns:**

    R and the lower triangle of A in one array, and whether A was positive definite: if not, there
    is no R, but `restored` still gives A back.
    """
    return jax.lax.platform_dependent(matrix, cpu=_by_panels, default=_generic)


def _generic(matrix):
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    both = jnp.where(jnp.tri(matrix.shape[0], k=-1, dtype=bool), matrix, factor.T)
    return both, jnp.isfinite(factor[-1, -1])


_PANEL = 5000
"""Rows that LAPACK factors at a time. From about 15,000 rows on, the parallel factorization of
OpenBLAS ends the process, whoever calls it."""


def _by_panels(matrix):
    """Panels of rows, each followed by the update of all below it in the upper triangle."""
    size = matrix.shape[-1]
    if matrix.ndim > 2 or size <= 2 * _PANEL:
        return _lapack(matrix)
    edges = [*range(0, size, _PANEL), size]
    good = jnp.asarray(True)
    for k, (start, stop) in enumerate(pairwise(edges)):
        block, fine = _lapack(matrix[start:stop, start:stop])
        good = good & fine
        matrix = matrix.at[start:stop, start:stop].set(block)
        if stop == size:
            break
        panel = jax.lax.linalg.triangular_solve(
            block.T, matrix[start:stop, stop:], left_side=True, lower=True
        )
        matrix = matrix.at[start:stop, stop:].set(panel)
        for first, last in pairwise(edges[k + 1 :]):
            mine = panel[:, first - stop : last - stop]
            below = jnp.tri(last - first, size - first, k=-1, dtype=bool)
            old = matrix[first:last, first:]
            new = old - mine.T @ panel[:, first - stop :]
            matrix = matrix.at[first:last, first:].set(jnp.where(below, old, new))
    return matrix, good


def _lapack(matrix):
    # The target is one of those whose name and signature JAX keeps stable for exported programs.
    # It works once JAX has found LAPACK, which lowering any factorization of JAX's own brings
    # about: hence the one of a number.
    found = jax.lax.linalg.cholesky(jnp.ones((1, 1)), symmetrize_input=False)
    call = jax.ffi.ffi_call(
        "lapack_dpotrf_ffi",
        (
            jax.ShapeDtypeStruct(matrix.shape, matrix.dtype),
            jax.ShapeDtypeStruct((), jnp.int32),
        ),
        input_output_aliases={0: 0},
        vmap_method="broadcast_all",
    )
    factor, failed_at = call(matrix, uplo=np.uint8(ord("L")))
    return factor, (failed_at == 0) & (found[0, 0] == 1)


def restored(both: Float[Array, "M M"], diagonal: Float[Array, " M"]) -> Float[Array, "M M"]:
    """A matrix from what `cholesky` has left of it, with a diagonal to replace the lost one."""
    size = both.shape[0]
    mirrored = jnp.where(jnp.tri(size, k=-1, dtype=bool), both, both.T)
    return jnp.where(jnp.eye(size, dtype=bool), diagonal[:, None], mirrored)


def solve_with(factor: Float[Array, "M M"], rhs: Float[Array, " M *k"]) -> Float[Array, " M *k"]:
    """A⁻¹ b for one vector or for columns, from R."""
    columns = rhs if rhs.ndim == 2 else rhs[:, None]
    whole = solve_other_half(factor, solve_half(factor, columns))
    return whole if rhs.ndim == 2 else whole[:, 0]


def solve_half(factor: Float[Array, "M M"], columns: Float[Array, "M k"]) -> Float[Array, "M k"]:
    """R⁻ᵀ b for columns."""
    return jax.lax.linalg.triangular_solve(factor.T, columns, left_side=True, lower=True)


def solve_other_half(
    factor: Float[Array, "M M"], columns: Float[Array, "M k"]
) -> Float[Array, "M k"]:
    """R⁻¹ b for columns."""
    return jax.lax.linalg.triangular_solve(
        factor.T, columns, left_side=True, lower=True, transpose_a=True
    )
