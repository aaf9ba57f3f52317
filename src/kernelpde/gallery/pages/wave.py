"""A vibrating string: the wave equation in space and time.

u_tt = u_xx,    u = 0 at both ends,    u and u_t prescribed at t = 0
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "waves and Helmholtz"


def exact(x):
    first = jnp.sin(jnp.pi * x[1]) * jnp.cos(jnp.pi * x[0])
    return first + 0.5 * jnp.sin(3 * jnp.pi * x[1]) * jnp.cos(3 * jnp.pi * x[0])


domain = kp.Box(t=(0, 1), x=(0, 1), time="t")
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.d("t", "t") - u.d("x", "x")),
    kp.Condition("initial", domain.initial, lambda x, u: (u.value - exact(x), u.d("t"))),
    kp.Condition("ends", domain.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.3))],
)
points = {"equation": 500, "initial": 80, "ends": 100}
references = {"u": jax.vmap(exact)}
small = {"equation": 180, "initial": 40, "ends": 40}, 1e-3
