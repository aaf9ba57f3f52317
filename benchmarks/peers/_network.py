"""A network trained by damped Gauss-Newton steps in its parameters, in double precision.

Written after energy natural gradients (Müller and Zeinhofer 2023), in their Levenberg-Marquardt
form: J has a row for each residual and a column for each parameter, a step solves
(JᵀJ + μ tr(JᵀJ) / P) s = -Jᵀr, and μ falls or grows by whether the loss did. Periodic coordinates
enter by sine and cosine. Settings: widths of the hidden layers, and steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from benchmarks.peers._equations import Rows, embedded
from kernelpde.gallery import Example

SETTINGS = ("24x24, 150 steps", "32x32, 300 steps", "32x32x32, 500 steps")


def solved(example: Example, setting: str, seed: int) -> Any:
    widths, steps = setting.removesuffix(" steps").split(", ")
    counts = {name: min(count, 2000) for name, count in example.points.items()}
    rows = Rows(example, counts, seed)
    problem, bounds = rows.problem, rows.bounds
    sizes = [len(embedded(problem, bounds, jnp.zeros(len(bounds)))), *map(int, widths.split("x"))]
    keys = jax.random.split(jax.random.key(seed), len(sizes))
    layers = [
        (
            jax.random.normal(key, (wide, before)) * np.sqrt(2 / (wide + before)),
            jnp.zeros(wide),
        )
        for key, before, wide in zip(keys, sizes, [*sizes[1:], rows.fields], strict=True)
    ]
    start, unravel = ravel_pytree(layers)

    def network(parameters: jax.Array, x: jax.Array) -> jax.Array:
        hidden = embedded(problem, bounds, x)
        *inner, (last, shift) = unravel(parameters)
        for matrix, bias in inner:
            hidden = jnp.tanh(matrix @ hidden + bias)
        return last @ hidden + shift

    both = jax.jit(lambda p: rows.residuals(network, p))
    loss = jax.jit(lambda p: jnp.sum(rows.residuals(network, p)[0] ** 2))

    @jax.jit
    def step(normal: jax.Array, slope: jax.Array, damping: float) -> jax.Array:
        matrix = normal + damping * jnp.trace(normal) / len(slope) * jnp.eye(len(slope))
        return -jax.scipy.linalg.solve(matrix, slope, assume_a="pos")

    parameters, damping, best = start, 1e-3, np.inf
    for _ in range(int(steps)):
        r, jacobian = both(parameters)
        best, normal, slope = float(r @ r), jacobian.T @ jacobian, jacobian.T @ r
        for _ in range(20):
            trial = parameters + step(normal, slope, damping)
            value = float(loss(trial))
            if np.isfinite(value) and value < best:
                parameters, damping = trial, max(damping / 3, 1e-16)
                break
            damping *= 4
        else:
            break
    return jax.jit(jax.vmap(lambda x: network(parameters, x)))


def values(example: Example, found: Any, field: str, points: Any) -> Any:
    names = [f.name for f in example.problem.fields]
    return found(jnp.asarray(points))[:, names.index(field)]
