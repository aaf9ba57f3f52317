"""Trigonometric functions of differences of angles."""

from math import pi

import jax.numpy as jnp
from jaxtyping import Array


def angle_difference(x: Array, y: Array, period: float) -> tuple[Array, list[Array]]:
    """Return sin(θ/2), and the derivatives of cos θ in θ of orders 0 to 3, for θ = 2π (x - y) / P.

    Sines and cosines are evaluated per point and not per pair.
    """
    a, b = (pi / period) * x, (pi / period) * y
    sin_a, cos_a, sin_b, cos_b = jnp.sin(a), jnp.cos(a), jnp.sin(b), jnp.cos(b)
    half_sine, half_cosine = sin_a * cos_b - cos_a * sin_b, cos_a * cos_b + sin_a * sin_b
    sine, cosine = 2.0 * half_sine * half_cosine, 1.0 - 2.0 * half_sine * half_sine
    return half_sine, [cosine, -sine, -cosine, sine]
