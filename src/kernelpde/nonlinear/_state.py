"""State of a nonlinear iteration."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import to_array
from kernelpde.nonlinear._discretization import SolveInputs
from kernelpde.nonlinear._step import Iterate, JetValues, zero_iterate
from kernelpde.results import RESULTS


class EvaluatedIterate(eqx.Module):
    """An iterate with the norms of its nonlinear residual.

    **Attributes:**

    - `iterate`: the iterate.
    - `residual_rms`, `residual_max`: nonlinear residual per condition.
    """

    iterate: Iterate
    residual_rms: Float[Array, " C"]
    residual_max: Float[Array, " C"]


class EvaluatedStep(eqx.Module):
    """Scalars of a step.

    **Attributes:**

    - `damping`: damping μ.
    - `previous_objective`, `objective`: objective at uᵏ and at the new iterate.
    - `predicted_decrease`: decrease of the quadratic model.
    - `rounding`: rounding error of the objective.
    - `change`: relative change of the solution.
    - `misfit_fraction`: residual over T^½, relative to the residual of u = 0.
    - `nugget`, `condition_number`: as in `DampedStep`.
    - `finite`: whether the step succeeded with finite values.
    - `accepted`: whether the new iterate was kept.
    """

    damping: Float[Array, ""]
    previous_objective: Float[Array, ""]
    objective: Float[Array, ""]
    predicted_decrease: Float[Array, ""]
    rounding: Float[Array, ""]
    change: Float[Array, ""]
    misfit_fraction: Float[Array, ""]
    nugget: Float[Array, ""]
    condition_number: Float[Array, ""]
    finite: Bool[Array, ""]
    accepted: Bool[Array, ""]

    @property
    def gain(self) -> Float[Array, ""]:
        """Gain ratio, actual over predicted decrease.

        Both are raised by the rounding error, so that the ratio is 1 where rounding dominates.
        """
        decrease = self.previous_objective - self.objective
        return (decrease + self.rounding) / (self.predicted_decrease + self.rounding)


class IterationState(eqx.Module):
    """State of an iteration.

    **Attributes:**

    - `current`: current iterate, at which the next step linearizes.
    - `best`: iterate with the smallest objective.
    - `best_objective`: its objective; NaN if it was not computed with the present weights.
    - `fixed_point`: jet values before the last step, which may be a refined one.
    - `row_scale`: frozen D, zeros before the first step.
    - `last`: scalars of the last step.
    - `last_rms`: residuals of the last step, accepted or not.
    - `damping`, `growth`: damping of the next step, and its factor after a rejected step.
    - `sweeps`: refinement sweeps of the next step; if positive, it is the last one.
    - `nugget`: nugget of the objective.
    - `nugget_was_raised`: whether it was raised since D was frozen.
    - `condition_number`: condition number of the last undamped matrix.
    - `objective_index`: number of the present objective, from 1.
    - `num_freezes`: number of times that D was frozen.
    - `max_scale_ratio`: ratio of the diagonal of K + Σ to D above which D is frozen again.
    - `steps`, `max_steps`: number of steps and its maximum.
    - `steps_since_best`: number of steps since the objective decreased.
    - `refined`: whether the refined step was accepted.
    - `has_ended`: whether the iteration has ended, refinement included.
    - `code`: result code, or `RESULTS.running`.
    """

    current: EvaluatedIterate
    best: EvaluatedIterate
    best_objective: Float[Array, ""]
    fixed_point: JetValues
    row_scale: Float[Array, " M"]
    last: EvaluatedStep
    last_rms: Float[Array, " C"]
    damping: Float[Array, ""]
    growth: Float[Array, ""]
    sweeps: Int[Array, ""]
    nugget: Float[Array, ""]
    nugget_was_raised: Bool[Array, ""]
    condition_number: Float[Array, ""]
    objective_index: Int[Array, ""]
    num_freezes: Int[Array, ""]
    max_scale_ratio: Float[Array, ""]
    steps: Int[Array, ""]
    max_steps: Int[Array, ""]
    steps_since_best: Int[Array, ""]
    refined: Bool[Array, ""]
    has_ended: Bool[Array, ""]
    code: Int[Array, ""]


def initial_state(
    inputs: SolveInputs, jet_values: JetValues | None, max_steps: int
) -> IterationState:
    """Return the iteration before its first step; see `AbstractNonlinearSolver.init`."""
    iterate = zero_iterate(inputs)
    zero, inf, nan = iterate.norm_squared, to_array(np.inf), to_array(np.nan)
    false, count = to_array(False), to_array(0)
    if jet_values is not None:
        iterate = eqx.tree_at(lambda it: it.jet_values, iterate, tuple(map(to_array, jet_values)))
    undefined = to_array(np.full(len(inputs.conditions), np.nan))
    start = EvaluatedIterate(iterate, undefined, undefined)
    return IterationState(
        current=start,
        best=start,
        # Jet values without a function have no objective: the first step improves on them.
        best_objective=nan if jet_values is None else inf,
        fixed_point=iterate.jet_values,
        row_scale=iterate.linear_part,
        last=EvaluatedStep(nan, nan, nan, nan, nan, nan, nan, nan, nan, false, false),
        last_rms=undefined,
        damping=zero,
        growth=zero,
        sweeps=count,
        nugget=zero,
        nugget_was_raised=false,
        condition_number=inf,
        objective_index=count,
        num_freezes=count,
        max_scale_ratio=zero,
        steps=count,
        max_steps=to_array(max_steps),
        steps_since_best=count,
        refined=false,
        has_ended=false,
        code=to_array(RESULTS.running.code),
    )
