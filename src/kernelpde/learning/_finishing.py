"""The end of a learning run with the gradient of the true objective."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from kernelpde.arrays import array
from kernelpde.errors import InputError
from kernelpde.learning._exact import Objective, exact_gradients
from kernelpde.learning._optimizers import LBFGS, Evaluation, LevenbergMarquardt
from kernelpde.learning._validation import HeldOut

if TYPE_CHECKING:
    from kernelpde.learning._run import Run


def follow_exact_gradient(run: "Run", inner_steps: int = 5) -> None:
    """Go on with the true objective, whose gradient sees the linearization point move.

    Curvature is that of the linearized loss.

    **Arguments:**

    - `inner_steps`: Gauss-Newton steps per evaluation, from the last state that was kept.
    """
    if not isinstance(run.plan, HeldOut) or run.plan.batch is not None:
        raise InputError(
            "learn: the exact hypergradient needs validation points that stay; "
            f"got {run.plan!r}. Use HeldOut() without batches."
        )
    assert run.pool is not None
    loss, _, _ = run.loss(run.kernels)
    objective = Objective(
        run.parameters,
        run.residuals,
        run.blocks,
        run.pool,
        loss.row_weights,
        loss.plan,
        loss.near,
    )
    linearized_loss, start = run.evaluate(loss), run.train.jets

    def evaluate(theta: np.ndarray) -> Evaluation:
        held = linearized_loss(theta)
        if not held.finite:
            return held
        at = array(theta)
        value, gradient, _ = exact_gradients(objective, at, start, inner_steps)
        run.factorizations += inner_steps + 2
        if run.regularizer is not None:
            roots, pull = jax.vjp(run.regularizer.roots, at)
            value, gradient = value + 0.5 * roots @ roots, gradient + pull(roots)[0]
        return Evaluation(theta, float(value), np.asarray(gradient), held.normal, None)

    optimizer = LevenbergMarquardt(steps=5) if run.optimizer.curvature == "matrix" else LBFGS()
    best, _ = optimizer.minimize(evaluate, run.theta, None, 1.0)
    if best.finite:
        run.theta = best.theta
