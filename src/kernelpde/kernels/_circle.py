"""Differences of angles."""

from math import pi

import jax.numpy as jnp
from jaxtyping import Array


def half_angle(x: Array, y: Array, period: float) -> tuple[Array, Array]:
    """sin and cos of π (x - y) / P, from those of each point: none is evaluated per pair."""
    a, b = (pi / period) * x, (pi / period) * y
    sin_a, cos_a, sin_b, cos_b = jnp.sin(a), jnp.cos(a), jnp.sin(b), jnp.cos(b)
    return sin_a * cos_b - cos_a * sin_b, cos_a * cos_b + sin_a * sin_b
