"""Generate the readings of `examples/thermometers.py` with finite elements.

-div(k(T) grad T) = q in a square with a round hole, whose rim loses h T. Heat enters by the left
side, the other sides are kept at 0. Quadratic elements (scikit-fem, installed apart) on a mesh
between hole and sides; the difference to a mesh twice as coarse is printed. Written are
temperatures at 150 random places by two instruments with noise of 0.005 and 0.015, one in twenty
wrong by up to 0.4, one in ten empty.
"""

# scikit-fem is installed apart.
# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import csv

import numpy as np
from skfem import Basis, ElementTriP2, FacetBasis, MeshTri, asm, condense, solve
from skfem.assembly import BilinearForm, LinearForm
from skfem.helpers import dot, grad

from benchmarks._report import ROOT, parser

TARGET = ROOT / "examples" / "data" / "thermometers.csv"
CENTER, RADIUS, LOSS = np.array([0.2, 0.1]), 0.4, 0.8
INFLOW, COUNT = 3.0, 150


def conductivity(t):
    return 1.0 + 0.8 * t**2


def slope(t):
    return 1.6 * t


def source(x, y):
    return 3.0 * np.exp(-((x + 0.4) ** 2 + (y - 0.45) ** 2) / 0.08)


def mesh_of(n: int) -> MeshTri:
    """Triangles between the hole and the square, closer to each other near the hole."""
    # Rays go through the corners of the square: each side has its own.
    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]], float)
    rim = []
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        rim += [a + (b - a) * k / n for k in range(n)]
    outer = np.array(rim)
    angles = np.arctan2(*(outer - CENTER).T[::-1])
    inner = CENTER + RADIUS * np.stack([np.cos(angles), np.sin(angles)], 1)
    layers = n // 2
    fractions = np.linspace(0, 1, layers + 1) ** 1.3
    points = np.concatenate([inner + s * (outer - inner) for s in fractions])
    around, triangles = len(outer), []
    for layer in range(layers):
        for k in range(around):
            a, b = layer * around + k, layer * around + (k + 1) % around
            triangles += [[a, b, a + around], [b, b + around, a + around]]
    return MeshTri(points.T, np.array(triangles).T)


def solved(n: int):
    """The temperature as a function of points, by Newton's method."""
    mesh = mesh_of(n)
    basis = Basis(mesh, ElementTriP2())
    on = {
        "hole": mesh.facets_satisfying(
            lambda x: np.hypot(x[0] - CENTER[0], x[1] - CENTER[1]) < 1.2 * RADIUS, True
        ),
        "left": mesh.facets_satisfying(lambda x: np.isclose(x[0], -1.0), True),
    }
    hole, left = (FacetBasis(mesh, ElementTriP2(), facets=on[name]) for name in ("hole", "left"))

    @BilinearForm
    def tangent(u, v, w):
        t = w["t"]
        return conductivity(t) * dot(grad(u), grad(v)) + slope(t) * u * dot(grad(t), grad(v))

    @LinearForm
    def residual(v, w):
        t = w["t"]
        return conductivity(t) * dot(grad(t), grad(v)) - source(w.x[0], w.x[1]) * v

    @BilinearForm
    def cooling(u, v, w):
        del w
        return LOSS * u * v

    @LinearForm
    def cooled(v, w):
        return LOSS * w["t"] * v

    @LinearForm
    def heated(v, w):
        return INFLOW * np.cos(0.5 * np.pi * w.x[1]) * v

    cold = basis.get_dofs(
        lambda x: np.isclose(x[0], 1.0) | np.isclose(x[1], 1.0) | np.isclose(x[1], -1.0)
    )
    t = basis.zeros()
    for _ in range(20):
        matrix = asm(tangent, basis, t=basis.interpolate(t)) + asm(cooling, hole)
        vector = asm(residual, basis, t=basis.interpolate(t))
        vector += asm(cooled, hole, t=hole.interpolate(t)) - asm(heated, left)
        step = solve(*condense(matrix, -vector, D=cold))
        t = t + step
        if np.max(np.abs(step)) < 1e-12:
            break
    return lambda points: basis.probes(points.T) @ t


def main(arguments: list[str]) -> None:
    parser(__doc__).parse_args(arguments)
    rng = np.random.default_rng(21)
    places = rng.uniform(-0.97, 0.97, (600, 2))
    places = places[np.linalg.norm(places - CENTER, axis=1) > RADIUS + 0.03][:COUNT]
    values, coarse = (solved(n)(places) for n in (96, 48))
    print(values.min(), values.max(), "differences", np.max(np.abs(values - coarse)))
    fine, wrong, empty = rng.random((3, COUNT)) < np.array([[0.5], [0.05], [0.1]])
    readings = values + np.where(fine, 0.005, 0.015) * rng.standard_normal(COUNT)
    readings[wrong] += rng.uniform(-0.4, 0.4, int(wrong.sum()))
    TARGET.parent.mkdir(exist_ok=True)
    with open(TARGET, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "y", "instrument", "T"])
        for (x, y), good, reading, gap in zip(places, fine, readings, empty, strict=True):
            cell = "" if gap else f"{reading:.4f}"
            writer.writerow([f"{x:.4f}", f"{y:.4f}", "A" if good else "B", cell])
