"""An integro-differential equation: a process with memory.

u' + u + 5 ∫₀ᵗ u(s) ds = 1,    u(0) = 0:    u = e^(-t/2) sin(ωt) / ω, ω² = 19/4
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "integral equations"
OMEGA = 19**0.5 / 2


def exact(t):
    return jnp.exp(-t[0] / 2) * jnp.sin(OMEGA * t[0]) / OMEGA


domain = kp.Box(t=(0, 5))
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda t, u: (
            u.d("t") + u.value + 5 * kp.integral(lambda s, u: u.value, start=[0.0], end=t) - 1
        ),
    ),
    kp.Condition("begin", domain.side(t=0), lambda t, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.7))],
)
points = {"equation": 80, "begin": 1}
references = {"u": jax.vmap(exact)}
small = {"equation": 40, "begin": 1}, 1e-4
