"""The posterior of everything a problem is asked to find."""

import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.checking import instance, random_key, real_number, whole_number
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Functionals, Term
from kernelpde.gauss_newton import Solution, check_solution, field_names, nugget_misfit
from kernelpde.inference._conditioned import Conditioned, conditioned, of_parameter
from kernelpde.inference._density import log_density
from kernelpde.inference._estimate import Estimate
from kernelpde.inference._hyperparameters import members_of
from kernelpde.inference._importance import Importance, importance
from kernelpde.inference._mixed import mixed_quantile, pooled
from kernelpde.inference._views import (
    ComplexPosteriorView,
    LawPosteriorView,
    PosteriorView,
    Where,
)
from kernelpde.learning import Learned
from kernelpde.notebooks import InNotebooks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NEAR, _FAR = 0.1, 3.0
"""A mean square below the first or above the second does not come about by chance. Noise that is
given too large makes error bars too wide, which is forgiven longer."""

_LOST = 0.25
"""If more than this part of what is believed of hyperparameters has no solution, error bars are
doubted."""


_GIVEN_WAY = 4.0
"""If the log density loses more than half of this where conditions give way, error bars are
doubted. Rates of an ODE system shifted by 0.1 of their error bars at 4, 0.4 at 16 and 2.5 at 110;
on `darcy` of `benchmarks/calibration.py` (seeds from 1000) 95% intervals held 60 to 70% from 4."""


