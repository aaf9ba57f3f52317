"""The iteration inside `jit` and `vmap`, with implicit derivatives.

A converged iteration is at a fixed point s = G(s, p) of the Gauss-Newton map. Here s are the
nonlinear jet values at the points and p are all parameters of the problem. The weights W(s, p)
follow from one more step, with iterative refinement. By the implicit function theorem

    dW = ∂W/∂s ds + ∂W/∂p dp,    (I - ∂G/∂s) ds = ∂G/∂p dp,

independent of the steps of the iteration. ∂G/∂s is the curvature of the residuals times the
multipliers. It is small if the iteration converges fast, and GMRES then needs few products.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import gmres
from jaxtyping import Array, Float, PyTree

from kernelpde.compiling import compiled
from kernelpde.linear_solvers import AbstractLinearSolverState, split_tangents
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.nonlinear._iterate import IterationState
from kernelpde.nonlinear._iteration import advance_iteration, initial_iteration
from kernelpde.nonlinear._result import RESULTS, RUNNING, code_from_result, is_converged
from kernelpde.nonlinear._solvers import AbstractNonlinearSolver
from kernelpde.problem import DiscreteProblem

JetValues = tuple[Float[Array, "_ _"], ...]
Weights = tuple[Float[Array, "_ _"], ...]

_TOLERANCE = 1e-9
"""Relative tolerance of GMRES."""

_MAX_GMRES_RESIDUAL = 1e-5
"""Relative residual of GMRES above which a derivative is NaN, so that no wrong one is returned."""

_RESTART, _MAX_RESTARTS = 20, 10
"""Products with ∂G/∂s between restarts, and maximum number of restarts."""


@compiled
def solve_for_weights(
    inputs: SolveInputs,
    solver: AbstractNonlinearSolver,
    start: JetValues | None,
    tolerance: float,
    max_steps: int,
) -> tuple[IterationState, Weights]:
    """Return the final iteration, and the weights of the solution with their derivatives."""
    iteration = _iterate_without_gradient(inputs, solver, start, tolerance, max_steps)
    return iteration, _implicit_weights(inputs.discrete, inputs.solver_state, iteration)


def solve_for_jets(
    inputs: SolveInputs,
    solver: AbstractNonlinearSolver,
    start: JetValues | None,
    tolerance: float,
    max_steps: int,
) -> tuple[IterationState, JetValues]:
    """Return the final iteration, and its nonlinear jet values with their derivatives."""
    iteration = _iterate_without_gradient(inputs, solver, start, tolerance, max_steps)
    return iteration, _implicit_jets(inputs.discrete, inputs.solver_state, iteration)


def _iterate_without_gradient(
    inputs: SolveInputs,
    solver: AbstractNonlinearSolver,
    start: JetValues | None,
    tolerance: float,
    max_steps: int,
) -> IterationState:
    """Run all steps, refinement included, in one `while_loop`."""
    arrays, static = eqx.partition((inputs, start), eqx.is_array)
    inputs, start = eqx.combine(jax.lax.stop_gradient(arrays), static)
    inputs = inputs.with_factor()
    sweeps = inputs.solver_state.refinement_sweeps

    def continues(carry: tuple[IterationState, Array]) -> Array:
        iteration, refined = carry
        should_refine = is_converged(iteration.code) & ~refined & (sweeps > 0)
        return (iteration.code == RUNNING) | should_refine

    def step(carry: tuple[IterationState, Array]) -> tuple[IterationState, Array]:
        iteration, _ = carry
        refine = is_converged(iteration.code)
        new = advance_iteration(inputs, solver, iteration, jnp.where(refine, sweeps, 0), tolerance)
        exhausted = (new.code == RUNNING) & (new.control.steps >= max_steps)
        code = jnp.where(exhausted, code_from_result(RESULTS.max_steps_reached), new.code)
        return eqx.tree_at(lambda state: state.control.code, new, code), refine

    initial = jax.tree.map(jnp.asarray, initial_iteration(inputs, solver, start))
    return jax.lax.while_loop(continues, step, (initial, jnp.asarray(False)))[0]


@eqx.filter_custom_jvp
def _implicit_weights(
    discrete: DiscreteProblem,
    solver_state: AbstractLinearSolverState,
    iteration: IterationState,
) -> Weights:
    """Return the weights of the solution, with implicit derivatives."""
    del discrete, solver_state
    return iteration.current.iterate.weights


@_implicit_weights.def_jvp
def _(primals: PyTree, tangents: PyTree) -> PyTree:
    iteration = primals[2]
    return iteration.current.iterate.weights, _implicit_tangents(primals, tangents)[1]


@eqx.filter_custom_jvp
def _implicit_jets(
    discrete: DiscreteProblem,
    solver_state: AbstractLinearSolverState,
    iteration: IterationState,
) -> JetValues:
    """Return the nonlinear jet values at the fixed point, with implicit derivatives."""
    del discrete
    return _fixed_point(solver_state, iteration)


@_implicit_jets.def_jvp
def _(primals: PyTree, tangents: PyTree) -> PyTree:
    return _fixed_point(*primals[1:]), _implicit_tangents(primals, tangents)[0]


def _fixed_point(solver_state: AbstractLinearSolverState, iteration: IterationState) -> JetValues:
    if solver_state.refinement_sweeps:
        return iteration.jets_before_refinement
    return iteration.current.iterate.jet_values


def _implicit_tangents(primals: PyTree, tangents: PyTree) -> tuple[JetValues, Weights]:
    """Return the tangents of jet values and weights by the implicit function theorem."""
    discrete, solver_state, iteration = primals
    primal, tangent, static = split_tangents(discrete, tangents[0])
    flat, unravel = ravel_pytree(_fixed_point(solver_state, iteration))

    def step(jets: Float[Array, " n"], arrays: PyTree) -> tuple[Float[Array, " n"], Weights]:
        discrete = eqx.combine(arrays, static)
        prior, system = discrete.prior, discrete.linearize(unravel(jets))
        linear_solution = solver_state.solve(prior, system)
        new_jets = ravel_pytree(linear_solution.jet_values(prior, system))[0]
        if solver_state.refinement_sweeps:
            sweeps = jnp.where(iteration.control.refined, solver_state.refinement_sweeps, 0)
            linear_solution = solver_state.solve(prior, system, sweeps)
        return new_jets, linear_solution.coefficients

    _, pushforward = jax.linearize(step, flat, primal)
    zero = jax.tree.map(jnp.zeros_like, primal)
    jet_tangent = jnp.zeros_like(flat)
    if flat.size:
        jet_tangent = jax.lax.custom_linear_solve(
            lambda v: v - pushforward(v, zero)[0],
            pushforward(jet_tangent, tangent)[0],
            _solve_by_gmres,
            transpose_solve=_solve_by_gmres,
        )
    implicit = unravel(jet_tangent), pushforward(jet_tangent, tangent)[1]
    # Without a fixed point the derivative is NaN. A factor makes its transpose NaN as well, which
    # a selection would not.
    factor = jnp.where(is_converged(iteration.code), 1.0, jnp.nan)
    return jax.tree.map(lambda t: factor * t, implicit)


def _solve_by_gmres(
    matvec: Callable[[Float[Array, " n"]], Float[Array, " n"]], rhs: Float[Array, " n"]
) -> Float[Array, " n"]:
    solution, _ = gmres(
        matvec,
        rhs,
        tol=_TOLERANCE,
        restart=min(_RESTART, rhs.shape[0]),
        maxiter=_MAX_RESTARTS,
        solve_method="incremental",
    )
    error = jnp.linalg.norm(rhs - matvec(solution))
    accurate = error <= _MAX_GMRES_RESIDUAL * jnp.linalg.norm(rhs)
    return jnp.where(accurate, solution, jnp.nan)
