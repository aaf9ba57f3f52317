"""A crack tip with singular stress: Laplace's equation, as in Motz's problem.

    Δu = 0,    u = 0 on the crack,    ∂u/∂n = 0 ahead of it,    u prescribed elsewhere

The kernel contains an unknown multiple of the singular function √r sin((π - θ)/2) of Motz (1947).
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "solids"


def tip(x):
    return jnp.sqrt(jnp.sqrt(x[0] ** 2 + x[1] ** 2)) * jnp.cos(
        (jnp.pi - jnp.arctan2(x[1], x[0])) / 2
    )


def exact(x):
    # cos of an odd multiple of the angle from the line ahead: 0 on the crack, even ahead of it.
    angle = jnp.pi - jnp.arctan2(x[1], x[0])
    return 2 * tip(x) - jnp.sqrt(x[0] ** 2 + x[1] ** 2) ** 1.5 * jnp.cos(1.5 * angle)


def tips(x):
    angle = jnp.pi - jnp.arctan2(x[1], x[0])
    return tip(x), jnp.sqrt(x[0] ** 2 + x[1] ** 2) ** 1.5 * jnp.cos(1.5 * angle)


domain = kp.Polygon(
    [(-1, 0), (0, 0), (1, 0), (1, 1), (-1, 1)], names=["ahead", "crack", "rest", "rest", "rest"]
)
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: u.laplacian),
    kp.Condition("crack", domain["crack"], lambda x, u: u.value),
    kp.Condition("ahead", domain["ahead"], lambda x, u: u.normal_derivative),
    kp.Condition("rest", domain["rest"], lambda x, u: u.value - exact(x)),
    fields=[kp.Field("u", kp.Gaussian(0.7) + kp.kernels.FeatureKernel(tips))],
)
points = {"equation": 500, "crack": 60, "ahead": 60, "rest": 160}
references = {"u": jax.vmap(exact)}
small = {"equation": 120, "crack": 20, "ahead": 20, "rest": 50}, 1e-3
