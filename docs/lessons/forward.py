# %% [markdown]
# # Lesson 1: solve a nonlinear equation
#
# We solve
#
# $$-\Delta u + u^3 = f \text{ in the unit square}, \qquad u = 0 \text{ on its boundary},$$
#
# with a right-hand side for which $u = \sin \pi x \, \sin 2\pi y$ is the solution, so that every
# error can be checked. It takes five steps: a domain, a residual, a problem, a solve, and a look.
#
# JAX computes with 32-bit floats unless it is told otherwise, and Gaussian processes need 64.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

# %% [markdown]
# ## The problem
#
# A residual is a function of a point `x` and of the fields it names. The field arrives as what is
# known of it at that point: `u.value`, `u.d("x")`, `u.laplacian` and so on.


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
# Different conditions on different sides go by the names of the sides: `square["x=0"]` is one,
# `square["x=0"] | square["y=0"]` are two together.
#
# ## Ask for an accuracy
#
# `accuracy` is the relative root-mean-square error you want. The solver chooses collocation points
# and the lengthscale of the kernel; 0.3 above is only where it begins.

# %%
solution = kp.solve(problem, accuracy=1e-4)
print(solution)

# %% [markdown]
# The summary says whether the iteration converged, how large the residual is at the collocation
# points and *between* them, what the error is estimated to be, and whether that is what was asked
# for. Here the truth is known, and the estimate can be compared with it:

# %%
where = np.random.default_rng(0).random((1000, 2))
error = np.asarray(solution["u"](where)) - np.asarray(exact(where))
relative = np.linalg.norm(error) / np.linalg.norm(exact(where))
print(f"estimated {float(solution.error_estimate['u'].rms):.1e}, true {relative:.1e}")

# %% [markdown]
# ## Look at it
#
# Dots are collocation points. The residual is drawn everywhere, also where nothing made it small.

# %%
figure = solution.plot(references={"u": exact})

# %% [markdown]
# ## Use it
#
# The solution is a function, and so are its derivatives, which are exact ones of the approximation.
# `error_estimate.of` estimates the error of anything computed from a solution, here an integral by
# Gauss-Legendre quadrature.

# %%
middle = np.array([[0.5, 0.25]])
print("u        ", solution["u"](middle))
print("gradient ", solution["u"].gradient(middle))
print("laplacian", solution["u"].laplacian(middle), "exactly", -5 * np.pi**2)

nodes, weights = np.polynomial.legendre.leggauss(20)  # on [-1, 1]
nodes = np.stack(np.meshgrid(nodes, nodes), axis=-1) / 2 + 0.5


def energy(s):
    return weights @ s["u"](nodes) ** 2 @ weights / 4


error = solution.error_estimate.of(energy)
print(f"integral of u² {energy(solution):.5f} ± {error:.0e}, exactly 0.25")

# %% [markdown]
# ## Choose the points yourself
#
# With points of your choice, `learn` finds the hyperparameters of the kernel and solves. It takes
# as many points again to judge kernels by, and both together for the solution: 600 inside, here.
# A second solve with other points shows whether the answer still changes.

# %%
learned = kp.learn(problem, {"equation": 300, "boundary": 80})
print("lengthscale", learned.problem.hyperparameters["u"]["lengthscale"])
finer = kp.solve(learned.problem, {"equation": 1200, "boundary": 160}, seed=1)
for name, found in (("coarse", learned.solution), ("fine", finer)):
    largest = np.abs(np.asarray(found["u"](where)) - np.asarray(exact(where))).max()
    print(f"{name}: largest error {largest:.1e}")

# %% [markdown]
# ## What if it goes wrong?
#
# A kernel that is far too wiggly for its points does not give a wrong answer marked as right: the
# equation is met at the points and not between them, and the result says so.

# %%
bad = kp.solve(
    problem.with_kernels((kp.Gaussian(0.01),)), {"equation": 100, "boundary": 40}, throw=False
)
print(bad.converged, "-", bad.reason)

# %% [markdown]
# Next: [an unknown number from a CSV file](inverse.md), [a shape from a mesh file](shape.md), or
# [how to read every line of the summary](../your-pde.md#how-to-read-the-diagnostics).
