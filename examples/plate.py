"""A heated plate with a hole: a nonlinear equation on a difference of domains.

Heat is produced everywhere and lost by radiation, -Δu + u⁴ = 1. The outer sides are kept at 0, and
the rim of the hole is insulated. Points are drawn from the domain and its named boundary patches,
without a mesh.
"""

import jax

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

square = kp.Box(x=(-1, 1), y=(-1, 1))
hole = kp.Ball((0.2, 0.1), 0.4, coordinates=("x", "y"))
plate = square - hole
rim, sides = plate["sphere"], kp.union([plate[name] for name in square.boundary_patches])

problem = kp.Problem(
    kp.Condition("equation", plate.interior, lambda x, u: -u.laplacian + u.value**4 - 1.0),
    kp.Condition("cold sides", sides, lambda x, u: u.value),
    kp.Condition("insulated rim", rim, lambda x, u: u.normal_derivative),
    fields=[kp.Field("u", kp.Gaussian(lengthscale=0.5))],
)
learned = kp.learn(problem, {"equation": 300, "cold sides": 120, "insulated rim": 60})
print(learned)
figure = learned.solution.plot(units={"u": "K", "x": "m", "y": "m"})
