"""The outer problem: how well a state generalizes, as a vector whose squares are to be small."""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from kernelpde.checking import real_number
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError
from kernelpde.functionals import Kernels
from kernelpde.linear_solvers import AbstractLinearSolution, DenseSolution, Nearby
from kernelpde.problem import LinearizedProblem

Folds: TypeAlias = Sequence[Array | np.ndarray]
"""The row numbers of each fold; none to leave out one row at a time."""

Judge: TypeAlias = Callable[[DenseSolution, Folds, Float[Array, " M"]], Float[Array, " q"]]
"""From the solution with all rows, folds of these and their weights to roots."""


def held_out_residual(
    kernels: Kernels,
    inner: AbstractLinearSolution,
    validation: LinearizedProblem,
    near: tuple[Nearby | None, ...],
    keep: bool = False,
) -> Float[Array, " N"]:
    """r(θ) = κ_θ(Ψ, Φ) z(θ) - b at validation points."""
    return inner.predicted(kernels, validation.stacks, near, keep) - validation.rhs


def leave_one_out_residual(inner: DenseSolution) -> Float[Array, " M"]:
    """What each row misses when it is predicted from all others, from one factorization.

    With P = K + Σ + ηD and z = P⁻¹ b, it is rᵢ = -zᵢ / (P⁻¹)ᵢᵢ: prediction minus target.
    """
    return -inner.weights / inner.system.inverse_diagonal()


def fold_residual(inner: DenseSolution, folds: Folds) -> Float[Array, " M"]:
    """What the rows of each fold miss when they are predicted from all other folds.

    By the block inverse identity r_F = -((P⁻¹)_FF)⁻¹ z_F: one factorization serves all folds.

    **Arguments:**

    - `inner`: the solution with all rows.
    - `folds`: the row numbers of each fold.
    """
    found = jnp.zeros_like(inner.weights)
    for fold, block in _inverse_blocks(inner, folds):
        found = found.at[fold].set(-jnp.linalg.solve(block, inner.weights[fold]))
    return found


def standardized_leave_one_out(
    inner: DenseSolution,
) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """rᵢ / σᵢ and log σᵢ, with σᵢ² = 1 / (P⁻¹)ᵢᵢ the variance of row i given all others."""
    precision = inner.system.inverse_diagonal()
    return -inner.weights / jnp.sqrt(precision), -0.5 * jnp.log(precision)


def standardized_folds(
    inner: DenseSolution, folds: Folds
) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """As `standardized_leave_one_out`, fold by fold: L⁻¹ z_F and -log Lᵢᵢ, (P⁻¹)_FF = L Lᵀ."""
    found, scales = jnp.zeros_like(inner.weights), jnp.zeros_like(inner.weights)
    for fold, block in _inverse_blocks(inner, folds):
        misses, stds = in_turn(inner.weights[fold], block)
        found, scales = found.at[fold].set(-misses), scales.at[fold].set(stds)
    return found, scales


def in_turn(
    weights: Float[Array, " d"], block: Float[Array, "d d"]
) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
    """What rows miss over σ, and log σ, each predicted from the rest and those that follow it.

    L⁻¹ z and -log Lᵢᵢ with L Lᵀ the block of P⁻¹ that belongs to the rows, and z their weights.
    """
    factor = jnp.linalg.cholesky(block)
    return solve_triangular(factor, weights, lower=True), -jnp.log(jnp.diagonal(factor))


def profiled(
    standardized: Float[Array, " M"], scales: Float[Array, " M"], weights: Float[Array, " M"]
) -> Float[Array, " M"]:
    """ρ with ½ ‖ρ‖² = ½ Σ vᵢ tᵢ² exp(2 Σ vᵢ log σᵢ) for standardized misses t, vᵢ = wᵢ / Σ wᵢ.

    Its logarithm is, up to a factor and a constant, minus the predictive log density of the rows
    left out, with the common amplitude of the kernels at its best value (Rasmussen and Williams,
    section 5.4.2; Sundararajan and Keerthi 2001). A plain sum of squares is ruled by the few rows
    that lie farthest from all others, whose misses are large for every kernel; here each counts by
    what could be known of it.
    """
    share = weights / jnp.sum(weights)
    return jnp.sqrt(share) * standardized * jnp.exp(jnp.sum(share * scales))


def squares(inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]) -> Float[Array, " M"]:
    """What rows miss, left out fold by fold or one at a time, as it is."""
    residual = fold_residual(inner, folds) if folds else leave_one_out_residual(inner)
    return weights * residual


def density(inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]) -> Float[Array, " M"]:
    """The predictive density of rows left out, with the best common amplitude: see `profiled`."""
    misses = standardized_folds(inner, folds) if folds else standardized_leave_one_out(inner)
    return profiled(*misses, weights**2)


