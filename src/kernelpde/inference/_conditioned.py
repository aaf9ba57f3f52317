"""A Gaussian process conditioned on the linearized conditions at one solution."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import TINY, Numbers, to_array
from kernelpde.compiling import compiled
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Functionals, Prior, Term, evaluate_jets, gram_diagonal
from kernelpde.inference._compressed import (
    CHUNK,
    compress_posterior,
    compressed_variance,
    select_inducing,
)
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
    Automatic,
    DenseSolution,
    choose_solver,
)
from kernelpde.problem import (
    DiscreteCondition,
    DiscreteProblem,
    LinearSystem,
    PointSet,
    Problem,
    linearize,
)
from kernelpde.solution import Solution

_COMPRESS_ABOVE = 2
"""Number of functionals per row above which inducing functionals pay off."""

_PROBE_SIZE = 64
"""Number of functionals from which the required number of inducing functionals is estimated."""

_MAX_RELATIVE_ERROR = 0.01
"""Largest relative error bound of an approximated standard deviation. Above it, the standard
deviation is computed exactly."""


@dataclass(frozen=True, eq=False, repr=False)
class ConditionedGP:
    """Fields and parameters as a Gaussian process conditioned on the linearized conditions.

    With Φ the conditions linearized at the solution and P = κ(Φ, Φ) + Σ, functionals Ψ have the
    covariance κ(Ψ, Ψ) - κ(Ψ, Φ) P⁻¹ κ(Φ, Ψ) around their values at the solution. For linear
    conditions this is the posterior, otherwise its Laplace approximation.

    **Attributes:**

    - `solution`: solution at which the conditions are linearized.
    - `amplitude`: factor on all prior standard deviations.
    """

    solution: Solution
    _system: LinearSystem
    _linear_solution: AbstractLinearSolution
    amplitude: float

    @property
    def size(self) -> int:
        """Number of rows of the linearized conditions."""
        return len(self._system.rhs)

    @property
    def chi_squared(self) -> dict[str, float]:
        """Mean of (residual / noise)² for each condition with noise."""
        system = self._system
        residuals = np.asarray(system.rhs - self._linear_solution.row_values)
        squares = residuals**2 / np.maximum(np.asarray(system.variance), TINY)
        stops = np.cumsum([len(stack) for stack in system.stacks])
        problem = self.solution.problem
        by_name = problem.by_condition(np.split(squares, stops[:-1]))
        return {
            condition.name: float(np.mean(by_name[condition.name]))
            for condition in problem.conditions
            if np.any(condition.noise_std > 0)
        }

    @property
    def loo_chi_squared(self) -> dict[str, float]:
        """Leave-one-out chi-squared of each condition with data and noise.

        The mean of (yᵢ - μᵢ)² / σᵢ², with μᵢ and σᵢ² the mean and variance of datum i given all
        others, noise included.
        """
        prior = self.solution.problem.prior
        return {
            condition.name: float(
                _loo_chi_squared(self._linear_solution, prior, self._system, (index,))
            )
            for index, condition in enumerate(self.solution.problem.conditions)
            if condition.data and np.any(condition.noise_std > 0)
        }

    def mean(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the value of each functional at the solution."""
        jet_values = self.solution.evaluate_jets(functionals.terms, functionals.points)
        node_values = jnp.sum(functionals.coefficients * jet_values, axis=1)
        return node_values.reshape(-1, functionals.num_nodes).sum(1)

    def prior_std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the prior standard deviation of each functional."""
        return self.amplitude * jnp.sqrt(gram_diagonal(self.solution.problem.prior, [functionals]))

    def covariance(
        self, left: Functionals, right: Functionals | None = None
    ) -> Float[Array, "m n"]:
        """Return the posterior covariance between functionals."""
        return self.amplitude**2 * _posterior_covariance(
            self._linear_solution,
            self.solution.problem.prior,
            self._system,
            left,
            left if right is None else right,
        )

    def std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the posterior standard deviation of each functional.

        With many functionals, most standard deviations are approximated by inducing functionals
        with a relative error below 1%. The remaining ones are computed exactly.
        """
        linear_solution = self._linear_solution
        if not isinstance(linear_solution, DenseSolution):
            return self.exact_std(functionals)
        inducing = self._select_inducing(functionals)
        if inducing is None:
            return self.exact_std(functionals)
        prior, count = self.solution.problem.prior, len(functionals)
        compressed = compress_posterior(
            prior, inducing, self._system.batches, linear_solution.factor
        )
        variances = [
            compressed_variance(prior, compressed, chunk)
            for chunk in _split_functionals(functionals, 4 * CHUNK)
        ]
        explained, remainder = np.concatenate(variances, axis=1)[:, :count]
        stds = np.sqrt(explained + remainder)
        inexact = np.flatnonzero(np.sqrt(remainder) > _MAX_RELATIVE_ERROR * stds)
        if len(inexact):
            stds[inexact] = np.asarray(self._unit_std(functionals[to_array(inexact)]))
        return self.amplitude * to_array(stds)

    def exact_std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return the posterior standard deviation of each functional by a triangular solve."""
        return self.amplitude * self._unit_std(functionals)

    def _select_inducing(self, functionals: Functionals) -> Functionals | None:
        """Select inducing functionals, or return `None` if the exact variances are cheaper."""
        count = len(functionals)
        if count < _COMPRESS_ABOVE * self.size or functionals.num_nodes > 1:
            return None
        prior = self.solution.problem.prior
        probe = functionals[to_array(np.linspace(0, count - 1, _PROBE_SIZE).astype(int))]
        prior_std = jnp.sqrt(gram_diagonal(prior, [probe]))
        smallest = float(np.min(np.asarray(self._unit_std(probe) / prior_std)))
        # Functionals that are no candidates have larger remainders.
        tolerance = (_MAX_RELATIVE_ERROR * smallest) ** 2 / 10
        return select_inducing(prior, functionals, self.size // 3, tolerance)

    def _unit_std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Return exact standard deviations for amplitude 1."""
        chunks = (
            [functionals] if functionals.num_nodes > 1 else _split_functionals(functionals, CHUNK)
        )
        variances = [
            _posterior_variance(
                self._linear_solution, self.solution.problem.prior, self._system, chunk
            )
            for chunk in chunks
        ]
        return jnp.sqrt(jnp.concatenate(variances)[: len(functionals)])

    def residual_functionals(self, condition: str, points: Numbers) -> tuple[Functionals, ...]:
        """Return a linearized residual at the given points, one batch per equation.

        Conditions that use normals or data at the points are not supported.
        """
        problem = self.solution.problem
        residual = problem.residuals[problem.condition_index(condition)]
        locations = to_array(np.asarray(points, dtype=np.float64))
        point_set = PointSet(locations, None, {}, jnp.zeros(len(locations)))
        jet_values = self.solution.evaluate_jets(residual.nonlinear_terms, locations)
        return linearize((DiscreteCondition(residual, point_set),), (jet_values,)).batches


