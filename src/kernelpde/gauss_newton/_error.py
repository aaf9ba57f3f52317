"""How far a solution is from the true one, judged by others that could as well have been found.

Each of them takes one linear solve, at the state that was reached:

- at other points, as many: what one set of points misses, another sees. Two errors of the same size
  that know nothing of each other differ by √2 of it.
- with all lengthscales 1.4 times as long, and as short. Solutions with the same lengthscale share a
  bias where it does not suit, and the smaller one of these two changes leads to a solution that is
  better, or no worse. So it is about the error, or more.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np

from kernelpde.arrays import array
from kernelpde.compiling import traced
from kernelpde.errors import InputError
from kernelpde.gauss_newton._discretization import planned
from kernelpde.gauss_newton._pictures import field_names
from kernelpde.gauss_newton._step import take_step, zero_state
from kernelpde.geometry import patches_of
from kernelpde.kernels import stretched
from kernelpde.linear_solvers import Automatic
from kernelpde.problem import Collocation, Problem

if TYPE_CHECKING:
    from kernelpde.gauss_newton._solution import Solution

_FACTOR = 1.4
"""By which lengthscales are changed. Less hardly changes a solution that is wrong; more makes even
the better direction a bad one."""

_STEEP = 6.0
"""A change of lengthscale counts for at most this multiple of the difference between points. Where
the best lengthscale was learned and others are much worse, both changes are large and useless."""

_PLACES, _EDGES = 600, 380
"""Number of places over which errors are averaged, and number of places on boundaries at which
their maximum is also sought: at most 1000, for which programs are compiled quickly."""

_FEW = 10
"""With fewer points of its own a condition keeps them all: two ends of a line determine much."""

_SEED = 5_000_011
"""What is added to the seed of the points, for others."""

_TRIALS = 12
"""As many lengths as a step chooses from: then its program is there already."""


class FieldError(NamedTuple):
    """The estimated error of a field, relative to its root mean square.

    **Attributes:**

    - `rms`: its root mean square over the domain.
    - `max`: its maximum over the evaluation points.
    """

    rms: float
    max: float


@dataclass(frozen=True, eq=False)
class ErrorEstimate(Mapping[str, FieldError]):
    """Estimated errors of a solution: by the name of a field, `estimate["u"].rms`.

    **Attributes:**

    - `solution`: whose error is estimated.
    - `elsewhere`: the solution with other collocation points.
    - `longer`, `shorter`: solutions with other lengthscales; `None` if the kernels have none.
    - `places`: points all over the domain, at which errors are averaged.
    - `edges`: points on boundaries and in corners, where errors may be largest.
    - `reason`: what could not be estimated; empty if everything could.
    """

    solution: "Solution"
    elsewhere: "Solution"
    longer: "Solution | None"
    shorter: "Solution | None"
    places: np.ndarray
    edges: np.ndarray
    fields: dict[str, FieldError]
    reason: str = ""

    def __getitem__(self, name: str) -> FieldError:
        return self.fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def largest(self) -> float:
        """The largest relative error of a field, in root mean square."""
        return max((error.rms for error in self.fields.values()), default=np.inf)

    def of(
        self,
        quantity: Callable[["Solution"], Any],
        like: Callable[["Solution"], Any] | None = None,
    ) -> np.ndarray:
        """The estimated error of anything that is computed from a solution.

        **Arguments:**

        - `quantity`: a function of a solution, for example its mean or its flux through a boundary,
          `lambda s: s["u"].d("x")(points).mean()`.
        - `like`: a quantity with many values, by which is decided which of the two changes of
          lengthscales is the smaller one: at single places either may vanish by chance. All fields
          over the domain by default.

        **Returns:**

        Estimated absolute errors, of the same shape.
        """
        here = np.asarray(quantity(self.solution))
        apart = np.abs(np.asarray(quantity(self.elsewhere)) - here) / np.sqrt(2)
        everything = self._relative if self.fields else quantity
        nearer, part = self._nearer(everything if like is None else like)
        if nearer is None:
            return np.asarray(apart)
        return np.asarray(np.maximum(apart, part * np.abs(np.asarray(quantity(nearer)) - here)))

    def _nearer(self, like: Callable[["Solution"], Any]) -> tuple["Solution | None", float]:
        """The one with other lengthscales that differs less, and how much of its change counts."""
        if self.longer is None or self.shorter is None:
            return None, 0.0
        here = np.asarray(like(self.solution))
        apart, *sizes = (
            float(np.linalg.norm(np.asarray(like(other)) - here))
            for other in (self.elsewhere, self.longer, self.shorter)
        )
        changes = zip((self.longer, self.shorter), np.nan_to_num(sizes, nan=np.inf), strict=True)
        nearer, size = min(changes, key=lambda change: change[1])
        if not np.isfinite(size):
            return None, 0.0
        most = _STEEP * apart / np.sqrt(2)
        return nearer, min(1.0, most / float(size)) if 0 < most < size else 1.0

    def _relative(self, solution: "Solution") -> np.ndarray:
        """Values of all fields, relative to the root mean square of each."""
        both = np.concatenate([self.places, self.edges])
        return np.stack(
            [np.asarray(solution[name](both)) / size for name, size in self._sizes.items()]
        )

    @cached_property
    def _sizes(self) -> dict[str, float]:
        """The root mean square of each field, and no zero."""
        return {name: _size(self.solution[name](self.places)) for name in self.fields}

    def __repr__(self) -> str:
        lines = ["Estimated errors, relative to the root mean square of each field:"]
        lines += [f"  {n}: {e.rms:.1e} rms, {e.max:.1e} max" for n, e in self.fields.items()]
        return "\n".join([*lines, *([f"  {self.reason}"] if self.reason else [])])


def estimate_error(solution: "Solution", *, seed: int = 0) -> ErrorEstimate:
    """Estimate the error of a solution by three linear solves.

    **Arguments:**

    - `solution`: of a problem with points that can be drawn anew, or with enough points of its own
      to leave half of them out.
    - `seed`: of the other points.
    """
    if traced(solution) or np.ndim(solution.code):
        raise InputError(
            "error_estimate: this solution is one of many, or inside of a transformation of JAX. "
            "Estimate the error of a single one, outside."
        )
    problem = solution.problem
    blocks = _other_points(problem, solution.blocks, seed)
    elsewhere = _solved_from(solution, problem, blocks)
    reasons = []
    if not solution.converged:
        reasons.append("The solution has not converged: its error may be larger than this.")
    if all(a.points is b.points for a, b in zip(blocks, solution.blocks, strict=True)):
        reasons.append("There are no other points: what the points miss is not seen.")
    pair: list[Solution | None] = []
    for factor in (_FACTOR, 1.0 / _FACTOR):
        kernels = stretched(problem.kernels, factor)
        other = None if kernels is None else problem.with_kernels(kernels)
        pair.append(None if other is None else _solved_from(solution, other, solution.blocks))
    if pair[0] is None:
        reasons.append("The kernels have no lengthscales: whether they suit is not seen.")
    places, edges = _places(problem, solution.blocks, seed)
    found = ErrorEstimate(
        solution, elsewhere, pair[0], pair[1], places, edges, {}, " ".join(reasons)
    )
    both = np.concatenate([places, edges])
    others = [each for each in (solution, elsewhere, *pair) if each is not None]
    for name in field_names(problem):
        known = {id(each): np.asarray(each[name](both)) for each in others}

        def values(one: "Solution", known: dict[int, np.ndarray] = known) -> np.ndarray:
            return known[id(one)]

        apart = found.of(values, like=values) / _size(values(solution)[: len(places)])
        apart = np.where(np.isfinite(apart), apart, np.inf)
        rms = np.sqrt(np.mean(apart[: len(places)] ** 2))
        found.fields[name] = FieldError(float(rms), float(apart.max()))
    return found


def _size(values: Any) -> float:
    """The root mean square, and no zero."""
    return max(float(np.sqrt(np.mean(np.abs(np.asarray(values)) ** 2))), 1e-300)


def _other_points(
    problem: Problem, blocks: tuple[Collocation, ...], seed: int
) -> tuple[Collocation, ...]:
    """As many points as before, drawn anew; of points of a condition's own a half."""
    rng = np.random.default_rng([seed, 23])
    found = []
    for condition, block in zip(problem.conditions, blocks, strict=True):
        if not problem.has_own_points(condition.name):
            drawn = problem.collocated(
                condition.name, block.count, seed=seed + _SEED, sampling="halton"
            )
            found.append(drawn)
        elif np.any(np.asarray(block.noise) > 0) or block.count < _FEW:
            found.append(block)
        else:
            half = rng.choice(block.count, size=block.count // 2, replace=False)
            found.append(block.take(np.sort(half)))
    return problem.with_present_noise(tuple(found))


def _places(
    problem: Problem, blocks: tuple[Collocation, ...], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Places all over the domain, as far as it is known; and on boundaries, with corners."""
    rng = np.random.default_rng([seed, 29])
    dimension = len(problem.space.coordinates)
    inside, edges = [], [np.zeros((0, dimension))]
    for condition in problem.conditions:
        for patch in patches_of(condition.region):
            if patch.solid:
                inside.append(patch)
            ends = patch.corners()
            edges.append(ends if patch.keeps is None else ends[patch.keeps(ends)])
            if 0 < patch.parameters < dimension and patch.fraction() > 0:
                edges.append(patch.sample(_EDGES // 8, rng, "halton").points)
    if not inside:
        return np.concatenate([np.asarray(block.points) for block in blocks]), edges[0]
    each = _PLACES // len(inside)
    # Evenly, whatever the points of the problem are.
    found = [replace(patch, sizes=None).sample(each, rng, "halton").points for patch in inside]
    return np.concatenate(found), np.concatenate(edges)[:_EDGES]


def _solved_from(
    solution: "Solution", problem: Problem, blocks: tuple[Collocation, ...]
) -> "Solution":
    """The problem linearized at a solution, solved for other points or kernels."""
    nugget = float(np.clip(float(solution.nugget), 1e-12, 1e-6))
    discretization = planned(problem, blocks, Automatic(nugget))
    parts = discretization.ready()
    plan = parts.plan
    entries = tuple(
        solution.jets(residual.nonlinear_terms, block.points)
        for residual, block in zip(problem.residuals, parts.blocks, strict=True)
    )
    zero = zero_state(parts.residuals, parts.blocks, plan)
    state = eqx.tree_at(lambda s: s.jets, zero, entries)
    outcome = take_step(
        parts.residuals,
        parts.kernels,
        parts.blocks,
        state,
        plan,
        damping=array(np.zeros(())),
        lengths=array(np.ones(_TRIALS)),
        sweeps=array(np.asarray(plan.refinement)),
        merit_scale=array(np.zeros(state.linear.shape)),
    )
    weights = discretization.trimmed(outcome.state.weights)
    return replace(
        solution,
        problem=discretization.problem,
        blocks=blocks,
        expansion=plan.function(parts.residuals, blocks, weights),
    )
