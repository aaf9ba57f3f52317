"""Singular functions of elliptic equations at the corners of planar domains.

With its coefficients frozen at a corner, the principal part of a second-order equation is the
Laplacian in suitable coordinates, in which z = r e^{iθ} and the sides are θ = 0 and θ = ω. On each
side a condition prescribes u, or a derivative in a direction of argument β. Re(C z^λ) satisfies
homogeneous conditions if on each side the argument of C z^λ, or of C z^(λ-1) e^{iβ}, is an odd
multiple of π/2 (Grisvard 1985, chapter 4). Where λ is an integer this is a polynomial. Then
Re(C z^λ log z) accounts for data and right-hand sides that do not vanish at the corner.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from kernelpde.checking import check_instance, check_real
from kernelpde.geometry import Patch, Vertex, bounding_box, find_vertices
from kernelpde.kernels import AbstractKernel, Scale, SingularFunction, SingularKernel, Sum
from kernelpde.problem._principal import Principal, principal_parts
from kernelpde.problem._problem import Problem

_ROUNDING = 1e-6
"""Difference up to which exponents are integers, and relative difference up to which data at a
corner agree. Corners are located to 1e-9 of the extent of the domain."""

_FLAT_ANGLE = np.deg2rad(2.0)
"""Deviation from π up to which two sides with the same conditions form one smooth curve. Facets of
finer meshes are no corners."""

_PROBE = 1e-4
"""Distance from a corner, relative to the extent, at which an equation is evaluated. Coefficients
may be singular at the corner itself."""


_Principals: TypeAlias = tuple[list[Principal], list[Principal], list[Principal]]
"""Principal parts at a corner: of equations, and of conditions on the first and second side."""


def add_corner_functions(problem: Problem, max_exponent: float = 4.0) -> Problem:
    """Add the singular functions at corners of a planar domain to the kernels of a problem.

    At vertices of the boundary, and where the condition on it changes, the solution of an elliptic
    equation of second order behaves like Σ cᵢ φᵢ with known φᵢ, such as r^(2/3) sin(2θ/3) at a
    reentrant corner. As part of the prior, their coefficients are unknowns. `solve` with an
    accuracy calls this function.

    Unchanged are fields with coupled principal parts, fields that have corner functions, and
    problems on periodic or space-time domains.

    **Arguments:**

    - `problem`: any problem.
    - `max_exponent`: functions with λ < `max_exponent` are used. With 2 an L-shape with 500 rows
      has an error of 2e-4, with 4 one of 9e-7, with 6 the same. Coefficients with more than six
      digits may need 6.

    **Example:**

    ```python
    >>> square = kp.Box(x=(0, 1), y=(0, 1))
    >>> equation = kp.Condition("equation", square.interior, lambda x, u: u.laplacian + 1.0)
    >>> walls = kp.Condition("walls", square.boundary, lambda x, u: u.value)
    >>> square_problem = kp.Problem(equation, walls, fields=[kp.Field("u", kp.Gaussian(0.3))])
    >>> kp.add_corner_functions(square_problem).fields[0].kernel.second
    SingularKernel(4 functions at 4 corners)
    ```
    """
    check_instance("add_corner_functions", "the first argument", problem, Problem, "a Problem")
    check_real("add_corner_functions", "max_exponent", max_exponent, greater_than=0)
    space = problem.space
    if len(space.coordinates) != 2 or space.time is not None or space.periodic:
        return problem
    functions = _corner_functions(problem, max_exponent)
    kernels = [
        _add(field.kernel, SingularKernel(tuple(singular))) if singular else field.kernel
        for field, singular in zip(problem.fields, functions, strict=True)
    ]
    return problem.with_kernels(kernels) if any(functions) else problem


def _add(kernel: AbstractKernel, singular: SingularKernel) -> AbstractKernel:
    """Add a kernel, with the same variance."""
    if isinstance(kernel, Scale):
        return eqx.tree_at(lambda k: k.kernel, kernel, _add(kernel.kernel, singular))
    return Sum(kernel, singular)


def singular_corners(problem: Problem) -> Float[np.ndarray, "k 2"]:
    """Return the corners at which fields have singular functions."""
    functions = [f for field in problem.fields for f in _singular_functions(field.kernel)]
    return np.array([function.corner for function in functions]).reshape(-1, 2)


def _singular_functions(kernel: AbstractKernel) -> tuple[SingularFunction, ...]:
    def is_singular(node: object) -> bool:
        return isinstance(node, SingularKernel)

    nodes = jax.tree.leaves(kernel, is_leaf=is_singular)
    return sum((node.functions for node in nodes if is_singular(node)), start=())


def _corner_functions(problem: Problem, max_exponent: float) -> list[list[SingularFunction]]:
    """Return the singular functions of each field that has none."""
    functions: list[list[SingularFunction]] = [[] for _ in problem.fields]
    regions = [condition.region for condition in problem.conditions]
    vertices = find_vertices(regions)
    if not vertices:
        return functions
    box = bounding_box(regions)
    principals = _principal_parts(problem, vertices, _PROBE * np.ptp(box, axis=1).min())
    for index, field in enumerate(problem.fields):
        if _singular_functions(field.kernel):
            continue
        for vertex, sides in zip(vertices, principals, strict=True):
            of_field = [p for side in sides for p in side if p.field == index]
            counts = [sum(p.field == index for p in side) for side in sides]
            if counts == [1, 1, 1] and all(p.tensor is not None for p in of_field):
                functions[index] += _functions_at(vertex, of_field, box, max_exponent)
    return functions


def _principal_parts(
    problem: Problem, vertices: Sequence[Vertex], probe: float
) -> list[_Principals]:
    """Return the principal parts of the equations and of the conditions on both sides."""
    principals: list[_Principals] = [([], [], []) for _ in vertices]
    for c, condition in enumerate(problem.conditions):
        locations = []
        for v, vertex in enumerate(vertices):
            inside = vertex.point + probe * vertex.bisector
            if any(_contains(patch, inside) for patch in condition.region.as_patches()):
                locations.append((v, 0, inside, inside))
            for s, side in enumerate((vertex.first, vertex.second), start=1):
                if c in side.regions:
                    locations.append((v, s, vertex.point, side.normal))
        if locations:
            points, normals = (np.stack([location[i] for location in locations]) for i in (2, 3))
            has_normals = condition.region.has_normals
            values = principal_parts(problem.residuals[c], points, normals if has_normals else None)
            for (v, s, *_), equations in zip(locations, values, strict=True):
                principals[v][s].extend(equations)
    return principals


def _contains(patch: Patch, point: Float[np.ndarray, " 2"]) -> bool:
    """Return whether an interior contains a point."""
    if not patch.is_interior:
        return False
    if patch.mask is not None:
        return bool(patch.mask(point[None])[0])
    return patch.outside_distance is None or bool(patch.outside_distance(point[None])[0] < 0)


def _functions_at(
    vertex: Vertex,
    principals: Sequence[Principal],
    box: Float[np.ndarray, "2 2"],
    max_exponent: float,
) -> list[SingularFunction]:
    """Return the singular functions of one field at a vertex.

    **Arguments:**

    - `principals`: principal parts of the equation and of the conditions on both sides.
    """
    equation, *conditions = principals
    if (
        equation.tensor is None
        or equation.order != 2
        or max(condition.order for condition in conditions) > 1
    ):
        return []
    definite = np.linalg.eigvalsh(equation.tensor)
    if definite[0] * definite[1] <= _ROUNDING * np.abs(definite).max() ** 2:
        return []
    # Coordinates in which the principal part is the Laplacian, and the domain has the extent 1.
    transform = np.linalg.inv(np.linalg.cholesky(np.sign(definite[0]) * equation.tensor))
    corners = np.stack(np.meshgrid(*box), axis=-1).reshape(-1, 2) - vertex.point
    transform /= np.linalg.norm(corners @ transform.T, axis=1).max()
    axes = transform[0] + 1j * transform[1]
    first, second = (np.angle(axes @ side.direction) for side in (vertex.first, vertex.second))
    axes, angle = axes * np.exp(-1j * first), (second - first) % (2 * np.pi)
    if vertex.first.regions == vertex.second.regions and abs(angle - np.pi) < _FLAT_ANGLE:
        return []
    data = np.array([condition.value for condition in conditions])
    jumps = bool(np.ptp(data) > _ROUNDING * np.abs(data).max())
    phases = [
        np.angle(axes @ condition.tensor) if condition.order else 0.0 for condition in conditions
    ]
    return [
        SingularFunction(
            (float(vertex.point[0]), float(vertex.point[1])),
            (complex(axes[0]), complex(axes[1])),
            float(angle),
            exponent,
            float(-np.pi / 2 - phases[0]),
            has_log,
        )
        for exponent, has_log in _exponents(
            angle, phases[0] - phases[1] + conditions[1].order * angle, jumps, max_exponent
        )
    ]


def _exponents(
    angle: float, shift: float, jumps: bool, max_exponent: float
) -> Iterator[tuple[float, bool]]:
    """Iterate over λ = (kπ + shift) / ω and whether λ is an integer, so that a logarithm is needed.

    With λ = 0 the function is the angle θ, for boundary values that jump.
    """
    lowest = int(np.ceil((-_ROUNDING * angle - shift) / np.pi))
    for k in range(lowest, lowest + int(max_exponent * angle / np.pi) + 2):
        exponent = (k * np.pi + shift) / angle
        is_integer = abs(exponent - round(exponent)) < _ROUNDING
        if is_integer:
            exponent = round(exponent)
        if (exponent > 0 or jumps) and exponent < max_exponent:
            yield float(exponent), bool(is_integer)