def parameter_functional(problem: Problem, name: str) -> Functionals:
    """Return the functional of an unknown parameter: its offset from the prior mean."""
    term = Term(problem.field_index(name), (problem.frame.multi_index(),))
    point = jnp.zeros((1, len(problem.space.coordinates)))
    return Functionals(point, jnp.ones((1, 1)), (term,))


def condition_on(solution: Solution, *, amplitude: float | None = None) -> ConditionedGP:
    """Condition the prior on the conditions linearized at a solution or an iterate."""
    problem = solution.problem
    if solution.local_expansion is not None:
        raise InputError(
            "posterior: the solution is from the sparse solver, which has no covariances. Solve "
            "with Dense() or LowRank()."
        )
    discrete = problem.at_points(solution.point_sets)
    solver_state = choose_solver(
        Automatic(nugget=float(solution.nugget), refinement_sweeps=0),
        discrete,
        needs=frozenset({"covariance"}),
    ).solver_state
    system, linear_solution, likely_amplitude = _linearize_and_solve(
        discrete, solution.batches, solver_state
    )
    if not bool(linear_solution.succeeded):
        raise SolveError(
            f"posterior: {linear_solution.result} {len(system.rhs)} conditions, nugget "
            f"{float(linear_solution.nugget):.1e}.",
            solution,
        )
    if amplitude is None:
        has_noise = bool(np.any(np.asarray(system.variance) > 0))
        amplitude = 1.0 if has_noise else float(likely_amplitude)
    return ConditionedGP(solution, system, linear_solution, amplitude)


def _split_functionals(functionals: Functionals, size: int) -> list[Functionals]:
    """Split into chunks of equal size, padding the last one with its last functional."""
    count = len(functionals)
    size = -(-count // -(-count // size))
    return [
        functionals[to_array(np.minimum(np.arange(start, start + size), count - 1))]
        for start in range(0, count, size)
    ]


@compiled
def _linearize_and_solve(
    discrete: DiscreteProblem,
    expansion: tuple[Functionals, ...],
    solver_state: AbstractLinearSolverState,
) -> tuple[LinearSystem, AbstractLinearSolution, Float[Array, ""]]:
    jet_values = tuple(
        evaluate_jets(discrete.prior, c.point_set.points, c.nonlinear_terms, expansion)
        for c in discrete.conditions
    )
    system = discrete.linearize(jet_values)
    solution = solver_state.solve(discrete.prior, system)
    return system, solution, jnp.sqrt(solution.quadratic_form(system.rhs) / system.rhs.shape[0])


@compiled
def _loo_chi_squared(
    solution: AbstractLinearSolution,
    prior: Prior,
    system: LinearSystem,
    conditions: tuple[int, ...],
) -> Float[Array, ""]:
    loo = solution.leave_one_out(prior, system, conditions)
    return jnp.mean(loo.weights**2 / loo.precision)


@compiled
def _posterior_covariance(
    solution: AbstractLinearSolution,
    prior: Prior,
    system: LinearSystem,
    left: Functionals,
    right: Functionals,
) -> Float[Array, "m n"]:
    return solution.covariance(prior, system, left, right)


@compiled
def _posterior_variance(
    solution: AbstractLinearSolution,
    prior: Prior,
    system: LinearSystem,
    functionals: Functionals,
) -> Float[Array, " n"]:
    return solution.variance(prior, system, functionals)
