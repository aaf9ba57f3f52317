"""The Helmholtz equation: a plane wave and an absorbing boundary.

Δu + k² u = 0,    ∂u/∂n - ik u = g on the boundary,    k = 20
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "waves and Helmholtz"
K = 20.0
DIRECTION = jnp.array([jnp.cos(0.4), jnp.sin(0.4)])


def exact(x):
    return jnp.exp(1j * K * (DIRECTION @ x))


domain = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.laplacian + K**2 * u.value),
    kp.Condition(
        "boundary",
        domain.boundary,
        lambda x, normal, u: (
            u.normal_derivative - 1j * K * u.value - 1j * K * (DIRECTION @ normal - 1) * exact(x)
        ),
    ),
    fields=[kp.ComplexField("u", kp.Gaussian(0.2))],
)
points = {"equation": 600, "boundary": 200}
references = {"u": jax.vmap(exact)}
small = {"equation": 200, "boundary": 90}, 1e-2
