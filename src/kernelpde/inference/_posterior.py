"""Posterior of the fields and parameters of a problem."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from kernelpde.checking import check_instance, check_integer, check_random_key, check_real
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Functionals, Term
from kernelpde.inference._conditioned import condition_on, parameter_functional
from kernelpde.inference._density import log_density
from kernelpde.inference._estimate import ParameterEstimate
from kernelpde.inference._hyperparameters import mixture_components
from kernelpde.inference._importance import ImportanceSample, importance_sample
from kernelpde.inference._mixture_of_gps import MixtureOfGPs
from kernelpde.inference._views import (
    ComplexPosteriorView,
    LawPosteriorView,
    PointsOrAverages,
    PosteriorView,
)
from kernelpde.learning import LearningResult
from kernelpde.plotting import NotebookDisplay
from kernelpde.problem import field_names
from kernelpde.solution import Solution, check_solution, nugget_misfit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MIN_LOO_CHI_SQUARED, _MAX_LOO_CHI_SQUARED = 0.1, 3.0
"""Range of leave-one-out chi-squared without a warning. Values outside do not occur by chance. The
lower bound is farther from 1 because overestimated noise only widens the intervals."""

_MAX_CHANCE = 6.0
"""Deviation of a mean chi-squared value that occurs by chance, in standard deviations."""

_MAX_FAILED_WEIGHT = 0.25
"""Largest weight of hyperparameters without a solution that gives no warning."""

_MAX_NUGGET_MISFIT = 4.0
"""Largest nugget misfit without a warning. Rates of an ODE system were biased by 0.1 standard
deviations at 4, 0.4 at 16 and 2.5 at 110. On `darcy` of `benchmarks/calibration.py` (seeds from
1000), 95% intervals covered the truth in 60 to 70% of cases from 4."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(MixtureOfGPs, NotebookDisplay):
    """Posterior of fields and parameters.

    It is a Gaussian process conditioned at a solution, or a mixture of such processes with one
    component for each value of the hyperparameters.

    **Attributes:**

    - `components`, `weights`: conditioned Gaussian processes, and their weights in the mixture.
    - `failed_weight`: total weight of the hyperparameters whose solve failed.
    - `importance`: weighted draws of the parameters, if the approximation was checked.

    **Example:**

    ```python
    >>> posterior = kp.posterior(inverse_result)
    >>> float(posterior["u"].std([[0.5]])[0]) < 0.01
    True
    ```
    """

    failed_weight: float = 0.0
    importance: ImportanceSample | None = None

    def __getitem__(self, name: str) -> Any:
        """Return the posterior of a field, a complex field or a law."""
        problem = self.solution.problem
        if name in [parameter.name for parameter in problem.parameters]:
            raise InputError(f"{name!r} is a parameter: use parameters[{name!r}].")
        order = problem.frame.multi_index()
        for complex_name, real, imag in problem.complex_fields:
            if complex_name == name:
                return ComplexPosteriorView(
                    PosteriorView(self, Term(real, (order,))),
                    PosteriorView(self, Term(imag, (order,))),
                )
        for law in problem.laws:
            if law.name == name:
                return LawPosteriorView(self, law)
        return PosteriorView(self, Term(problem.field_index(name), (order,)))

    @property
    def parameters(self) -> dict[str, ParameterEstimate]:
        """Posterior of each unknown parameter, by name."""
        estimates = {}
        for parameter in self.solution.problem.parameters:
            functional = parameter_functional(self.solution.problem, parameter.name)
            means, stds = self._moments(functional)
            estimates[parameter.name] = ParameterEstimate(
                parameter,
                tuple(means[:, 0].tolist()),
                tuple(stds[:, 0].tolist()),
                tuple(self.weights.tolist()),
            )
        return estimates

    @property
    def chi_squared(self) -> dict[str, float]:
        """Mean of (residual / noise)² for each condition with noise.

        About 1 if noise and model agree.
        """
        return self.components[0].chi_squared

    @property
    def loo_chi_squared(self) -> dict[str, float]:
        """Leave-one-out chi-squared of each condition with data and noise.

        The mean of (yᵢ - μᵢ)² / σᵢ², with μᵢ and σᵢ² the mean and variance of datum i given all
        others, noise included. About 1 if noise and kernels are appropriate.
        """
        return self.components[0].loo_chi_squared

    @cached_property
    def nugget_misfit(self) -> float:
        """Misfit Σ F² / (ηD) of the noise-free conditions that the nugget permits.

        If the nugget is interpreted as noise of variance ηD, it reduces the log density by half
        this value. It is near 0 for appropriate kernels.
        """
        return nugget_misfit(self.solution)

    @property
    def warnings(self) -> str:
        """Reasons why the standard deviations may be unreliable; empty if there are none."""
        if self.amplitude != 1.0:
            return ""
        messages = []
        if unusual := self._unusual_chi_squared():
            values = ", ".join(f"{value:.2g} for {name!r}" for name, value in unusual.items())
            messages.append(
                f"Leave-one-out chi-squared should be about 1; got {values}. Check the noise level "
                "or use LearnedNoise, and give the kernels a trainable variance."
            )
        if self.nugget_misfit > _MAX_NUGGET_MISFIT:
            messages.append(
                "The residual of noise-free conditions biases the estimates: nugget_misfit should "
                f"be below {_MAX_NUGGET_MISFIT:.0f}; got {self.nugget_misfit:.3g}. The kernel of a "
                "field is too smooth: use a shorter lengthscale, a larger variance or Matern, or "
                "learn the kernels."
            )
        if self.failed_weight > _MAX_FAILED_WEIGHT:
            messages.append(
                "The solve failed for hyperparameters with "
                f"{self.failed_weight:.0%} of the posterior weight."
            )
        if self.importance is not None and self.importance.warning:
            messages.append(self.importance.warning)
        return "Standard deviations may be unreliable. " + " ".join(messages) if messages else ""

    def _unusual_chi_squared(self) -> dict[str, float]:
        """Return the leave-one-out chi-squared values that do not occur by chance."""
        counts = self.solution.problem.row_counts(self.solution.point_sets)
        return {
            name: value
            for name, value in self.loo_chi_squared.items()
            if value < _MIN_LOO_CHI_SQUARED
            or not value
            <= max(_MAX_LOO_CHI_SQUARED, 1.0 + _MAX_CHANCE * np.sqrt(2.0 / counts[name]))
        }

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        points: bool = True,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Plot the fields with their standard deviations; on a line with 95% bands.

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

    def sample(
        self, points: Mapping[str, PointsOrAverages | None], key: PRNGKeyArray, count: int
    ) -> dict[str, Array]:
        """Return joint draws of fields at points and of parameters.

        **Arguments:**

        - `points`: points of each field by name; `None` for a parameter.
        - `key`: JAX random key.
        - `count`: number of draws, stacked on the first axis of each array.
        """
        check_instance("sample", "points", points, Mapping, 'a dictionary such as {"u": points}')
        check_random_key("sample", key)
        check_integer("sample", "count", count, at_least=1)
        parameters = {p.name: p for p in self.solution.problem.parameters}
        views = {name: self[name] for name in points if name not in parameters}
        batches: dict[str, list[Functionals]] = {}
        for name, locations in points.items():
            if name in parameters:
                batches[name] = [parameter_functional(self.solution.problem, name)]
            elif isinstance(view := views[name], ComplexPosteriorView):
                batches[name] = [v.functionals(locations) for v in (view.real, view.imag)]
            else:
                batches[name] = [view.functionals(locations)]
        functionals = [batch for pair in batches.values() for batch in pair]
        stops = np.cumsum([len(batch) for batch in functionals])
        draws = iter(jnp.split(self.sample_functionals(functionals, key, count), stops[:-1], 1))
        samples: dict[str, Array] = {}
        for name, locations in points.items():
            values = next(draws)
            if name in parameters:
                samples[name] = parameters[name].value(values[:, 0])
                continue
            view = views[name]
            if isinstance(view, ComplexPosteriorView):
                values, view = values + 1j * next(draws), view.real
            samples[name] = view.offset + values.reshape(count, *view.shape(locations))
        return samples

    def __repr__(self) -> str:
        rows, count = self.components[0].size, len(self.components)
        mixture = f", mixture of {count} hyperparameter values" if count > 1 else ""
        lines = [f"Posterior: {rows} rows{mixture}, amplitude {self.amplitude:.3g}"]
        lines += [f"  {name} = {estimate!r}" for name, estimate in self.parameters.items()]
        return "\n".join([*lines, self.warnings] if self.warnings else lines)


