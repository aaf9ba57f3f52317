"""A clamped plate under load: the biharmonic equation.

Δ²u = f,    u = ∂u/∂n = 0 on the boundary,    u = sin²(πx) sin²(πy)
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "solids"


def exact(x):
    return jnp.sin(jnp.pi * x[0]) ** 2 * jnp.sin(jnp.pi * x[1]) ** 2


def load(x):
    cx, cy = jnp.cos(2 * jnp.pi * x[0]), jnp.cos(2 * jnp.pi * x[1])
    return 4 * jnp.pi**4 * (4 * cx * cy - cx - cy)


def plate(x, u):
    bending = u.d("x", "x", "x", "x") + 2 * u.d("x", "x", "y", "y") + u.d("y", "y", "y", "y")
    return bending - load(x)


domain = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("plate", domain.interior, plate),
    kp.Condition("clamped", domain.boundary, lambda x, u: (u.value, u.normal_derivative)),
    fields=[kp.Field("u", kp.Gaussian(0.3))],
)
points = {"plate": 500, "clamped": 200}
references = {"u": jax.vmap(exact)}
small = {"plate": 150, "clamped": 60}, 1e-2
