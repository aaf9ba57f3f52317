"""The problem of a branch: fields and position on the path, with one equation more."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.branches._path import OFFSET, ORIGIN, Path
from kernelpde.functionals import Functionals, Prior, Term, gram_diagonal, point_functionals
from kernelpde.geometry import Averages
from kernelpde.kernels import Constant
from kernelpde.linear_solvers import LinearSolver, LocalExpansion
from kernelpde.nonlinear import Discretization, discretize_at
from kernelpde.problem import Condition, DiscreteProblem, JetValues, Problem
from kernelpde.solution import Solution, solve

_ROW = "arclength"
"""Name of the condition that fixes the arclength."""

_MAX_NODES = 64
"""Number of points at which fields are compared. The cost of their row is proportional to it. With
32 or 128 points Bratu's branches have the same number of steps, and folds equal to eight digits."""

_MAX_CORRECTOR_STEPS = 8
"""Limit of the Gauss-Newton steps of a corrector. A quadratic contraction below one half reaches
rounding in six. On three branches with folds, half of it rejects one more step, and twice as much
changes nothing."""


@dataclass(frozen=True, eq=False)
class Point:
    """A point of a branch.

    **Attributes:**

    - `position`: position on the path.
    - `values`: values of the fields at the nodes, relative to their prior standard deviation.
    - `jets`: nonlinear jet values of each condition, from which a corrector starts. The offset
      among them is 1.
    - `solution`: solution of the problem at this position; `None` for a predicted point.
    """

    position: float
    values: Float[np.ndarray, "Q F"]
    jets: JetValues
    solution: Solution | None = None


class Metric:
    """Inner product of points: their differences relative to the extent of the branch.

        ⟨v, w⟩ = mean(u_v u_w / κ) / U² + s_v s_w / S²

    The mean is over nodes and κ is the prior variance of a field. U and S are the largest distances
    of u / κ^½ and of the position from the first point. Without units, they make both parts of the
    branch equally long, however fields, inputs and ranges are scaled.
    """

    def __init__(self, points: list[Point]):
        first = points[0]
        distances = [np.linalg.norm(p.values - first.values) for p in points]
        positions = [abs(p.position - first.position) for p in points]
        self.values_scale, self.position_scale = (max(d) or 1.0 for d in (distances, positions))

    def vector(self, point: Point) -> Float[np.ndarray, " n"]:
        """Return coordinates in which the inner product is the Euclidean one."""
        values = point.values.reshape(-1) / self.values_scale
        return np.append(values, point.position / self.position_scale)

    def distance(self, left: Point, right: Point) -> float:
        """Return the distance of two points."""
        return float(np.linalg.norm(self.vector(left) - self.vector(right)))

    def functional(self, direction: Float[np.ndarray, " n"], shape: tuple[int, int]) -> np.ndarray:
        """Return the coefficients of ⟨direction, ·⟩ at the nodes and for the position."""
        values = direction[:-1].reshape(shape) / self.values_scale
        positions = np.full(len(values), direction[-1] / self.position_scale / len(values))
        return np.column_stack([values, positions])


