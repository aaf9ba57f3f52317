"""Poisson's equation in a ball, with a Robin condition on the sphere.

Δu = f in |x| < 1,    ∂u/∂n + u = g on |x| = 1
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "elliptic"


def exact(x):
    return jnp.sin(x[0] + 0.5 * x[1]) * jnp.cos(x[2]) + 0.3 * x[0] * x[1]


domain = kp.Ball((0, 0, 0), 1)
problem = kp.Problem(
    kp.Condition(
        "equation", domain.interior, lambda x, u: u.laplacian - jnp.trace(jax.hessian(exact)(x))
    ),
    kp.Condition(
        "surface",
        domain.boundary,
        lambda x, normal, u: u.normal_derivative + u.value - jax.grad(exact)(x) @ normal - exact(x),
    ),
    fields=[kp.Field("u", kp.Gaussian(1.0))],
)
points = {"equation": 900, "surface": 500}
references = {"u": jax.vmap(exact)}
small = {"equation": 150, "surface": 100}, 1e-3
