"""Kovasznay's flow behind a grid: the stationary Navier-Stokes equations, Re = 40.

    (u·∇)u + ∇p = Δu / Re,    ∇·u = 0

The velocity is (ψ_y, -ψ_x): with a stream function as the field it is divergence-free everywhere.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "fluids"
RE = 40.0
RATE = RE / 2 - (RE**2 / 4 + 4 * jnp.pi**2) ** 0.5


def stream(x):
    return x[1] - jnp.exp(RATE * x[0]) * jnp.sin(2 * jnp.pi * x[1]) / (2 * jnp.pi)


def pressure(x):
    return (1 - jnp.exp(2 * RATE * x[0])) / 2


def velocity(x):
    psi_x, psi_y = jax.grad(stream)(x)
    return jnp.array([psi_y, -psi_x])


def momentum(x, psi, p):
    u = kp.vectors.curl(psi)
    return u.advect(u) + p.gradient - u.laplacian / RE


domain = kp.Box(x=(-0.5, 1), y=(-0.5, 0.5))
problem = kp.Problem(
    kp.Condition("momentum", domain.interior, momentum),
    kp.Condition(
        "walls",
        domain.boundary,
        lambda x, psi: kp.vectors.curl(psi).value - velocity(x),
    ),
    kp.Condition("level", kp.PointCloud([[0.0, 0.0]]), lambda x, psi, p: (psi.value, p.value)),
    fields=[kp.Field("psi", kp.Gaussian(0.3)), kp.Field("p", kp.Gaussian(0.5))],
)
points = {"momentum": 900, "walls": 300}
references = {"psi": jax.vmap(stream), "p": jax.vmap(pressure)}
small = {"momentum": 150, "walls": 80}, 1e-2
