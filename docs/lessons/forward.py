# %% [markdown]
# # Lesson 1: solve a nonlinear equation
#
# We solve
#
# $$-\Delta u + u^3 = f \text{ in the unit square}, \qquad u = 0 \text{ on its boundary},$$
#
# with a right-hand side $f$ for which $u = \sin \pi x \, \sin 2\pi y$ is the solution, so you can
# check every error. There are five steps: define a domain, residuals and a problem, solve it, and
# plot the solution.
#
# By default JAX computes with 32-bit floats. Gaussian processes need 64 bits.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# ## The problem
#
# A residual is a function of a point `x` and of fields. A field argument provides the value of the
# field and its derivatives at that point: `u.value`, `u.d("x")`, `u.laplacian` and so on.


# %%
def exact(x):
    return jnp.sin(jnp.pi * x[..., 0]) * jnp.sin(2 * jnp.pi * x[..., 1])


def equation(x, u):
    f = 5 * jnp.pi**2 * exact(x) + exact(x) ** 3
    return -u.laplacian + u.value**3 - f


square = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", square.interior, equation),
    kp.Condition("boundary", square.boundary, lambda x, u: u.value),
    fields=[kp.Field("u", kp.Gaussian(lengthscale=0.3))],
)
print(problem)

# %% [markdown]
# To set different conditions on different sides, use the names of the sides: `square["x=0"]` is one
# side, and `square["x=0"] | square["y=0"]` is the union of two.
#
# ## Solve to a target accuracy
#
# `accuracy` is the target root mean square error, relative to the solution. `solve` selects the
# collocation points and the lengthscale of the kernel, starting from 0.3.

# %%
solution = kp.solve(problem, accuracy=1e-4)
print(solution.report())

# %% [markdown]
# The report contains convergence, the residual at the collocation points and at test points, and
# the estimated error with the target. `print(solution)` prints a shorter summary. Here the exact
# solution is available for comparison with the estimate:

# %%
test_points = np.random.default_rng(0).random((1000, 2))
error = np.asarray(solution["u"](test_points)) - np.asarray(exact(test_points))
relative = np.linalg.norm(error) / np.linalg.norm(exact(test_points))
print(f"estimated {float(solution.error_estimate['u'].rms):.1e}, true {relative:.1e}")

# %% [markdown]
# ## Plot the solution
#
# Dots are collocation points. The plot of the residual covers the full domain, including the gaps,
# where the residual is not constrained.

# %%
figure = solution.plot(references={"u": exact})

# %% [markdown]
# ## Evaluate the solution
#
# You can evaluate the solution and its derivatives at any points. The derivatives are exact
# derivatives of the approximation. `error_estimate.of_quantity` estimates the error of a function
# of the solution, here an integral by Gauss-Legendre quadrature.

# %%
point = np.array([[0.5, 0.25]])
print("u        ", solution["u"](point))
print("gradient ", solution["u"].gradient(point))
print("laplacian", solution["u"].laplacian(point), "exactly", -5 * np.pi**2)

nodes, weights = np.polynomial.legendre.leggauss(20)  # on [-1, 1]
nodes = np.stack(np.meshgrid(nodes, nodes), axis=-1) / 2 + 0.5


def energy(s):
    return weights @ s["u"](nodes) ** 2 @ weights / 4


error = solution.error_estimate.of_quantity(energy)
print(f"integral of u² {energy(solution):.5f} ± {error:.0e}, exactly 0.25")

# %% [markdown]
# ## Choose the number of points
#
# For given numbers of points, `learn` learns the hyperparameters of the kernel and solves. It draws
# the same number of points again for validation, and uses both sets in the final solve: 600 in the
# interior here. Solve again with more points to check the convergence.

# %%
learned = kp.learn(problem, {"equation": 300, "boundary": 80})
print("lengthscale", learned.problem.hyperparameters["u"]["lengthscale"])
refined = kp.solve(learned.problem, {"equation": 1200, "boundary": 160}, seed=1)
for name, candidate in (("coarse", learned.solution), ("fine", refined)):
    largest = np.abs(np.asarray(candidate["u"](test_points)) - np.asarray(exact(test_points))).max()
    print(f"{name}: largest error {largest:.1e}")

# %% [markdown]
# ## Detect an inaccurate solution
#
# With a lengthscale much shorter than the distance of the points, the equation holds at the
# collocation points but not at test points. The solution is then not marked as converged:

# %%
inaccurate = kp.solve(
    problem.with_kernels((kp.Gaussian(0.01),)), {"equation": 100, "boundary": 40}, throw=False
)
print(inaccurate.converged, "-", inaccurate.message)

# %% [markdown]
# Next: [an unknown number from a CSV file](inverse.md), [a shape from a mesh file](shape.md), or
# [the explanation of the report](../your-pde.md#how-to-read-the-diagnostics).