@earlier_names(deviation="std", exact_deviation="exact_std")
class Posterior(InNotebooks):
    """The posterior of fields and parameters: a Gaussian process conditioned at a solution, or a
    mixture of several, one for each value of the hyperparameters.

    **Attributes:**

    - `members`: conditioned Gaussian processes, the first at the best hyperparameters.
    - `weights`: of the members in the mixture.
    - `lost`: the total weight of hyperparameters that were left out because there was no solution
      with them.
    - `importance`: weighted draws of the parameters, if the approximation was checked.

    **Example:**

    ```python
    >>> known = kp.posterior(found)
    >>> float(known["u"].std([[0.5]])[0]) < 0.01
    True
    ```
    """

    def __init__(
        self,
        members: tuple[Conditioned, ...],
        weights: Float[np.ndarray, " m"] | None = None,
        lost: float = 0.0,
        importance: Importance | None = None,
    ):
        self.members = members
        self.weights = np.ones(1) if weights is None else weights
        self.lost, self.importance = lost, importance

    def __getitem__(self, field: str) -> Any:
        """What is known of a field: a `PosteriorView`, of a complex one or a law its own kind."""
        if field in [p.name for p in self.solution.problem.parameters]:
            raise InputError(f"{field!r} is a number: use parameters[{field!r}].")
        order = self.solution.problem.frame.order()
        for name, *parts in self.solution.problem.complex_fields:
            if name == field:
                views = (PosteriorView(self, Term(part, (order,))) for part in parts)
                return ComplexPosteriorView(*views)
        for law in self.solution.problem.laws:
            if law.name == field:
                return LawPosteriorView(self, law)
        return PosteriorView(self, Term(self.solution.problem.field_index(field), (order,)))

    @property
    def solution(self) -> Solution:
        """That with the best hyperparameters."""
        return self.members[0].solution

    @property
    def amplitude(self) -> float:
        """What all prior standard deviations are multiplied by."""
        return self.members[0].amplitude

    @property
    def parameters(self) -> dict[str, Estimate]:
        """What is known of each unknown number."""
        found = {}
        for parameter in self.solution.problem.parameters:
            functional = of_parameter(self.solution.problem, parameter.name)
            means, stds = (each[:, 0] for each in self._moments(functional))
            found[parameter.name] = Estimate(
                parameter,
                tuple(means.tolist()),
                tuple(stds.tolist()),
                tuple(self.weights.tolist()),
            )
        return found

    @property
    def chi_squared(self) -> dict[str, float]:
        """For each condition with noise, the mean square of its residual over noise.

        About 1 if noise and model agree.
        """
        return self.members[0].chi_squared

    @property
    def surprise(self) -> dict[str, float]:
        """For each condition with data and noise, the mean squared standardized prediction error.

        The mean of (yᵢ - μᵢ)² / σᵢ², with each datum left out in turn and predicted with mean μᵢ
        and variance σᵢ², its noise included: about 1 if noise and kernels are right.
        """
        return self.members[0].surprise

    @cached_property
    def nugget_misfit(self) -> float:
        """Misfit of the conditions without noise, due to the nugget: Σ F² / (ηD) over their rows.

        If the nugget were noise, it would lower the log density by half of this; it is near 0 if
        the kernels suit their fields.
        """
        return nugget_misfit(self.solution)

    @property
    def doubts(self) -> str:
        """Reasons not to trust the error bars; empty if there are none."""
        if self.amplitude != 1.0:
            return ""
        found = []
        counts = {
            c.name: block.count
            for c, block in zip(self.solution.problem.conditions, self.solution.blocks, strict=True)
        }
        far = {
            name: value
            for name, value in self.surprise.items()
            if not _NEAR <= value <= max(_FAR, 1.0 + 6.0 * np.sqrt(2.0 / counts[name]))
        }
        if far:
            shown = ", ".join(f"{name!r} {value:.2g}" for name, value in far.items())
            found.append(
                "Data are not where noise and kernels expect them. The mean square of what each "
                "datum misses, over its variance given all others, should be 1; got "
                f"{shown}. Check the noise, or learn it with LearnedNoise, and let learn find the "
                "variance of the kernels."
            )
        if self.nugget_misfit > _GIVEN_WAY:
            found.append(
                "Conditions without noise are not quite met, which pulls at what is to be found: "
                f"nugget_misfit should be below {_GIVEN_WAY:.0f}; got {self.nugget_misfit:.3g}. "
                "The kernel of a field is too smooth for it: shorten its lengthscale, take a "
                "larger variance or Matern, or let learn find them."
            )
        if self.lost > _LOST:
            found.append(
                f"With other hyperparameters, {self.lost:.0%} of what is believed of them, there "
                "was no solution."
            )
        if self.importance is not None and self.importance.doubts:
            found.append(self.importance.doubts)
        return "Error bars are not to be trusted. " + " ".join(found) if found else ""

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
            std={name: self[name].std for name in names},
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

    def _moments(
        self, functionals: Functionals
    ) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n"]]:
        """Mean and standard deviation of each functional by each member."""
        means = np.stack([np.asarray(member.mean(functionals)) for member in self.members])
        each = np.stack([np.asarray(member.std(functionals)) for member in self.members])
        return means, each

    def mean(self, functionals: Functionals) -> Float[Array, " n"]:
        """Posterior mean of each functional."""
        return sum(
            (w * m.mean(functionals) for w, m in zip(self.weights, self.members, strict=True)),
            start=jnp.zeros(len(functionals)),
        )

    def covariance(
        self, left: Functionals, right: Functionals | None = None
    ) -> Float[Array, "m n"]:
        """Posterior covariance between functionals: within members, and between their means."""
        right = left if right is None else right
        within = jnp.stack([m.covariance(left, right) for m in self.members])
        rows, columns = (jnp.stack([m.mean(side) for m in self.members]) for side in (left, right))
        rows, columns = (each - self.weights @ each for each in (rows, columns))
        between = jnp.einsum("k,ki,kj->ij", self.weights, rows, columns)
        return jnp.tensordot(self.weights, within, 1) + between

    def std(self, functionals: Functionals) -> Float[Array, " n"]:
        """Posterior standard deviation of each functional.

        For many functionals at once, most are approximated through a few of them, with an error of
        less than 1% of each standard deviation; the others are computed one by one.
        """
        return jnp.asarray(pooled(*self._moments(functionals), self.weights)[1])

    def exact_std(self, functionals: Functionals) -> Float[Array, " n"]:
        """The same, with a triangular solve for each."""
        means = np.stack([np.asarray(member.mean(functionals)) for member in self.members])
        each = np.stack([np.asarray(m.exact_std(functionals)) for m in self.members])
        return jnp.asarray(pooled(means, each, self.weights)[1])

    def contraction(self, functionals: Functionals) -> Float[Array, " n"]:
        """The fraction of the prior variance of each functional that conditions and data remove:
        0 if they are uninformative, 1 if they determine it."""
        priors = np.stack([np.asarray(m.prior_std(functionals)) for m in self.members])
        prior = np.tensordot(self.weights, priors**2, 1)
        return jnp.clip(1.0 - self.std(functionals) ** 2 / prior, 0.0, 1.0)

    def quantile(self, functionals: Functionals, level: float) -> Float[Array, " n"]:
        """The quantile of each functional at a given probability."""
        return jnp.asarray(mixed_quantile(*self._moments(functionals), self.weights, level))

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
            of_parameter(problem, name)
            if name in parameters
            else self._real(name).functionals(places)
            for name, places in where.items()
        ]
        drawn, found, start = self.draws(batches, key, count), {}, 0
        for (name, places), batch in zip(where.items(), batches, strict=True):
            part = drawn[:, start : start + len(batch)]
            start += len(batch)
            if name in parameters:
                found[name] = parameters[name].value(part[:, 0])
            else:
                view = self._real(name)
                found[name] = view.offset + part.reshape(count, *view.shape(places))
        return found

    def draws(
        self, batches: list[Functionals], key: PRNGKeyArray, count: int
    ) -> Float[Array, " s n"]:
        """Joint draws of functionals: each from a member, that being drawn first."""
        which, noise = jax.random.split(key)
        chosen = np.asarray(
            jax.random.choice(which, len(self.members), (count,), p=jnp.asarray(self.weights))
        )
        normal = jax.random.normal(noise, (count, sum(len(batch) for batch in batches)))
        drawn = np.zeros(normal.shape)
        for number in np.unique(chosen):
            member, own = self.members[number], chosen == number
            mean = jnp.concatenate([member.mean(batch) for batch in batches])
            rows = [
                jnp.concatenate([member.covariance(a, b) for b in batches], axis=1) for a in batches
            ]
            values, vectors = jnp.linalg.eigh(jnp.concatenate(rows))
            root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))
            drawn[own] = np.asarray(mean + normal[own] @ root.T)
        return jnp.asarray(drawn)

    def __repr__(self) -> str:
        rows, several = self.members[0].size, len(self.members)
        about = f", {several} values of the hyperparameters" if several > 1 else ""
        lines = [f"Posterior given {rows} conditions, amplitude {self.amplitude:.3g}{about}"]
        lines += [f"  {name} = {estimate!r}" for name, estimate in self.parameters.items()]
        return "\n".join([*lines, self.doubts] if self.doubts else lines)


