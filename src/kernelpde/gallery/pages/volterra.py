"""An integral equation of Volterra, nonlinear: what grows by its own square.

u(x) = 1 + ∫₀ˣ u(y)² dy,    u = 1 / (1 - x)
"""

import jax

import kernelpde as kp

GROUP = "integral equations"


def exact(x):
    return 1 / (1 - x[0])


domain = kp.Box(x=(0, 0.5))
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, u: u.value - 1 - kp.integral(lambda y, u: u.value**2, start=[0.0], end=x),
    ),
    fields=[kp.Field("u", kp.Polynomial(10) + kp.Gaussian(0.3))],
)
points = {"equation": 80}
references = {"u": jax.vmap(exact)}
small = {"equation": 30}, 1e-6
