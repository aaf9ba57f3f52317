"""A nonlinear Volterra integral equation.

    u(x) = 1 + ∫₀ˣ u(y)² dy,    u = 1 / (1 - x)

The kernel is a `FeatureKernel` of Chebyshev polynomials, which converge exponentially for smooth
solutions on an interval. The method is then polynomial collocation.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "integral equations"


def exact(x):
    return 1 / (1 - x[0])


def chebyshev(x):
    values = [jnp.ones(()), 4 * x[0] - 1]
    for _ in range(14):
        values.append(2 * values[1] * values[-1] - values[-2])
    return values


domain = kp.Box(x=(0, 0.5))
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.value - 1 - kp.integral(lambda y, u: u.value**2, start=[0.0], end=x),
    ),
    fields=[kp.Field("u", kp.kernels.FeatureKernel(chebyshev))],
)
points = {"equation": 80}
references = {"u": jax.vmap(exact)}
small = {"equation": 30}, 1e-10
