"""A posteriori error estimate from three perturbed solutions, each by one linear solve.

All are linearized at the final iterate:

- Resampled collocation points. The difference of two solutions with independent errors of equal
  size is √2 times that size.
- Lengthscales multiplied by 1.4 and by 1/1.4. Solutions with the same unsuitable lengthscale share
  a bias, which resampling does not detect. Of the two modified solutions, the one closer to the
  original is usually at least as accurate. Its difference from the original therefore bounds the
  error approximately from above.
"""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float

from kernelpde.arrays import TINY
from kernelpde.compiling import is_traced
from kernelpde.errors import InputError
from kernelpde.geometry import as_patches
from kernelpde.kernels import scale_lengthscales
from kernelpde.linear_solvers import DEFAULT_NUGGET, MAX_NUGGET, Automatic
from kernelpde.nonlinear import discretize_at, linearized_weights
from kernelpde.problem import PointSet, Problem, field_names

_LENGTHSCALE_FACTOR = 1.4
"""Factor of the lengthscales of the modified solutions. A smaller one hardly changes an inaccurate
solution; with a larger one even the better of the two modified solutions is inaccurate."""

_MAX_CHANGE_RATIO = 6.0
"""Maximum ratio of the lengthscale contribution to the resampling contribution. If the best
lengthscale was learned and all others are much worse, both modified solutions differ too much."""

_NUM_INTERIOR_POINTS, _NUM_BOUNDARY_POINTS = 600, 380
"""Number of points over which errors are averaged, and number of boundary points that enter the
maximum. Programs for at most 1000 points compile fast."""

_MIN_POINTS_TO_SPLIT = 10
"""User-supplied points of a condition are halved only if there are at least this many: each of the
two ends of a line, for example, is indispensable."""

_SEED_OFFSET = 5_000_011
"""Offset of the seed of the resampled points."""


@runtime_checkable
class Fields(Protocol):
    """Fields by name, as functions of points."""

    def __getitem__(self, field: str, /) -> Callable: ...


