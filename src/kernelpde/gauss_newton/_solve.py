"""Solving a problem with given kernels."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.compiling import traced
from kernelpde.errors import SolveError
from kernelpde.gauss_newton._arguments import check_solve
from kernelpde.gauss_newton._between import LIMIT, between_points
from kernelpde.gauss_newton._discretization import Discretization, Points, discretize
from kernelpde.gauss_newton._history import History, Record
from kernelpde.gauss_newton._iteration import Iteration, advance, begun
from kernelpde.gauss_newton._outliers import has_outliers, reweighted
from kernelpde.gauss_newton._result import GOING_ON, RESULTS, code_of, settled
from kernelpde.gauss_newton._solution import Solution
from kernelpde.gauss_newton._solvers import Solver, default_solver
from kernelpde.gauss_newton._start import Start, start_entries
from kernelpde.gauss_newton._transformed import settled_with_weights
from kernelpde.linear_solvers import LinearSolver
from kernelpde.precision import require_float64
from kernelpde.problem import Problem, refuse_at_zero


def solve(
    problem: Problem | Discretization,
    points: Points | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    start: Start | tuple[Array, ...] | None = None,
    seed: int = 0,
    sampling: str = "halton",
    solver: Solver | None = None,
    linear_solver: LinearSolver | None = None,
    max_steps: int = 50,
    throw: bool = True,
    callback: Callable[[Record], None] | None = None,
) -> Solution:
    """Find the fields of least norm that meet the conditions of a problem at points.

    **Arguments and result:** as for `kernelpde.solve`, which can also choose the points.
    """
    require_float64()
    check_solve(
        problem,
        points,
        start,
        solver,
        linear_solver,
        max_steps,
        throw,
        callback,
    )
    solver = default_solver(solver)
    if isinstance(problem, Discretization):
        discretization = problem.current()
        if inputs is not None:
            discretization = discretization.with_inputs(inputs)
    else:
        problem = problem if inputs is None else problem.with_inputs(inputs)
        discretization = discretize(
            problem,
            points,
            seed=seed,
            sampling=sampling,
            linear_solver=linear_solver,
        )
    if has_outliers(discretization):

        def once(given: Discretization, begin: Solution | None) -> Solution:
            return _solved(given, begin or start, solver, max_steps, False, callback)

        begin = start if isinstance(start, Solution) else None
        solution = reweighted(discretization, once, begin)
        if throw and not solution.converged:
            raise SolveError(f"{solution}\n{_ADVICE}", solution)
        return solution
    return _solved(discretization, start, solver, max_steps, throw, callback)


def _solved(
    discretization: Discretization,
    start: Start | tuple[Array, ...] | None,
    solver: Solver,
    max_steps: int,
    throw: bool,
    callback: Callable[[Record], None] | None,
) -> Solution:
    """A solve with everything settled but the solution."""
    entries = start if isinstance(start, tuple) else None
    if start is not None and not isinstance(start, tuple):
        entries = start_entries(discretization.problem, start, discretization.blocks)
    if traced(discretization, entries):
        return _inside(discretization, entries, solver, max_steps, throw)
    solution, untouched = _outside(discretization, entries, solver, max_steps, callback)
    if solution.converged:
        solution = _looked_at_laws(_looked_at_between(solution, discretization.seed))
    elif discretization.problem.laws:
        solution = _looked_at_laws(solution)
    elif throw and start is None and untouched:
        refuse_at_zero(discretization.problem, discretization.blocks)
    if throw and not solution.converged:
        raise SolveError(f"{solution}\n{_ADVICE}", solution)
    return solution


_ADVICE = "If its lengthscales are a guess, learn the kernel with kernelpde.learn."


def _outside(
    discretization: Discretization,
    entries: tuple[Float[Array, "_ _"], ...] | None,
    solver: Solver,
    max_steps: int,
    callback: Callable[[Record], None] | None,
) -> tuple[Solution, bool]:
    """The iteration step by step, with a record of each; and whether none could be kept."""
    blocks, parts = discretization.blocks, discretization.ready()
    plan = parts.plan
    if parts.blocks is not blocks and entries is not None:
        entries = tuple(
            array(np.resize(np.asarray(given), (len(block.points), given.shape[1])))
            for given, block in zip(entries, parts.blocks, strict=True)
        )
    iteration = begun(parts, solver, entries)
    names = [condition.name for condition in discretization.problem.conditions]
    history: list[Record] = []

    def step(sweeps: int) -> Iteration:
        started = time.perf_counter()
        new = advance(parts, solver, iteration, sweeps, solver.tolerance)
        last = new.last
        record = Record(
            len(history) + 1,
            float(last.damping),
            float(last.length),
            bool(last.accepted),
            dict(zip(names, np.asarray(new.last_rms).tolist(), strict=True)),
            float(last.merit),
            float(last.change),
            float(last.nugget),
            time.perf_counter() - started,
        )
        history.append(record)
        if callback is not None:
            callback(record)
        return new

    code = GOING_ON
    while code == GOING_ON:
        iteration = step(0)
        code = int(iteration.code)
        if code == GOING_ON and len(history) >= max_steps:
            code = code_of(RESULTS.step_limit)
    if plan.refinement and settled(code):
        iteration = step(plan.refinement)
    kept = iteration.kept
    weights = discretization.trimmed(kept.state.weights)
    residual_sizes = zip(
        names,
        np.asarray(kept.residual_rms).tolist(),
        np.asarray(kept.residual_max).tolist(),
        strict=True,
    )
    solution = Solution(
        discretization.problem,
        blocks,
        plan.function(parts.residuals, blocks, weights),
        {name: {"rms": rms, "max": largest} for name, rms, largest in residual_sizes},
        code,
        float(iteration.last.nugget),
        float(iteration.control.condition),
        History(history),
        discretization.reason,
    )
    return solution, bool(np.isnan(iteration.control.merit))


def _inside(
    discretization: Discretization,
    entries: tuple[Float[Array, "_ _"], ...] | None,
    solver: Solver,
    max_steps: int,
    throw: bool,
) -> Solution:
    """The same iteration inside of a transformation."""
    parts = discretization.parts
    iteration, weights = settled_with_weights(parts, solver, entries, solver.tolerance, max_steps)
    kept = iteration.kept
    names = [condition.name for condition in discretization.problem.conditions]
    solution = Solution(
        discretization.problem,
        parts.blocks,
        parts.plan.function(parts.residuals, parts.blocks, weights),
        {
            name: {"rms": kept.residual_rms[n], "max": kept.residual_max[n]}
            for n, name in enumerate(names)
        },
        iteration.code,
        iteration.last.nugget,
        iteration.control.condition,
        History(()),
        discretization.reason,
    )
    problem = jax.tree.map(_held, solution.problem)
    held = replace(solution, problem=problem).with_weights(jax.lax.stop_gradient)
    looked_at = _looked_at_laws(_looked_at_between(held, discretization.seed))
    solution = replace(solution, between=looked_at.between, code=looked_at.code)
    return solution.checked() if throw else solution


def _held(value: Any) -> Array:
    """Without derivatives; always an array, where JAX may make a number of a number."""
    return jnp.asarray(jax.lax.stop_gradient(value))


def _looked_at_between(solution: Solution, seed: int) -> Solution:
    """The same with its residuals between points, and the result that follows from them."""
    between = between_points(solution.problem, solution.blocks, solution.jets, seed)
    sizes = [size for size in between.values() if size is not None]
    if not isinstance(solution.code, Array):
        met = all(size <= LIMIT for size in sizes)
        code = solution.code if met else code_of(RESULTS.not_met_between)
        return replace(solution, between=between, code=code)
    met = jnp.stack([jnp.asarray(size) <= LIMIT for size in sizes] or [jnp.asarray(True)]).all()
    code = jnp.where(solution.converged & ~met, code_of(RESULTS.not_met_between), solution.code)
    return replace(solution, between=between, code=code)


_EXPLAINED = (RESULTS.converged, RESULTS.rounding_level, RESULTS.step_limit, RESULTS.stalled)
"""Results that a law beyond its range explains, or makes worthless."""


def _looked_at_laws(solution: Solution) -> Solution:
    """The same, with a result that says so if a law is asked for beyond its range."""
    code, outside = solution.code, code_of(RESULTS.outside_of_law)
    for law in solution.problem.laws:
        explained = sum(code == code_of(result) for result in _EXPLAINED)
        within = law.argument.holds(solution.asked[law.name])
        if isinstance(code, Array):
            code = jnp.where(explained & ~within, outside, code)
        elif explained and not within:
            code = outside
    return replace(solution, code=code)
