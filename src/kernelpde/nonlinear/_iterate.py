"""State of a Gauss-Newton iteration."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from kernelpde.nonlinear._solvers import Scalar
from kernelpde.nonlinear._step import Iterate


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

    damping: Scalar
    length: Scalar
    accepted: Scalar
    merit: Scalar
    change: Scalar
    nugget: Scalar
    finite: Scalar
    merit_decreased: Scalar
    failure: Scalar
    initial_misfit: Scalar
    misfit: Scalar
    condition_number: Scalar


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
    damping: Scalar
    full_steps_left: Scalar
    halve_steps: Scalar
    use_initial_merit_scale: Scalar
    initial_misfit: Scalar
    best_misfit: Scalar
    merit: Scalar
    condition_number: Scalar
    refined: Scalar
    steps: Scalar
    code: Scalar


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
    def code(self) -> Scalar:
        """Result code, or `RUNNING`."""
        return self.control.code
