"""Poisson's equation in an L-shape, with the singular function of the corner in the kernel.

    Δu = 1,    u = 1.7 r^(2/3) sin(2θ/3) + smooth on the boundary

`FeatureKernel` adds an unknown multiple of r^(2/3) sin(2θ/3) to the smooth field.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "elliptic"


def singular(x):
    angle = jnp.arctan2(x[1], x[0])
    angle = jnp.where(angle < -1e-9, angle + 2 * jnp.pi, angle)
    return jnp.sqrt(x[0] ** 2 + x[1] ** 2) ** (2 / 3) * jnp.sin(2 / 3 * angle)


def exact(x):
    return 1.7 * singular(x) + jnp.exp(x[0]) * jnp.sin(x[1]) + 0.5 * x[0] ** 2


domain = kp.Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.laplacian - 1),
    kp.Condition("boundary", domain.boundary, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian(0.5) + kp.kernels.FeatureKernel(singular))],
)
points = {"equation": 700, "boundary": 250}
references = {"u": jax.vmap(exact)}
small = {"equation": 150, "boundary": 80}, 1e-4
