"""The iteration inside of `jit`, `vmap` and derivatives.

An iteration that has settled is at a fixed point s = G(s, p) of the Gauss-Newton map, with s the
nonlinear jet entries at the points and p everything that the problem depends on; its weights are
W(s, p), found in one more step, with iterative refinement. By the implicit function theorem

    dW = ∂W/∂s ds + ∂W/∂p dp,    (I - ∂G/∂s) ds = ∂G/∂p dp,

whatever way the iteration has taken. ∂G/∂s is the curvature of the residuals times the multipliers,
and small where the iteration converges fast: GMRES needs a few products.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import gmres
from jaxtyping import Array, Float

from kernelpde.compiling import compiled
from kernelpde.functionals import Kernels
from kernelpde.gauss_newton._discretization import Parts
from kernelpde.gauss_newton._iteration import Iteration, advance, begun
from kernelpde.gauss_newton._result import GOING_ON, RESULTS, code_of, settled
from kernelpde.gauss_newton._solvers import Solver
from kernelpde.linear_solvers import AbstractLinearSolverState, moving_parts
from kernelpde.problem import Collocation, Residual, linearized

Entries = tuple[Float[Array, "_ _"], ...]

_TOLERANCE = 1e-9
"""Of GMRES, relative."""

_GOOD = 1e-5
"""A derivative whose equation is not solved to this is NaN: better none than a wrong one."""

_RESTART, _CYCLES = 20, 10
"""Products with ∂G/∂s between restarts, and how many restarts."""


@compiled
def settled_with_weights(
    parts: Parts, solver: Solver, entries: Entries | None, tolerance: float, max_steps: int
) -> tuple[Iteration, tuple[Float[Array, "_ _"], ...]]:
    """The iteration at its end, and what the solution is kept as, which has derivatives."""
    iteration = _held(parts, solver, entries, tolerance, max_steps)
    return iteration, _implicit_weights(parts[:3], parts.plan, iteration)


def settled_with_entries(
    parts: Parts, solver: Solver, entries: Entries | None, tolerance: float, max_steps: int
) -> tuple[Iteration, Entries]:
    """The iteration at its end, and the entries to linearize at, which have derivatives."""
    iteration = _held(parts, solver, entries, tolerance, max_steps)
    return iteration, _implicit_entries(parts[:3], parts.plan, iteration)


def _held(
    parts: Parts, solver: Solver, entries: Entries | None, tolerance: float, max_steps: int
) -> Iteration:
    """All steps, without derivatives."""
    arrays, rest = eqx.partition((parts, entries), eqx.is_array)
    held, begin = eqx.combine(jax.lax.stop_gradient(arrays), rest)
    return _run(held, solver, begin, tolerance, max_steps)


def _run(
    parts: Parts, solver: Solver, entries: Entries | None, tolerance: float, max_steps: int
) -> Iteration:
    """All steps, refinement included, as one loop."""
    parts = parts._replace(plan=parts.plan.prepared(parts.kernels))
    refinement = parts.plan.refinement

    def unfinished(carry: tuple[Iteration, Array]) -> Array:
        iteration, polished = carry
        refine = settled(iteration.code) & ~polished & (refinement > 0)
        return (iteration.code == GOING_ON) | refine

    def step(carry: tuple[Iteration, Array]) -> tuple[Iteration, Array]:
        iteration, _ = carry
        last = settled(iteration.code)
        new = advance(parts, solver, iteration, jnp.where(last, refinement, 0), tolerance)
        over = (new.code == GOING_ON) & (new.control.steps >= max_steps)
        code = jnp.where(over, code_of(RESULTS.step_limit), new.code)
        return eqx.tree_at(lambda i: i.control.code, new, code), last

    begin = jax.tree.map(jnp.asarray, begun(parts, solver, entries))
    return jax.lax.while_loop(unfinished, step, (begin, jnp.asarray(False)))[0]


Given = tuple[tuple[Residual, ...], Kernels, tuple[Collocation, ...]]


@eqx.filter_custom_jvp
def _implicit_weights(
    given: Given, plan: AbstractLinearSolverState, iteration: Iteration
) -> tuple[Float[Array, "_ _"], ...]:
    """What the solution is kept as, with derivatives in everything that it depends on."""
    del given, plan
    return iteration.kept.state.weights


@_implicit_weights.def_jvp
def _(primals: Any, tangents: Any) -> Any:
    iteration = primals[2]
    found = _along(primals, tangents)[1]
    return iteration.kept.state.weights, found


@eqx.filter_custom_jvp
def _implicit_entries(
    given: Given, plan: AbstractLinearSolverState, iteration: Iteration
) -> Entries:
    """The nonlinear jet entries at the fixed point, with derivatives likewise."""
    del given
    return _fixed_point(plan, iteration)


@_implicit_entries.def_jvp
def _(primals: Any, tangents: Any) -> Any:
    return _fixed_point(*primals[1:]), _along(primals, tangents)[0]


def _fixed_point(plan: AbstractLinearSolverState, iteration: Iteration) -> Entries:
    return iteration.unpolished if plan.refinement else iteration.kept.state.jets


def _along(primals: Any, tangents: Any) -> tuple[Entries, tuple[Float[Array, "_ _"], ...]]:
    """How entries and weights move when all that is given does."""
    given, plan, iteration = primals
    moved, along, rest = moving_parts(given, tangents[0])
    flat, unflat = ravel_pytree(_fixed_point(plan, iteration))

    def step(
        entries: Float[Array, " n"], changed: Any
    ) -> tuple[Float[Array, " n"], tuple[Float[Array, "_ _"], ...]]:
        residuals, kernels, blocks = eqx.combine(changed, rest)
        rows = linearized(residuals, blocks, unflat(entries))
        solved = plan.solve(kernels, rows, rows.variance, rows.rhs, 0)
        there = ravel_pytree(solved.entries(kernels, rows))[0]
        if plan.refinement:
            sweeps = jnp.where(iteration.control.polished, plan.refinement, 0)
            solved = plan.solve(kernels, rows, rows.variance, rows.rhs, sweeps)
        return there, solved.coefficients

    _, linear = jax.linearize(step, flat, moved)
    still = jax.tree.map(jnp.zeros_like, moved)
    along_entries = jnp.zeros_like(flat)
    if flat.size:
        along_entries = jax.lax.custom_linear_solve(
            lambda v: v - linear(v, still)[0],
            linear(along_entries, along)[0],
            _by_gmres,
            transpose_solve=_by_gmres,
        )
    found = unflat(along_entries), linear(along_entries, along)[1]
    # Without a fixed point there is nothing to differentiate. A factor, and no choice between two:
    # its transpose is NaN as well.
    factor = jnp.where(settled(iteration.code), 1.0, jnp.nan)
    return jax.tree.map(lambda t: factor * t, found)


def _by_gmres(
    matvec: Callable[[Float[Array, " n"]], Float[Array, " n"]], rhs: Float[Array, " n"]
) -> Float[Array, " n"]:
    restart = min(_RESTART, rhs.shape[0])
    found, _ = gmres(
        matvec,
        rhs,
        tol=_TOLERANCE,
        restart=restart,
        maxiter=_CYCLES,
        solve_method="incremental",
    )
    missed = jnp.linalg.norm(rhs - matvec(found))
    return jnp.where(missed <= _GOOD * jnp.linalg.norm(rhs), found, jnp.nan)
