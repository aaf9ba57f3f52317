import numpy as np
import ufl
from dolfinx import fem, geometry, mesh, nls
from mpi4py import MPI

square = mesh.create_unit_square(MPI.COMM_WORLD, 32, 32)
space = fem.FunctionSpace(square, ("CG", 2))
u, v = fem.Function(space), ufl.TestFunction(space)
residual = (ufl.dot(ufl.grad(u), ufl.grad(v)) + (u**3 - 10) * v) * ufl.dx
square.topology.create_connectivity(1, 2)
edge = fem.locate_dofs_topological(space, 1, mesh.exterior_facet_indices(square.topology))
zero = fem.dirichletbc(0.0, edge, space)
newton = nls.petsc.NewtonSolver(square.comm, fem.petsc.NonlinearProblem(residual, u, [zero]))
newton.solve(u)

middle = np.array([[0.5, 0.5, 0.0]])
tree = geometry.BoundingBoxTree(square, 2)
cell = geometry.compute_colliding_cells(
    square, geometry.compute_collisions(tree, middle), middle
).links(0)[0]
print(f"u = {u.eval(middle, [cell])[0]:.6f}")
