import jax

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

square = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", square.interior, lambda x, u: -u.laplacian + u.value**3 - 10),
    kp.Condition("boundary", square.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
solution = kp.solve(problem, accuracy=1e-4)
u, error = (f([[0.5, 0.5]])[0] for f in (solution["u"], solution["u"].error))
print(f"u = {u:.6f}, estimated error {error:.0e}")
