"""State of a Gauss-Newton iteration."""

from typing import Any, TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from kernelpde.nonlinear._step import Iterate

FloatScalar: TypeAlias = Any
BoolScalar: TypeAlias = Any
IntScalar: TypeAlias = Any
"""Scalars of NumPy in the Python loop, and of JAX in `lax.while_loop`."""


class EvaluatedIterate(eqx.Module):
    """An iterate with the norms of its nonlinear residual.

    **Attributes:**

    - `iterate`: the iterate.
    - `residual_rms`, `residual_max`: nonlinear residual per condition.
    """

    iterate: Iterate
    residual_rms: Float[Array, " C"]
    residual_max: Float[Array, " C"]


class StepReport(eqx.Module):
    """Scalars of one step, as in `SolveRecord`, and those that control the next step.

    **Attributes:**

    - `damping`, `length`, `accepted`, `merit`, `change`, `nugget`: as in `SolveRecord`.
    - `finite`: whether all values are finite.
    - `merit_decreased`: whether the merit decreased.
    - `failure`: result code of a failed linear solve, `RUNNING` otherwise.
    - `initial_misfit`, `misfit`, `condition_number`: as in `StepResult`.
    """

    damping: FloatScalar
    length: FloatScalar
    accepted: BoolScalar
    merit: FloatScalar
    change: FloatScalar
    nugget: FloatScalar
    finite: BoolScalar
    merit_decreased: BoolScalar
    failure: IntScalar
    initial_misfit: FloatScalar
    misfit: FloatScalar
    condition_number: FloatScalar


class IterationControl(eqx.Module):
    """Scalar state that determines the next step.

    **Attributes:**

    - `recent_changes`: relative changes of the last steps, the latest last.
    - `damping`: damping of the next step.
    - `full_steps_left`: number of full steps accepted without testing the merit.
    - `halve_steps`: whether these steps have length ½.
    - `use_initial_merit_scale`: whether merits are scaled by the diagonal of the first step.
    - `initial_misfit`: misfit of u = 0.
    - `best_misfit`: smallest misfit among the full steps.
    - `merit`: merit of the current iterate, NaN before the first step.
    - `condition_number`: condition number of the last undamped matrix.
    - `refined`: whether the iterative-refinement step was accepted.
    - `steps`: number of steps.
    - `code`: result code, or `RUNNING`.
    """

    recent_changes: Float[Array | np.ndarray, "5"]
    damping: FloatScalar
    full_steps_left: IntScalar
    halve_steps: BoolScalar
    use_initial_merit_scale: BoolScalar
    initial_misfit: FloatScalar
    best_misfit: FloatScalar
    merit: FloatScalar
    condition_number: FloatScalar
    refined: BoolScalar
    steps: IntScalar
    code: IntScalar


class IterationState(eqx.Module):
    """State of an iteration.

    **Attributes:**

    - `current`: current iterate, at which the next step linearizes.
    - `best`: iterate with the smallest misfit among the full steps.
    - `jets_before_refinement`: jet values before the last step, which may be a refined one.
    - `first_diagonal`: diagonal of the Gram matrix of the first step.
    - `last_step`: report of the last step.
    - `last_rms`: residuals of the last step, accepted or not.
    - `control`: scalars that determine the next step.
    """

    current: EvaluatedIterate
    best: EvaluatedIterate
    jets_before_refinement: tuple[Float[Array, "_ _"], ...]
    first_diagonal: Float[Array, " M"]
    last_step: StepReport
    last_rms: Float[Array, " C"]
    control: IterationControl

    @property
    def code(self) -> IntScalar:
        """Result code, or `RUNNING`."""
        return self.control.code
