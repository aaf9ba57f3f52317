"""Optimal control of four heaters by derivatives through `solve`.

A room loses heat by radiation, -Δu + u³ = q. The temperature should be the same at all seats.
`jax.grad` differentiates `solve` with respect to the power of the heaters, and optax minimizes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

heaters = np.array([[0.2, 0.2], [0.8, 0.2], [0.2, 0.8], [0.8, 0.8]])
seats, target = np.random.default_rng(0).uniform(0.3, 0.9, (30, 2)), 0.7


def equation(x, u, power):
    heat = power @ jnp.exp(-jnp.sum((x - heaters) ** 2, axis=1) / 0.03)
    return -u.laplacian + u.value**3 - heat


room = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", room.interior, equation),
    kp.Condition("walls", room.boundary, lambda x, u: u.normal_derivative + u.value),
    fields=[kp.Field("u", kp.Gaussian(0.25))],
    inputs={"power": np.full(4, 5.0)},
)
discretization = kp.discretize(problem, {"equation": 200, "walls": 80})


@jax.jit
@jax.value_and_grad
def mean_squared_error(power):
    solution = kp.solve(discretization, inputs={"power": power})
    return jnp.mean((solution["u"](seats) - target) ** 2)


power, optimizer = jnp.full(4, 5.0), optax.adam(0.5)
state = optimizer.init(power)
for step in range(101):
    value, gradient = mean_squared_error(power)
    if step % 20 == 0:
        print(f"step {step:3d}: root mean square error {np.sqrt(value):.4f}")
    update, state = optimizer.update(gradient, state)
    power = power + jnp.asarray(update)
print("power:", np.round(np.asarray(power), 2))
picture = kp.solve(discretization, inputs={"power": power}).plot("u")
