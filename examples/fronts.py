"""A traveling front: reaction and diffusion in space-time.

Fisher's equation uₜ = 0.01 uₓₓ + u (1 - u) describes a population that spreads into an empty
region. It is solved in space-time, with no flux through the ends.
"""

import jax
import jax.numpy as jnp

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

strip = kp.Box(t=(0, 4), x=(0, 2), time="t")
problem = kp.Problem(
    kp.Condition(
        "equation",
        strip.interior,
        lambda x, u: u.d("t") - 0.01 * u.d("x", "x") - u.value * (1 - u.value),
    ),
    kp.Condition("ends", strip.boundary, lambda x, u: u.normal_derivative),
    kp.Condition(
        "initial", strip.initial, lambda x, u: u.value - 0.5 * (1 - jnp.tanh(5 * (x[1] - 0.4)))
    ),
    fields=[kp.Field("u", kp.Gaussian(lengthscale=[1.0, 0.3]))],
)
learned = kp.learn(problem, {"equation": 400, "ends": 60, "initial": 60})
print(learned)
figure = learned.solution.plot()
history = learned.plot()
