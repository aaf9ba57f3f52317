"""Learning from data: states are left free, and data that are wrong count for less."""

from dataclasses import replace

from kernelpde.errors import SolveError
from kernelpde.gauss_newton import (
    Solution,
    solve,
)
from kernelpde.learning._learned import Learned
from kernelpde.learning._run import WORTHLESS, Run, finished, learned_by, reached, steps
from kernelpde.learning._state import LearningState
from kernelpde.learning._states import (
    states,
    with_free_states,
    with_suited_states,
)
from kernelpde.problem import Problem, StudentT

_AGAIN = 2
"""Number of times lengthscales of states are changed after learning."""


def with_noise_of_outliers(run: Run) -> Run:
    """The same, where data may be wrong each with the noise that it deserves.

    By a solve with the kernels as they are, and one with those that are then learned.
    """
    if not any(isinstance(c.noise, StudentT) for c in run.problem.conditions):
        return run
    alone = run._replace(checkpoint=None)
    free = _with_free_states(alone) or alone
    first = solve(
        free.problem,
        run.blocks,
        start=run.start,
        linear_solver=run.options.linear_solver,
        throw=False,
    )
    weighted = _weighted_by(alone, first)
    learned = learned_by(_with_free_states(weighted) or weighted, throw=False)
    return _weighted_by(run, learned.solution)


def _weighted_by(run: Run, solution: Solution) -> Run:
    """The same, data with outliers having the noise they have in a solution, if it is one."""
    if solution.result in WORTHLESS:
        return run
    blocks = tuple(
        replace(own, noise=found.noise) if isinstance(c.noise, StudentT) else own
        for c, own, found in zip(run.problem.conditions, run.blocks, solution.blocks, strict=True)
    )
    return run._replace(blocks=blocks)


def _with_free_states(run: Run) -> Run | None:
    """The same with a prior of states that says nothing; without states nothing."""
    if not run.method.multistart:
        return None
    problem = with_free_states(run.problem, run.blocks, float(run.options.linear_solver.nugget))
    if problem is run.problem:
        return None
    return run._replace(problem=problem, options=replace(run.options, free=states(problem)))


def learned_from_data(run: Run, throw: bool) -> Learned:
    """Learn with states left free or, where points are too few for that, as they were given."""
    free = _with_free_states(run)
    if free is None:
        return learned_by(run, throw)
    task, state = reached(free)
    learned = finished(task, state, run.method.final, run.start, throw=False)
    learned = _with_suited_states(free, state, learned)
    if learned.solution.converged:
        return learned
    given = learned_by(run._replace(checkpoint=None), throw=False)
    best = given if given.solution.converged else learned
    if throw and best.solution.result in WORTHLESS:
        raise SolveError(str(best.solution), best.solution)
    return best


def _with_suited_states(run: Run, state: LearningState, learned: Learned) -> Learned:
    """The same with lengthscales of states that suit points and leave states free, the other
    hyperparameters learned again."""
    if run.options.regularizer is not None:
        # Lengthscales are held by the prior that is there otherwise.
        return learned
    options = replace(run.options, held=states(learned.problem))
    for _ in range(_AGAIN):

        def solved(problem: Problem, start: Solution, learned: Learned = learned) -> Solution:
            return solve(
                problem,
                learned.solution.blocks,
                start=start,
                linear_solver=learned.linear_solver,
                seed=run.options.seed,
                sampling=run.options.sampling,
                throw=False,
            )

        suited = with_suited_states(learned.solution, solved)
        if suited is None:
            break
        again = run._replace(problem=suited.problem, options=options, start=suited)
        task, state = steps(again, None, state)
        other = finished(task, state, run.method.final, suited, throw=False)
        if learned.solution.converged and not other.solution.converged:
            break
        learned = other
    return learned