class BorderedProblem:
    """A problem with its position on a path as an unknown, and a row ⟨t, (u, s)⟩ = c.

    With this row the linearized equations are regular at folds, where the equations of u alone are
    singular.

    **Attributes:**

    - `base`: problem at its points.
    - `path`: path of the inputs.
    - `nodes`: points at which fields are compared.
    """

    def __init__(
        self, base: Discretization, path: Path, first: Solution, linear_solver: LinearSolver | None
    ):
        self.base, self.path = base, path
        problem, point_sets = base.problem, base.point_sets
        largest = max(point_sets, key=lambda points: len(points.points))
        rows = np.asarray(largest.points)[:: largest.num_nodes]
        count = min(len(rows), _MAX_NODES)
        self.nodes = rows[np.linspace(0, len(rows) - 1, count).round().astype(int)]
        names = {p.name for p in problem.parameters} | {law.name for law in problem.laws}
        indices = [n for n, field in enumerate(problem.fields) if field.name not in names]
        self._terms = tuple(Term(n, (problem.frame.multi_index(),)) for n in indices)
        self._deviations = np.stack(
            [
                gram_diagonal(problem.prior, [point_functionals(to_array(self.nodes), term)]) ** 0.5
                for term in self._terms
            ],
            axis=1,
        )
        row = _row_condition([problem.fields[n].name for n in indices], self.nodes)
        extended = path.with_unknown_position(problem, row)
        self._problem = _with_offset_variance(extended, problem, 1.0)
        row_points = self._problem.collocate_condition(_ROW, 1, seed=0, sampling="halton")
        self._point_sets = (*point_sets, row_points)
        self._conditions = self._problem.at_points(self._point_sets).conditions
        start = self._with_scaled_offset(self.point(first, 0.0))
        self._discretization = discretize_at(start, self._point_sets, linear_solver, base.seed)

    def _with_scaled_offset(self, point: Point) -> Problem:
        """Return the problem in which the offset of a point is 1, and as important as the fields.

        The offset enters the relative change of a Gauss-Newton step, so it must not be near zero.
        """
        problem = self._problem.with_inputs({ORIGIN: point.position - 1.0})
        variance = _offset_variance(problem.at_points(self._point_sets), point.jets)
        return _with_offset_variance(problem, self.base.problem, variance)

    @property
    def _offset_index(self) -> int:
        return len(self.base.problem.fields)

    def point(self, solution: Solution, position: float) -> Point:
        """Return the point of a solution."""
        values = np.asarray(solution.evaluate_jets(self._terms, self.nodes))
        jets = []
        for condition in self._conditions:
            terms = condition.nonlinear_terms
            columns = np.ones((len(condition.point_set.points), len(terms)))
            indices = [n for n, term in enumerate(terms) if term.field != self._offset_index]
            if indices:
                columns[:, indices] = solution.evaluate_jets(
                    tuple(terms[n] for n in indices), condition.point_set.points
                )
            jets.append(to_array(columns))
        return Point(position, values / self._deviations, tuple(jets), solution)

    def correct(
        self, predicted: Point, direction: Float[np.ndarray, " n"], metric: Metric
    ) -> Solution:
        """Solve for the point of the branch in the plane through a predicted one.

        **Arguments:**

        - `predicted`: start of the iteration.
        - `direction`: normal of the plane.
        - `metric`: inner product of the normal.
        """
        coefficients = metric.functional(direction, predicted.values.shape)
        target = np.sum(coefficients[:, :-1] * predicted.values) / len(self.nodes)
        target += coefficients[0, -1]
        coefficients[:, :-1] /= self._deviations
        row = np.column_stack([coefficients, np.full(len(self.nodes), target)])
        *point_sets, row_points = self._point_sets
        row_points = replace(row_points, data={"row": to_array(row)})
        discretization = replace(
            self._discretization,
            problem=self._with_scaled_offset(predicted),
            point_sets=(*point_sets, row_points),
        )
        return solve(
            discretization, start=predicted.jets, max_steps=_MAX_CORRECTOR_STEPS, throw=False
        )

    def solve_at(self, predicted: Point) -> Solution:
        """Solve the problem at the position of a predicted point, as `kernelpde.solve` does."""
        problem = self.base.problem.with_inputs(self.path.inputs(predicted.position))
        start = tuple(
            values[:, np.array([bordered.nonlinear_terms.index(t) for t in c.nonlinear_terms], int)]
            for c, bordered, values in zip(
                problem.at_points(self.base.point_sets).conditions,
                self._conditions,
                predicted.jets,
                strict=False,
            )
        )
        discretization = replace(self.base, problem=problem)
        return solve(discretization, start=start, max_steps=_MAX_CORRECTOR_STEPS, throw=False)

    def accept(self, bordered: Solution) -> Point:
        """Return the point of a solution of the bordered problem, as one of the problem itself."""
        position = bordered_position(bordered)
        solution = replace(
            bordered,
            problem=self.base.problem.with_inputs(self.path.inputs(position)),
            point_sets=self.base.point_sets,
            expansion=tuple(self._without_position(bordered.expansion)),
            residuals=_without_row(bordered.residuals),
            test_residuals=_without_row(bordered.test_residuals),
        )
        return self.point(solution, position)

    def _without_position(
        self, expansion: tuple[Functionals, ...] | LocalExpansion
    ) -> Iterator[Functionals]:
        assert not isinstance(expansion, LocalExpansion), "Sparse is rejected"
        for batch in expansion:
            columns = [n for n, term in enumerate(batch.terms) if term.field != self._offset_index]
            if columns:
                terms = tuple(batch.terms[n] for n in columns)
                yield replace(
                    batch, coefficients=batch.coefficients[:, np.array(columns)], terms=terms
                )


