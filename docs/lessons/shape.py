# %% [markdown]
# # Lesson 3: a shape from a mesh file
#
# A hot pipe runs through an elliptic metal bar, off its center. We compute the temperature in the
# bar:
#
# $$\Delta T = 0, \qquad \partial_n T = 1 \text{ at the pipe}, \qquad
# \partial_n T + 2\,T = 0 \text{ at the outside}.$$
#
# The shape is in [washer.msh](washer.msh), written by Gmsh with the physical groups `pipe`,
# `outside` and `metal`. `read_mesh` uses only the shape; the triangles are not elements. Reading
# mesh files requires `pip install 'kernelpde[mesh]'`.

# %%
import jax
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

bar = kp.read_mesh("washer.msh")
print(bar, list(bar.boundary_patches))
print(f"area {bar.volume:.3f}, exactly {np.pi * (1.5 * 1.0 - 0.4**2):.3f}")

# %% [markdown]
# ## Conditions on named boundary patches
#
# `normal_derivative` is the derivative along the outward normal. At the pipe the normal points into
# the pipe, so heat flows *into* the bar where the derivative is positive.

# %%
problem = kp.Problem(
    kp.Condition("metal", bar.interior, lambda x, T: T.laplacian),
    kp.Condition("pipe", bar["pipe"], lambda x, T: T.normal_derivative - 1.0),
    kp.Condition("outside", bar["outside"], lambda x, T: T.normal_derivative + 2.0 * T.value),
    fields=[kp.Field("T", kp.Gaussian(0.8))],
)
learned = kp.learn(problem, {"metal": 400, "pipe": 80, "outside": 160})
print(learned.solution)
print(learned.solution.error_estimate["T"])

# %% [markdown]
# The final solve uses twice the given number of points: the given ones for training, and the same
# number for validation. `error_estimate` is computed on first access, relative to the root mean
# square of $T$.

# %%
figure = learned.solution.plot("T", units={"T": "K", "x": "m", "y": "m"})

# %% [markdown]
# ## Check a conservation law
#
# All heat that enters at the pipe must leave at the outside. The problem does not impose this
# balance, so it is a test: the integral of the normal derivative over the boundary is zero.

# %%
total = 0.0
for name in bar.boundary_patches:
    sample = bar[name].sample(4000, np.random.default_rng(0), "halton")
    gradient = np.asarray(learned.solution["T"].gradient(sample.points))
    flux = np.mean(np.sum(gradient * sample.normals, axis=1)) * bar[name].measure
    print(f"{name}: {flux:+.4f}")
    total += flux
print(f"sum {total:+.1e}")

# %% [markdown]
# The triangles of the mesh have straight sides. Where two sides form an angle of less than 30
# degrees, `read_mesh` assumes a curved boundary. It draws points and normals from a smooth curve
# through the vertices; `feature_angle` sets the angle. `bar.volume` is the area of the triangles.
# You can also define this shape exactly:

# %%
ellipse = kp.Implicit(lambda x, y: (x / 1.5) ** 2 + y**2 - 1, x=(-1.6, 1.6), y=(-1.1, 1.1))
exact = ellipse - kp.Ball((0.4, 0.0), 0.4, coordinates=("x", "y"))
print(list(exact.boundary_patches))

# %% [markdown]
# ## Export the solution
#
# Write a file for ParaView by PyVista, or convert to an xarray dataset:

# %%
learned.solution.to_pyvista(resolution=80).save("bar.vtu")
print(learned.solution.to_xarray(resolution=5)["T"].round(3))

# %% [markdown]
# [Shapes, interfaces, integrals](../shapes.md) explains polygons, unions, moving domains and
# several materials.
