"""Stefan's problem: melting ice with an unknown front s(t).

    u_t = u_xx in 0 < x < s(t),    u(t, 0) = 1,    u(t, s) = 0,    s' = -u_x(t, s)

In the coordinate ξ = x / s(t) the domain is fixed. The second field r, with s = 1 + r, depends only
on time. The similarity solution is 1 - erf(x / 2√t) / erf λ, s = 2λ√t, where
√π λ exp(λ²) erf λ = 1.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

GROUP = "heat and diffusion"
LAMBDA = 0.6200626670130566


def front(x):
    return 2 * LAMBDA * jnp.sqrt(x[0])


def exact(x):
    return 1 - jax.scipy.special.erf(LAMBDA * x[1]) / jax.scipy.special.erf(LAMBDA)


def heat(x, u, r):
    transport = x[1] * r.d("t") / (1 + r.value) * u.d("xi")
    return u.d("t") - transport - u.d("xi", "xi") / (1 + r.value) ** 2


def melting(x, u, r):
    return u.value, r.d("t") * (1 + r.value) + u.d("xi")


domain = kp.Box(t=(0.2, 1), xi=(0, 1), time="t")
problem = kp.Problem(
    kp.Condition("heat", domain.interior, heat),
    kp.Condition("hot", domain.side(xi=0), lambda x, u: u.value - 1),
    kp.Condition("front", domain.side(xi=1), melting),
    kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x)),
    kp.Condition("begin", kp.PointCloud([[0.2, 0.5]]), lambda x, r: 1 + r.value - front(x)),
    fields=[kp.Field("u", kp.Gaussian([0.7, 0.7])), kp.Field("r", kp.Gaussian(0.7).on("t"))],
)
points = {"heat": 300, "hot": 40, "front": 40, "initial": 40}
references = {"u": jax.vmap(exact), "r": jax.vmap(lambda x: front(x) - 1)}
small = {"heat": 80, "hot": 16, "front": 16, "initial": 16}, 1e-2
