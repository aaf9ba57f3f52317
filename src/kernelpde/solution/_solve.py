"""`solve` at given points with given kernels."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from kernelpde.arrays import to_array
from kernelpde.compiling import is_traced
from kernelpde.errors import SolveError
from kernelpde.linear_solvers import LinearSolver
from kernelpde.nonlinear import (
    MAX_STEPS,
    AbstractNonlinearSolver,
    Discretization,
    IterationState,
    Points,
    default_solver,
    discretize,
    solve_implicitly,
)
from kernelpde.precision import require_float64
from kernelpde.problem import Problem, check_at_zero
from kernelpde.results import RESULTS, is_any
from kernelpde.solution._arguments import check_solve
from kernelpde.solution._history import SolveHistory, SolveRecord
from kernelpde.solution._outliers import has_student_t_noise, solve_reweighted
from kernelpde.solution._solution import Solution
from kernelpde.solution._start import Start, initial_jets
from kernelpde.solution._test_residuals import MAX_TEST_RESIDUAL, compute_test_residuals

_ADVICE = "If the lengthscales are guesses, learn the kernel with kernelpde.learn."


def solve(
    problem: Problem | Discretization,
    points: Points | None = None,
    *,
    inputs: Mapping[str, PyTree] | None = None,
    start: Start | tuple[Array, ...] | None = None,
    seed: int = 0,
    sampling: str = "halton",
    solver: AbstractNonlinearSolver | None = None,
    linear_solver: LinearSolver | None = None,
    max_steps: int = MAX_STEPS,
    throw: bool = True,
    callback: Callable[[SolveRecord], bool | None] | None = None,
) -> Solution:
    """Find the fields of minimum norm that satisfy the conditions of a problem at points.

    **Arguments and result:** as for `kernelpde.solve`, which can also choose the points.
    """
    require_float64()
    check_solve(problem, points, start, solver, linear_solver, max_steps, throw, callback)
    solver = default_solver(solver)
    if isinstance(problem, Discretization):
        discretization = problem.current()
        if inputs is not None:
            discretization = discretization.with_inputs(inputs)
    else:
        problem = problem if inputs is None else problem.with_inputs(inputs)
        discretization = discretize(
            problem, points, seed=seed, sampling=sampling, linear_solver=linear_solver
        )
    if not has_student_t_noise(discretization):
        return _solve_discretized(discretization, start, solver, max_steps, throw, callback)

    def solve_with_noise(noisy: Discretization, previous: Solution | None) -> Solution:
        return _solve_discretized(noisy, previous or start, solver, max_steps, False, callback)

    initial = start if isinstance(start, Solution) else None
    solution = solve_reweighted(discretization, solve_with_noise, initial)
    return _raise_if_not_converged(solution) if throw else solution


def _solve_discretized(
    discretization: Discretization,
    start: Start | tuple[Array, ...] | None,
    solver: AbstractNonlinearSolver,
    max_steps: int,
    throw: bool,
    callback: Callable[[SolveRecord], bool | None] | None,
) -> Solution:
    """Solve with Gaussian noise."""
    if start is None or isinstance(start, tuple):
        jet_values = start
    else:
        jet_values = initial_jets(discretization.problem, start, discretization.point_sets)
    if is_traced(discretization, jet_values):
        return _solve_traced(discretization, jet_values, solver, max_steps, throw)
    solution, no_step_accepted = _solve_eagerly(
        discretization, jet_values, solver, max_steps, callback
    )
    if solution.converged:
        solution = _check_law_ranges(_check_test_residuals(solution, discretization.seed))
    elif discretization.problem.laws:
        solution = _check_law_ranges(solution)
    elif throw and start is None and no_step_accepted:
        check_at_zero(discretization.problem, discretization.point_sets)
    return _raise_if_not_converged(solution) if throw else solution


def _raise_if_not_converged(solution: Solution) -> Solution:
    if not solution.converged:
        raise SolveError(f"{solution}\n{_ADVICE}", solution)
    return solution


def _solve_eagerly(
    discretization: Discretization,
    start: tuple[Float[Array, "_ _"], ...] | None,
    solver: AbstractNonlinearSolver,
    max_steps: int,
    callback: Callable[[SolveRecord], bool | None] | None,
) -> tuple[Solution, bool]:
    """Iterate in a Python loop; return the solution, and whether no step was accepted."""
    inputs = discretization.prepared_inputs()
    if start is not None:
        start = tuple(
            to_array(np.resize(np.asarray(values), condition.zero_jets().shape))
            for values, condition in zip(start, inputs.conditions, strict=True)
        )
    state = solver.init(inputs, start, max_steps)
    history: list[SolveRecord] = []
    has_ended = False
    while not has_ended:
        start_time = time.perf_counter()
        state = solver.step(inputs, state)
        # One transfer of all scalars, which waits for the step.
        last, last_rms, index, has_ended = jax.device_get(
            (state.last, state.last_rms, state.objective_index, state.has_ended)
        )
        record = SolveRecord(
            step=len(history) + 1,
            damping=float(last.damping),
            accepted=bool(last.accepted),
            residuals=discretization.problem.by_condition(last_rms.tolist()),
            objective=float(last.objective),
            objective_index=int(index),
            previous_objective=float(last.previous_objective),
            predicted_decrease=float(last.predicted_decrease),
            change=float(last.change),
            nugget=float(last.nugget),
            seconds=time.perf_counter() - start_time,
        )
        history.append(record)
        if callback is not None and callback(record) is True and not has_ended:
            code = to_array(np.asarray(RESULTS.stopped.code))
            state = replace(state, current=state.best, code=code)
            break
    weights = discretization.without_padding(state.current.iterate.weights)
    scalars = jax.device_get(_final_scalars(state))
    solution = _to_solution(
        discretization, weights, scalars, SolveHistory(history), lambda value: value.item()
    )
    return solution, not any(record.accepted for record in history)


def _final_scalars(state: IterationState) -> tuple[Array, ...]:
    """Return residual norms, result code, nugget and condition number."""
    current = state.current
    norms = current.residual_rms, current.residual_max
    return *norms, state.code, state.last.nugget, state.condition_number


def _to_solution(
    discretization: Discretization,
    weights: tuple[Array, ...],
    scalars: tuple[Any, ...],
    history: SolveHistory,
    to_scalar: Callable,
) -> Solution:
    """Return the solution of a final state, with its scalars converted."""
    names = [condition.name for condition in discretization.problem.conditions]
    rms, largest, *iteration_scalars = scalars
    code, nugget, condition_number = map(to_scalar, iteration_scalars)
    return Solution(
        discretization.problem,
        discretization.point_sets,
        discretization.to_expansion(weights),
        {
            name: {"rms": to_scalar(rms[n]), "max": to_scalar(largest[n])}
            for n, name in enumerate(names)
        },
        code,
        nugget,
        condition_number,
        history,
        discretization.message,
    )


def _solve_traced(
    discretization: Discretization,
    start: tuple[Float[Array, "_ _"], ...] | None,
    solver: AbstractNonlinearSolver,
    max_steps: int,
    throw: bool,
) -> Solution:
    """Iterate in `lax.while_loop`, inside a transformation."""
    inputs = discretization.solve_inputs
    state, _, weights = solve_implicitly(inputs, solver, start, max_steps)
    scalars = _final_scalars(state)
    solution = _to_solution(discretization, weights, scalars, SolveHistory(()), lambda x: x)
    problem = jax.tree.map(_stop_gradient, solution.problem)
    constant = replace(solution, problem=problem).with_weights(jax.lax.stop_gradient)
    checked = _check_law_ranges(_check_test_residuals(constant, discretization.seed))
    solution = replace(
        solution, test_residuals=checked.test_residuals, result_code=checked.result_code
    )
    return solution.error_if_not_converged() if throw else solution


def _stop_gradient(value: Any) -> Array:
    """Stop the gradient; return an array also for a Python number."""
    return jnp.asarray(jax.lax.stop_gradient(value))


def _check_test_residuals(solution: Solution, seed: int) -> Solution:
    """Compute the test residuals, and update the result if they are too large."""
    test_residuals = compute_test_residuals(
        solution.problem, solution.point_sets, solution.evaluate_jets, seed
    )
    code, failed = solution.result_code, RESULTS.test_residual_too_large.code
    sizes = [size for size in test_residuals.values() if size is not None]
    if isinstance(code, Array):
        small = [jnp.asarray(size) <= MAX_TEST_RESIDUAL for size in sizes] or [jnp.asarray(True)]
        code = jnp.where(solution.converged & ~jnp.stack(small).all(), failed, code)
    elif not all(size <= MAX_TEST_RESIDUAL for size in sizes):
        code = failed
    return replace(solution, test_residuals=test_residuals, result_code=code)


_OVERRIDABLE = (
    RESULTS.converged,
    RESULTS.rounding_limited,
    RESULTS.max_steps_reached,
    RESULTS.stalled,
)
"""Results that a law outside its range causes or invalidates."""


def _check_law_ranges(solution: Solution) -> Solution:
    """Update the result if a law is evaluated outside its range."""
    code, failed = solution.result_code, RESULTS.law_out_of_range.code
    for law in solution.problem.laws:
        overridable = is_any(code, *_OVERRIDABLE)
        is_inside = law.argument.contains(solution.law_arguments[law.name])
        if isinstance(code, Array):
            code = jnp.where(overridable & ~is_inside, failed, code)
        elif overridable and not is_inside:
            code = failed
    return replace(solution, result_code=code)
