"""Decaying Taylor-Green vortices: the Navier-Stokes equations in time.

u_t + (u·∇)u + ∇p = ν Δu,    ∇·u = 0, periodic;    prescribed velocity at t = 0
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "fluids"
NU, TURN = 0.05, 2 * jnp.pi


def flow(x):
    t, a, b = x
    decay = jnp.exp(-2 * NU * t)
    u, v = jnp.cos(a) * jnp.sin(b) * decay, -jnp.sin(a) * jnp.cos(b) * decay
    return jnp.array([u, v, -(jnp.cos(2 * a) + jnp.cos(2 * b)) / 4 * decay**2])


def equations(x, u, v, p):
    return (
        u.d("t") + u.value * u.d("x") + v.value * u.d("y") + p.d("x") - NU * u.laplacian,
        v.d("t") + u.value * v.d("x") + v.value * v.d("y") + p.d("y") - NU * v.laplacian,
        u.d("x") + v.d("y"),
    )


domain = kp.Box(t=(0, 1), x=(0, TURN), y=(0, TURN), time="t", periodic=("x", "y"))
start = domain.initial
problem = kp.Problem(
    kp.Condition("equations", domain.interior, equations),
    kp.Condition("initial", start, lambda x, u, v: (u.value - flow(x)[0], v.value - flow(x)[1])),
    kp.Condition(
        "level",
        kp.PointCloud([[t, 0.0, 0.0] for t in (0.0, 0.25, 0.5, 0.75, 1.0)]),
        lambda x, p: p.value - flow(x)[2],
    ),
    fields=[kp.Field(name, kp.Gaussian([1.0, 1.5, 1.5])) for name in ("u", "v", "p")],
)
points = {"equations": 600, "initial": 200}
references = {n: jax.vmap(lambda x, i=i: flow(x)[i]) for i, n in enumerate("uvp")}
small = {"equations": 150, "initial": 80}, 0.1
