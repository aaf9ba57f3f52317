"""The Black-Scholes equation: the value of a European call option.

    V_t + ½ σ² S² V_SS + r S V_S - r V = 0

In x = log(S / K) and the time τ to expiry, V = K v:  v_τ = ½ σ² (v_xx - v_x) + r v_x - r v.
The initial time is τ = 1/4, since the payoff at expiry has a kink.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "finance and probability"
SIGMA, RATE = 0.3, 0.05


def exact(x):
    """The Black-Scholes formula (1973)."""
    tau, spread = x[0], SIGMA * jnp.sqrt(x[0])
    high = (x[1] + (RATE + SIGMA**2 / 2) * tau) / spread
    normal = jax.scipy.stats.norm.cdf
    return jnp.exp(x[1]) * normal(high) - jnp.exp(-RATE * tau) * normal(high - spread)


def equation(x, v):
    return v.d("tau") - SIGMA**2 / 2 * (v.d("x", "x") - v.d("x")) - RATE * v.d("x") + RATE * v.value


domain = kp.Box(tau=(0.25, 1), x=(-1, 1), time="tau")
problem = kp.Problem(
    kp.Condition("equation", domain.interior, equation),
    kp.Condition("expiry", domain.initial, lambda x, v: v.value - exact(x)),
    kp.Condition("far", domain.boundary, lambda x, v: v.value - exact(x)),
    fields=[kp.Field("v", kp.Gaussian([0.5, 0.3]))],
)
points = {"equation": 400, "expiry": 80, "far": 80}
references = {"v": jax.vmap(exact)}
small = {"equation": 120, "expiry": 40, "far": 30}, 1e-3
