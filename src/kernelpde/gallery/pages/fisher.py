"""Fisher's equation: a traveling wave.

u_t = u_xx + u (1 - u),    u = (1 + exp((x - 5t/√6)/√6))⁻²  (Ablowitz and Zeppetella 1979)
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "reaction and patterns"


def exact(x):
    return (1 + jnp.exp((x[1] - 5 / 6**0.5 * x[0]) / 6**0.5)) ** -2


domain = kp.Box(t=(0, 2), x=(-10, 15), time="t")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.d("t") - u.d("x", "x") - u.value * (1 - u.value),
    ),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x)),
    kp.Condition("ends", domain.boundary, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian([1.0, 4.0]))],
)
points = {"equation": 400, "initial": 80, "ends": 80}
references = {"u": jax.vmap(exact)}
small = {"equation": 150, "initial": 40, "ends": 30}, 1e-3
