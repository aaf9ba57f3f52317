"""A Gaussian process conditioned on linearized conditions, at one solution."""

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers, array
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Functionals, Term, gram_diagonal
from kernelpde.gauss_newton import Solution
from kernelpde.inference._compiled import (
    chunks,
    conditioned_at,
    covariance_of,
    surprise_of,
    variance_of,
)
from kernelpde.inference._compressed import Compressed, compressed, compressed_variance, pivots
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    Automatic,
    DenseSolution,
    Local,
    chosen,
)
from kernelpde.problem import Collocation, LinearizedProblem, Problem, linearized

_CHUNK = 1024
"""Number of functionals conditioned at a time."""

_MANY = 2
"""Functionals per row from which on pivots are worth their cost."""

_SOME = 64
"""Number of functionals examined first, to decide how many pivots are needed."""

_ACCEPTED = 0.01
"""An error bound beyond this part of a standard deviation sends a functional the exact way."""


class Conditioned:
    """Fields and numbers as a Gaussian process conditioned on the linearized conditions.

    With Φ the conditions linearized at the solution and P = κ(Φ, Φ) + Σ, functionals Ψ have the
    covariance κ(Ψ, Ψ) - κ(Ψ, Φ) P⁻¹ κ(Φ, Ψ) around their values at the solution. For linear
    conditions this is the posterior; otherwise it is Laplace's approximation to it.

    **Attributes:**

    - `solution`: its center.
    - `amplitude`: what all prior standard deviations are multiplied by.
    """

    def __init__(
        self,
        solution: Solution,
        rows: LinearizedProblem,
        solved: AbstractLinearSolution,
        amplitude: float,
    ):
        self.solution = solution
        self.amplitude = amplitude
        self._rows = rows
        self._solved = solved

    @property
    def size(self) -> int:
        """How many rows it is conditioned on."""
        return len(self._rows.rhs)

    @property
    def chi_squared(self) -> dict[str, float]:
        """For each condition with noise, the mean square of its residual over noise.

        At a solution a residual is that of its linearization.
        """
        problem = self.solution.problem
        missed = np.asarray(self._rows.rhs - self._solved.fitted)
        squares = missed**2 / np.maximum(np.asarray(self._rows.variance), 1e-300)
        ends = np.cumsum([0, *(len(stack) for stack in self._rows.stacks)])
        return {
            condition.name: float(np.mean(squares[a:b]))
            for condition, (a, b) in zip(problem.conditions, pairwise(ends), strict=True)
            if np.any(condition.noise_level > 0)
        }

    @property
    def surprise(self) -> dict[str, float]:
        """For each condition with data and noise, how far data are from what all else says of them.

        The mean of (yᵢ - μᵢ)² / σᵢ², with each datum left out in turn and predicted with mean μᵢ
        and variance σᵢ², its noise included: 1 where noise and kernels are right.
        """
        problem, found = self.solution.problem, {}
        for number, condition in enumerate(problem.conditions):
            if condition.data and np.any(condition.noise_level > 0):
                kernels = self.solution.kernels
                squares = surprise_of(self._solved, kernels, self._rows, (number,))
                found[condition.name] = float(squares)
        return found

    def mean(self, functionals: Functionals) -> Float[Array, " n"]:
        """What the solution says of each functional."""
        entries = self.solution.jets(functionals.terms, functionals.points)
        local = jnp.sum(functionals.coefficients * entries, axis=1)
        return local.reshape(-1, functionals.width).sum(1)

    def prior_std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Standard deviation of each functional before any condition."""
        return self.amplitude * jnp.sqrt(gram_diagonal(self.solution.kernels, [functionals]))

    def covariance(
        self, left: Functionals, right: Functionals | None = None
    ) -> Float[Array, "m n"]:
        """Posterior covariance between functionals."""
        right = left if right is None else right
        found = covariance_of(self._solved, self.solution.kernels, self._rows, left, right)
        return self.amplitude**2 * found

    def std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Posterior standard deviation of each functional.

        Of many functionals at once most are seen through a few of them, with an error of less than
        1% of each standard deviation; the others one by one.
        """
        kernels, count = self.solution.kernels, len(functionals)
        size = len(self._rows.rhs)
        few = None
        dense = isinstance(self._solved, DenseSolution)
        if dense and count >= _MANY * size and functionals.width == 1:
            some = functionals[array(np.linspace(0, count - 1, _SOME).astype(int))]
            prior = jnp.sqrt(gram_diagonal(kernels, [some]))
            smallest = float(np.quantile(np.asarray(self._one_by_one(some) / prior), 0.05))
            few = pivots(kernels, functionals, size // 3, (0.3 * _ACCEPTED * smallest) ** 2)
        if few is None or not isinstance(self._solved, DenseSolution):
            return self.amplitude * self._one_by_one(functionals)
        through = compressed(kernels, few, self._rows.batches, self._solved.system)
        return self.amplitude * self._through(through, functionals)

    def exact_std(self, functionals: Functionals) -> Float[Array, " n"]:
        """The same, each by a triangular solve of its own."""
        return self.amplitude * self._one_by_one(functionals)

    def _through(self, few: Compressed, functionals: Functionals) -> Float[Array, " n"]:
        parts = [
            compressed_variance(self.solution.kernels, few, part)
            for part in chunks(functionals, 4 * _CHUNK)
        ]
        count = len(functionals)
        seen, rest = (np.concatenate([np.asarray(p[k]) for p in parts])[:count] for k in (0, 1))
        found = np.sqrt(seen + rest)
        doubtful = np.flatnonzero(np.sqrt(rest) > _ACCEPTED * found)
        if len(doubtful):
            found[doubtful] = np.asarray(self._one_by_one(functionals[array(doubtful)]))
        return array(found)

    def _one_by_one(self, functionals: Functionals) -> Float[Array, " n"]:
        kernels, rows = self.solution.kernels, self._rows
        if functionals.width > 1:
            return jnp.sqrt(variance_of(self._solved, kernels, rows, functionals))
        parts = [
            variance_of(self._solved, kernels, rows, part) for part in chunks(functionals, _CHUNK)
        ]
        return jnp.sqrt(jnp.concatenate(parts)[: len(functionals)])

    def residual_functionals(self, condition: str, where: Numbers) -> tuple[Functionals, ...]:
        """A linearized residual at other points, one batch per equation.

        Not for conditions that use normals or data of their own points.
        """
        problem = self.solution.problem
        residual = problem.residuals[problem.condition_index(condition)]
        places = array(np.asarray(where, dtype=np.float64))
        block = Collocation(places, None, {}, jnp.zeros(len(places)))
        entries = self.solution.jets(residual.nonlinear_terms, places)
        return linearized((residual,), (block,), (entries,)).batches


def of_parameter(problem: Problem, name: str) -> Functionals:
    """The functional that is an unknown number, from what was expected of it."""
    term = Term(problem.field_index(name), (problem.frame.order(),))
    place = jnp.zeros((1, len(problem.space.coordinates)))
    return Functionals(place, jnp.ones((1, 1)), (term,))


def conditioned(solution: Solution, *, amplitude: float | None = None) -> Conditioned:
    """The linearized conditions at a solution, or on the way to one, and what follows from them."""
    problem = solution.problem
    if isinstance(solution.expansion, Local):
        raise InputError(
            "posterior: the solution is from the sparse solver, which has no covariances. Solve "
            "with Dense() or LowRank()."
        )
    plan = chosen(
        Automatic(nugget=float(solution.nugget), refinement=0),
        problem.kernels,
        problem.residuals,
        solution.blocks,
        needs=frozenset({"covariance"}),
    ).plan
    rows, solved, likely = conditioned_at(
        problem.residuals, problem.kernels, solution.blocks, solution.expansion, plan
    )
    if not bool(solved.usable):
        raise SolveError(
            f"posterior: {solved.result} {len(rows.rhs)} conditions, nugget "
            f"{float(solved.nugget):.1e}.",
            solution,
        )
    if amplitude is None:
        noisy = bool(np.any(np.asarray(rows.variance) > 0))
        amplitude = 1.0 if noisy else float(likely)
    return Conditioned(solution, rows, solved, amplitude)
