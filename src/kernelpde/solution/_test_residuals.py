"""Residuals at test points, relative to the terms of the equations."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY, concrete_array, is_tracer, to_array
from kernelpde.compiling import padded_size, pointwise
from kernelpde.errors import InputError
from kernelpde.functionals import Term
from kernelpde.geometry import AbstractRegion, as_patches
from kernelpde.problem import (
    DiscreteCondition,
    PointSet,
    Problem,
    Residual,
    coordinate_extents,
)

MAX_TEST_RESIDUAL = 0.05
"""Relative residual at test points above which a solution is not marked as converged.

Chosen on solves of 238 random problems with good and bad kernels (`benchmarks/robustness.py
problems`). Of 429 converged solutions with an error above 10% it misses 3, and of 1375 with an
error below 1% it rejects 12 (at 0.1: 18 and 10). On 119 other problems (`--seeds 200:207`): 1 of
216 and 10 of 703 (at 0.1: 13 and 4). At midpoints of user-supplied points (`own-points --seeds
400:402`) 1 of 68 and 0 of 145, at drawn ones 0 and 4."""

UNCOUPLED_CONDITION_NUMBER = 2.0
"""Condition number below which the kernel does not couple the points."""

_MIN_DERIVATIVE = 1e-3
"""Lower bound of a derivative, relative to a field that changes once over the domain. Where
derivatives vanish, they consist of rounding errors."""

_MAX_TEST_POINTS = 300
"""Maximum number of test points per condition, so that the test costs less than a step."""


def compute_test_residuals(
    problem: Problem,
    point_sets: tuple[PointSet, ...],
    evaluate_jets: Callable[[tuple[Term, ...], np.ndarray], Array],
    seed: int,
) -> dict[str, float | Array | None]:
    """Return the relative residual of each condition at test points.

    Test points are an independent draw from the region, or midpoints between neighbors for
    user-supplied points of an equation. The residual is, in root mean square, F(u) over
    F(0) + Σₜ |∂F/∂jₜ| ⟨jₜ⟩. Here ⟨jₜ⟩ is the root mean square of a jet entry over the test points
    of all conditions, for a Laplacian of its derivatives. Of several equations, the largest. `None`
    if a condition has no test points.

    **Arguments:**

    - `problem`, `point_sets`: solved problem and its collocation points.
    - `evaluate_jets`: evaluates jet entries of the solution at points.
    - `seed`: seed of the collocation points.
    """
    conditions = {
        condition.name: DiscreteCondition(problem.residuals[index], test_points)
        for index, condition in enumerate(problem.conditions)
        if (test_points := _draw_test_points(problem, condition.name, point_sets[index], seed))
        is not None
    }
    undefined: dict[str, float | Array | None] = {c.name: None for c in problem.conditions}
    if not conditions:
        return undefined
    terms = {d for c in conditions.values() for term in c.terms for d in term.derivatives}
    values = {Term(d.field, (problem.frame.multi_index(),)) for d in terms if d.node_index is None}
    derivatives = tuple(sorted(terms | values))
    test_sets = [condition.point_set for condition in conditions.values()]
    padded, jet_values = _evaluate_at_test_points(evaluate_jets, derivatives, test_sets)
    np_ = jnp if is_tracer(padded) else np
    # Derivatives are scaled by the local point spacing, so that graded regions count equally.
    orders = np.array([derivative.order for derivative in derivatives])
    regions = [problem.conditions[problem.condition_index(name)].region for name in conditions]
    scales = [
        _point_spacing(region, np.asarray(points.points))[:, None] ** orders
        for region, points in zip(regions, test_sets, strict=True)
    ]
    extents = coordinate_extents(test_sets)
    floor = _derivative_floor(derivatives, extents, padded)
    magnitudes = np_.abs(np_.concatenate(jet_values) * np.concatenate(scales))
    magnitudes = np_.maximum(magnitudes, np.concatenate(scales) * floor)
    tests = []
    for condition, values, scale in zip(conditions.values(), jet_values, scales, strict=True):
        # A term of a residual is a sum of derivatives; the matrix selects them.
        selection = np.array(
            [[d in term.derivatives for term in condition.terms] for d in derivatives], float
        )
        tests.append(
            _TestValues(
                condition,
                to_array(values @ selection),
                to_array(scale @ selection / selection.sum(axis=0)),
                to_array(np_.sqrt(((magnitudes @ selection) ** 2).mean(axis=0))),
            )
        )
    relative = _relative_residuals(tuple(tests))
    relative = np.asarray(relative).tolist() if np_ is np else list(relative)
    return {**undefined, **dict(zip(conditions, relative, strict=True))}


class _TestValues(eqx.Module):
    """A condition at its test points, with the values of its terms.

    **Attributes:**

    - `condition`: condition at its test points.
    - `jet_values`: values of the terms.
    - `scales`: scales of the terms by the local point spacing.
    - `magnitudes`: root mean square of each term over the test points of all conditions.
    """

    condition: DiscreteCondition
    jet_values: Float[Array, "N T"]
    scales: Float[Array, "N T"]
    magnitudes: Float[Array, " T"]


def _evaluate_at_test_points(
    evaluate_jets: Callable[[tuple[Term, ...], np.ndarray], Array],
    derivatives: tuple[Term, ...],
    test_sets: list[PointSet],
) -> tuple[Array | np.ndarray, list[Array | np.ndarray]]:
    """Evaluate derivatives at padded test points, and split the values by set.

    Padding repeats points up to sizes that share programs.
    """
    padded, ranges, start = [], [], 0
    for test_set in test_sets:
        points = np.asarray(test_set.points)
        size = padded_size(len(points))
        padded.append(np.resize(points, (size, points.shape[1])))
        ranges.append(slice(start, start + len(points)))
        start += size
    values = evaluate_jets(derivatives, np.concatenate(padded))
    values = values if is_tracer(values) else np.asarray(values)
    return values, [values[rows] for rows in ranges]


def _derivative_floor(
    derivatives: tuple[Term, ...], extents: np.ndarray, jet_values: Array | np.ndarray
) -> Array | np.ndarray:
    """Return the lower bound of each derivative, from the root mean square of its field."""
    orders = np.maximum([derivative.orders[0] for derivative in derivatives], 0)
    columns = {d.field: n for n, d in enumerate(derivatives) if not orders[n].any()}
    fields = jet_values[:, [columns[derivative.field] for derivative in derivatives]]
    rms = (fields**2).mean(axis=0) ** 0.5
    return orders.any(axis=1) * _MIN_DERIVATIVE * rms / np.prod(extents**orders, axis=1)


def _point_spacing(region: AbstractRegion, points: np.ndarray) -> np.ndarray:
    """Return the relative spacing of points: their size field, or one without grading."""
    fields = [patch.size_field for patch in as_patches(region) if patch.size_field is not None]
    return fields[0].evaluate(points) if fields else np.ones(len(points))


def _draw_test_points(problem: Problem, name: str, points: PointSet, seed: int) -> PointSet | None:
    """Return test points of a condition, or `None` if it has none."""
    if problem.has_given_points(name):
        return midpoints(problem.residuals[problem.condition_index(name)], points)
    count = min(points.rows_per_equation, _MAX_TEST_POINTS)
    try:
        test_points = problem.collocate_condition(
            name, count, seed=seed + 2_000_003, sampling="halton"
        )
    except InputError:
        # Regions of isolated points cannot be sampled with every number of points.
        return None
    if is_tracer(points.points):
        return test_points
    # The nodes of integrals follow the point of their row, and may coincide.
    collocation = {tuple(p) for p in np.asarray(points.points)[:: points.num_nodes].tolist()}
    rows = np.asarray(test_points.points)[:: test_points.num_nodes].tolist()
    return None if any(tuple(p) in collocation for p in rows) else test_points


def midpoints(residual: Residual, points: PointSet) -> PointSet | None:
    """Return midpoints between neighboring user-supplied points of an equation.

    `None` for conditions with data, noise, normals or integrals, and for those without
    derivatives. The neighbor is the 2d-th nearest in d dimensions, a direct one on a grid.
    """
    is_plain = points.num_nodes == 1 and points.normals is None and not points.data
    has_derivatives = any(d.order > 0 for term in residual.terms for d in term.derivatives)
    traced = any(map(is_tracer, (points.points, points.noise)))
    if not is_plain or not has_derivatives or traced:
        return None
    coordinates = np.asarray(points.points)
    extents, num_neighbors = np.ptp(coordinates, axis=0), 2 * coordinates.shape[1]
    count = len(coordinates)
    if np.asarray(points.noise).any() or count <= num_neighbors or not extents.all():
        return None
    # Imported when it is first used, because its import is slow.
    from scipy.spatial import KDTree

    tree = KDTree(coordinates / extents)
    rows = np.linspace(0, count - 1, min(count, _MAX_TEST_POINTS)).round().astype(int)
    distances, neighbors = map(
        np.asarray, tree.query(coordinates[rows] / extents, num_neighbors + 1)
    )
    middles = (coordinates[rows] + coordinates[neighbors[:, -1]]) / 2
    # At the edge of a grid the midpoint to a second neighbor is a point of the grid.
    is_new = np.asarray(tree.query(middles / extents)[0]) > distances[:, -1] / 4
    middles = middles[is_new]
    if not len(middles):
        return None
    return PointSet(concrete_array(middles), None, {}, concrete_array(np.zeros(len(middles))))


@pointwise
def _relative_residuals(tests: tuple[_TestValues, ...]) -> Float[Array, " C"]:
    """Return the residual of each condition relative to the magnitude of its terms."""
    return jnp.stack([_relative_residual(test) for test in tests])


def _relative_residual(test: _TestValues) -> Float[Array, ""]:
    residual, points = test.condition.residual, test.condition.point_set

    def at_point(point, normal, datum, jet):
        value, jacobian = residual.value_and_jacobian(point, normal, datum, tuple(jet))
        zero = tuple(jnp.zeros_like(jet))
        return value, jacobian, residual.value_and_jacobian(point, normal, datum, zero)[0]

    def rms(values: Array) -> Array:
        return jnp.sqrt(jnp.mean(values**2, axis=0))

    axes = (0, None if points.normals is None else 0, 0, 0)
    value, jacobian, at_zero = jax.vmap(at_point, in_axes=axes)(
        points.points, points.normals, points.data, test.jet_values
    )
    # Rows with integrals are sums over points.
    rows = (points.rows_per_equation, points.num_nodes)
    value, at_zero = (array.reshape(*rows, -1).sum(axis=1) for array in (value, at_zero))
    jacobian = jnp.abs(jacobian / test.scales[:, None, :])
    jacobian = jacobian.reshape(*rows, *jacobian.shape[1:]).sum(axis=1)
    # A residual that is infinite at u = 0 provides no magnitude there.
    constant = rms(jnp.where(jnp.isfinite(at_zero), at_zero, 0.0))
    terms = constant + rms(jacobian) @ test.magnitudes
    return jnp.max(rms(value) / jnp.maximum(terms, TINY))
