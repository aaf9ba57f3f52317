"""Error estimate of an evolution.

The initial values of a window contain the errors of all earlier windows. The windows of a perturbed
evolution are linearized at the unperturbed windows, but continue the perturbed one before them. So
errors of resampled windows, independent and of the same size, grow and decay as the true errors do.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from kernelpde.arrays import concrete_array
from kernelpde.evolve._windows import ContinuityResidual
from kernelpde.problem import Condition, PointSet, Problem
from kernelpde.solution import Perturbation, Solution, solve_linearized


def perturbed_windows(
    problem: Problem,
    solutions: tuple[Solution, ...],
    times: Float[np.ndarray, " W"],
    perturbation: Perturbation,
    seed: int,
) -> tuple[Solution, ...]:
    """Return the windows of a perturbed evolution, each continuing the perturbed one before it.

    **Arguments:**

    - `problem`: problem on the whole time interval.
    - `solutions`, `times`: windows of the evolution and their bounds.
    """
    perturbed: list[Solution] = []
    for index, (solution, (start, _)) in enumerate(zip(solutions, pairwise(times), strict=True)):
        window, point_sets = perturbation.apply(solution.problem, solution.point_sets, seed + index)

        def continued(
            condition: Condition, old: PointSet, new: PointSet, start: float = start
        ) -> PointSet:
            residual = condition.residual
            if not isinstance(residual, ContinuityResidual):
                return new
            points = np.asarray(old.points)
            if perturbation.resample:
                region = problem.conditions[problem.condition_index(condition.name)].region
                rng = np.random.default_rng([seed, int(1e6 * start)])
                points = region.sample(len(points), rng, "halton").points.copy()
                points[:, problem.space.coordinates.index(residual.time)] = start
            return _with_points(old, points, residual.data_from(perturbed[-1], points))

        old, new = map(window.by_condition, (solution.point_sets, point_sets))
        point_sets = tuple(continued(c, old[c.name], new[c.name]) for c in window.conditions)
        perturbed.append(solve_linearized(solution, window, point_sets))
    return tuple(perturbed)


def _with_points(
    point_set: PointSet, points: Float[np.ndarray, "n d"], data: dict[str, np.ndarray]
) -> PointSet:
    """Replace the points of a point set and their data."""
    arrays = {name: concrete_array(values) for name, values in data.items()}
    return replace(point_set, points=concrete_array(points), data=arrays)
