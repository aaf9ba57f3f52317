"""The true bilevel objective and its exact gradient, through the fixed point of the inner problem.

Learning uses the gradient of J_k, in which the linearization point is held. At a fixed point of the
inner iteration s = G(s, θ), with s the nonlinear jet entries at the training points, the objective
J(θ) = L(s(θ), θ) has the gradient

    dJ/dθ = ∂L/∂θ + λᵀ ∂G/∂θ,    λ = ∂L/∂s + (∂G/∂s)ᵀ λ.

The second term, and with it the difference, is the curvature of the residuals times the
multipliers; for linear problems it is zero.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.compiling import compiled
from kernelpde.learning._evaluation import Parameters
from kernelpde.learning._inner import entries_of, inner_map, places_of
from kernelpde.learning._outer import held_out_residual
from kernelpde.linear_solvers import AbstractLinearSolution, AbstractLinearSolverState, Nearby
from kernelpde.problem import Collocation, LinearizedProblem, Residual, linearized

Entries = tuple[Float[Array, "_ _"], ...]


class Objective(eqx.Module):
    """J(θ) = ½ Σ (wᵢ Fᵢ(u_θ))² at validation points, u_θ the nonlinear solution at training points.

    **Arguments:**

    - `parameters`: how θ becomes kernels.
    - `residuals`: of the problem.
    - `blocks`, `validation`: training and validation points.
    - `row_weights`: w, one per validation row.
    - `plan`: of the solver of the inner systems; its nugget is part of the objective.
    - `near`: what it knows about the validation points.
    """

    parameters: Parameters
    residuals: tuple[Residual, ...]
    blocks: tuple[Collocation, ...]
    validation: tuple[Collocation, ...]
    row_weights: Float[Array, " N"]
    plan: AbstractLinearSolverState
    near: tuple[Nearby | None, ...]

    def _inner(
        self, entries: Entries, theta: Float[Array, " p"]
    ) -> tuple[AbstractLinearSolution, LinearizedProblem]:
        rows = linearized(self.residuals, self.blocks, entries)
        rows = rows.with_noises(self.parameters.noises(theta))
        return inner_map(self.parameters.kernels(theta), rows, self.plan), rows

    def _next(self, entries: Entries, theta: Float[Array, " p"]) -> Entries:
        """G(s, θ): one Gauss-Newton step of the inner problem."""
        inner, rows = self._inner(entries, theta)
        return inner.entries(self.parameters.kernels(theta), rows)

    def _loss(self, entries: Entries, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """L(s, θ): half the squares of the true residuals at validation points."""
        kernels, (inner, _) = self.parameters.kernels(theta), self._inner(entries, theta)
        seen = entries_of(kernels, inner, places_of(self.residuals, self.validation), self.near)
        rows = linearized(self.residuals, self.validation, seen)
        residual = held_out_residual(kernels, inner, rows, self.near)
        return 0.5 * jnp.sum((self.row_weights * residual) ** 2)

    def fixed_point(self, theta: Float[Array, " p"], start: Entries, steps: int = 30) -> Entries:
        """s(θ), by Gauss-Newton steps from `start`."""
        return jax.lax.fori_loop(0, steps, lambda _, s: self._next(s, theta), start)

    def value(self, theta: Float[Array, " p"], start: Entries, steps: int = 30) -> Float[Array, ""]:
        """J(θ)."""
        return self._loss(self.fixed_point(theta, start, steps), theta)

    def value_and_gradients(
        self, theta: Float[Array, " p"], start: Entries, steps: int = 30
    ) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, " p"]]:
        """J(θ), its exact gradient, and the gradient with the linearization point held.

        **Arguments:**

        - `theta`: θ.
        - `start`: entries to begin the inner iteration with.
        - `steps`: of the inner iteration, and of the iteration for λ.
        """
        entries = self.fixed_point(theta, start, steps)
        value, (by_entries, held) = jax.value_and_grad(self._loss, argnums=(0, 1))(entries, theta)
        _, pull = jax.vjp(self._next, entries, theta)

        def sweep(_, multipliers: Entries) -> Entries:
            carried, _ = pull(multipliers)
            return jax.tree.map(jnp.add, by_entries, carried)

        multipliers = jax.lax.fori_loop(0, steps, sweep, by_entries)
        return value, held + pull(multipliers)[1], held


@compiled
def exact_gradients(
    objective: Objective, theta: Float[Array, " p"], start: Entries, steps: int
) -> tuple[Float[Array, ""], Float[Array, " p"], Float[Array, " p"]]:
    """`Objective.value_and_gradients`, compiled."""
    return objective.value_and_gradients(theta, start, steps)
