"""The Korteweg-de Vries equation: a soliton.

u_t + 6 u u_x + u_xxx = 0,    u = 2 / cosh²(x - 4t + 1)
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "waves and Helmholtz"


def exact(x):
    return 2 / jnp.cosh(x[1] - 4 * x[0] + 1) ** 2


domain = kp.Box(t=(0, 0.5), x=(-6, 6), time="t")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.d("t") + 6 * u.value * u.d("x") + u.d("x", "x", "x"),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x)),
    kp.Condition("left", domain.side(x=-6), lambda x, u: u.value - exact(x)),
    kp.Condition(
        "right",
        domain.side(x=6),
        lambda x, u: (u.value - exact(x), u.d("x") - jax.grad(exact)(x)[1]),
    ),
    fields=[kp.Field("u", kp.Gaussian([0.1, 0.5]))],
)
points = {"equation": 1000, "initial": 120, "left": 40, "right": 40}
references = {"u": jax.vmap(exact)}
small = {"equation": 400, "initial": 60, "left": 20, "right": 20}, 1e-2
