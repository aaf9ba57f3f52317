"""Learning from data: uninformative priors of state fields and down-weighted outliers."""

from dataclasses import replace

from kernelpde.errors import SolveError
from kernelpde.learning._learned import LearningResult
from kernelpde.learning._run import (
    UNUSABLE,
    LearningRun,
    final_solve,
    learn_once,
    run_learning,
    run_steps,
)
from kernelpde.learning._state import LearningState
from kernelpde.learning._state_fields import (
    state_fields,
    with_large_state_variance,
    with_shorter_state_lengthscales,
)
from kernelpde.problem import Problem, StudentT
from kernelpde.solution import Solution, solve

_MAX_ADJUSTMENTS = 2
"""Maximum number of adjustments of the lengthscales of states after learning."""


def reweight_outliers(run: LearningRun) -> LearningRun:
    """Increase the noise of outliers among data with `StudentT` noise.

    The noise is estimated from a solution with the initial kernels, and again from one with the
    kernels that are then learned.
    """
    if not any(isinstance(c.noise, StudentT) for c in run.problem.conditions):
        return run
    unstored = run._replace(checkpoint=None)
    first_run = _with_large_state_variance(unstored) or unstored
    first = solve(
        first_run.problem,
        run.point_sets,
        start=run.start,
        linear_solver=run.options.linear_solver,
        throw=False,
    )
    weighted = _with_reweighted_noise(unstored, first)
    result = learn_once(_with_large_state_variance(weighted) or weighted, throw=False)
    return _with_reweighted_noise(run, result.solution)


def _with_reweighted_noise(run: LearningRun, solution: Solution) -> LearningRun:
    """Return the run with the noise of outliers in a solution, if that is usable."""
    if solution.result in UNUSABLE:
        return run
    point_sets = tuple(
        replace(points, noise=solved_points.noise) if isinstance(c.noise, StudentT) else points
        for c, points, solved_points in zip(
            run.problem.conditions, run.point_sets, solution.point_sets, strict=True
        )
    )
    return run._replace(point_sets=point_sets)


def _with_large_state_variance(run: LearningRun) -> LearningRun | None:
    """Return the run with uninformative priors of states, or `None` if there are no states."""
    if not run.method.multistart:
        return None
    nugget = float(run.options.linear_solver.nugget)
    problem = with_large_state_variance(run.problem, run.point_sets, nugget)
    if problem is run.problem:
        return None
    options = replace(run.options, pinned_variance_fields=state_fields(problem))
    return run._replace(problem=problem, options=options)


def learn_with_state_priors(run: LearningRun, throw: bool) -> LearningResult:
    """Learn with uninformative priors of states, or with the original priors if that fails.

    The first attempt may fail with too few points.
    """
    uninformative = _with_large_state_variance(run)
    if uninformative is None:
        return learn_once(run, throw)
    task, state = run_learning(uninformative)
    result = final_solve(task, state, run.method.final, run.start, throw=False)
    result = _shorten_state_lengthscales(uninformative, state, result)
    if result.solution.converged:
        return result
    fallback = learn_once(run._replace(checkpoint=None), throw=False)
    best = fallback if fallback.solution.converged else result
    if throw and best.solution.result in UNUSABLE:
        raise SolveError(str(best.solution), best.solution)
    return best


def _shorten_state_lengthscales(
    run: LearningRun, state: LearningState, result: LearningResult
) -> LearningResult:
    """Shorten the lengthscales of states and learn the other hyperparameters again."""
    if run.options.regularizer is not None:
        # Only the default prior can pin the lengthscales.
        return result
    options = replace(run.options, pinned_lengthscale_fields=state_fields(result.problem))
    for _ in range(_MAX_ADJUSTMENTS):

        def solve_from(
            problem: Problem, start: Solution, result: LearningResult = result
        ) -> Solution:
            return solve(
                problem,
                result.solution.point_sets,
                start=start,
                linear_solver=result.linear_solver,
                seed=run.options.seed,
                sampling=run.options.sampling,
                throw=False,
            )

        adjusted = with_shorter_state_lengthscales(result.solution, solve_from)
        if adjusted is None:
            break
        adjusted_run = run._replace(problem=adjusted.problem, options=options, start=adjusted)
        task, state = run_steps(adjusted_run, None, state)
        new_result = final_solve(task, state, run.method.final, adjusted, throw=False)
        if result.solution.converged and not new_result.solution.converged:
            break
        result = new_result
    return result