def posterior(
    result: Solution | LearningResult,
    *,
    amplitude: float | None = None,
    check_key: PRNGKeyArray | None = None,
) -> Posterior:
    """Compute the posterior of fields and parameters from a solution or the result of `learn`.

    From a solution it uses one factorization, with fixed hyperparameters. From the result of
    `learn` with data it includes the uncertainty of the hyperparameters. Their density N(θ, H⁻¹),
    with H the curvature of the outer loss at the end of learning, is integrated by a few values,
    each with a separate solve.

    **Arguments:**

    - `result`: solution or result of `learn` at which the conditions are linearized. It must have
      converged.
    - `amplitude`: factor on all prior standard deviations. With noisy conditions the noise fixes
      the scale of the kernels, and the default is 1. Without noise the solution does not depend on
      it, and the default is its most likely value, √(bᵀ P⁻¹ b / M).
    - `check_key`: JAX random key. If given, a hundred draws of the parameters are weighted by their
      density without the Gaussian approximation, see `log_density`. `warnings` then reports a small
      effective sample size.

    **Example:**

    ```python
    >>> posterior = kp.posterior(inverse_result)
    >>> posterior.parameters["load"].std < 0.1
    True
    ```
    """
    is_learned = isinstance(result, LearningResult)
    solution, learned = (result.solution, result) if is_learned else (result, None)
    check_solution("posterior", solution)
    if amplitude is not None:
        check_real("posterior", "amplitude", amplitude, greater_than=0)
    if not solution.converged:
        raise SolveError(
            "posterior: the solution did not converge, so a linearization at it is meaningless. "
            f"{solution.message}",
            solution,
        )
    components = (condition_on(solution, amplitude=amplitude),)
    weights, failed_weight = np.ones(1), 0.0
    if learned is not None and learned.covariance is not None:
        components, weights, failed_weight = mixture_components(learned, components[0])
    importance = None
    if check_key is not None:
        check_random_key("posterior", check_key)
        importance = importance_sample(log_density(solution), check_key)
    mixture = Posterior(components, weights, failed_weight, importance)
    if mixture.warnings:
        warnings.warn(f"posterior: {mixture.warnings}", stacklevel=2)
    return mixture
