"""Cholesky factorization in place.

`jax.lax.linalg.cholesky` stores matrices by rows while LAPACK expects columns, and it clears the
unused triangle. On the CPU the two transpositions and the clearing cost half a factorization.
A symmetric matrix requires neither, because it equals its transpose. Here LAPACK factors the array
in place, and the other triangle keeps its entries.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

PANEL_SIZE = 5000
"""Number of rows that LAPACK factors at a time. Above about 15,000 rows the parallel factorization
of OpenBLAS crashes the process."""


def cholesky(
    matrix: Float[Array, "M M"], panel_size: int = PANEL_SIZE
) -> tuple[Float[Array, "M M"], Bool[Array, ""]]:
    """Compute R with A = Rᵀ R in the upper triangle; the strictly lower triangle keeps A.

    **Arguments:**

    - `matrix`: symmetric matrix A.
    - `panel_size`: number of rows to factor at a time on the CPU.

    **Returns:**

    R and the lower triangle of A in one array, and whether A is positive definite. If it is not,
    R is invalid, but `restore_matrix` still recovers A.
    """
    return jax.lax.platform_dependent(
        matrix, cpu=lambda matrix: _blocked_cholesky(matrix, panel_size), default=generic_cholesky
    )


def generic_cholesky(matrix):
    """Factor a matrix as `cholesky` does, on any platform."""
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    combined = jnp.where(jnp.tri(matrix.shape[0], k=-1, dtype=bool), matrix, factor.T)
    return combined, jnp.isfinite(factor[-1, -1])


def _blocked_cholesky(matrix, panel_size: int):
    """Factor panels of rows, each followed by the update of the remaining upper triangle."""
    size = matrix.shape[-1]
    if matrix.ndim > 2 or size <= 2 * panel_size:
        return lapack_cholesky(matrix)
    edges = [*range(0, size, panel_size), size]
    is_definite = jnp.asarray(True)
    for k, (start, stop) in enumerate(pairwise(edges)):
        diagonal_block, is_block_definite = lapack_cholesky(matrix[start:stop, start:stop])
        is_definite = is_definite & is_block_definite
        matrix = matrix.at[start:stop, start:stop].set(diagonal_block)
        if stop == size:
            break
        panel = jax.lax.linalg.triangular_solve(
            diagonal_block.T, matrix[start:stop, stop:], left_side=True, lower=True
        )
        matrix = matrix.at[start:stop, stop:].set(panel)
        for first, last in pairwise(edges[k + 1 :]):
            rows = panel[:, first - stop : last - stop]
            is_lower = jnp.tri(last - first, size - first, k=-1, dtype=bool)
            old = matrix[first:last, first:]
            new = old - rows.T @ panel[:, first - stop :]
            matrix = matrix.at[first:last, first:].set(jnp.where(is_lower, old, new))
    return matrix, is_definite


def lapack_cholesky(matrix):
    """Factor a matrix as `cholesky` does, by LAPACK on the CPU."""
    # JAX keeps the name and signature of this FFI target stable for exported programs. The target
    # works only after JAX has initialized LAPACK, which lowering any factorization causes.
    initialized = jax.lax.linalg.cholesky(jnp.ones((1, 1)), symmetrize_input=False)
    call = jax.ffi.ffi_call(
        "lapack_dpotrf_ffi",
        (jax.ShapeDtypeStruct(matrix.shape, matrix.dtype), jax.ShapeDtypeStruct((), jnp.int32)),
        input_output_aliases={0: 0},
        vmap_method="broadcast_all",
    )
    factor, info = call(matrix, uplo=np.uint8(ord("L")))
    return factor, (info == 0) & (initialized[0, 0] == 1)


def restore_matrix(
    factor: Float[Array, "M M"], diagonal: Float[Array, " M"]
) -> Float[Array, "M M"]:
    """Recover a matrix from the result of `cholesky` and its diagonal."""
    size = factor.shape[0]
    mirrored = jnp.where(jnp.tri(size, k=-1, dtype=bool), factor, factor.T)
    return jnp.where(jnp.eye(size, dtype=bool), diagonal[:, None], mirrored)


def cholesky_solve(
    factor: Float[Array, "M M"], rhs: Float[Array, " M *k"]
) -> Float[Array, " M *k"]:
    """Return A⁻¹ b from R, for a vector or columns."""
    columns = rhs if rhs.ndim == 2 else rhs[:, None]
    solution = solve_triangular(factor, solve_transposed(factor, columns))
    return solution if rhs.ndim == 2 else solution[:, 0]


def solve_transposed(
    factor: Float[Array, "M M"], columns: Float[Array, "M k"]
) -> Float[Array, "M k"]:
    """Return R⁻ᵀ b for columns."""
    return jax.lax.linalg.triangular_solve(factor.T, columns, left_side=True, lower=True)


def solve_triangular(
    factor: Float[Array, "M M"], columns: Float[Array, "M k"]
) -> Float[Array, "M k"]:
    """Return R⁻¹ b for columns."""
    return jax.lax.linalg.triangular_solve(
        factor.T, columns, left_side=True, lower=True, transpose_a=True
    )


def pivoted_cholesky(matrix: Float[np.ndarray, "N N"], tolerance: float) -> tuple[np.ndarray, int]:
    """Return the pivot order of a positive semidefinite matrix and its numerical rank.

    **Arguments:**

    - `matrix`: symmetric matrix.
    - `tolerance`: largest pivot that counts as zero.
    """
    from scipy.linalg import get_lapack_funcs  # slow to import

    (pstrf,) = get_lapack_funcs(("pstrf",), (matrix,))
    _, order, rank, _ = pstrf(np.array(matrix, order="F"), tol=tolerance, overwrite_a=1)
    return order - 1, int(rank)
