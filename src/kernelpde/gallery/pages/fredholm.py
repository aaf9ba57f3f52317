"""A Fredholm integral equation of the second kind.

    u(x) - ∫₀¹ exp(xy) u(y) dy = f(x),    u = exp x

Without derivatives in the equation, the nugget limits the accuracy. A polynomial component of the
kernel represents most of a smooth solution and reduces this effect.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "integral equations"


def exact(x):
    return jnp.exp(x[0])


def equation(x, u):
    inner = kp.integral(lambda y, u: jnp.exp(x[0] * y[0]) * u.value, domain)
    return u.value - inner - exact(x) + (jnp.exp(x[0] + 1) - 1) / (x[0] + 1)


domain = kp.Box(x=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", domain.interior, equation),
    fields=[kp.Field("u", kp.Polynomial(10) + kp.Gaussian(0.5))],
)
points = {"equation": 80}
references = {"u": jax.vmap(exact)}
small = {"equation": 30}, 1e-7
