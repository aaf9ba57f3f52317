"""The Gaussian posterior of everything a problem is asked to find."""

import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.arrays import Numbers, array
from kernelpde.checking import instance, random_key, real_number, whole_number
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import (
    Functionals,
    Term,
    gram_diagonal,
)
from kernelpde.gauss_newton import Solution, check_solution, field_names
from kernelpde.inference._compressed import Compressed, compressed, compressed_variance, pivots
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    Automatic,
    DenseSolution,
    Local,
    chosen,
)
from kernelpde.problem import Collocation, LinearizedProblem, linearized

if TYPE_CHECKING:
    from matplotlib.figure import Figure
from kernelpde.inference._conditioning import (
    chunks,
    conditioned_at,
    covariance_of,
    surprise_of,
    variance_of,
)
from kernelpde.inference._estimate import Estimate
from kernelpde.inference._views import ComplexPosteriorView, PosteriorView, Where, shape_of

_NEAR, _FAR = 0.1, 3.0
"""A mean square below the first or above the second does not come about by chance. Noise that is
given too large makes error bars too wide, which is forgiven longer."""

_CHUNK = 1024
"""So many functionals are conditioned at a time."""

_MANY = 2
"""From so many functionals per row on, pivots are worth their cost."""

_SOME = 64
"""So many are looked at first, to see how closely pivots must follow."""

_ACCEPTED = 0.01
"""An error bound beyond this part of a standard deviation sends a functional the exact way."""


