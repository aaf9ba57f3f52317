"""A beam on an elastic foundation, clamped at one end and loaded at the other.

u'''' + 4 u = 4,    u(0) = u'(0) = 0,    moment u'' and force u''' prescribed at 1
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "solids"


def exact(x):
    return 1 - jnp.exp(-x[0]) * (jnp.cos(x[0]) + jnp.sin(x[0]))


def derivative(order):
    def f(s):
        return exact(jnp.array([s]))

    for _ in range(order):
        f = jax.grad(f)
    return f


domain = kp.Box(x=(0, 1))
problem = kp.Problem(
    kp.Condition("beam", domain.interior, lambda x, u: u.d("x", "x", "x", "x") + 4 * u.value - 4),
    kp.Condition("clamped", domain.side(x=0), lambda x, u: (u.value, u.d("x"))),
    kp.Condition(
        "loaded",
        domain.side(x=1),
        lambda x, u: (
            u.d("x", "x") - derivative(2)(1.0),
            u.d("x", "x", "x") - derivative(3)(1.0),
        ),
    ),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
points = {"beam": 30, "clamped": 1, "loaded": 1}
references = {"u": jax.vmap(exact)}
small = {"beam": 15, "clamped": 1, "loaded": 1}, 1e-4