def _without_row(by_condition: dict) -> dict:
    return {name: value for name, value in by_condition.items() if name != _ROW}


def _row_condition(fields: list[str], nodes: Float[np.ndarray, "Q d"]) -> Condition:
    """Return the condition ⟨t, (u, s)⟩ = c, a weighted sum over nodes."""

    def residual(x: Array, *arguments: Any) -> Array:
        *jets, offset, row = arguments
        return row[:-2] @ jnp.stack([jet.value for jet in jets]) + row[-2] * offset - row[-1]

    names = ["x", *fields, OFFSET, "row"]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in names]
    residual.__signature__ = inspect.Signature(parameters)  # pyright: ignore
    region = Averages(nodes[None], np.ones((1, len(nodes))), _ROW)
    return Condition(_ROW, region, residual, data={"row": np.zeros((1, len(fields) + 2))})


def bordered_position(bordered: Solution) -> float:
    """Return the position on the path of a solution of the bordered problem."""
    return float(bordered.problem.inputs[ORIGIN] + bordered.parameters[OFFSET])


def _with_offset_variance(problem: Problem, base: Problem, variance: float) -> Problem:
    """Return the problem with the prior of its fields in `base` and a variance of the offset."""
    # Not the kernel of a `Parameter`, which is part of compiled programs because it is frozen.
    prior, kernel = base.prior, Constant(variance)
    mixing, exponents = prior.mixing, prior.exponents
    if mixing is not None:
        mixing = jnp.pad(mixing, (0, 1)).at[-1, -1].set(1.0)
    if exponents is not None:
        exponents = jnp.append(exponents, 0)
    return problem.with_prior(Prior((*prior.kernels, kernel), mixing, exponents))


def _offset_variance(problem: DiscreteProblem, jets: JetValues) -> float:
    """Return the prior variance that makes the offset as important as the fields.

    It is the mean prior variance of the rows that depend on the offset, without the contribution of
    its present variance of 1, divided by the mean square of their derivatives in the offset. With
    it, units of fields and of inputs have no influence on the nugget of a row.
    """
    system = problem.linearize(jets)
    index = len(problem.prior.kernels) - 1
    totals, squares = [], []
    for batch in system.batches[:-1]:
        columns = [n for n, term in enumerate(batch.terms) if term.field == index]
        if columns:
            derivative = np.asarray(batch.coefficients)[:, columns].sum(axis=1)
            squares.append(derivative.reshape(-1, batch.num_nodes).sum(axis=1) ** 2)
            totals.append(np.asarray(gram_diagonal(problem.prior, [batch])))
    square = np.concatenate(squares)
    dependent = square > 0
    if not dependent.any():
        return 1.0
    variance = np.concatenate(totals)[dependent] - square[dependent]
    return float(variance.mean() / square[dependent].mean())
