"""Kirsch's plate: the stress at a circular hole is three times the load.

    Δu + (1+ν)/(1-ν) ∇(∇·u) = 0 (plane stress),    no force on the hole,    tension in x at infinity

By symmetry the domain is a quarter of the plate. The displacement of Kirsch (1898) is prescribed on
the outer sides.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "solids"
NU, A = 0.3, 0.5  # Poisson's ratio, radius; shear modulus 1/2, tension 1
KAPPA = (3 - NU) / (1 + NU)


def exact(x):
    r, angle = jnp.sqrt(x[0] ** 2 + x[1] ** 2), jnp.arctan2(x[1], x[0])
    c1, c3 = jnp.cos(angle), jnp.cos(3 * angle)
    s1, s3 = jnp.sin(angle), jnp.sin(3 * angle)
    linear, cubic = 2 * A / r, 2 * A**3 / r**3
    u = r / A * (KAPPA + 1) * c1 + linear * ((1 + KAPPA) * c1 + c3) - cubic * c3
    v = r / A * (KAPPA - 3) * s1 + linear * ((1 - KAPPA) * s1 + s3) - cubic * s3
    return A / 4 * jnp.array([u, v])


def equilibrium(x, u, v):
    c = (1 + NU) / (1 - NU)
    return (
        u.laplacian + c * (u.d("x", "x") + v.d("x", "y")),
        v.laplacian + c * (u.d("x", "y") + v.d("y", "y")),
    )


def traction(x, normal, u, v):
    shear, spread = 0.5 * (u.d("y") + v.d("x")), NU / (1 - NU) * (u.d("x") + v.d("y"))
    n, m = normal
    return (u.d("x") + spread) * n + shear * m, shear * n + (v.d("y") + spread) * m


domain = kp.Box(x=(0, 2), y=(0, 2)) - kp.Ball((0, 0), A)
problem = kp.Problem(
    kp.Condition("equilibrium", domain.interior, equilibrium),
    kp.Condition("hole", domain["sphere"], traction),
    kp.Condition("left", domain["x=0"], lambda x, u, v: (u.value, v.d("x"))),
    kp.Condition("below", domain["y=0"], lambda x, u, v: (v.value, u.d("y"))),
    kp.Condition(
        "outer",
        domain["x=2"] | domain["y=2"],
        lambda x, u, v: (u.value - exact(x)[0], v.value - exact(x)[1]),
    ),
    fields=[kp.Field("u", kp.Gaussian(0.3)), kp.Field("v", kp.Gaussian(0.3))],
)
points = {"equilibrium": 1000, "hole": 80, "left": 60, "below": 60, "outer": 120}
references = {n: jax.vmap(lambda x, i=i: exact(x)[i]) for i, n in enumerate("uv")}
small = {"equilibrium": 350, "hole": 50, "left": 40, "below": 40, "outer": 80}, 0.05
