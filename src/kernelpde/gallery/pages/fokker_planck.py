"""The Fokker-Planck equation of an Ornstein-Uhlenbeck process.

    p_t = (x p)_x + ½ p_xx,    p(0, ·) = N(1, 0.1)

The density stays Gaussian, with mean e^(-t) and variance ½ + (v₀ - ½) e^(-2t). A separate condition
prescribes its integral at the final time.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "finance and probability"


def exact(x):
    variance = 0.5 + (0.1 - 0.5) * jnp.exp(-2 * x[0])
    return jax.scipy.stats.norm.pdf(x[1], jnp.exp(-x[0]), jnp.sqrt(variance))


domain = kp.Box(t=(0, 1), x=(-4, 4), time="t")
problem = kp.Problem(
    kp.Condition(
        "equation",
        domain.interior,
        lambda x, p: p.d("t") - p.value - x[1] * p.d("x") - 0.5 * p.d("x", "x"),
    ),
    kp.Condition("initial", domain.initial, lambda x, p: p.value - exact(x)),
    kp.Condition("far", domain.boundary, lambda x, p: p.value),
    kp.Condition(
        "mass",
        kp.PointCloud([[1.0, 0.0]]),
        lambda x, p: kp.integral(lambda y, p: p.value, domain.final) - 1,
    ),
    fields=[kp.Field("p", kp.Gaussian([0.3, 0.5]))],
)
points = {"equation": 700, "initial": 120, "far": 60}
references = {"p": jax.vmap(exact)}
small = {"equation": 300, "initial": 60, "far": 30}, 2e-2
