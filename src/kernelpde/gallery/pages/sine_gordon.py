"""The sine-Gordon equation: a breather.

u_tt - u_xx + sin u = 0,    u = 4 arctan(√(1-ω²)/ω · cos ωt / cosh(√(1-ω²) x)),  ω = 0.8
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "waves and Helmholtz"
OMEGA, WIDTH = 0.8, 0.6


def exact(x):
    return 4 * jnp.arctan(WIDTH / OMEGA * jnp.cos(OMEGA * x[0]) / jnp.cosh(WIDTH * x[1]))


domain = kp.Box(t=(0, 4), x=(-6, 6), time="t")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.d("t", "t") - u.d("x", "x") + jnp.sin(u.value),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: (u.value - exact(x), u.d("t"))),
    kp.Condition("ends", domain.boundary, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian([1.0, 1.5]))],
)
points = {"equation": 600, "initial": 80, "ends": 80}
references = {"u": jax.vmap(exact)}
small = {"equation": 200, "initial": 40, "ends": 40}, 1e-2
