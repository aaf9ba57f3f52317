"""Create the files of the lessons: readings of wells, and a mesh with named boundaries.

    python docs/lessons/make_data.py

This requires gmsh. The readings are values of the exact solution of D c'' - c' = r c with D = 0.15,
r = 0.8, c(0) = 1 and c(3) = 0.1, with noise of standard deviation 0.02.
"""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def wells() -> None:
    diffusion, decay, outlet, length = 0.15, 0.8, 0.1, 3.0
    root = np.sqrt(1 + 4 * diffusion * decay)
    rates = np.array([1 + root, 1 - root]) / (2 * diffusion)
    boundary_values = np.stack([np.ones(2), np.exp(rates * length)])
    weights = np.linalg.solve(boundary_values, np.array([1.0, outlet]))
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0.1, 2.9, 30))
    c = np.exp(np.outer(x, rates)) @ weights + 0.02 * rng.standard_normal(30)
    rows = [f"{point:.3f},{value:.4f}" for point, value in zip(x, c, strict=True)]
    (HERE / "wells.csv").write_text("\n".join(["x,c", *rows]) + "\n")


def washer() -> None:
    import gmsh

    gmsh.initialize()
    gmsh.option.setNumber("General.Terminal", 0)
    outer = gmsh.model.occ.addDisk(0, 0, 0, 1.5, 1.0)
    inner = gmsh.model.occ.addDisk(0.4, 0, 0, 0.4, 0.4)
    ((_, body),), _ = gmsh.model.occ.cut([(2, outer)], [(2, inner)])
    gmsh.model.occ.synchronize()
    for _, curve in gmsh.model.getBoundary([(2, body)], oriented=False):
        extent = gmsh.model.getBoundingBox(1, curve)
        name = "pipe" if extent[3] - extent[0] < 1.0 else "outside"
        gmsh.model.addPhysicalGroup(1, [curve], name=name)
    gmsh.model.addPhysicalGroup(2, [body], name="metal")
    gmsh.option.setNumber("Mesh.MeshSizeMax", 0.06)
    gmsh.option.setNumber("Mesh.MshFileVersion", 4.1)
    gmsh.model.mesh.generate(2)
    gmsh.write(str(HERE / "washer.msh"))
    gmsh.finalize()


if __name__ == "__main__":
    wells()
    washer()
