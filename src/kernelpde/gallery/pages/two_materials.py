"""Heat conduction in two materials: the conductivity in a disc is a hundred times larger.

    ∇·(k ∇u) = f,    k = 1 outside and 100 inside;    u and k ∂u/∂n are continuous

Each material has its own field, and the fields are coupled at the interface.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "heat and diffusion"
K = 100.0


def exact(x, k=1.0):
    return 1 + (x @ x - 0.25) * (jnp.exp(x[0]) * jnp.cos(x[1]) + 0.5) / k


def source(x):
    return jnp.trace(jax.hessian(exact)(x))


disc = kp.Ball((0, 0), 0.5)
exterior = kp.Box(x=(-1, 1), y=(-1, 1)) - disc
outer = kp.union([exterior[f"{name}={bound}"] for name in "xy" for bound in (-1, 1)])
problem = kp.Problem(
    kp.Condition("around", exterior.interior, lambda x, u: u.laplacian - source(x)),
    kp.Condition("disc", disc.interior, lambda x, v: K * v.laplacian - source(x)),
    kp.Condition(
        "interface",
        exterior.interface(disc),
        lambda x, u, v: (u.value - v.value, u.normal_derivative - K * v.normal_derivative),
    ),
    kp.Condition("outer", outer, lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian(0.5)), kp.Field("v", kp.Gaussian(0.5))],
)
points = {"around": 600, "disc": 200, "interface": 80, "outer": 160}
regions = {"u": exterior.interior, "v": disc.interior}
references = {"u": jax.vmap(exact), "v": jax.vmap(lambda x: exact(x, K))}
small = {"around": 120, "disc": 50, "interface": 24, "outer": 50}, 1e-2
