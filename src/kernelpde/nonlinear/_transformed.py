"""The iteration inside `jit` and `vmap`, with implicit derivatives.

A converged iteration is at a fixed point s = G(s, p) of the Gauss-Newton map. Here s are the
nonlinear jet values at the points and p are all parameters of the problem. The weights W(s, p)
follow from one more step, with iterative refinement. By the implicit function theorem

    dW = ∂W/∂s ds + ∂W/∂p dp,    (I - ∂G/∂s) ds = ∂G/∂p dp,

independent of the steps of the iteration. ∂G/∂s is the curvature of the residuals times the
multipliers. It is small if the iteration converges fast, and GMRES then needs few products.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import gmres
from jaxtyping import Array, Float, PyTree

from kernelpde.compiling import compiled
from kernelpde.linear_solvers import AbstractLinearSolverState, split_tangents
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.nonlinear._solvers import AbstractNonlinearSolver
from kernelpde.nonlinear._state import IterationState
from kernelpde.nonlinear._step import JetValues, Weights
from kernelpde.problem import DiscreteProblem
from kernelpde.results import is_converged

_TOLERANCE = 1e-9
"""Relative tolerance of GMRES."""

_MAX_GMRES_RESIDUAL = 1e-5
"""Relative residual of GMRES above which a derivative is NaN, so that no wrong one is returned."""

_RESTART, _MAX_RESTARTS = 20, 10
"""Products with ∂G/∂s between restarts, and maximum number of restarts."""


@compiled
def solve_implicitly(
    inputs: SolveInputs,
    solver: AbstractNonlinearSolver,
    start: JetValues | None,
    max_steps: int,
) -> tuple[IterationState, JetValues, Weights]:
    """Return the final state, and its jet values and weights with implicit derivatives.

    The jet values belong to the fixed point, before refinement.
    """
    arrays, static = eqx.partition((inputs, start), eqx.is_array)
    constant, start = eqx.combine(jax.lax.stop_gradient(arrays), static)
    constant = constant.with_factor()
    initial = jax.tree.map(jnp.asarray, solver.init(constant, start, max_steps))
    state = jax.lax.while_loop(
        lambda state: ~state.has_ended, lambda state: solver.step(constant, state), initial
    )
    return state, *_implicit(inputs.discrete, inputs.solver_state, state)


@eqx.filter_custom_jvp
def _implicit(
    discrete: DiscreteProblem, solver_state: AbstractLinearSolverState, state: IterationState
) -> tuple[JetValues, Weights]:
    """Return jet values at the fixed point and weights, with implicit derivatives."""
    del discrete
    return _fixed_point(solver_state, state), state.current.iterate.weights


def _fixed_point(solver_state: AbstractLinearSolverState, state: IterationState) -> JetValues:
    return state.fixed_point if solver_state.refinement_sweeps else state.current.iterate.jet_values


@_implicit.def_jvp
def _(primals: PyTree, tangents: PyTree) -> PyTree:
    discrete, solver_state, state = primals
    primal, tangent, static = split_tangents(discrete, tangents[0])
    flat, unravel = ravel_pytree(_fixed_point(solver_state, state))

    def step(jets: Float[Array, " n"], arrays: PyTree) -> tuple[Float[Array, " n"], Weights]:
        discrete = eqx.combine(arrays, static)
        prior = discrete.prior
        system = replace(discrete.linearize(unravel(jets)), row_scale=state.row_scale)
        linear_solution = solver_state.solve(prior, system)
        new_jets = ravel_pytree(linear_solution.jet_values(prior, system))[0]
        if solver_state.refinement_sweeps:
            sweeps = jnp.where(state.refined, solver_state.refinement_sweeps, 0)
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
    factor = jnp.where(is_converged(state.code), 1.0, jnp.nan)
    return _implicit(*primals), jax.tree.map(lambda t: factor * t, implicit)


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
