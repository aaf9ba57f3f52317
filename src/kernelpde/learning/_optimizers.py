"""How the outer loss is lowered: small objects that propose the next hyperparameters.

The outer loss is ½ ‖ρ(θ)‖² for a vector ρ of weighted validation residuals and regularizers. An
optimizer sees evaluations of it, each with one factorization, through a function, and returns the
hyperparameters it ends with.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from kernelpde.checking import real_number, shown, truth, whole_number
from kernelpde.errors import InputError


@dataclass(frozen=True)
class Evaluation:
    """The outer loss at one θ.

    **Attributes:**

    - `theta`: where.
    - `loss`: ½ ‖ρ‖².
    - `gradient`: of the loss.
    - `normal`: JᵀJ with J = ∂ρ/∂θ, if the evaluation was made for it.
    - `extra`: the state that belongs to θ.
    - `direction`: for a damping, the damped Gauss-Newton step, if the evaluation was made for it;
      there is no gradient then.
    - `derivatives`: the same evaluation with gradient and JᵀJ, where these cost so much more than
      the loss that they wait until they are asked for.
    """

    theta: np.ndarray
    loss: float
    gradient: np.ndarray
    normal: np.ndarray | None
    extra: Any
    direction: Callable[[float, int], np.ndarray] | None = None
    derivatives: Callable[[], "Evaluation"] | None = None

    @property
    def differentiated(self) -> "Evaluation":
        return self if self.derivatives is None else self.derivatives()

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.loss) and np.isfinite(self.gradient).all())


Evaluate = Callable[[np.ndarray], Evaluation]


Curvature: TypeAlias = Literal["none", "matrix", "products"]
"""What an optimizer asks of JᵀJ: nothing, the matrix, or a step made of products with J."""


class AbstractOptimizer(eqx.Module):
    """An optimizer of the outer loss."""

    curvature: ClassVar[Curvature]

    @abc.abstractmethod
    def minimize(
        self, evaluate: Evaluate, start: np.ndarray, memory: Any, largest_move: float
    ) -> tuple[Evaluation, Any]:
        """A few steps down from `start`.

        **Arguments:**

        - `evaluate`: the loss of the present linearization.
        - `start`: θ.
        - `memory`: what the last call returned for the next; `None` in the first.
        - `largest_move`: no entry of θ moves farther than this in one step.

        **Returns:**

        The last evaluation that was kept, and what to remember.
        """

    @abc.abstractmethod
    def memory_like(self, theta: np.ndarray) -> Any:
        """Something of the make of what `minimize` remembers, for reading it from a file."""


class LevenbergMarquardt(AbstractOptimizer):
    """Damped Gauss-Newton steps on ρ(θ), forward-mode Jacobian: for up to a few hundred parameters.

    **Arguments:**

    - `steps`: how many per linearization, rejected ones included.
    - `first`: initial damping, relative to the diagonal of JᵀJ.
    """

    steps: int = 3
    first: float = 1e-2
    curvature: ClassVar[Curvature] = "matrix"

    def __check_init__(self):
        whole_number("LevenbergMarquardt", "steps", self.steps, at_least=1)
        real_number("LevenbergMarquardt", "first", self.first, above=0)

    def minimize(self, evaluate, start, memory, largest_move):
        def propose(best: Evaluation, damping: float) -> np.ndarray | None:
            if best.normal is None:
                return None
            # Directions in which the loss is nearly flat, such as a common amplitude, are held.
            scale = np.maximum(np.diag(best.normal), 1e-3 * np.max(np.diag(best.normal)) + 1e-300)
            move = -np.linalg.solve(best.normal + damping * np.diag(scale), best.gradient)
            return None if np.max(np.abs(move)) < 1e-5 else move

        damping = self.first if memory is None else memory
        return _damped(evaluate, start, damping, propose, self.steps, largest_move, 1e-6)

    def memory_like(self, theta):
        return 0.0


def _damped(
    evaluate: Evaluate,
    start: np.ndarray,
    damping: float,
    propose: Callable[[Evaluation, float], np.ndarray | None],
    steps: int,
    largest_move: float,
    least: float,
) -> tuple[Evaluation, float]:
    """Take what is proposed where it lowers the loss; damp more where not, at least by `least`."""
    best = evaluate(start)
    for _ in range(steps):
        best = best.differentiated if best.finite else best
        move = propose(best, damping) if best.finite else None
        if move is None:
            break
        trial = evaluate(best.theta + np.clip(move, -largest_move, largest_move))
        if trial.finite and trial.loss < best.loss:
            best, damping = trial, max(damping / 10, least)
        else:
            damping = min(10 * damping, 1e6)
    return best, damping


class GaussNewtonCG(AbstractOptimizer):
    """Damped Gauss-Newton steps on ρ(θ) by conjugate gradients: for thousands of parameters.

    The Jacobian is never formed. A step costs one factorization and some ten products with it and
    with its transpose.

    **Arguments:**

    - `steps`: how many per linearization, rejected ones included.
    - `iterations`: of conjugate gradients in a step.
    - `first`: initial damping, relative to the curvature along the gradient.
    """

    steps: int = 3
    iterations: int = 12
    first: float = 1e-2
    curvature: ClassVar[Curvature] = "products"

    def __check_init__(self):
        whole_number("GaussNewtonCG", "steps", self.steps, at_least=1)
        whole_number("GaussNewtonCG", "iterations", self.iterations, at_least=1)
        real_number("GaussNewtonCG", "first", self.first, above=0)

    def minimize(self, evaluate, start, memory, largest_move):
        def propose(best: Evaluation, damping: float) -> np.ndarray | None:
            return None if best.direction is None else best.direction(damping, self.iterations)

        damping = self.first if memory is None else memory
        return _damped(evaluate, start, damping, propose, self.steps, largest_move, 1e-8)

    def memory_like(self, theta):
        return 0.0


class Optax(AbstractOptimizer):
    """Any optax transformation, one update per evaluation.

    **Arguments:**

    - `transformation`: for example `optax.adam(1e-2)`.
    - `steps`: how many per linearization.
    - `restart`: begin with a new optimizer state at each linearization, as published.

    **Example:**

    ```python
    >>> import optax
    >>> method = kp.learning.Bilevel(optimizer=kp.Optax(optax.adam(1e-2), steps=20))
    ```
    """

    transformation: optax.GradientTransformation
    steps: int = 50
    restart: bool = True
    curvature: ClassVar[Curvature] = "none"

    def __check_init__(self):
        if not (hasattr(self.transformation, "init") and hasattr(self.transformation, "update")):
            raise InputError(
                "Optax: expected an optax transformation such as optax.adam(1e-2); got "
                f"{shown(self.transformation)}."
            )
        whole_number("Optax", "steps", self.steps, at_least=1)
        truth("Optax", "restart", self.restart)

    def minimize(self, evaluate, start, memory, largest_move):
        theta = jnp.asarray(start)
        state = self.transformation.init(theta) if memory is None or self.restart else memory
        kept: Evaluation | None = None
        for _ in range(self.steps):
            evaluation = evaluate(np.asarray(theta))
            if not evaluation.finite:
                break
            kept = evaluation
            updates, state = self.transformation.update(
                jnp.asarray(evaluation.gradient), state, theta
            )
            theta = theta + jnp.clip(jnp.asarray(updates), -largest_move, largest_move)
        last = evaluate(np.asarray(theta))
        if kept is not None and not last.finite:
            last = kept
        return last, state

    def memory_like(self, theta):
        return self.transformation.init(jnp.asarray(theta))


def paper_adam() -> Optax:
    """The published setting: Adam, rate 1e-2, 50 steps per linearization, started anew in each.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(optimizer=kp.paper_adam())
    ```
    """
    return Optax(optax.adam(1e-2), steps=50)


class LBFGS(AbstractOptimizer):
    """Limited-memory BFGS with a backtracking line search: for many parameters.

    **Arguments:**

    - `steps`: evaluations per linearization.
    - `pairs`: how many past steps shape the next.

    **Example:**

    ```python
    >>> method = kp.learning.Bilevel(optimizer=kp.LBFGS(steps=20))
    ```
    """

    steps: int = 10
    pairs: int = 10
    curvature: ClassVar[Curvature] = "none"

    def __check_init__(self):
        whole_number("LBFGS", "steps", self.steps, at_least=1)
        whole_number("LBFGS", "pairs", self.pairs, at_least=1)

    def minimize(self, evaluate, start, memory, largest_move):
        del memory  # curvature of another linearization
        best = evaluate(start)
        history: list[tuple[np.ndarray, np.ndarray]] = []
        direction, length = None, 1.0
        for _ in range(self.steps):
            if not best.finite:
                break
            if direction is None:
                direction = _two_loop(best.gradient, history)
                peak = max(np.max(np.abs(direction)), 1e-300)
                # Without curvature the gradient gives a direction and no size.
                length = min(1.0, largest_move / peak) if history else 0.1 / peak
            trial = evaluate(best.theta + length * direction)
            if trial.finite and trial.loss < best.loss:
                pair = (trial.theta - best.theta, trial.gradient - best.gradient)
                if pair[0] @ pair[1] > 0:
                    history = [*history, pair][-self.pairs :]
                best, direction = trial, None
            else:
                length /= 4
        return best, None

    def memory_like(self, theta):
        return None


def _two_loop(
    gradient: Float[np.ndarray, " p"], history: list[tuple[np.ndarray, np.ndarray]]
) -> Float[np.ndarray, " p"]:
    """The BFGS direction from the last steps and changes of the gradient."""
    q, factors = gradient.copy(), []
    for step, change in reversed(history):
        factor = (step @ q) / (step @ change)
        factors.append(factor)
        q = q - factor * change
    if history:
        step, change = history[-1]
        q = q * (step @ change) / (change @ change)
    for (step, change), factor in zip(history, reversed(factors), strict=True):
        q = q + step * (factor - (change @ q) / (step @ change))
    return -q
