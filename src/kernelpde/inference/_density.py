"""Log density of parameters and hyperparameters given data, for samplers.

For parameters and hyperparameters x, the problem is solved and its rows are linearized at the
solution û(x). All right-hand sides b then have a Gaussian density with covariance P = K + Σ + ηD.
The likelihood is the density of the data given the equations,

    log p(y | equations, x) = -½ (y - μ)ᵀ S⁻¹ (y - μ) - ½ log det 2πS,

with μ and S the mean and covariance of the data rows given all other rows. With the data rows last,
both follow from the last columns of one Cholesky factor. Fields are integrated out by Laplace's
approximation around û(x) for each x. Nothing is approximated in x. Equations are not evidence:
multiplying one by a function of x does not change the likelihood.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import to_array
from kernelpde.checking import check_instance, check_real
from kernelpde.errors import InputError, SolveError
from kernelpde.functionals import Prior, block_gram, gram_diagonal
from kernelpde.inference._conditioned import condition_on, parameter_functional
from kernelpde.learning import LearningResult, ThetaMap, data_conditions
from kernelpde.linear_solvers import Dense, DenseState
from kernelpde.nonlinear import (
    MAX_STEPS,
    Discretization,
    SolveInputs,
    default_solver,
    discretize,
    solve_implicitly,
)
from kernelpde.problem import (
    LinearSystem,
    Parameter,
    PointSet,
    Problem,
    parameters_as_inputs,
)
from kernelpde.results import is_converged
from kernelpde.solution import Solution


class LogDensity(eqx.Module):
    """log p(x | data) up to a constant, for parameters and, optionally, hyperparameters x.

    A function of a vector that supports `jit`, `grad` and `vmap`, and so any sampler written in
    JAX. Parameters enter as offsets from their prior means, positive ones as logarithms of the
    ratio to the prior median. Hyperparameters enter as logarithms.

    **Attributes:**

    - `names`: names of the components of x.
    - `mode`, `covariance`: Laplace approximation of x, to initialize and scale a sampler.
    """

    discretization: Discretization
    start: tuple[Array, ...]
    theta_map: ThetaMap | None
    mode: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    std: float
    unknowns: tuple[Parameter, ...] = eqx.field(static=True)
    data_condition_indices: tuple[int, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    # Static to JAX, so it is compared by identity.
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __call__(self, x: Float[Array, " p"]) -> Float[Array, ""]:
        """Return the log density; -∞ where the solve does not converge."""
        return self.prior(x) + self._likelihood(x)

    def prior(self, x: Float[Array, " p"]) -> Float[Array, ""]:
        """Return log p(x) up to a constant."""
        count = len(self.unknowns)
        stds = to_array([parameter.std for parameter in self.unknowns])
        parameters = -0.5 * jnp.sum((x[:count] / stds) ** 2)
        return parameters - 0.5 * jnp.sum(((x - self.mode)[count:] / self.std) ** 2)

    def likelihood(self, values: Mapping[str, Any]) -> Float[Array, ""]:
        """Return log p(data | parameters) up to a constant, for user-defined priors.

        **Arguments:**

        - `values`: value of each parameter by name, in its unit. Hyperparameters stay at the mode.
        """
        expected = [parameter.name for parameter in self.unknowns]
        if set(values) != set(expected):
            raise InputError(
                f"likelihood: expected a value for each of {expected}; got {list(values)}."
            )
        offsets = [
            jnp.log(jnp.asarray(values[p.name]) / p.mean) if p.positive else values[p.name] - p.mean
            for p in self.unknowns
        ]
        x = jnp.stack([*map(jnp.asarray, offsets), *self.mode[len(expected) :]])
        return self._likelihood(x)

    def values(self, x: Float[Array, "*_ p"]) -> dict[str, Float[Array, "*_"]]:
        """Return parameters in their units and hyperparameters as logarithms, by name."""
        by_name = dict(zip(self.names, jnp.moveaxis(x, -1, 0), strict=True))
        return by_name | {p.name: p.value(by_name[p.name]) for p in self.unknowns}

    def _likelihood(self, x: Float[Array, " p"]) -> Float[Array, ""]:
        parameters = {p.name: p.value(x[k]) for k, p in enumerate(self.unknowns)}
        problem = self.discretization.problem.with_inputs(parameters)
        prior, point_sets = problem.prior, self.discretization.point_sets
        if self.theta_map is not None:
            theta = x[len(self.unknowns) :]
            prior = self.theta_map.prior(theta)
            point_sets = tuple(map(_with_log_noise, point_sets, self.theta_map.noises(theta)))
        discrete = replace(problem.at_points(point_sets), prior=prior)
        inputs = SolveInputs(discrete, self.discretization.solver_state)
        solver = default_solver(None)
        state, jet_values, _ = solve_implicitly(inputs, solver, self.start, MAX_STEPS)
        system = discrete.linearize(jet_values)
        nugget = self.discretization.solver_state.solver.nugget
        value = log_data_density(prior, system, nugget, self.data_condition_indices)
        is_valid = is_converged(state.code) & jnp.isfinite(value)
        return jnp.where(is_valid, value, -jnp.inf)


def _with_log_noise(point_set: PointSet, log_noise: Array | None) -> PointSet:
    if log_noise is None:
        return point_set
    noise = jnp.full(point_set.rows_per_equation, jnp.exp(log_noise))
    return eqx.tree_at(lambda p: p.noise, point_set, noise)


def log_data_density(
    prior: Prior, system: LinearSystem, nugget: float, data: tuple[int, ...]
) -> Float[Array, ""]:
    """Return log p(data | all other rows) up to a constant."""
    data_rows = system.row_indices(data)
    order = np.concatenate([np.setdiff1d(np.arange(len(system.rhs)), data_rows), data_rows])
    diagonal = gram_diagonal(prior, system.batches) + system.variance
    matrix = block_gram(prior, system.batches)[order][:, order]
    matrix = jnp.where(np.eye(len(order), dtype=bool), (1.0 + nugget) * diagonal[order], matrix)
    factor = jnp.linalg.cholesky(matrix)

    whitened = jax.scipy.linalg.solve_triangular(factor, system.rhs[order], lower=True)
    start = len(order) - len(data_rows)
    return -0.5 * jnp.sum(whitened[start:] ** 2) - jnp.sum(jnp.log(jnp.diagonal(factor)[start:]))


def log_density(
    result: Solution | LearningResult, *, hyperparameters: float | None = None
) -> LogDensity:
    """Return the log density of the parameters of a problem given its data, for samplers.

    **Arguments:**

    - `result`: solution or result of `learn` at which the Laplace approximation is computed. With
      `StudentT` noise each datum keeps its weight in this solution.
    - `hyperparameters`: standard deviation of Gaussian priors on the logarithms of the
      hyperparameters, centered at their values in `result`. If given, the trainable hyperparameters
      are included.

    **Example:**

    ```python
    >>> density = kp.log_density(inverse_result)
    >>> bool(density(jnp.array([1.5])) > density(jnp.array([2.5])))
    True
    ```
    """
    check_instance(
        "log_density", "result", result, (Solution, LearningResult), "the result of solve or learn"
    )
    is_learned = isinstance(result, LearningResult)
    solution, learned = (result.solution, result) if is_learned else (result, None)
    problem = solution.problem
    if hyperparameters is not None:
        check_real("log_density", "hyperparameters", hyperparameters, greater_than=0)
    if not solution.converged:
        raise SolveError(
            f"log_density: the solution did not converge. {solution.message}", solution
        )
    data_names = data_conditions(problem)
    if not data_names or not (problem.parameters or hyperparameters):
        raise InputError(
            "log_density: expected a problem with noisy data and unknown parameters (Parameter), "
            "or hyperparameters=1.0 to include the kernel hyperparameters; got "
            f"{'no data' if not data_names else 'no unknown parameter'}."
        )
    forward = parameters_as_inputs(problem)
    discretization = discretize(
        forward,
        solution.point_sets,
        linear_solver=Dense(nugget=float(solution.nugget), refinement_sweeps=0),
    )
    assert isinstance(discretization.solver_state, DenseState)
    mean, covariance = _laplace_parameters(solution)
    theta_map, theta, names = None, np.zeros(0), [p.name for p in problem.parameters]
    import scipy.linalg

    if hyperparameters is not None:
        theta_map = ThetaMap.of(forward.prior, forward.noises)
        theta = theta_map.vector
        theta_covariance = np.eye(len(theta)) * hyperparameters**2
        if learned is not None and learned.covariance is not None:
            theta_covariance = learned.covariance
        covariance = scipy.linalg.block_diag(covariance, theta_covariance)
        names += _hyperparameter_names(theta_map, forward)
    return LogDensity(
        discretization,
        _jet_values(solution, discretization),
        theta_map,
        to_array(np.concatenate([mean, theta])),
        to_array(covariance),
        1.0 if hyperparameters is None else float(hyperparameters),
        problem.parameters,
        tuple(problem.condition_index(name) for name in data_names),
        tuple(names),
    )


def _laplace_parameters(
    solution: Solution,
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "p p"]]:
    """Return mean and covariance of the parameter offsets in the Laplace approximation."""
    gp, problem = condition_on(solution), solution.problem
    functionals = [parameter_functional(problem, p.name) for p in problem.parameters]
    mean = np.array([float(gp.mean(functional)[0]) for functional in functionals])
    covariance = [[float(gp.covariance(a, b)[0, 0]) for b in functionals] for a in functionals]
    return mean, np.reshape(covariance, (len(mean), len(mean)))


def _jet_values(solution: Solution, discretization: Discretization) -> tuple[Array, ...]:
    """Return the jet values of a solution for the nonlinear terms of the forward problem."""
    fields = discretization.problem.fields
    indices = [solution.problem.field_index(field.name) for field in fields]
    return tuple(
        solution.evaluate_jets(
            tuple(term._replace(field=indices[term.field]) for term in condition.nonlinear_terms),
            condition.point_set.points,
        )
        for condition in discretization.solve_inputs.conditions
    )


def _hyperparameter_names(theta_map: ThetaMap, problem: Problem) -> list[str]:
    """Return names for the components of θ, composed of attribute and field or condition."""
    names: list[str] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(theta_map.trainable):
        attributes = [key.name for key in path if isinstance(key, jax.tree_util.GetAttrKey)]
        indices = [key.idx for key in path if isinstance(key, jax.tree_util.SequenceKey)]
        if indices[0]:
            label = f"noise of {problem.conditions[indices[1]].name}"
        else:
            label = f"{attributes[-1].lstrip('_')} of {problem.fields[indices[1]].name}"
        labels = [label] if leaf.size == 1 else [f"{label} {k + 1}" for k in range(leaf.size)]
        names += [f"{name} ({names.count(name) + 1})" if name in names else name for name in labels]
    return names
