import numpy as np
import skfem as fem
from skfem.helpers import dot, grad

basis = fem.Basis(fem.MeshTri().refined(5), fem.ElementTriP2())


@fem.BilinearForm
def derivative(u, v, w):
    return dot(grad(u), grad(v)) + 3 * w["now"] ** 2 * u * v


@fem.LinearForm
def residual(v, w):
    return dot(grad(w["now"]), grad(v)) + (w["now"] ** 3 - 10) * v


u = basis.zeros()
for _ in range(20):
    now = basis.interpolate(u)
    matrix, right = derivative.assemble(basis, now=now), -residual.assemble(basis, now=now)
    step = fem.solve(*fem.condense(matrix, right, D=basis.get_dofs()))
    u += step
    if np.abs(step).max() < 1e-10:
        break
print(f"u = {(basis.probes(np.array([[0.5], [0.5]])) @ u)[0]:.6f}")
