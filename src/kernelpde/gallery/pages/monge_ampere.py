"""The Monge-Ampère equation: a convex surface of prescribed curvature.

    u_xx u_yy - u_xy² = (1 + x² + y²) exp(x² + y²),    u = exp((x² + y²)/2)

The iteration starts from a paraboloid and converges to the convex one of two solutions.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "geometry"


def exact(x):
    return jnp.exp(x @ x / 2)


domain = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        # u = v + (x² + y²)/2: at v = 0 the equation is elliptic.
        lambda x, v: (
            (1 + v.d("x", "x")) * (1 + v.d("y", "y"))
            - v.d("x", "y") ** 2
            - (1 + x @ x) * jnp.exp(x @ x)
        ),
    ),
    kp.Condition("boundary", domain.boundary, lambda x, v: v.value + x @ x / 2 - exact(x)),
    fields=[kp.Field("v", kp.Gaussian(0.7))],
)
points = {"equation": 400, "boundary": 160}
references = {"v": jax.vmap(lambda x: exact(x) - x @ x / 2)}
small = {"equation": 100, "boundary": 60}, 1e-3
