"""The result of a solve in boxes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY, Numbers, to_array
from kernelpde.boxes._basis import MAX_ORDER, LocalField
from kernelpde.boxes._boxes import Boxes
from kernelpde.boxes._level import ESTIMATE_FACTOR
from kernelpde.boxes._rows import Frame
from kernelpde.checking import to_float_array
from kernelpde.errors import InputError
from kernelpde.functionals import Term
from kernelpde.plotting import FieldOverlays, plot_fields
from kernelpde.problem import PointSet, Problem, problem_grid
from kernelpde.results import RESULTS
from kernelpde.solution import AbstractErrorEstimate, Exportable, FieldError, FieldSource
from kernelpde.solution import evaluate_residual as evaluate_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_SUMMARY_LEVELS = 5
"""Number of levels in the summary, so that they fit into a line."""


@dataclass(frozen=True)
class BoxLevel:
    """Record of a level of boxes.

    **Attributes:**

    - `rows`: number of rows of the least-squares problem.
    - `boxes`: number of boxes.
    - `steps`: number of Gauss-Newton steps.
    - `indicator`: largest residual of a box at test points, in ranges of the field.
    - `rms`, `max`: estimated errors, relative to the root mean square of the field.
    - `is_resolved`: whether kinks and layers are resolved, so that the estimate is reliable.
    - `seconds`: time since the start of the solve.
    """

    rows: int
    boxes: int
    steps: int
    indicator: float
    rms: float
    max: float
    is_resolved: bool
    seconds: float

    def __str__(self) -> str:
        suffix = "" if self.is_resolved else " (not resolved)"
        return f"{self.rows} rows {self.rms:.0e}{suffix}"


@dataclass(frozen=True, eq=False)
class BoxSolution(FieldSource, Exportable):
    """A field as a sum of local kernels, one per box, from `boxes.solve_in_boxes`.

    `solution["u"]` has the methods of a field of any solution, errors included.

    **Attributes:**

    - `problem`: the solved problem.
    - `field`: sum of local kernels.
    - `previous`: field of the last but first level, `None` for a single level.
    - `corrected`: field after a Gauss-Newton step with other interior rows.
    - `lower`, `sizes`: lower corners and sides of all boxes.
    - `test_points`, `test_areas`: points at which errors are estimated, and their areas.
    - `test_values`: field at these points.
    - `levels`: one record per level.
    - `result`: result code; `converged` and `message` explain it.
    - `limit`: reason for which a requested accuracy was not reached, or an empty string.

    **Example:**

    ```python
    >>> layer = kp.boxes.solve_in_boxes(problem, 1e-4)
    >>> round(float(layer["u"]([0.5])), 3), layer.converged
    (0.606, True)
    ```
    """

    problem: Problem
    field: LocalField
    previous: LocalField | None
    corrected: LocalField
    lower: Float[np.ndarray, "b d"]
    sizes: Float[np.ndarray, "b d"]
    test_points: Float[np.ndarray, "n d"]
    test_areas: Float[np.ndarray, " n"]
    test_values: Float[np.ndarray, " n"]
    levels: tuple[BoxLevel, ...] = ()
    result: RESULTS = RESULTS.accuracy_not_reached
    limit: str = ""

    @property
    def converged(self) -> bool:
        """True if kinks and layers are resolved and the estimated error is below the target."""
        return self.result is RESULTS.converged

    @property
    def message(self) -> str:
        """Explanation of the result, with advice."""
        if self.converged:
            return "The estimated error is below the requested accuracy."
        return f"{self.result.value} {self.limit}".strip()

    @cached_property
    def error_estimate(self) -> "BoxErrorEstimate":
        """Estimated errors of the field, for example `solution.error_estimate["u"].rms`."""
        return BoxErrorEstimate.from_solution(self)

    def evaluate_jets(self, terms: tuple[Term, ...], points: Numbers) -> Float[Array, "... T"]:
        """Evaluate jet entries at points."""
        array = to_float_array("BoxSolution", "points", points)
        dimension = len(self.problem.space.coordinates)
        if array.ndim < 1 or array.shape[-1] != dimension:
            raise InputError(
                f"Expected points with {dimension} coordinates on the last axis; "
                f"got shape {array.shape}."
            )
        largest = max(term.order for term in terms)
        if largest > MAX_ORDER:
            raise InputError(
                f"BoxSolution: expected derivatives of order {MAX_ORDER} or less; got order "
                f"{largest}. Use kernelpde.solve for smooth solutions."
            )
        values = self.field.evaluate(array.reshape(-1, dimension), terms)
        return to_array(values.reshape(*array.shape[:-1], len(terms)))

    def residual(self, condition: str, points: Numbers) -> Float[Array, "N R"]:
        """Return the residual of a condition at points, one column per equation.

        Conditions that use normals are rejected, since these exist only at their points.
        """
        residual = self.problem.residuals[self.problem.condition_index(condition)]
        array = to_float_array("residual", "points", points)
        if residual.uses_normal:
            raise InputError(
                f"residual: expected a condition without normals; got {condition!r}, whose normals "
                "exist only at its points. Evaluate the derivatives of the field instead."
            )
        point_set = PointSet(to_array(array), None, {}, to_array(np.zeros(len(array))))
        return evaluate_at(residual, point_set, self.evaluate_jets(residual.terms, array))

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        residuals: Sequence[str] | None = None,
        boxes: bool = True,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Plot the field with its error and residuals.

        **Arguments:**

        - `boxes`: mark the middles of the boxes in the first panel.
        - Others: as for `Solution.plot`.
        """
        grid = problem_grid(self.problem, resolution, at, free=2)
        names = fields or tuple(field.name for field in self.problem.fields)
        errors = {name: self[name].error for name in names} if self.previous is not None else {}
        markers = {"boxes": self.lower + self.sizes / 2} if boxes else {}
        overlays = FieldOverlays(references or {}, {}, errors)
        return plot_fields(self, names, grid, overlays, residuals, markers, units or {})

    def __repr__(self) -> str:
        verdict = "converged" if self.converged else f"NOT converged ({self.result.name})"
        estimate, last = self.error_estimate, self.levels[-1]
        extents = np.ptp(np.concatenate([self.lower, self.lower + self.sizes]), axis=0)
        relative = self.sizes / extents
        log = ", ".join(map(str, self.levels[-_MAX_SUMMARY_LEVELS:]))
        lines = [
            f"BoxSolution: {verdict}, estimated error {estimate.largest:.1e}",
            f"  {self.message}",
            *([f"  {estimate.message}"] if estimate.message else []),
            *(
                f"  field {field.name}: error {estimate[field.name].rms:.1e} rms, "
                f"{estimate[field.name].max:.1e} max"
                for field in self.problem.fields
            ),
            f"  {len(self.lower)} boxes, from {relative.max():.1e} to {relative.min():.1e} of the "
            "domain",
            f"  last levels: {log}",
            f"  {sum(level.steps for level in self.levels)} steps, {last.rows} rows, "
            f"{last.seconds:.1f} s",
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class BoxErrorEstimate(AbstractErrorEstimate):
    """Estimated error of a solution in boxes, from two changes of its field.

    The first change is the difference from the previous level, which is large if that level was
    inaccurate. The second is a Gauss-Newton step with other interior rows, which is small if the
    boxes are too coarse. The estimate is their geometric mean times 3.5.

    **Attributes:**

    - `solution`: the solution whose error is estimated.
    - `fields`: estimated errors by field name.
    - `message`: limitations of the estimate, or an empty string.
    """

    solution: BoxSolution
    fields: dict[str, FieldError]
    message: str = ""

    @staticmethod
    def from_solution(solution: BoxSolution) -> "BoxErrorEstimate":
        """Compare a solution with the field of the previous level and the corrected field."""
        (name,) = (field.name for field in solution.problem.fields)
        if solution.previous is None:
            error = FieldError(np.inf, np.inf)
            return BoxErrorEstimate(solution, {name: error}, "A single level has no estimate.")
        points, areas = solution.test_points, solution.test_areas
        values, field = solution.test_values, solution.field
        step = solution.corrected.coefficients - field.coefficients
        changes = values - solution.previous(points), LocalField(field.basis, step)(points)
        size = _weighted_rms(values, areas)
        rms = np.sqrt(np.prod([_weighted_rms(change, areas) for change in changes]))
        largest = np.sqrt(np.prod([np.abs(change).max() for change in changes]))
        error = FieldError(
            float(ESTIMATE_FACTOR * rms / size), float(ESTIMATE_FACTOR * largest / size)
        )
        return BoxErrorEstimate(solution, {name: error})

    @property
    def points(self) -> Float[np.ndarray, "n d"]:
        """Test points of all boxes."""
        return self.solution.test_points

    def of_quantity(
        self,
        quantity: Callable[[Any], Any],
        reference_quantity: Callable[[Any], Any] | None = None,
    ) -> np.ndarray:
        """Estimate the absolute error of a quantity that is computed from a solution.

        **Arguments:**

        - `quantity`: a function of a solution, such as `lambda s: s["u"](points).mean()`.
        - `reference_quantity`: has no effect.
        """
        del reference_quantity
        if self.solution.previous is None:
            return np.full_like(np.asarray(quantity(self.solution), dtype=float), np.inf)
        value = np.asarray(quantity(self.solution))
        previous = np.asarray(quantity(replace(self.solution, field=self.solution.previous)))
        corrected = np.asarray(quantity(replace(self.solution, field=self.solution.corrected)))
        changes = np.abs(previous - value) * np.abs(corrected - value)
        return np.asarray(ESTIMATE_FACTOR * np.sqrt(changes))


def _weighted_rms(values: np.ndarray, areas: np.ndarray) -> float:
    """Return the root mean square over the domain, bounded away from zero."""
    return max(float(np.sqrt(np.sum(areas * values**2) / areas.sum())), TINY)


def physical_boxes(frame: Frame, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
    """Return lower corners and sides in the coordinates of the problem."""
    return frame.to_physical(boxes.lower), boxes.sizes * frame.extents
