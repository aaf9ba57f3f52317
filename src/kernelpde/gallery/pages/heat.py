"""Heat conduction in an L-shaped room over time.

u_t = Δu + f,    ∂u/∂n = g on the walls,    u prescribed at t = 0
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "heat and diffusion"


def exact(x):
    return jnp.exp(-x[0]) * jnp.cos(x[1]) * jnp.cos(x[2]) + 0.2 * x[0] * x[1]


def source(x):
    return jax.grad(exact)(x)[0] - jnp.trace(jax.hessian(exact)(x)[1:, 1:])


room = kp.Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)])
domain = kp.Extrusion(room, t=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.d("t") - u.laplacian - source(x)),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x)),
    kp.Condition(
        "walls",
        domain.boundary,
        lambda x, normal, u: u.normal_derivative - jax.grad(exact)(x) @ normal,
    ),
    fields=[kp.Field("u", kp.Gaussian([0.7, 1.0, 1.0]))],
)
points = {"equation": 700, "initial": 250, "walls": 350}
references = {"u": jax.vmap(exact)}
small = {"equation": 150, "initial": 70, "walls": 90}, 1e-2
