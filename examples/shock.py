"""A front that steepens: a kernel that learns where the solution is rough.

uₜ + u uₓ = 0.05 uₓₓ steepens a sine into a front at x = 0. The lengthscale of a `Gibbs` kernel is a
function of place, here a field of bumps; it is learned, and becomes short where the front is.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp
from kernelpde.gallery import ColeHopf

jax.config.update("jax_enable_x64", True)

strip = kp.Box(t=(0, 1), x=(-1, 1), time="t")
field = kp.Bumps((0.3, 0.15), ((0.0, 1.0), (-1.0, 1.0)), (3, 9))
problem = kp.Problem(
    kp.Condition(
        "equation",
        strip.interior,
        lambda x, u: u.d("t") + u.value * u.d("x") - 0.05 * u.d("x", "x"),
    ),
    kp.Condition("ends", strip.boundary, lambda x, u: u.value),
    kp.Condition("initial", strip.initial, lambda x, u: u.value + jnp.sin(jnp.pi * x[1])),
    fields=[kp.Field("u", kp.Gibbs(field))],
)
learned = kp.learn(problem, {"equation": 400, "ends": 60, "initial": 60}, max_steps=12, throw=False)
print(learned.solution)
figure = learned.solution.plot(references={"u": ColeHopf(0.05)}, points=False)
lengthscales = learned.solution.plot_lengthscales()
