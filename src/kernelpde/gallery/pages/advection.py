"""Linear advection on a periodic interval, for one full period.

u_t + u_x = 0, periodic in x,    u = exp(sin 2π(x - t))
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "waves and Helmholtz"


def exact(x):
    return jnp.exp(jnp.sin(2 * jnp.pi * (x[1] - x[0])))


domain = kp.Box(t=(0, 1), x=(0, 1), time="t", periodic="x")
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.d("t") + u.d("x")),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian([0.2, 0.2]))],
)
points = {"equation": 400, "initial": 60}
references = {"u": jax.vmap(exact)}
small = {"equation": 250, "initial": 50}, 2e-2
