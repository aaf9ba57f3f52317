"""A level of the refinement: its field, its held-out residuals and the boxes of the next level."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from kernelpde.arrays import TINY
from kernelpde.boxes._basis import LocalBasis, LocalField, value_term
from kernelpde.boxes._boxes import Boxes
from kernelpde.boxes._iteration import (
    LevelFit,
    evaluate,
    fit,
    jacobian_matrix,
    least_squares,
    operator_scales,
    project,
)
from kernelpde.boxes._rows import (
    OTHER_OFFSETS,
    ROW_OFFSETS,
    TEST_OFFSETS,
    Frame,
    PointValues,
    RowPoints,
    Rows,
    boundary_rows,
    count_rows,
    displaced,
    interior_patches,
    interior_rows,
    linearize_residual,
    make_rows,
    restrict_to_domain,
    unit_scales,
)
from kernelpde.functionals import Term
from kernelpde.problem import Problem, Residual

_LENGTHSCALE = 4.5
"""Lengthscale of a kernel in sizes of its box. 3.5 is as good; with 6 a smooth source is resolved
four times better, but a shock is lost at small budgets; 9 costs a factor of five on kinks."""

_GROWTH = 1.4
"""Growth of the number of boxes from level to level. With 1.7 a boundary layer is ten times less
accurate. 1.25 costs half as much time again without a gain."""

_ANISOTROPY = 2.0
"""Ratio of the variations of a field along two coordinates of a box above which it is halved along
one only. Isotropic boxes are 70 times less accurate on a boundary layer; not tuned further."""

_DATA_SHARE = 0.2
"""Share of the row limit that boxes may use before the first solve where data vary. It trades rows
for data that the first level overlooks, such as a narrow source; not tuned."""

_DATA_VARIATION = 0.02
"""Variation of data within a box that is refined, relative to the root mean square of the data and
to the size of the box. Smaller values refine smooth data; not tuned."""

_RESOLVED_INDICATOR = 0.05
"""Largest held-out residual of a box, in ranges of the field, at which the field is resolved. At
0.1 the measured estimates still range from 0.5 to 10 times the error. Above it the error may be as
large as the field."""

_MAX_RESOLVED_STEPS = 3
"""Number of steps of a level above which its field has changed and is not resolved. Resolved levels
have one or two."""

ESTIMATE_FACTOR = 3.5
"""Factor of the error estimate. With it the estimates of 110 levels of 15 runs are 0.5 to 10 times
the error. A smaller factor understates more of them."""

_GHOST_LAYERS = 2
"""Layers of kernels outside of each side with a boundary condition; a side without has a single
layer. With a single layer everywhere a source and boundary layers are 2 to 15 times less accurate.
Three layers are 1.5 times more accurate on them, and a shock fails more often."""

_VOLUME_EXPONENT = 0.25
"""Exponent of the volume in the priority of a box, a compromise between the largest and the mean
square error; not tuned."""

_MIN_GROWTH = 1.25
"""Ratio of the row limit to the rows of a level below which no further level is solved: it would
cost more than it improves."""

_SECOND = {1: (Term(0, ((2,),)),), 2: (Term(0, ((2, 0),)), Term(0, ((0, 2),)))}


@dataclass(frozen=True, eq=False)
class Level:
    """A field on boxes.

    **Attributes:**

    - `problem`: problem whose field it approximates.
    - `frame`: bounding box of the domain.
    - `boxes`: boxes of the level.
    - `field`: weighted sum of the kernels of all boxes.
    - `rows`: rows of the fit.
    - `num_steps`: number of Gauss-Newton steps.
    - `is_finite`: whether the iteration stayed finite.
    - `test_points`, `test_areas`: held-out points and the areas that they represent.
    - `test_values`: field at the held-out points.
    - `indicator`: largest held-out residual of each box, in units of the field.
    - `variation`: variation of the field along each coordinate of each box.
    """

    problem: Problem
    frame: Frame
    boxes: Boxes
    field: LocalField
    rows: tuple[Rows, ...]
    num_steps: int
    is_finite: bool
    test_points: Float[np.ndarray, "m d"]
    test_areas: Float[np.ndarray, " m"]
    test_values: Float[np.ndarray, " m"]
    indicator: Float[np.ndarray, " b"]
    variation: Float[np.ndarray, "b d"]

    @property
    def num_rows(self) -> int:
        """Number of rows of the least-squares problem."""
        return count_rows((group.residual, group.placed) for group in self.rows)

    @property
    def relative_indicator(self) -> float:
        """Largest held-out residual of a box, in ranges of the field."""
        return float(self.indicator.max() / max(np.ptp(self.test_values), TINY))

    @property
    def has_small_residuals(self) -> bool:
        """True if all boxes have small held-out residuals."""
        return self.relative_indicator <= _RESOLVED_INDICATOR

    @property
    def is_stationary(self) -> bool:
        """True if all boxes have small held-out residuals, and few steps changed the field."""
        return self.has_small_residuals and self.num_steps <= _MAX_RESOLVED_STEPS

    def corrected(self) -> LocalField:
        """Return the field after a Gauss-Newton step with other interior rows."""
        dimension = self.boxes.lower.shape[1]
        offsets, time = OTHER_OFFSETS[dimension], _time_axis(self.problem)
        placed, basis = (
            interior_rows(self.problem, self.frame, self.boxes, offsets),
            self.field.basis,
        )
        boundary = [group for group in self.rows if not group.placed.is_interior]
        rows = [*(make_rows(*pair, basis, time) for pair in placed), *boundary]
        iterate = evaluate(rows, self.field.coefficients)
        weights = iterate.robust_weights()
        matrix = jacobian_matrix(rows, iterate, weights)
        step = least_squares(matrix, -weights * iterate.residuals)
        return LocalField(basis, self.field.coefficients + step)


def _time_axis(problem: Problem) -> int | None:
    """Return the index of the time coordinate."""
    space = problem.space
    return None if space.time is None else space.coordinates.index(space.time)


def initial_boxes(problem: Problem, frame: Frame, max_rows: int) -> Boxes:
    """Return uniform boxes, refined where the data of the equations vary."""
    dimension = len(problem.space.coordinates)
    patches = interior_patches(problem)
    boxes = restrict_to_domain(frame, Boxes.uniform(dimension), patches)
    limit = _DATA_SHARE * max_rows / len(ROW_OFFSETS[dimension])
    while len(boxes) < limit:
        variation = _data_variation(problem, frame, boxes)
        marked = variation > _DATA_VARIATION
        count = max(1, int(limit - len(boxes)) // 3 + 1)
        marked &= variation >= np.sort(variation)[-min(len(boxes), count)]
        if not marked.any():
            break
        split = boxes.split(np.repeat(marked[:, None], dimension, axis=1)).balanced()
        boxes = restrict_to_domain(frame, split, patches)
    return boxes


def _data_variation(problem: Problem, frame: Frame, boxes: Boxes) -> Float[np.ndarray, " b"]:
    """Return the variation of F(0) within each box, relative to the data and to its size."""
    dimension = boxes.lower.shape[1]
    ticks = (np.arange(6) + 0.5) / 6
    grids = np.meshgrid(*[ticks] * dimension, indexing="ij")
    offsets = tuple(map(tuple, np.stack([g.ravel() for g in grids], axis=1).tolist()))
    result = np.zeros(len(boxes))
    for residual, placed in interior_rows(problem, frame, boxes, offsets):
        zeros = np.zeros((len(placed.points), len(residual.terms)))
        for values in np.nan_to_num(linearize_residual(residual, placed, zeros)[0].T):
            result = np.maximum(result, _variation(values, placed.box_indices, len(boxes)))
    return result * np.sqrt(boxes.volumes)


def _variation(values: np.ndarray, indices: np.ndarray, count: int) -> np.ndarray:
    """Return standard deviations per box relative to all values, or zero where they are small."""
    sums = np.maximum(np.bincount(indices, minlength=count), 1)
    means = np.bincount(indices, values, count) / sums
    squares = np.bincount(indices, (values - means[indices]) ** 2, count) / sums
    deviation = np.sqrt(squares)
    size = np.sqrt(np.mean(values**2)) + TINY
    return np.where(deviation > 0.05 * np.abs(values).max(), deviation / size, 0.0)


def solve_level(
    problem: Problem,
    frame: Frame,
    boxes: Boxes,
    start: PointValues | None,
    is_transient: bool,
    rng: np.random.Generator | None,
) -> Level:
    """Solve on boxes, from the field of the last level or an initial guess.

    **Arguments:**

    - `is_transient`: whether nonlinear problems start with pseudo-transient steps.
    - `rng`: displaces points and centers at random, if it is not `None`.
    """
    dimension = boxes.lower.shape[1]
    boundary = boundary_rows(problem, frame, boxes)
    ghosts = boxes.ghosts(_ghost_layers(frame, [placed for _, placed in boundary]))
    centers = np.concatenate([boxes.middles, ghosts.middles])
    sizes = np.concatenate([boxes.sizes, ghosts.sizes])
    centers = displaced(centers, sizes, rng)
    basis = LocalBasis(frame.to_physical(centers), _LENGTHSCALE * sizes * frame.extents)
    interior = interior_rows(problem, frame, boxes, ROW_OFFSETS[dimension], rng)
    placed, time = [*interior, *boundary], _time_axis(problem)
    rows = tuple(make_rows(residual, points, basis, time) for residual, points in placed)
    coefficients = np.zeros(len(basis))
    if start is not None:
        coefficients = project(rows, [start(group.placed.points) for group in rows])
    is_nonlinear = any(residual.nonlinear for residual in problem.residuals)
    result = fit(rows, coefficients, is_transient and is_nonlinear, start is not None)
    return _tested(problem, frame, boxes, LocalField(basis, result.coefficients), rows, result)


def _ghost_layers(frame: Frame, boundary: list[RowPoints]) -> Int[np.ndarray, "d 2"]:
    """Return the number of layers of ghost boxes at each side of the bounding box."""
    points = np.concatenate([np.empty((0, len(frame.lower))), *(p.points for p in boundary)])
    distances = np.abs(frame.to_unit(points)[:, :, None] - np.arange(2.0))
    # The corners of a side may belong to conditions on the adjacent sides.
    num_corners = 2 * (len(frame.lower) - 1)
    has_condition = (distances < 1e-9).sum(axis=0) > num_corners
    return np.where(has_condition, _GHOST_LAYERS, 1)


def _tested(
    problem: Problem,
    frame: Frame,
    boxes: Boxes,
    field: LocalField,
    rows: tuple[Rows, ...],
    result: LevelFit,
) -> Level:
    """Return a level with the residuals of its field at held-out points."""
    dimension = boxes.lower.shape[1]
    indicator, variation = np.zeros(len(boxes)), np.zeros((len(boxes), dimension))
    points, areas, values = [], [], []
    for residual, placed in interior_rows(problem, frame, boxes, TEST_OFFSETS[dimension]):
        terms = (value_term(dimension), *_SECOND[dimension], *residual.terms)
        jets = field.evaluate(placed.points, terms)
        changes = np.abs(jets[:, 1 : 1 + dimension]) * placed.sizes**2
        np.maximum.at(variation, placed.box_indices, changes)
        _raise_indicator(indicator, residual, placed, jets[:, 1 + dimension :])
        points.append(placed.points)
        areas.append(placed.measures**2)
        values.append(jets[:, 0])
    for group in rows:
        if not group.placed.is_interior:
            jets = group.jets(field.coefficients)
            _raise_indicator(indicator, group.residual, group.placed, jets)
    return Level(
        problem,
        frame,
        boxes,
        field,
        rows,
        result.num_steps,
        result.is_finite,
        np.concatenate(points),
        np.concatenate(areas),
        np.concatenate(values),
        indicator,
        variation,
    )


def _raise_indicator(
    indicator: Float[np.ndarray, " b"],
    residual: Residual,
    placed: RowPoints,
    jets: Float[np.ndarray, "m T"],
) -> None:
    """Raise the indicator to the residuals at points, in units of the field."""
    residuals, jacobian = linearize_residual(residual, placed, jets)
    scales = operator_scales(jacobian, unit_scales(residual, placed.sizes))
    sizes = np.nan_to_num(np.abs(residuals / scales), nan=np.inf).max(axis=1)
    np.maximum.at(indicator, placed.box_indices, sizes)


def refine(level: Level, max_rows: int) -> Boxes | None:
    """Split the boxes with the largest held-out residuals; `None` if that exceeds `max_rows`.

    The growth is such that a later level has nearly `max_rows` rows.
    """
    ratio = max_rows / level.num_rows
    if ratio < _MIN_GROWTH:
        return None
    num_levels = max(1.0, np.ceil(np.log(ratio) / np.log(_GROWTH) - 0.3))
    target = 0.98 * len(level.boxes) * ratio ** (1.0 / num_levels)
    dimension = level.boxes.lower.shape[1]
    while target > len(level.boxes):
        boxes = _split_worst(level, int(target))
        offsets, arguments = ROW_OFFSETS[dimension], (level.problem, level.frame, boxes)
        if (
            count_rows([*interior_rows(*arguments, offsets), *boundary_rows(*arguments)])
            <= max_rows
        ):
            return boxes
        target *= 0.97
    return None


def _split_worst(level: Level, target: int) -> Boxes:
    """Split boxes, by decreasing indicator, into at most `target` ones if possible."""
    boxes, patches = level.boxes, interior_patches(level.problem)
    strongest = level.variation.max(axis=1, keepdims=True)
    axes = _ANISOTROPY * level.variation >= strongest
    order = np.argsort(-level.indicator * boxes.volumes**_VOLUME_EXPONENT)

    def split(count: int) -> Boxes:
        marked = np.zeros_like(axes)
        marked[order[:count]] = axes[order[:count]]
        return restrict_to_domain(level.frame, boxes.split(marked).balanced(), patches)

    low, high = 1, len(boxes)
    while low < high:
        middle = (low + high + 1) // 2
        if len(split(middle)) <= target:
            low = middle
        else:
            high = middle - 1
    return split(low)
