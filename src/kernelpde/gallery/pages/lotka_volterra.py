"""The Lotka-Volterra equations of predators and prey.

    u' = u - ½ u v,    v' = -v + ½ u v,    u(0) = 3, v(0) = 1

Their logarithms a and b are the fields: a' = 1 - ½ exp b, b' = -1 + ½ exp a.
The reference is an explicit Runge-Kutta method of eighth order, to 12 digits.
"""

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import kernelpde as kp

GROUP = "ordinary differential equations"


def slopes(_, y):
    return [1 - 0.5 * np.exp(y[1]), -1 + 0.5 * np.exp(y[0])]


def equations(t, a, b):
    return a.d("t") - 1 + 0.5 * jnp.exp(b.value), b.d("t") + 1 - 0.5 * jnp.exp(a.value)


domain = kp.Box(t=(0, 6))
problem = kp.Problem(
    kp.Condition("equations", domain.interior, equations),
    kp.Condition("begin", domain.side(t=0), lambda t, a, b: (a.value - np.log(3), b.value)),
    fields=[kp.Field("a", kp.Gaussian(0.7)), kp.Field("b", kp.Gaussian(0.7))],
)
points = {"equations": 120, "begin": 1}
path = solve_ivp(
    slopes, (0, 6), [np.log(3), 0], "DOP853", dense_output=True, rtol=1e-12, atol=1e-12
).sol
references = {n: lambda t, i=i: path(np.asarray(t)[:, 0])[i] for i, n in enumerate("ab")}
small = {"equations": 60, "begin": 1}, 1e-2