class Posterior:
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

    def __getitem__(self, field: str) -> "PosteriorView | ComplexPosteriorView":
        if field in [p.name for p in self.solution.problem.parameters]:
            raise InputError(f"{field!r} is a number: use parameters[{field!r}].")
        order = self.solution.problem.frame.order()
        for name, *parts in self.solution.problem.complex_fields:
            if name == field:
                views = (PosteriorView(self, Term(part, (order,))) for part in parts)
                return ComplexPosteriorView(*views)
        return PosteriorView(self, Term(self.solution.problem.field_index(field), (order,)))

    @property
    def parameters(self) -> dict[str, Estimate]:
        """What is known of each unknown number."""
        found = {}
        for parameter in self.solution.problem.parameters:
            functional = self._of_parameter(parameter.name)
            offset = float(self._mean(functional)[0])
            spread = float(self.deviation(functional)[0])
            found[parameter.name] = Estimate(parameter, offset, spread)
        return found

    @property
    def chi_squared(self) -> dict[str, float]:
        """For each condition with noise, the mean square of its residual over noise.

        At a solution a residual is that of its linearization.
        """
        problem = self.solution.problem
        missed = np.asarray(self._rows.target - self._solved.image)
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

    @property
    def doubts(self) -> str:
        """Why error bars are not to be trusted; empty if nothing speaks against them."""
        if self.amplitude != 1.0:
            return ""
        counts = {
            c.name: block.count
            for c, block in zip(self.solution.problem.conditions, self.solution.blocks, strict=True)
        }
        far = {
            name: value
            for name, value in self.surprise.items()
            if not _NEAR <= value <= max(_FAR, 1.0 + 6.0 * np.sqrt(2.0 / counts[name]))
        }
        if not far:
            return ""
        shown = ", ".join(f"{name!r} {value:.2g}" for name, value in far.items())
        return (
            "Error bars are not to be trusted: data are not where noise and kernels expect them. "
            "The mean square of what each datum misses, over its variance given all others, should "
            f"be 1; got {shown}. Check the noise, or learn it with LearnedNoise, and let learn "
            "find the variance of the kernels."
        )

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        points: bool = True,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Draw the fields with their standard deviations; on a line with 95% bands.

        **Arguments:** as for `Solution.plot`.
        """
        names = fields or tuple(field_names(self.solution.problem))
        return self.solution.plot(
            *names,
            references=references,
            deviations={name: self[name].deviation for name in names},
            residuals=(),
            points=points,
            at=at,
            resolution=resolution,
            units=units,
        )

    def _real(self, field: str) -> "PosteriorView":
        view = self[field]
        assert isinstance(view, PosteriorView)
        return view

    def _of_parameter(self, name: str) -> Functionals:
        problem = self.solution.problem
        term = Term(problem.field_index(name), (problem.frame.order(),))
        place = jnp.zeros((1, len(problem.space.coordinates)))
        return Functionals(place, jnp.ones((1, 1)), (term,))

    def _mean(self, functionals: Functionals) -> Float[Array, " n"]:
        entries = self.solution.jets(functionals.terms, functionals.points)
        local = jnp.sum(functionals.coefficients * entries, axis=1)
        return local.reshape(-1, functionals.width).sum(1)

    def covariance(
        self, left: Functionals, right: Functionals | None = None
    ) -> Float[Array, "m n"]:
        """Posterior covariance between functionals."""
        right = left if right is None else right
        found = covariance_of(self._solved, self.solution.kernels, self._rows, left, right)
        return self.amplitude**2 * found

    def deviation(self, functionals: Functionals) -> Float[Array, " n"]:
        """Posterior standard deviation of each functional.

        Of many functionals at once most are seen through a few of them, with an error of less than
        1% of each standard deviation; the others one by one.
        """
        kernels, count = self.solution.kernels, len(functionals)
        size = len(self._rows.target)
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

    def exact_deviation(self, functionals: Functionals) -> Float[Array, " n"]:
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

    def samples(
        self, where: Mapping[str, Where | None], key: PRNGKeyArray, count: int
    ) -> dict[str, Array]:
        """Joint draws of fields at points and of numbers.

        **Arguments:**

        - `where`: for each field its points, for each parameter `None`.
        - `key`: the source of randomness.
        - `count`: how many draws, on the first axis of each result.
        """
        instance("samples", "where", where, Mapping, 'a dictionary such as {"u": points}')
        random_key("samples", key)
        whole_number("samples", "count", count, at_least=1)
        problem = self.solution.problem
        parameters = {p.name: p for p in problem.parameters}
        pairs = {name: [problem.fields[i].name for i in p] for name, *p in problem.complex_fields}
        if any(name in pairs for name in where):
            parts = {part: w for n, w in where.items() for part in pairs.get(n, [n])}
            drawn = self.samples(parts, key, count)
            return {
                name: drawn[pairs[name][0]] + 1j * drawn[pairs[name][1]]
                if name in pairs
                else drawn[name]
                for name in where
            }
        batches = [
            self._of_parameter(name) if name in parameters else self._real(name).functionals(places)
            for name, places in where.items()
        ]
        mean = jnp.concatenate([self._mean(batch) for batch in batches])
        rows = [jnp.concatenate([self.covariance(a, b) for b in batches], axis=1) for a in batches]
        values, vectors = jnp.linalg.eigh(jnp.concatenate(rows))
        root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
        drawn = mean + jax.random.normal(key, (count, len(mean))) @ root.T
        found, start = {}, 0
        for (name, places), batch in zip(where.items(), batches, strict=True):
            part = drawn[:, start : start + len(batch)]
            start += len(batch)
            if name in parameters:
                found[name] = parameters[name].value(part[:, 0])
            else:
                found[name] = part.reshape(count, *shape_of(places))
        return found

    def __repr__(self) -> str:
        rows = len(self._rows.target)
        lines = [f"Posterior given {rows} conditions, amplitude {self.amplitude:.3g}"]
        lines += [f"  {name} = {estimate!r}" for name, estimate in self.parameters.items()]
        return "\n".join([*lines, self.doubts] if self.doubts else lines)


def posterior(solution: Solution, *, amplitude: float | None = None) -> Posterior:
    """The posterior at a solution: one factorization.

    **Arguments:**

    - `solution`: what to linearize at. It must have converged.
    - `amplitude`: a factor on all prior standard deviations. Where conditions have noise, their
      size fixes that of the kernels, and it is 1 unless given. Without noise the solution does not
      depend on it, and it is √(bᵀ P⁻¹ b / M), its most likely value.
    """
    check_solution("posterior", solution)
    if amplitude is not None:
        real_number("posterior", "amplitude", amplitude, above=0)
    if not solution.converged:
        raise SolveError(
            f"posterior: the solution did not converge, and an expansion around it means nothing. "
            f"{solution.reason}",
            solution,
        )
    found = conditioned(solution, amplitude=amplitude)
    if found.doubts:
        warnings.warn(f"posterior: {found.doubts}", stacklevel=2)
    return found


def conditioned(solution: Solution, *, amplitude: float | None = None) -> Posterior:
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
            f"posterior: {solved.result} {len(rows.target)} conditions, nugget "
            f"{float(solved.nugget):.1e}.",
            solution,
        )
    if amplitude is None:
        noisy = bool(np.any(np.asarray(rows.variance) > 0))
        amplitude = 1.0 if noisy else float(likely)
    return Posterior(solution, rows, solved, amplitude)