def posterior(
    found: Solution | Learned,
    *,
    amplitude: float | None = None,
    check: PRNGKeyArray | None = None,
) -> Posterior:
    """The posterior of fields and parameters, from a solution or from the result of `learn`.

    From a solution: one factorization, with fixed hyperparameters. From the result of `learn` with
    data it includes the uncertainty of the hyperparameters: their density N(θ, H⁻¹), with H the
    curvature of the outer loss where learning ended, is integrated by a few values of them, each
    with a separate solve.

    **Arguments:**

    - `found`: where to linearize. It must have converged.
    - `amplitude`: a factor on all prior standard deviations. With noisy conditions the noise fixes
      the scale of the kernels, and the default is 1. Without noise the solution does not depend on
      it, and the default is its most likely value, √(bᵀ P⁻¹ b / M).
    - `check`: a random key. If given, a hundred draws of the parameters are weighted by their
      density without the Gaussian approximation, see `log_density`; `doubts` reports if the
      effective sample size is small.

    **Example:**

    ```python
    >>> known = kp.posterior(found)
    >>> known.parameters["load"].std < 0.1
    True
    ```
    """
    solution = found.solution if isinstance(found, Learned) else found
    check_solution("posterior", solution)
    if amplitude is not None:
        real_number("posterior", "amplitude", amplitude, above=0)
    if not solution.converged:
        raise SolveError(
            f"posterior: the solution did not converge, and an expansion around it means nothing. "
            f"{solution.reason}",
            solution,
        )
    best = conditioned(solution, amplitude=amplitude)
    if isinstance(found, Learned) and found.covariance is not None:
        result = Posterior(*members_of(found, best))
    else:
        result = Posterior((best,))
    if check is not None:
        random_key("posterior", check)
        result.importance = importance(log_density(solution), check)
    if result.doubts:
        warnings.warn(f"posterior: {result.doubts}", stacklevel=2)
    return result
