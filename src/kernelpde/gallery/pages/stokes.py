"""Stokes flow: velocity and pressure as three fields.

-Δu + ∇p = f,    ∇·u = 0,    u prescribed on the walls,    mean pressure zero
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "fluids"


def velocity(x):
    return jnp.array([jnp.sin(x[0]) * jnp.cos(x[1]), -jnp.cos(x[0]) * jnp.sin(x[1])])


def pressure(x):
    return (x[0] - 0.5) * (x[1] + 1)


def force(x):
    laplacian = jnp.trace(jax.hessian(velocity)(x), axis1=1, axis2=2)
    return -laplacian + jax.grad(pressure)(x)


def stokes(x, u, v, p):
    w = kp.vectors.vector_field(u, v)
    return *(-w.laplacian + p.gradient - force(x)), w.divergence


domain = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("equations", domain.interior, stokes),
    kp.Condition(
        "walls",
        domain.boundary,
        lambda x, u, v: (u.value - velocity(x)[0], v.value - velocity(x)[1]),
    ),
    kp.Condition(
        "mean",
        kp.PointCloud([[0.5, 0.5]]),
        lambda x, p: kp.integral(lambda y, p: p.value, domain),
    ),
    fields=[kp.Field(name, kp.Gaussian(0.7)) for name in ("u", "v", "p")],
)
points = {"equations": 300, "walls": 150}
references = {
    "u": jax.vmap(lambda x: velocity(x)[0]),
    "v": jax.vmap(lambda x: velocity(x)[1]),
    "p": jax.vmap(pressure),
}
small = {"equations": 90, "walls": 60}, 1e-2
