"""The mean exit time of Brownian motion from an ellipse.

    ½ Δu = -1 in x²/4 + y² < 1,    u = 0 on the boundary

The exact solution is u = (1 - x²/4 - y²) · 4/5.
"""

import jax

import kernelpde as kp

GROUP = "finance and probability"


def exact(x):
    return 0.8 * (1 - x[0] ** 2 / 4 - x[1] ** 2)


domain = kp.Implicit(lambda x, y: x**2 / 4 + y**2 - 1, x=(-2.2, 2.2), y=(-1.2, 1.2))
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda x, u: 0.5 * u.laplacian + 1),
    kp.Condition("boundary", domain.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(1.0))],
)
points = {"equation": 300, "boundary": 120}
references = {"u": jax.vmap(exact)}
small = {"equation": 80, "boundary": 50}, 1e-4
