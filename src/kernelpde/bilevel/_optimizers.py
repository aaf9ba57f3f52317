"""Optimizers of the outer loss.

The outer loss is ½ ‖ρ(θ)‖² for a vector ρ of weighted validation residuals and regularizers. An
optimizer evaluates it through a function, with one factorization per call, and returns the last
accepted evaluation.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax

from kernelpde.arrays import TINY
from kernelpde.checking import check_bool, check_integer, check_real, format_value
from kernelpde.errors import InputError


@dataclass(frozen=True)
class Evaluation:
    """The outer loss at one θ.

    **Attributes:**

    - `theta`: hyperparameters.
    - `loss`: ½ ‖ρ‖².
    - `gradient`: gradient of the loss.
    - `curvature`: JᵀJ with J = ∂ρ/∂θ, for optimizers that require the matrix.
    - `inner_solution`: solution of the inner problem at θ.
    - `direction`: map from a damping and a maximum number of iterations to the damped Gauss-Newton
      step, for optimizers that require products with J. The gradient is then empty.
    - `derivatives`: function that returns the evaluation with gradient and JᵀJ, if these are
      deferred because they cost much more than the loss.
    """

    theta: np.ndarray
    loss: float
    gradient: np.ndarray
    curvature: np.ndarray | None
    inner_solution: Any
    direction: Callable[[float, int], np.ndarray] | None = None
    derivatives: Callable[[], "Evaluation"] | None = None

    @property
    def with_derivatives(self) -> "Evaluation":
        return self if self.derivatives is None else self.derivatives()

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.loss) and np.isfinite(self.gradient).all())


Evaluate = Callable[[np.ndarray], Evaluation]


Curvature: TypeAlias = Literal["none", "matrix", "products"]
"""Second-order information that an optimizer requires: none, the matrix JᵀJ, or products with J."""


class AbstractOptimizer(eqx.Module):
    """An optimizer of the outer loss."""

    curvature: ClassVar[Curvature]

    @abc.abstractmethod
    def minimize(
        self, evaluate: Evaluate, start: np.ndarray, optimizer_state: Any, max_step: float
    ) -> tuple[Evaluation, Any]:
        """Take several steps from `start`.

        **Arguments:**

        - `evaluate`: outer loss of the current linearization.
        - `start`: initial θ.
        - `optimizer_state`: state returned by the last call; `None` in the first call.
        - `max_step`: maximum change of an entry of θ in one step.

        **Returns:**

        The last accepted evaluation and the new optimizer state.
        """

    @abc.abstractmethod
    def state_template(self, theta: np.ndarray) -> Any:
        """Return a state with the structure of `optimizer_state`, for reading it from a file."""


class _AbstractDampedGaussNewton(AbstractOptimizer):
    """Gauss-Newton steps on ρ(θ) with adaptive damping."""

    max_steps: eqx.AbstractVar[int]
    initial_damping: eqx.AbstractVar[float]
    min_damping: ClassVar[float]

    @abc.abstractmethod
    def propose_step(self, best: Evaluation, damping: float) -> np.ndarray | None:
        """Return the damped step, or `None` to stop."""

    def minimize(self, evaluate, start, optimizer_state, max_step):
        damping = self.initial_damping if optimizer_state is None else optimizer_state
        best = evaluate(start)
        for _ in range(self.max_steps):
            best = best.with_derivatives if best.finite else best
            move = self.propose_step(best, damping) if best.finite else None
            if move is None:
                break
            trial = evaluate(best.theta + np.clip(move, -max_step, max_step))
            if trial.finite and trial.loss < best.loss:
                best, damping = trial, max(damping / 10, self.min_damping)
            else:
                damping = min(10 * damping, 1e6)
        return best, damping

    def state_template(self, theta):
        return 0.0


class LevenbergMarquardt(_AbstractDampedGaussNewton):
    """Damped Gauss-Newton steps on ρ(θ), forward-mode Jacobian: for up to a few hundred parameters.

    **Arguments:**

    - `max_steps`: maximum number of steps per linearization, including rejected ones.
    - `initial_damping`: initial damping, relative to the diagonal of JᵀJ.
    """

    max_steps: int = 3
    initial_damping: float = 1e-2
    min_damping: ClassVar[float] = 1e-6
    curvature: ClassVar[Curvature] = "matrix"

    def __check_init__(self):
        check_integer("LevenbergMarquardt", "max_steps", self.max_steps, at_least=1)
        check_real("LevenbergMarquardt", "initial_damping", self.initial_damping, greater_than=0)

    def propose_step(self, best, damping):
        if best.curvature is None:
            return None
        diagonal = np.diag(best.curvature)
        # The lower bound damps directions of nearly constant loss, such as a common amplitude.
        scale = np.maximum(diagonal, 1e-3 * np.max(diagonal) + TINY)
        move = -np.linalg.solve(best.curvature + damping * np.diag(scale), best.gradient)
        return None if np.max(np.abs(move)) < 1e-5 else move


class GaussNewtonCG(_AbstractDampedGaussNewton):
    """Damped Gauss-Newton steps on ρ(θ) by conjugate gradients: for thousands of parameters.

    The Jacobian is never formed. A step costs one factorization and about ten products with the
    Jacobian and its transpose.

    **Arguments:**

    - `max_steps`: maximum number of steps per linearization, including rejected ones.
    - `max_cg_iterations`: maximum number of conjugate-gradient iterations per step.
    - `initial_damping`: initial damping, relative to the curvature along the gradient.
    """

    max_steps: int = 3
    max_cg_iterations: int = 12
    initial_damping: float = 1e-2
    min_damping: ClassVar[float] = 1e-8
    curvature: ClassVar[Curvature] = "products"

    def __check_init__(self):
        check_integer("GaussNewtonCG", "max_steps", self.max_steps, at_least=1)
        check_integer("GaussNewtonCG", "max_cg_iterations", self.max_cg_iterations, at_least=1)
        check_real("GaussNewtonCG", "initial_damping", self.initial_damping, greater_than=0)

    def propose_step(self, best, damping):
        return None if best.direction is None else best.direction(damping, self.max_cg_iterations)


class Optax(AbstractOptimizer):
    """An optax optimizer, with one update per evaluation.

    **Arguments:**

    - `transformation`: optax transformation, for example `optax.adam(1e-2)`.
    - `max_steps`: number of steps per linearization.
    - `reset_state`: reset the optimizer state at each linearization, as in the paper.

    **Example:**

    ```python
    >>> import optax
    >>> method = kp.learning.Bilevel(optimizer=kp.Optax(optax.adam(1e-2), max_steps=20))
    ```
    """

    transformation: optax.GradientTransformation
    max_steps: int = 50
    reset_state: bool = True
    curvature: ClassVar[Curvature] = "none"

    def __check_init__(self):
        if not (hasattr(self.transformation, "init") and hasattr(self.transformation, "update")):
            raise InputError(
                "Optax: expected an optax transformation such as optax.adam(1e-2); got "
                f"{format_value(self.transformation)}."
            )
        check_integer("Optax", "max_steps", self.max_steps, at_least=1)
        check_bool("Optax", "reset_state", self.reset_state)

    def minimize(self, evaluate, start, optimizer_state, max_step):
        theta = jnp.asarray(start)
        state = (
            self.transformation.init(theta)
            if optimizer_state is None or self.reset_state
            else optimizer_state
        )
        last_finite: Evaluation | None = None
        for _ in range(self.max_steps):
            evaluation = evaluate(np.asarray(theta))
            if not evaluation.finite:
                break
            last_finite = evaluation
            updates, state = self.transformation.update(
                jnp.asarray(evaluation.gradient), state, theta
            )
            theta = theta + jnp.clip(jnp.asarray(updates), -max_step, max_step)
        last = evaluate(np.asarray(theta))
        if last_finite is not None and not last.finite:
            last = last_finite
        return last, state

    def state_template(self, theta):
        return self.transformation.init(jnp.asarray(theta))


def paper_adam() -> Optax:
    """Return the optimizer of the paper: Adam, rate 1e-2, 50 steps per linearization.

    The optimizer state is reset at each linearization.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(optimizer=kp.paper_adam())
    ```
    """
    return Optax(optax.adam(1e-2), max_steps=50)


class LBFGS(AbstractOptimizer):
    """L-BFGS-B of scipy, in a box around the start of each linearization: for many parameters.

    **Arguments:**

    - `max_steps`: maximum number of evaluations per linearization after the first. A line search in
      progress is completed.
    - `memory_size`: number of past steps that approximate the curvature.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(optimizer=kp.LBFGS(max_steps=20))
    ```
    """

    max_steps: int = 10
    memory_size: int = 10
    curvature: ClassVar[Curvature] = "none"

    def __check_init__(self):
        check_integer("LBFGS", "max_steps", self.max_steps, at_least=1)
        check_integer("LBFGS", "memory_size", self.memory_size, at_least=1)

    def minimize(self, evaluate, start, optimizer_state, max_step):
        del optimizer_state  # It approximates the curvature of the previous linearization.
        from scipy.optimize import minimize  # Imported here because it is slow and rarely used.

        first = best = evaluate(start)
        if not first.finite or not first.gradient.any():
            return first, None
        # The gradient alone does not determine a step length: the first step is set to 0.1.
        scale = 0.1 / np.max(np.abs(first.gradient))

        def scaled_loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best
            trial = first if np.array_equal(theta, start) else evaluate(theta)
            if not trial.finite:
                # Above every accepted loss, but small enough for the line search.
                return 2 * scale * first.loss, np.zeros_like(start)
            if trial.loss < best.loss:
                best = trial
            return scale * trial.loss, scale * trial.gradient

        minimize(
            scaled_loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(start - max_step, start + max_step, strict=True)),
            options={"maxcor": self.memory_size, "maxfun": self.max_steps},
        )
        return best, None

    def state_template(self, theta):
        return None