@runtime_checkable
class Estimable(Fields, Protocol):
    """A solution whose error can be estimated, as a dataclass with these attributes."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def problem(self) -> Problem: ...
    @property
    def point_sets(self) -> tuple[PointSet, ...]: ...
    @property
    def result_code(self) -> Any: ...
    @property
    def converged(self) -> Any: ...
    @property
    def nugget(self) -> Any: ...

    def evaluate_jets(self, terms: Any, points: Any, /) -> Any: ...


F = TypeVar("F", bound=Fields)
S = TypeVar("S", bound=Estimable)


class FieldError(NamedTuple):
    """Estimated error of a field, relative to the root mean square of the field.

    **Attributes:**

    - `rms`: root mean square over the domain.
    - `max`: maximum over the evaluation points.
    """

    rms: float
    max: float


_NO_LENGTHSCALES = "The kernels have no lengthscales: their bias is not estimated."


class Perturbation(NamedTuple):
    """A change of a discretization.

    **Attributes:**

    - `resample`: whether collocation points are redrawn.
    - `lengthscale_factor`: factor of all lengthscales.
    """

    resample: bool = False
    lengthscale_factor: float = 1.0

    def apply(
        self, problem: Problem, point_sets: tuple[PointSet, ...], seed: int
    ) -> tuple[Problem, tuple[PointSet, ...]]:
        """Return the perturbed problem and its points."""
        if self.resample:
            return problem, resample_points(problem, point_sets, seed)
        prior = scale_lengthscales(problem.prior, self.lengthscale_factor)
        return (problem if prior is None else problem.with_prior(prior)), point_sets


class AbstractErrorEstimate(Mapping[str, FieldError]):
    """Base class of error estimates: a mapping from field names to estimated errors.

    **Attributes:**

    - `fields`: estimated errors by field name.
    - `message`: limitations of the estimate, or an empty string.
    """

    fields: dict[str, FieldError]
    message: str

    @property
    @abc.abstractmethod
    def points(self) -> Float[np.ndarray, "n d"]:
        """Points at which errors are estimated."""

    @abc.abstractmethod
    def of_quantity(
        self,
        quantity: Callable[[Any], Any],
        reference_quantity: Callable[[Any], Any] | None = None,
    ) -> np.ndarray:
        """Estimate the error of a quantity that is computed from a solution."""

    def __getitem__(self, name: str) -> FieldError:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def largest(self) -> float:
        """Largest root mean square error of a field."""
        return max((error.rms for error in self.fields.values()), default=np.inf)

    def __repr__(self) -> str:
        lines = ["Estimated errors, relative to the root mean square of each field:"]
        lines += [f"  {n}: {e.rms:.1e} rms, {e.max:.1e} max" for n, e in self.fields.items()]
        return "\n".join([*lines, *([f"  {self.message}"] if self.message else [])])


@dataclass(frozen=True, eq=False, repr=False)
class ErrorEstimate(AbstractErrorEstimate, Generic[F]):
    """Estimated errors of a solution, by field name: `estimate["u"].rms`.

    **Attributes:**

    - `solution`: the solution whose error is estimated.
    - `resampled`: the solution with resampled collocation points.
    - `longer`, `shorter`: solutions with modified lengthscales; `None` if the kernels have none.
    - `interior_points`: points of the domain over which errors are averaged.
    - `boundary_points`: points on boundaries and in corners, where errors may be largest.
    - `fields`: estimated errors by field name.
    - `message`: limitations of the estimate, or an empty string.
    """

    solution: F
    resampled: F
    longer: F | None
    shorter: F | None
    interior_points: Float[np.ndarray, "n d"]
    boundary_points: Float[np.ndarray, "m d"]
    fields: dict[str, FieldError]
    message: str = ""

    @staticmethod
    def from_perturbations(
        solution: F,
        problem: Problem,
        perturb: Callable[["Perturbation"], F],
        interior_points: Float[np.ndarray, "n d"],
        boundary_points: Float[np.ndarray, "m d"],
        limitations: Sequence[str] = (),
    ) -> "ErrorEstimate[F]":
        """Compare a solution with its perturbations.

        **Arguments:**

        - `problem`: problem with the fields of the solution.
        - `perturb`: computes the solution of a perturbed problem.
        - `limitations`: sentences of the message.
        """
        has_lengthscales = scale_lengthscales(problem.prior, 1.0) is not None
        message = " ".join([*limitations, *([] if has_lengthscales else [_NO_LENGTHSCALES])])
        longer, shorter = (
            perturb(Perturbation(lengthscale_factor=factor)) if has_lengthscales else None
            for factor in (_LENGTHSCALE_FACTOR, 1.0 / _LENGTHSCALE_FACTOR)
        )
        resampled = perturb(Perturbation(resample=True))
        estimate = ErrorEstimate(
            solution, resampled, longer, shorter, interior_points, boundary_points, {}, message
        )
        for name in field_names(problem):
            estimate.fields[name] = estimate._field_error(name)
        return estimate

    @property
    def points(self) -> Float[np.ndarray, "n_plus_m d"]:
        """Interior points followed by boundary points."""
        return np.concatenate([self.interior_points, self.boundary_points])

    def of_quantity(
        self,
        quantity: Callable[[F], Any],
        reference_quantity: Callable[[F], Any] | None = None,
    ) -> np.ndarray:
        """Estimate the error of a quantity that is computed from a solution.

        **Arguments:**

        - `quantity`: a function of a solution, for example its flux through a boundary,
          `lambda s: s["u"].d("x")(points).mean()`.
        - `reference_quantity`: a quantity with many values, which determines the closer of the two
          solutions with modified lengthscales. A single value of either may agree by chance. All
          fields over the domain by default.

        **Returns:**

        Estimated absolute errors, in the shape of the quantity.
        """
        value = np.asarray(quantity(self.solution))
        error = np.abs(np.asarray(quantity(self.resampled)) - value) / np.sqrt(2)
        if reference_quantity is None:
            reference_quantity = self._relative_fields if self.fields else quantity
        closer, weight = self._closer_solution(reference_quantity)
        if closer is None:
            return np.asarray(error)
        return np.asarray(np.maximum(error, weight * np.abs(np.asarray(quantity(closer)) - value)))

    @property
    def is_shorter_closer(self) -> bool:
        """True if the solution with shorter lengthscales is closer than the one with longer ones.

        The lengthscales are then too long rather than too short for the points.
        """
        closer, _ = self._closer_solution(self._relative_fields)
        return closer is not None and closer is self.shorter

    def _closer_solution(self, quantity: Callable[[F], Any]) -> tuple[F | None, float]:
        """Return the closer solution with modified lengthscales, and the weight of its change."""
        if self.longer is None or self.shorter is None:
            return None, 0.0
        value = np.asarray(quantity(self.solution))
        resampling, longer, shorter = (
            float(np.linalg.norm(np.asarray(quantity(solution)) - value))
            for solution in (self.resampled, self.longer, self.shorter)
        )
        changes = np.nan_to_num([longer, shorter], nan=np.inf)
        closer, change = (self.longer, self.shorter)[np.argmin(changes)], float(changes.min())
        if not np.isfinite(change):
            return None, 0.0
        limit = _MAX_CHANGE_RATIO * resampling / np.sqrt(2)
        return closer, min(1.0, limit / change) if 0 < limit < change else 1.0

    def _relative_fields(self, solution: F) -> np.ndarray:
        """Return the values of all fields, relative to the root mean square of each."""
        return np.stack(
            [np.asarray(solution[name](self.points)) / rms for name, rms in self._rms.items()]
        )

    def _field_error(self, name: str) -> FieldError:
        """Return the estimated error of one field; each solution is evaluated once."""
        solutions = [self.solution, self.resampled, self.longer, self.shorter]
        values = {id(s): np.asarray(s[name](self.points)) for s in solutions if s is not None}
        count = len(self.interior_points)

        def value(solution: F) -> np.ndarray:
            return values[id(solution)]

        error = self.of_quantity(value, reference_quantity=value)
        error = error / _rms(value(self.solution)[:count])
        error = np.where(np.isfinite(error), error, np.inf)
        return FieldError(float(np.sqrt(np.mean(error[:count] ** 2))), float(error.max()))

    @cached_property
    def _rms(self) -> dict[str, float]:
        """Root mean square of each field."""
        return {name: _rms(self.solution[name](self.interior_points)) for name in self.fields}


def estimate_error(solution: S, *, seed: int = 0) -> ErrorEstimate[S]:
    """Estimate the error of a solution by three linear solves.

    **Arguments:**

    - `solution`: solution of a problem with regions to resample, or with enough user-supplied
      points to omit half of them.
    - `seed`: seed of the resampled points.
    """
    if is_traced(solution) or np.ndim(solution.result_code):
        raise InputError(
            "error_estimate: expected a single solution outside of transformations; this one is "
            "batched or traced. Estimate the error outside of jax.jit, jax.vmap and jax.grad."
        )
    problem = solution.problem

    def perturb(perturbation: Perturbation) -> S:
        return solve_linearized(solution, *perturbation.apply(problem, solution.point_sets, seed))

    limitations = []
    if not solution.converged:
        limitations.append("The solution has not converged: its error may be larger than this.")
    if not any(_can_resample(problem, *pair) for pair in enumerate(solution.point_sets)):
        limitations.append(
            "No points can be resampled: the error at other points is not estimated."
        )
    points = evaluation_points(problem, solution.point_sets, seed)
    return ErrorEstimate.from_perturbations(solution, problem, perturb, *points, limitations)


def _rms(values: Any) -> float:
    """Return the root mean square, bounded away from zero."""
    return max(float(np.sqrt(np.mean(np.abs(np.asarray(values)) ** 2))), TINY)


def _can_resample(problem: Problem, index: int, points: PointSet) -> bool:
    """Return whether a condition has a region, or enough user-supplied noise-free points."""
    if not problem.has_given_points(problem.conditions[index].name):
        return True
    has_noise = np.any(np.asarray(points.noise) > 0)
    return not has_noise and points.rows_per_equation >= _MIN_POINTS_TO_SPLIT


def resample_points(
    problem: Problem, point_sets: tuple[PointSet, ...], seed: int
) -> tuple[PointSet, ...]:
    """Draw equally many new points; keep half of the user-supplied noise-free points."""
    rng = np.random.default_rng([seed, 23])
    resampled = []
    for index, points in enumerate(point_sets):
        count, name = points.rows_per_equation, problem.conditions[index].name
        if not problem.has_given_points(name):
            points = problem.collocate_condition(
                name, count, seed=seed + _SEED_OFFSET, sampling="halton"
            )
        elif _can_resample(problem, index, points):
            half = rng.choice(count, size=count // 2, replace=False)
            points = points.select_rows(np.sort(half))
        resampled.append(points)
    return problem.with_current_noise(tuple(resampled))


def evaluation_points(
    problem: Problem, point_sets: tuple[PointSet, ...], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return evenly spread points of the domain, and points on boundaries with corners.

    If no condition is on an interior, the collocation points replace the former.
    """
    rng = np.random.default_rng([seed, 29])
    dimension = len(problem.space.coordinates)
    interiors, boundary = [], [np.zeros((0, dimension))]
    for condition in problem.conditions:
        for patch in as_patches(condition.region):
            if patch.is_interior:
                interiors.append(patch)
            corners = patch.corners()
            boundary.append(corners if patch.mask is None else corners[patch.mask(corners)])
            if 0 < patch.parameter_dim < dimension and patch.fraction() > 0:
                boundary.append(patch.sample(_NUM_BOUNDARY_POINTS // 8, rng, "halton").points)
    if not interiors:
        return np.concatenate([np.asarray(points.points) for points in point_sets]), boundary[0]
    count = _NUM_INTERIOR_POINTS // len(interiors)
    # Without their size field patches are sampled evenly.
    interior = [
        replace(patch, size_field=None).sample(count, rng, "halton").points for patch in interiors
    ]
    return np.concatenate(interior), np.concatenate(boundary)[:_NUM_BOUNDARY_POINTS]


def solve_linearized(solution: S, problem: Problem, point_sets: tuple[PointSet, ...]) -> S:
    """Solve a problem, linearized at a solution, with other points or kernels."""
    nugget = float(np.clip(float(solution.nugget), DEFAULT_NUGGET, MAX_NUGGET))
    discretization = discretize_at(problem, point_sets, Automatic(nugget))
    inputs = discretization.prepared_inputs()
    jet_values = tuple(
        solution.evaluate_jets(condition.nonlinear_terms, condition.point_set.points)
        for condition in inputs.conditions
    )
    weights = discretization.without_padding(linearized_weights(inputs, jet_values))
    return replace(
        solution,
        problem=discretization.problem,
        point_sets=point_sets,
        expansion=discretization.to_expansion(weights),
    )
