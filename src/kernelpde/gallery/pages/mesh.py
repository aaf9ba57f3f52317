"""Poisson's equation on the domain of a mesh: a ring with named edges.

    -Δu = f,    u = g on the outer edge,    ∂u/∂n = h on the inner edge

`kp.read_mesh("ring.msh")` reads a mesh from a file. Only the domain of the mesh is used.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import Delaunay

import kernelpde as kp

GROUP = "elliptic"


def exact(x):
    return jnp.sin(2 * x[0]) * jnp.cosh(x[1]) + x[0] * x[1]


angle = np.linspace(0, 2 * np.pi, 96, endpoint=False)
circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
vertices = np.concatenate([radius * circle for radius in np.linspace(0.4, 1, 13)])
cells = Delaunay(vertices).simplices
cells = cells[np.linalg.norm(vertices[cells].mean(axis=1), axis=1) > 0.4]
edge = np.stack([np.arange(96), np.roll(np.arange(96), -1)], axis=1)

domain = kp.Mesh(vertices, cells, {"outer": edge + 96 * 12, "inner": edge})
problem = kp.Problem(
    kp.Condition(
        "equation", domain.interior, lambda x, u: u.laplacian - jnp.trace(jax.hessian(exact)(x))
    ),
    kp.Condition("outer", domain["outer"], lambda x, u: u.value - exact(x)),
    kp.Condition(
        "inner",
        domain["inner"],
        lambda x, normal, u: u.normal_derivative - jax.grad(exact)(x) @ normal,
    ),
    fields=[kp.Field("u", kp.Gaussian(0.5))],
)
points = {"equation": 500, "outer": 150, "inner": 80}
references = {"u": jax.vmap(exact)}
small = {"equation": 120, "outer": 50, "inner": 30}, 1e-3
