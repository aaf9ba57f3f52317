"""A problem with an input, whose solution is a function to transform."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp

PLACES = np.random.default_rng(1).uniform(0.1, 0.9, (20, 2))


def discretized() -> kp.Discretization:
    """-Δu + u³ = s sin(πx) sin(πy) on a square, 280 rows."""
    square = kp.Box(x=(0, 1), y=(0, 1))

    def equation(x, u, s):
        return -u.laplacian + u.value**3 - s * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])

    problem = kp.Problem(
        kp.Condition("equation", square.interior, equation),
        kp.Condition("boundary", square.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
        inputs={"s": 10.0},
    )
    return kp.discretize(problem, {"equation": 200, "boundary": 80})


def values(discretization: kp.Discretization) -> Callable[[Any], jax.Array]:
    return lambda s: kp.solve(discretization, inputs={"s": s})["u"](PLACES)
