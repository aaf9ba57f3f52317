# %% [markdown]
# # Lesson 3: a shape from a mesh file
#
# A hot pipe runs through an elliptic metal bar, off its center. We want the temperature in the bar:
#
# $$\Delta T = 0, \qquad \partial_n T = 1 \text{ at the pipe}, \qquad
# \partial_n T + 2\,T = 0 \text{ at the outside}.$$
#
# The shape is in [washer.msh](washer.msh), written by Gmsh with the physical groups `pipe`,
# `outside` and `metal`. Only the shape is taken from it; the triangles are not used as elements.
# (`pip install 'kernelpde[mesh]'` reads such files.)

# %%
import jax
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

bar = kp.read_mesh("washer.msh")
print(bar, list(bar.pieces))
print(f"area {bar.volume:.3f}, exactly {np.pi * (1.5 * 1.0 - 0.4**2):.3f}")

# %% [markdown]
# ## Conditions on named pieces
#
# `normal_derivative` is along the outward normal. At the pipe that points into the pipe, so heat
# flows *into* the bar where it is positive.

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
# The points are twice as many as were asked for: half of them judged the kernel, and all are used
# in the end. The error is estimated when `error_estimate` is first looked at, relative to the root
# mean square of $T$.

# %%
figure = learned.solution.plot("T", units={"T": "K", "x": "m", "y": "m"})

# %% [markdown]
# ## Check it by something that was not imposed
#
# All heat that enters at the pipe must leave at the outside. Nothing in the problem says so, which
# makes it a test: the integral of the normal derivative over the whole boundary is zero.

# %%
total = 0.0
for name in bar.pieces:
    piece = bar[name].sample(4000, np.random.default_rng(0), "halton")
    gradient = np.asarray(learned.solution["T"].gradient(piece.points))
    flux = np.mean(np.sum(gradient * piece.normals, axis=1)) * bar[name].measure
    print(f"{name}: {flux:+.4f}")
    total += flux
print(f"left over {total:+.1e}")

# %% [markdown]
# The triangles of the mesh have straight sides. Where these meet at less than 30 degrees,
# `read_mesh` takes the boundary to be curved and draws points and normals from a smooth curve
# through the vertices; `feature_angle` sets the angle. `bar.volume` is that of the triangles.
# Shapes that are known exactly can be given exactly:

# %%
ellipse = kp.Implicit(lambda x, y: (x / 1.5) ** 2 + y**2 - 1, x=(-1.6, 1.6), y=(-1.1, 1.1))
exact = ellipse - kp.Ball((0.4, 0.0), 0.4, coordinates=("x", "y"))
print(list(exact.pieces))

# %% [markdown]
# ## Take it elsewhere
#
# A file for ParaView, a table, or an xarray dataset:

# %%
kp.export(learned.solution, "bar.vtu", resolution=80)
print(learned.solution.to_xarray(resolution=5)["T"].round(3))

# %% [markdown]
# [Shapes, interfaces, integrals](../shapes.md) has polygons, unions, moving domains and several
# materials.
