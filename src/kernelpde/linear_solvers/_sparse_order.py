"""Elimination order of values, derivatives and rows in the sparse solver.

Values of the fields at all points come first, from coarse to fine, then all derivatives. Boundary
values precede the values at the points of equations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from kernelpde.arrays import to_array
from kernelpde.functionals import Functionals, Term
from kernelpde.linear_solvers._metric import ScaledCoordinates
from kernelpde.linear_solvers._ordering import Level, levels
from kernelpde.problem import Conditions, DiscreteCondition


@dataclass(frozen=True)
class _IndexedCondition:
    """Terms and points of a condition, with the indices of the points among all distinct ones."""

    condition: DiscreteCondition
    indices: Int[np.ndarray, " _"]

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.condition.terms

    @property
    def order(self) -> int:
        """Highest order of a derivative."""
        return max(sum(gamma) for term in self.terms for gamma in term.orders)


def _index_points(
    conditions: Conditions,
) -> tuple[Float[np.ndarray, "N d"], list[_IndexedCondition]]:
    """Return all distinct points, and the conditions with the indices of their points."""
    point_arrays = [np.asarray(condition.point_set.points) for condition in conditions]
    unique, indices = np.unique(np.concatenate(point_arrays), axis=0, return_inverse=True)
    bounds = np.cumsum([len(array) for array in point_arrays])[:-1]
    split = np.split(indices.reshape(-1), bounds)
    return unique, list(map(_IndexedCondition, conditions, split))


def _stages(conditions: list[_IndexedCondition]) -> list[list[int]]:
    """Group the indices of the conditions by the highest derivative, lowest first.

    Conditional on boundary values, the coupling between equations is more local.
    """
    orders = [condition.order for condition in conditions]
    return [[n for n, o in enumerate(orders) if o == order] for order in sorted(set(orders))]


def _order_stages(
    points: Float[np.ndarray, "N d"],
    stages: Sequence[Int[np.ndarray, " _"]],
    metric: ScaledCoordinates,
    num_first: int,
) -> list[Level]:
    """Order the points of each stage in levels, without points of previous stages."""
    groups: list[Level] = []
    is_pending = np.ones(len(points), dtype=bool)
    for stage in stages:
        indices = np.unique(stage[is_pending[stage]])
        is_pending[indices] = False
        if indices.size:
            spacing = metric.grid_spacing(points[indices])
            groups += [
                Level(indices[level.members], level.scale)
                for level in levels(metric(points[indices]), num_first, spacing)
            ]
    return groups


def collect_functionals(
    conditions: Conditions, metric: ScaledCoordinates, num_first: int
) -> tuple[Functionals, list[Int[np.ndarray, "_ _"]], list[Level]]:
    """Collect the distinct functionals ψ in elimination order.

    **Arguments:**

    - `conditions`: conditions at their points.
    - `metric`: coordinates in which distances are measured.
    - `num_first`: number of points in the first level.

    **Returns:**

    ψ, for each condition the indices of its jet values in ψ, and the levels of ψ.
    """
    unique, indexed = _index_points(conditions)
    terms = sorted({term for condition in indexed for term in condition.terms})
    stages = _stages(indexed)
    index: dict[Term, np.ndarray] = {}
    points, functional_terms, groups, derivatives = [], [], [], []
    count, finest_scale = 0, 0.0

    def append(term: Term, indices: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        nonlocal count
        new = np.arange(count, count + len(indices))
        index[term] = np.full(len(unique), -1)
        index[term][indices] = new
        points.append(unique[indices])
        functional_terms.extend([term] * len(indices))
        count += len(indices)
        return new

    for field in sorted({term.field for term in terms}):
        value = Term(field, ((0,) * unique.shape[1],))
        uses_field = [any(term.field == field for term in c.terms) for c in indexed]
        stage_points = [
            np.concatenate(
                [np.zeros(0, dtype=int), *(indexed[n].indices for n in stage if uses_field[n])]
            )
            for stage in stages
        ]
        field_levels = _order_stages(unique, stage_points, metric, num_first)
        append(value, np.unique(np.concatenate(stage_points)))
        groups += [Level(index[value][level.members], level.scale) for level in field_levels]
        finest_scale = max(finest_scale, field_levels[-1].scale)
    for term in terms:
        if term not in index:
            indices = [c.indices for c in indexed if term in c.terms]
            derivatives.append(append(term, np.unique(np.concatenate(indices))))
    if derivatives:
        groups.append(Level(np.concatenate(derivatives), finest_scale))
    functional_indices = [
        np.stack([index[term][condition.indices] for term in condition.terms], axis=1)
        for condition in indexed
    ]
    columns = tuple(sorted(set(functional_terms)))
    coefficients = np.zeros((count, len(columns)))
    coefficients[np.arange(count), [columns.index(term) for term in functional_terms]] = 1.0
    functionals = Functionals(to_array(np.concatenate(points)), to_array(coefficients), columns)
    return functionals, functional_indices, groups


def order_rows(
    conditions: Conditions, metric: ScaledCoordinates, num_first: int
) -> tuple[Float[np.ndarray, "M d"], list[Level]]:
    """Return the points of the rows, and the levels of the rows from coarse to fine.

    All rows of a point are next to each other.
    """
    unique, indexed = _index_points(conditions)
    indices_by_condition = [np.tile(c.indices, c.condition.num_equations) for c in indexed]
    bounds = np.cumsum([0, *map(len, indices_by_condition)])
    point_indices = np.concatenate(indices_by_condition)
    groups: list[Level] = []
    for stage in _stages(indexed):
        rows = np.concatenate([np.arange(bounds[n], bounds[n + 1]) for n in stage])
        rows = rows[np.argsort(point_indices[rows], kind="stable")]
        indices, starts = np.unique(point_indices[rows], return_index=True)
        rows_by_point = np.split(rows, starts[1:])
        groups += [
            Level(np.concatenate([rows_by_point[n] for n in level.members]), level.scale)
            for level in _order_stages(
                unique[indices], [np.arange(len(indices))], metric, num_first
            )
        ]
    return unique[point_indices], groups
