"""The Gaussian posterior of everything a problem is asked to find."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Complex, Float, PRNGKeyArray

from kernelpde.arrays import Numbers, array
from kernelpde.checking import finite, instance, numbers, random_key, real_number, whole_number
from kernelpde.compiling import compiled
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import (
    Functionals,
    Kernels,
    Term,
    gram_diagonal,
    jets,
)
from kernelpde.gauss_newton import Solution, check_solution, field_names
from kernelpde.geometry import Averages
from kernelpde.inference._compressed import Compressed, compressed, compressed_variance, pivots
from kernelpde.linear_solvers import (
    AbstractLinearSolution,
    AbstractLinearSolverState,
    Automatic,
    DenseSolution,
    Local,
    chosen,
)
from kernelpde.problem import Collocation, LinearizedProblem, Parameter, Residual, linearized

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

Where = Numbers | Averages
"""Points with their coordinates on the last axis, or averages."""


@dataclass(frozen=True)
class Estimate:
    """An unknown number: what the data say of it.

    **Attributes:**

    - `mean`: where the posterior has its center.
    - `deviation`: its standard deviation, to first order for a positive parameter.
    """

    parameter: Parameter
    offset: float
    spread: float

    @property
    def mean(self) -> float:
        return float(self.parameter.value(array(self.offset)))

    @property
    def deviation(self) -> float:
        return self.spread * (self.mean if self.parameter.positive else 1.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central credible interval of a given probability."""
        reach = _quantile(level) * self.spread
        low, high = (self.parameter.value(array(self.offset + s * reach)) for s in (-1, 1))
        return float(low), float(high)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"{self.mean:.5g} ± {self.deviation:.2g} (95%: {low:.5g} to {high:.5g})"


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
                squares = _surprise(self._solved, kernels, self._rows, (number,))
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
        found = _covariance(self._solved, self.solution.kernels, self._rows, left, right)
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
            for part in _chunks(functionals, 4 * _CHUNK)
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
            return jnp.sqrt(_variance(self._solved, kernels, rows, functionals))
        parts = [
            _variance(self._solved, kernels, rows, part) for part in _chunks(functionals, _CHUNK)
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
                found[name] = part.reshape(count, *_shape(places))
        return found

    def __repr__(self) -> str:
        rows = len(self._rows.target)
        lines = [f"Posterior given {rows} conditions, amplitude {self.amplitude:.3g}"]
        lines += [f"  {name} = {estimate!r}" for name, estimate in self.parameters.items()]
        return "\n".join([*lines, self.doubts] if self.doubts else lines)


class PosteriorView:
    """A field, or one of its derivatives, under the posterior."""

    def __init__(self, owner: Posterior, term: Term):
        self._owner = owner
        self._term = term

    def d(self, *coordinates: int | str) -> "PosteriorView":
        """The same for a partial derivative along each coordinate given."""
        order = self._owner.solution.problem.frame.order(*coordinates)
        return PosteriorView(self._owner, Term(self._term.field, (order,)))

    @property
    def laplacian(self) -> "PosteriorView":
        """The same for the sum of the second derivatives in space."""
        frame = self._owner.solution.problem.frame
        return PosteriorView(self._owner, Term(self._term.field, frame.laplacian))

    def functionals(self, where: Where | None) -> Functionals:
        """The values at points, or their averages, as functionals."""
        if where is None:
            raise InputError("Expected points for a field; None is for parameters.")
        if isinstance(where, Averages):
            points = array(where.points.reshape(-1, where.points.shape[2]))
            weights = array(where.weights.reshape(-1, 1))
            return Functionals(points, weights, (self._term,), where.weights.shape[1])
        places = numbers("posterior", "points", where)
        finite("posterior", "points", places)
        dimension = len(self._owner.solution.problem.space.coordinates)
        if places.ndim < 1 or places.shape[-1] != dimension:
            raise InputError(
                f"Expected points with {dimension} coordinates on the last axis; "
                f"got shape {places.shape}."
            )
        flat = array(places.reshape(-1, dimension))
        return Functionals(flat, jnp.ones((len(flat), 1)), (self._term,))

    def mean(self, where: Where) -> Float[Array, "*_"]:
        """What the solution says."""
        return self._owner._mean(self.functionals(where)).reshape(_shape(where))

    def deviation(self, where: Where) -> Float[Array, "*_"]:
        """Standard deviation."""
        return self._owner.deviation(self.functionals(where)).reshape(_shape(where))

    def interval(
        self, where: Where, level: float = 0.95
    ) -> tuple[Float[Array, "*_"], Float[Array, "*_"]]:
        """The central credible interval of a given probability, place by place."""
        mean, reach = self.mean(where), _quantile(level) * self.deviation(where)
        return mean - reach, mean + reach

    def covariance(self, where: Where) -> Float[Array, "n n"]:
        """Between all pairs of places."""
        return self._owner.covariance(self.functionals(where))

    def samples(self, where: Where, key: PRNGKeyArray, count: int) -> Float[Array, " s *_"]:
        """Joint draws, on the first axis."""
        random_key("samples", key)
        whole_number("samples", "count", count, at_least=1)
        functionals = self.functionals(where)
        values, vectors = jnp.linalg.eigh(self._owner.covariance(functionals))
        root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
        drawn = jax.random.normal(key, (count, len(functionals))) @ root.T
        return (self._owner._mean(functionals) + drawn).reshape(count, *_shape(where))


class ComplexPosteriorView:
    """A complex field, or one of its derivatives, under the posterior.

    `real` and `imag` are its parts, with their own standard deviations and intervals.
    """

    def __init__(self, real: PosteriorView, imag: PosteriorView):
        self.real, self.imag = real, imag

    def d(self, *coordinates: int | str) -> "ComplexPosteriorView":
        """The same for a partial derivative along each coordinate given."""
        return ComplexPosteriorView(self.real.d(*coordinates), self.imag.d(*coordinates))

    @property
    def laplacian(self) -> "ComplexPosteriorView":
        """The same for the sum of the second derivatives in space."""
        return ComplexPosteriorView(self.real.laplacian, self.imag.laplacian)

    def mean(self, where: Where) -> Complex[Array, "*_"]:
        """What the solution says."""
        return self.real.mean(where) + 1j * self.imag.mean(where)

    def deviation(self, where: Where) -> Float[Array, "*_"]:
        """The root of the mean of |u - mean|²: both parts together."""
        return jnp.hypot(self.real.deviation(where), self.imag.deviation(where))

    def samples(self, where: Where, key: PRNGKeyArray, count: int) -> Complex[Array, " s *_"]:
        """Joint draws, on the first axis."""
        owner = self.real._owner
        batches = [view.functionals(where) for view in (self.real, self.imag)]
        rows = [jnp.concatenate([owner.covariance(a, b) for b in batches], 1) for a in batches]
        values, vectors = jnp.linalg.eigh(jnp.concatenate(rows))
        root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
        mean = jnp.concatenate([owner._mean(batch) for batch in batches])
        drawn = mean + jax.random.normal(key, (count, len(mean))) @ root.T
        half = len(batches[0])
        return (drawn[:, :half] + 1j * drawn[:, half:]).reshape(count, *_shape(where))


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
    rows, solved, likely = _conditioned(
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


@compiled
def _conditioned(
    residuals: tuple[Residual, ...],
    kernels: Kernels,
    blocks: tuple[Collocation, ...],
    expansion: tuple[Functionals, ...],
    plan: AbstractLinearSolverState,
) -> tuple[LinearizedProblem, AbstractLinearSolution, Float[Array, ""]]:
    entries = tuple(
        jets(kernels, block.points, residual.nonlinear_terms, expansion)
        for residual, block in zip(residuals, blocks, strict=True)
    )
    rows = linearized(residuals, blocks, entries)
    solved = plan.solve(kernels, rows, rows.variance, rows.target, 0)
    return rows, solved, jnp.sqrt(solved.energy(rows.target) / rows.target.shape[0])


@compiled
def _surprise(
    solved: AbstractLinearSolution,
    kernels: Kernels,
    rows: LinearizedProblem,
    conditions: tuple[int, ...],
) -> Float[Array, ""]:
    left = solved.left_out(kernels, rows, conditions)
    return jnp.mean(left.weights**2 / left.precision)


@compiled
def _covariance(
    solved: AbstractLinearSolution,
    kernels: Kernels,
    rows: LinearizedProblem,
    left: Functionals,
    right: Functionals,
) -> Float[Array, "m n"]:
    return solved.covariance(kernels, rows, left, right)


@compiled
def _variance(
    solved: AbstractLinearSolution,
    kernels: Kernels,
    rows: LinearizedProblem,
    functionals: Functionals,
) -> Float[Array, " n"]:
    return solved.variance(kernels, rows, functionals)


def _chunks(functionals: Functionals, size: int) -> list[Functionals]:
    """Parts of one size, the last one filled up with its last functional."""
    count = len(functionals)
    size = -(-count // -(-count // size))
    starts = range(0, count, size)
    return [
        functionals[array(np.minimum(np.arange(start, start + size), count - 1))]
        for start in starts
    ]


def _shape(where: Where | None) -> tuple[int, ...]:
    if isinstance(where, Averages):
        return (len(where.points),)
    return () if where is None else np.shape(np.asarray(where))[:-1]


def _quantile(level: float) -> float:
    """How many standard deviations the central interval of a given probability reaches."""
    if not 0 < real_number("posterior", "level", level) < 1:
        raise InputError(f"Expected a probability between 0 and 1; got {level}.")
    return float(ndtri(0.5 * (1.0 + level)))