def evidence(
    inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]
) -> Float[Array, " M+1"]:
    """ρ with ½ ‖ρ‖² = ½ (bᵀ P⁻¹ b / M) |P|^(1 / M) =: J, whose logarithm falls with the evidence.

    It is the density of all rows at once, b ~ N(0, s² P), at the best s² = bᵀ P⁻¹ b / M. Only the
    first entry is not zero; the others bring what is missing of the curvature of log J to JᵀJ: the
    average of observed and expected information (Gilmour, Thompson and Cullis 1995), here

        (∂P z)ᵀ P⁻¹ (∂P z) / (M bᵀz) - (zᵀ ∂P z / (M bᵀz))²,    z = P⁻¹ b,

    which needs products with ∂P alone, where the expected one needs P⁻¹ ∂P.
    """
    del folds, weights
    system, count = inner.system, len(inner.weights)
    energy = _energy(inner)
    value = energy / count * jnp.exp(system.logdet() / count)
    held = jax.lax.stop_gradient(inner.weights)
    moved = system.matrix @ held + system.added * held
    still = jax.lax.stop_gradient(moved)
    halves = jax.lax.stop_gradient(system).solve_half(jnp.stack([moved - still, still], axis=1))
    moving, along = halves.T
    rest = moving - along * (along @ moving) / (along @ along)
    scale = jnp.sqrt(jax.lax.stop_gradient(value / (2.0 * energy)))
    return jnp.concatenate([jnp.sqrt(value)[None], scale * rest])


def kernel_flow(
    inner: DenseSolution, folds: Folds, weights: Float[Array, " M"]
) -> Float[Array, " M"]:
    """ρ with ‖ρ‖² = 1 - ‖u_c‖² / ‖u‖² for the solution u_c without the rows of the one fold.

    Kernel flows (Owhadi and Yoo 2019). With F the rows left out,
    bᵀ P⁻¹ b - b_cᵀ P_cc⁻¹ b_c = z_Fᵀ ((P⁻¹)_FF)⁻¹ z_F.
    """
    del weights
    return standardized_folds(inner, folds)[0] / jnp.sqrt(_energy(inner))


def _energy(inner: DenseSolution) -> Float[Array, ""]:
    """bᵀ P⁻¹ b."""
    return inner.norm_squared + inner.system.added @ inner.weights**2


def _inverse_blocks(
    inner: DenseSolution, folds: Folds
) -> Iterator[tuple[Array | np.ndarray, Float[Array, "_ _"]]]:
    """(P⁻¹)_FF for each fold F."""
    for fold in folds:
        columns = (
            jnp.zeros((len(inner.weights), len(fold))).at[fold, jnp.arange(len(fold))].set(1.0)
        )
        yield fold, inner.system.solve_columns(columns)[fold]


class AbstractRegularizer(eqx.Module):
    """A penalty R(θ) = ½ Σ ρ(θ)² on the hyperparameters, given by its roots ρ."""

    @abc.abstractmethod
    def roots(self, theta: Float[Array, " p"]) -> Float[Array, " q"]:
        """ρ(θ), whose squares are added to the squares of the outer residual."""


class L2(AbstractRegularizer):
    """R(θ) = ½ w Σ θᵢ²; for a positive hyperparameter θ is its logarithm.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(regularizer=kp.L2(1e-3))
    ```
    """

    weight: float

    def __check_init__(self):
        real_number("L2", "weight", self.weight, at_least=0)

    def roots(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return jnp.sqrt(self.weight) * theta


class L1(AbstractRegularizer):
    """R(θ) = w Σ |θᵢ|, smoothed to √(θᵢ² + ε²) - ε.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(regularizer=kp.L1(1e-3))
    ```
    """

    weight: float
    smoothing: float = 1e-3

    def __check_init__(self):
        real_number("L1", "weight", self.weight, at_least=0)
        real_number("L1", "smoothing", self.smoothing, above=0)

    def roots(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        epsilon = self.smoothing
        # (√(θ² + ε²) - ε) as a square: θ² / (√(θ² + ε²) + ε), whose root is smooth at 0.
        return theta * jnp.sqrt(2.0 * self.weight / (jnp.sqrt(theta**2 + epsilon**2) + epsilon))


@earlier_names(spread="sigma")
class LogNormal(AbstractRegularizer):
    """The prior log θᵢ ~ N(log m, s²) on positive hyperparameters: R = ½ Σ ((log θᵢ - log m) / s)².

    **Arguments:**

    - `median`: m.
    - `sigma`: s, in units of the logarithm.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(regularizer=kp.LogNormal(median=0.3, sigma=1.0))
    ```
    """

    median: float
    sigma: float

    def __check_init__(self):
        real_number("LogNormal", "median", self.median, above=0)
        real_number("LogNormal", "sigma", self.sigma, above=0)

    def roots(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return (theta - jnp.log(self.median)) / self.sigma


class Around(AbstractRegularizer):
    """Independent priors θᵢ ~ N(mᵢ, sᵢ²), one for each entry of θ: R = ½ Σ ((θᵢ - mᵢ) / sᵢ)².

    **Arguments:**

    - `center`: m.
    - `sigma`: s; infinite where nothing is known.
    """

    center: Float[Array, " p"]
    sigma: Float[Array, " p"]

    def roots(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        return (theta - self.center) / self.sigma


def condition_weights(
    names: tuple[str, ...], given: Mapping[str, float] | None
) -> tuple[float, ...]:
    """The weight of each condition in the outer loss: 1 unless given; 0 leaves it out."""
    given = {} if given is None else dict(given)
    unknown = set(given) - set(names)
    if unknown:
        raise InputError(
            f"weights names {', '.join(map(repr, sorted(unknown)))}, but the conditions are "
            f"{', '.join(map(repr, names))}."
        )
    weights = tuple(float(given.get(name, 1.0)) for name in names)
    if any(w < 0 or not np.isfinite(w) for w in weights) or not any(weights):
        raise InputError(f"weights must not be negative, and not all zero; got {weights}.")
    return weights
