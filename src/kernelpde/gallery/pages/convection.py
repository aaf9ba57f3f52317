"""Convection and diffusion in a widening channel.

w·∇u = 0.1 Δu + f,    u prescribed at the inlet,    ∂u/∂n elsewhere
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "heat and diffusion"


def exact(x):
    return jnp.exp(-x[0]) * jnp.cos(2 * x[1]) + 0.3 * x[0]


def stream(x):
    return jnp.array([1 + x[1], 0.5 * x[0]])


def source(x):
    return stream(x) @ jax.grad(exact)(x) - 0.1 * jnp.trace(jax.hessian(exact)(x))


domain = kp.Polygon(
    [(0, 0), (1, 0), (3, -0.5), (3, 1.5), (1, 1), (0, 1)],
    names=["wall", "wall", "outlet", "wall", "wall", "inlet"],
)
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: stream(x) @ u.gradient - 0.1 * u.laplacian - source(x),
    ),
    kp.Condition("inlet", domain["inlet"], lambda x, u: u.value - exact(x)),
    kp.Condition(
        "others",
        domain["wall"] | domain["outlet"],
        lambda x, normal, u: u.normal_derivative - jax.grad(exact)(x) @ normal,
    ),
    fields=[kp.Field("u", kp.Gaussian(0.7))],
)
points = {"equation": 500, "inlet": 40, "others": 200}
references = {"u": jax.vmap(exact)}
small = {"equation": 120, "inlet": 20, "others": 60}, 1e-3
