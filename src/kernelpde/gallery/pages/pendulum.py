"""A pendulum with large amplitude; the solution is an elliptic function.

u'' + sin u = 0,    u(0) = 2,    u'(0) = 0
"""

import jax.numpy as jnp
import numpy as np
from scipy.special import ellipj, ellipk

import kernelpde as kp

GROUP = "ordinary differential equations"
K = np.sin(1.0)


def exact(t):
    sn = ellipj(ellipk(K**2) - np.asarray(t)[:, 0], K**2)[0]
    return 2 * np.arcsin(K * sn)


domain = kp.Box(t=(0, 8))
problem = kp.Problem(
    kp.Condition("equation", domain.interior, lambda t, u: u.d("t", "t") + jnp.sin(u.value)),
    kp.Condition("begin", domain.side(t=0), lambda t, u: (u.value - 2, u.d("t"))),
    fields=[kp.Field("u", kp.Gaussian(1.0))],
)
points = {"equation": 80, "begin": 1}
references = {"u": exact}
small = {"equation": 40, "begin": 1}, 1e-2
