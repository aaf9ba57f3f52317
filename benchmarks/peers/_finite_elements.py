"""scikit-fem: Lagrange elements on triangles and tetrahedra, curved where the domain is, Newton's
method for what is not linear."""

from typing import Any

import jax
import numpy as np
import skfem as fem
from skfem.helpers import dot, grad

from kernelpde.gallery import Example

COMPILES = False
SETTINGS = {
    "elliptic": ("P2, 5 refinements", "P4, 4 refinements", "P4, 5 refinements"),
    "eikonal": ("P2, 5 refinements", "P4, 5 refinements"),
    "poisson-flower": ("P2, 3 refinements", "P2, 4 refinements", "P2, 5 refinements"),
    "poisson-ball": ("P2, 2 refinements", "P2, 3 refinements"),
    "l-shape": ("P2, 6 refinements", "P4, 5 refinements"),
}


def solved(example: Example, setting: str, seed: int) -> Any:
    del seed
    degree, refinements = int(setting[1]), int(setting.split()[1])
    element = {2: fem.ElementTriP2(), 4: fem.ElementTriP4()}[degree]
    square = fem.MeshTri.init_symmetric().refined(refinements)
    if example.name == "elliptic":
        return _newton(fem.Basis(square, element, intorder=10), _reaction)
    if example.name == "eikonal":
        return _newton(fem.Basis(square, element, intorder=10), _distance, steps=40)
    if example.name == "poisson-flower":
        disc = fem.MeshTri2.from_mesh(fem.MeshTri.init_circle(refinements))
        places = disc.doflocs.copy()
        # Middles of edges on the circle, which from_mesh leaves on their chords.
        middles = disc.nvertices + disc.boundary_facets()
        places[:, middles] /= np.linalg.norm(places[:, middles], axis=0)
        mesh = fem.MeshTri2(_flower(places), disc.t)
        return _poisson(example, fem.Basis(mesh, element, intorder=8))
    if example.name == "l-shape":
        given = fem.MeshTri.init_lshaped()
        mesh = fem.MeshTri(given.p * [[1], [-1]], given.t).refined(2)
        # Halved again and again where the corner is.
        for _ in range(4 * refinements):
            middle = mesh.p[:, mesh.t].mean(1)
            size = np.linalg.norm(middle, axis=0)
            mesh = mesh.refined(np.flatnonzero(size <= np.partition(size, 12)[12]))
        return _poisson(example, fem.Basis(mesh.refined(1), element, intorder=8))
    ball = fem.MeshTet2.from_mesh(fem.MeshTet.init_ball(refinements))
    places, edges = ball.doflocs.copy(), ball.nvertices + ball.boundary_edges()
    places[:, edges] /= np.linalg.norm(places[:, edges], axis=0)
    mesh = fem.MeshTet2(places, ball.t)
    return _poisson(example, fem.Basis(mesh, fem.ElementTetP2(), intorder=6), robin=True)


def _flower(points: np.ndarray) -> np.ndarray:
    """The disc stretched to r < 1 + 0.3 cos 5θ."""
    radius, angle = np.hypot(*points), np.arctan2(points[1], points[0])
    return points * (1 + 0.3 * radius**2 * np.cos(5 * angle))


def _poisson(example: Example, basis: Any, robin: bool = False) -> Any:
    exact = jax.jit(next(iter(example.references.values())))
    point = _pointwise(exact)

    def source(x: np.ndarray) -> np.ndarray:
        flat = x.reshape(len(x), -1).T
        found = jax.jit(jax.vmap(lambda at: jax.numpy.trace(jax.hessian(point)(at))))(flat)
        return np.asarray(found).reshape(x.shape[1:])

    stiffness = fem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(basis)
    load = fem.LinearForm(lambda v, w: -source(w.x) * v).assemble(basis)
    if robin:
        edge = fem.FacetBasis(basis.mesh, basis.elem, intorder=6)

        def flux(x: np.ndarray, n: np.ndarray) -> np.ndarray:
            flat = x.reshape(len(x), -1).T
            slope = np.asarray(jax.jit(jax.vmap(jax.grad(point)))(flat)).T.reshape(x.shape)
            return np.sum(slope * n, axis=0) + np.asarray(exact(flat)).reshape(x.shape[1:])

        stiffness += fem.BilinearForm(lambda u, v, w: u * v).assemble(edge)
        load += fem.LinearForm(lambda v, w: flux(w.x, w.n) * v).assemble(edge)
        return basis, fem.solve(stiffness, load)
    ends = basis.get_dofs()
    known = np.zeros(basis.N)
    known[ends.flatten()] = np.asarray(exact(basis.doflocs[:, ends.flatten()].T))
    return basis, fem.solve(*fem.condense(stiffness, load, x=known, D=ends))


def _pointwise(exact: Any) -> Any:
    return lambda at: exact(at[None])[0]


def _reaction(u: Any, v: Any, w: Any) -> tuple[Any, Any]:
    """-Δu + u³ = f: the derivative and the residual, in weak form."""
    x, now = w.x, w["now"]
    waves = [
        a * np.sin(k * np.pi * x[0]) * np.sin(k * np.pi * x[1]) for k, a in ((1, 1.0), (4, 4.0))
    ]
    source = 2 * np.pi**2 * (waves[0] + 16 * waves[1]) + (waves[0] + waves[1]) ** 3
    slope = dot(grad(u), grad(v)) + 3 * now**2 * u * v if u is not None else None
    return slope, dot(grad(now), grad(v)) + (now**3 - source) * v


def _distance(u: Any, v: Any, w: Any) -> tuple[Any, Any]:
    """|∇u|² = 1 + ε Δu, ε = 0.01."""
    now = w["now"]
    slope = None
    if u is not None:
        slope = 2 * dot(grad(now), grad(u)) * v + 0.01 * dot(grad(u), grad(v))
    return slope, (dot(grad(now), grad(now)) - 1) * v + 0.01 * dot(grad(now), grad(v))


def _newton(basis: Any, form: Any, steps: int = 20) -> Any:
    """Full steps, halved while the residual grows."""
    inner = basis.complement_dofs(basis.get_dofs())
    u = np.zeros(basis.N)

    def left(at: np.ndarray) -> np.ndarray:
        weak = fem.LinearForm(lambda v, w: form(None, v, w)[1])
        return weak.assemble(basis, now=basis.interpolate(at))[inner]

    for _ in range(steps):
        slope = fem.BilinearForm(lambda u, v, w: form(u, v, w)[0])
        matrix = slope.assemble(basis, now=basis.interpolate(u))
        right = left(u)
        step = np.zeros(basis.N)
        step[inner] = fem.solve(matrix[inner][:, inner], -right)
        part = 1.0
        while np.linalg.norm(left(u + part * step)) > np.linalg.norm(right) and part > 1e-3:
            part /= 2
        u = u + part * step
        if np.abs(step).max() < 1e-11:
            break
    return basis, u


def errors(example: Example, found: Any) -> dict[str, float]:
    """Relative, in L², by quadrature: points of curved elements are not looked up."""
    basis, u = found
    ((field, reference),) = example.references.items()
    x = np.asarray(basis.global_coordinates())
    truth = np.asarray(reference(x.reshape(len(x), -1).T)).reshape(x.shape[1:])
    size = np.sum(truth**2 * basis.dx)
    return {
        field: float(
            np.sqrt(np.sum((np.asarray(basis.interpolate(u)) - truth) ** 2 * basis.dx) / size)
        )
    }
