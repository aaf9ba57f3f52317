"""Collocation with radial functions around the points (Kansa 1990), the shape by hand.

u = Σ cⱼ φ(|x - xⱼ|) with Gaussians, as many centers as there are points, least squares by QR at
each Newton step. Settings are lengthscales as parts of the domain: all are tried, the best by its
true error counts, which is more than one could know.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from benchmarks.peers._equations import Rows, along, embedded
from kernelpde.gallery import Example

SETTINGS = ("0.4", "0.3", "0.2", "0.15", "0.1", "0.07", "0.05")


def solved(example: Example, setting: str, seed: int) -> Any:
    rows = Rows(example, {k: min(v, 1500) for k, v in example.points.items()}, seed)
    problem, bounds = rows.problem, rows.bounds
    places = jax.vmap(lambda x: embedded(problem, bounds, x))
    centers = places(jnp.concatenate([block.points for block in rows.blocks]))[:2000]
    width = 2 * float(setting)

    def basis(x: jax.Array, center: jax.Array) -> jax.Array:
        gap = embedded(problem, bounds, x) - center
        return jnp.exp(-(gap @ gap) / (2 * width**2))[None]

    tables = [
        [_table(basis, term, np.asarray(block.points), centers) for term in residual.terms]
        for residual, block in zip(problem.residuals, rows.blocks, strict=True)
    ]
    count, known = len(centers), np.zeros((rows.fields, len(centers)))
    for _ in range(12):
        matrix, right = [], []
        for index, residual in enumerate(problem.residuals):
            pairs = list(zip(residual.terms, tables[index], strict=True))
            r, slopes = map(
                np.asarray,
                rows.linearized(index, [jnp.asarray(a @ known[t.field]) for t, a in pairs]),
            )
            for equation in range(r.shape[1]):
                part = np.zeros((len(r), rows.fields, count))
                for number, (term, table) in enumerate(pairs):
                    part[:, term.field] += slopes[:, equation, number, None] * table
                matrix.append(rows.weights[index] * part.reshape(len(r), -1))
                right.append(-rows.weights[index] * r[:, equation])
        change = scipy.linalg.lstsq(
            np.concatenate(matrix), np.concatenate(right), cond=1e-15, lapack_driver="gelsy"
        )[0].reshape(known.shape)
        known += change
        if np.linalg.norm(change) < 1e-10 * np.linalg.norm(known):
            break
    coefficients = jnp.asarray(known)
    return jax.jit(jax.vmap(lambda x: coefficients @ jax.vmap(lambda c: basis(x, c)[0])(centers)))


def _table(basis: Any, term: Any, points: np.ndarray, centers: jax.Array) -> np.ndarray:
    def entry(x: jax.Array, center: jax.Array) -> jax.Array:
        return along(lambda at: basis(at, center), term._replace(field=0))(x)

    every = jax.jit(jax.vmap(jax.vmap(entry, (None, 0)), (0, None)))
    return np.asarray(every(jnp.asarray(points), centers))


def values(example: Example, found: Any, field: str, points: Any) -> Any:
    names = [f.name for f in example.problem.fields]
    return found(jnp.asarray(points))[:, names.index(field)]
