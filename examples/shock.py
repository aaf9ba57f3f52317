"""A steepening front: a kernel with a spatially varying lengthscale.

The equation uₜ + u uₓ = 0.05 uₓₓ steepens a sine into a front at x = 0. The lengthscale of a
`Gibbs` kernel is a function of the point, here a sum of bumps. `learn` shortens it near the front.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp
from kernelpde.gallery import ColeHopf

jax.config.update("jax_enable_x64", True)

strip = kp.Box(t=(0, 1), x=(-1, 1), time="t")
lengthscale = kp.BumpLengthscale((0.3, 0.15), ((0.0, 1.0), (-1.0, 1.0)), (3, 9))
problem = kp.Problem(
    kp.Condition(
        "equation",
        strip.interior,
        lambda x, u: u.d("t") + u.value * u.d("x") - 0.05 * u.d("x", "x"),
    ),
    kp.Condition("ends", strip.boundary, lambda x, u: u.value),
    kp.Condition("initial", strip.initial, lambda x, u: u.value + jnp.sin(jnp.pi * x[1])),
    fields=[kp.Field("u", kp.Gibbs(lengthscale))],
)
learned = kp.learn(problem, {"equation": 400, "ends": 60, "initial": 60}, max_steps=12, throw=False)
print(learned.solution)
figure = learned.solution.plot(references={"u": ColeHopf(0.05)}, points=False)
lengthscales = learned.solution.plot_lengthscales()
