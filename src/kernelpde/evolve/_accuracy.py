"""Evolutions to a target accuracy."""

import time
from dataclasses import replace

from kernelpde.adaptive import Accuracy, solve
from kernelpde.arrays import TINY
from kernelpde.evolve._evolution import Evolution
from kernelpde.evolve._run import WindowSettings, first_window, march_once
from kernelpde.problem import Problem

_SAFETY = 0.5
"""Ratio of the predicted error of the next evolution to the target. At 1 half of the evolutions are
repeated once more; at ¼ points are used that few of them need."""

_MAX_STAGNANT_LEVELS = 2
"""Number of successive evolutions without a smaller error that end the repetition, as for the
levels of `solve`."""


def march_to_accuracy(problem: Problem, target: Accuracy, settings: WindowSettings) -> Evolution:
    """Repeat the evolution with a more accurate first window, until the target is reached.

    The error of the evolution is assumed proportional to the error of its first window. All windows
    use the points and kernels of the first one.
    """
    assert target.relative is not None
    start_time, first_target = time.perf_counter(), _SAFETY * target.relative
    best, num_stagnant = None, 0
    window, log = first_window(problem, settings.windows), list[str]()
    while True:
        level_start = time.perf_counter()
        remaining = None
        if target.max_seconds is not None:
            remaining = max(target.max_seconds - (level_start - start_time), TINY)
        first = solve(
            window,
            accuracy=Accuracy(first_target, remaining, target.max_rows),
            seed=settings.seed,
            sampling=settings.sampling,
            solver=settings.solver,
            linear_solver=settings.linear_solver,
            throw=False,
        )
        points = window.row_counts(first.point_sets)
        folder = settings.checkpoint
        level = settings._replace(checkpoint=folder and folder / f"level-{len(log)}")
        evolution = march_once(
            problem.with_prior(first.problem.prior), points, level, first=first, throw=False
        )
        error = evolution.error_estimate.largest
        log.append(f"{first.problem.at_points(first.point_sets).num_rows} rows {error:.0e}")
        if evolution.converged and error <= target.relative:
            return evolution
        if best is None or error < best.error_estimate.largest:
            best, num_stagnant = evolution, 0
        else:
            num_stagnant += 1
        elapsed = time.perf_counter() - start_time
        next_end = elapsed + 2.0 * (time.perf_counter() - level_start)
        if not first.converged:
            limit = first.error_estimate.message or first.message
        elif num_stagnant == _MAX_STAGNANT_LEVELS:
            limit = "More points in each window do not help. Use more windows."
        elif target.max_seconds is not None and next_end > target.max_seconds:
            limit = f"A further level may take longer than {target.max_seconds:g} s (max_seconds)."
        else:
            first_target = min(first.error_estimate.largest, first_target)
            first_target *= min(_SAFETY, _SAFETY * target.relative / error)
            continue
        limited = replace(best, limit=f"{limit} Estimated errors by level: {', '.join(log)}.")
        vars(limited)["error_estimate"] = best.error_estimate
        return limited
