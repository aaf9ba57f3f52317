"""The minimal surface equation: Scherk's surface.

(1 + u_y²) u_xx - 2 u_x u_y u_xy + (1 + u_x²) u_yy = 0,    u = log(cos x / cos y)
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "geometry"


def exact(x):
    return jnp.log(jnp.cos(x[0]) / jnp.cos(x[1]))


def film(x, u):
    ux, uy = u.gradient
    return (1 + uy**2) * u.d("x", "x") - 2 * ux * uy * u.d("x", "y") + (1 + ux**2) * u.d("y", "y")


domain = kp.Box(x=(-1, 1), y=(-1, 1))
problem = kp.Problem(
    kp.Condition("film", domain.interior, film),
    kp.Condition("wire", domain.boundary, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian(0.7))],
)
points = {"film": 500, "wire": 200}
references = {"u": jax.vmap(exact)}
small = {"film": 120, "wire": 60}, 1e-3
