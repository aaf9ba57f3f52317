"""The log density of unknown numbers and hyperparameters given data, as a function for samplers.

With numbers and hyperparameters x given, fields are solved for, and the rows of the problem are
linearized at the solution û(x): a Gaussian density of all right-hand sides b, with covariance
P = K + Σ + ηD. Of it, the density of data given the equations,

    log p(y | equations, x) = -½ (y - μ)ᵀ S⁻¹ (y - μ) - ½ log det 2πS,

with μ and S the mean and covariance of the data's rows given all others: with data last, what the
last columns of one Cholesky factor say. Fields are integrated out by Laplace's approximation around
û(x), not around one solution for all x; in x nothing is approximated. Equations are no evidence of
their own: multiplying one by a function of x changes nothing.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import array
from kernelpde.checking import instance, real_number
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Kernels, gram_diagonal, gram_of_blocks
from kernelpde.gauss_newton import (
    Discretization,
    Solution,
    default_solver,
    discretize,
    settled,
    settled_with_entries,
)
from kernelpde.inference._conditioned import conditioned, of_parameter
from kernelpde.learning import Learned, Parameters, data_conditions
from kernelpde.linear_solvers import Dense, DenseState
from kernelpde.problem import (
    LinearizedProblem,
    Parameter,
    Problem,
    linearized,
    numbers_given,
)

_STEPS = 50
"""Steps of the inner iteration; where it has not ended then, the density is 0."""


class LogDensity(eqx.Module):
    """log p(x | data) up to a constant, for parameters and, optionally, hyperparameters x.

    A function of a vector that supports `jit`, `grad` and `vmap`, and so any sampler written in
    JAX. Parameters enter as offsets from their prior means, positive ones as offsets of the
    logarithm from that of the prior median. Hyperparameters enter as logarithms.

    **Attributes:**

    - `names`: of the entries of x.
    - `mode`, `covariance`: of x by Laplace's approximation, to start and to scale a sampler.
    """

    discretization: Discretization
    start: tuple[Array, ...]
    hyper: Parameters | None
    mode: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    std: float
    unknowns: tuple[Parameter, ...] = eqx.field(static=True)
    data: tuple[int, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    # A function to JAX: equal to itself alone.
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __call__(self, x: Float[Array, " p"]) -> Float[Array, ""]:
        """The log density; -∞ where there is no solution."""
        return self.prior(x) + self._likelihood(x)

    def prior(self, x: Float[Array, " p"]) -> Float[Array, ""]:
        """log p(x) up to a constant."""
        count = len(self.unknowns)
        sizes = array([parameter.std for parameter in self.unknowns])
        found = -0.5 * jnp.sum((x[:count] / sizes) ** 2)
        return found - 0.5 * jnp.sum(((x - self.mode)[count:] / self.std) ** 2)

    def likelihood(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """log p(data | numbers) up to a constant, for priors of your own.

        **Arguments:**

        - `values`: all unknown numbers by name, in their own units. Hyperparameters stay.
        """
        expected = [parameter.name for parameter in self.unknowns]
        if set(values) != set(expected):
            raise InputError(
                f"likelihood: expected a number for each of {expected}; got {list(values)}."
            )
        offsets = [
            jnp.log(jnp.asarray(values[p.name]) / p.mean) if p.positive else values[p.name] - p.mean
            for p in self.unknowns
        ]
        x = jnp.stack([*map(jnp.asarray, offsets), *self.mode[len(expected) :]])
        return self._likelihood(x)

    def values(self, x: Float[Array, "*_ p"]) -> dict[str, Float[Array, "*_"]]:
        """Numbers in their own units, hyperparameters as logarithms, by name."""
        found = dict(zip(self.names, jnp.moveaxis(x, -1, 0), strict=True))
        return found | {p.name: p.value(found[p.name]) for p in self.unknowns}

    def _likelihood(self, x: Float[Array, " p"]) -> Float[Array, ""]:
        numbers = {p.name: p.value(x[n]) for n, p in enumerate(self.unknowns)}
        problem = self.discretization.problem.with_inputs(numbers)
        parts = self.discretization.parts._replace(residuals=problem.residuals)
        blocks = parts.blocks
        if self.hyper is not None:
            theta = x[len(self.unknowns) :]
            noises = self.hyper.noises(theta)
            blocks = tuple(
                b if s is None else eqx.tree_at(lambda b: b.noise, b, jnp.full(b.count, jnp.exp(s)))
                for b, s in zip(blocks, noises, strict=True)
            )
            parts = parts._replace(kernels=self.hyper.kernels(theta), blocks=blocks)
        solver = default_solver(None)
        iteration, entries = settled_with_entries(
            parts, solver, self.start, solver.tolerance, _STEPS
        )
        rows = linearized(parts.residuals, blocks, entries)
        nugget = self.discretization.plan.solver.nugget
        found = data_density(parts.kernels, rows, nugget, self.data)
        good = settled(iteration.code) & jnp.isfinite(found)
        return jnp.where(good, found, -jnp.inf)


def data_density(
    kernels: Kernels, rows: LinearizedProblem, nugget: float, data: tuple[int, ...]
) -> Float[Array, ""]:
    """log p(data | all other rows), up to a constant."""
    ours = rows.numbers(data)
    order = np.concatenate([np.setdiff1d(np.arange(len(rows.rhs)), ours), ours])
    diagonal = gram_diagonal(kernels, rows.batches) + rows.variance
    matrix = gram_of_blocks(kernels, rows.batches)[order][:, order]
    lifted = jnp.where(np.eye(len(order), dtype=bool), (1.0 + nugget) * diagonal[order], matrix)
    factor = jnp.linalg.cholesky(lifted)
    missed = jax.scipy.linalg.solve_triangular(factor, rows.rhs[order], lower=True)
    last = len(order) - len(ours)
    return -0.5 * jnp.sum(missed[last:] ** 2) - jnp.sum(jnp.log(jnp.diagonal(factor)[last:]))


def log_density(found: Solution | Learned, *, hyperparameters: float | None = None) -> LogDensity:
    """The log density of the unknown numbers of a problem given its data, for samplers.

    **Arguments:**

    - `found`: where to start, a solution or the result of `learn`. With `StudentT` noise each datum
      keeps the weight that it has there.
    - `hyperparameters`: if given, learned hyperparameters are included, with Gaussian priors on
      their logarithms, centered at those of `found` with this standard deviation.

    **Example:**

    ```python
    >>> density = kp.log_density(found)
    >>> bool(density(jnp.array([1.5])) > density(jnp.array([2.5])))
    True
    ```
    """
    instance("log_density", "found", found, (Solution, Learned), "what solve or learn has returned")
    solution = found.solution if isinstance(found, Learned) else found
    problem = solution.problem
    if hyperparameters is not None:
        real_number("log_density", "hyperparameters", hyperparameters, above=0)
    if not solution.converged:
        raise SolveError(f"log_density: the solution did not converge. {solution.reason}", solution)
    names = data_conditions(problem)
    if not names or not (problem.parameters or hyperparameters):
        raise InputError(
            "log_density: expected a problem with noisy data and unknown numbers (Parameter), or "
            "hyperparameters=1.0 for those of the kernels; got "
            f"{'no data' if not names else 'no unknown number'}."
        )
    given = numbers_given(problem)
    best = conditioned(solution)
    blocks = solution.blocks
    plan = Dense(nugget=float(solution.nugget), refinement=0)
    discretization = discretize(given, blocks, linear_solver=plan)
    assert isinstance(discretization.plan, DenseState)
    hyper, theta, spread = None, np.zeros(0), np.zeros((0, 0))
    if hyperparameters is not None:
        hyper = Parameters.of(given.kernels, given.noises)
        theta = hyper.vector
        spread = np.eye(len(theta)) * hyperparameters**2
        if isinstance(found, Learned) and found.covariance is not None:
            spread = found.covariance
    places = [of_parameter(problem, parameter.name) for parameter in problem.parameters]
    mean = [float(best.mean(place)[0]) for place in places]
    count = len(mean)
    covariance = np.zeros((count + len(theta),) * 2)
    for i, left in enumerate(places):
        for j, right in enumerate(places):
            covariance[i, j] = float(best.covariance(left, right)[0, 0])
    covariance[count:, count:] = spread
    return LogDensity(
        discretization,
        _entries(solution, given, discretization),
        hyper,
        array(np.concatenate([mean, theta])),
        array(covariance),
        1.0 if hyperparameters is None else float(hyperparameters),
        problem.parameters,
        tuple(problem.condition_index(name) for name in names),
        (*(p.name for p in problem.parameters), *_names(hyper, given)),
    )


def _entries(solution: Solution, given: Problem, at: Discretization) -> tuple[Array, ...]:
    """The entries of a solution in which the conditions of the other problem are nonlinear."""
    numbers = [solution.problem.field_index(field.name) for field in given.fields]
    return tuple(
        solution.jets(
            tuple(t._replace(field=numbers[t.field]) for t in residual.nonlinear_terms),
            block.points,
        )
        for residual, block in zip(given.residuals, at.blocks, strict=True)
    )


def _names(hyper: Parameters | None, problem: Problem) -> list[str]:
    """Names for the entries of θ: field or condition, and what it is of it."""
    found: list[str] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(None if hyper is None else hyper.learned):
        attributes = [key.name for key in path if isinstance(key, jax.tree_util.GetAttrKey)]
        numbers = [key.idx for key in path if isinstance(key, jax.tree_util.SequenceKey)]
        if numbers[0]:
            own = f"noise of {problem.conditions[numbers[1]].name}"
        else:
            own = f"{attributes[-1].lstrip('_')} of {problem.fields[numbers[1]].name}"
        names = [own] if leaf.size == 1 else [f"{own} {k + 1}" for k in range(leaf.size)]
        found += [f"{name} ({found.count(name) + 1})" if name in found else name for name in names]
    return found
