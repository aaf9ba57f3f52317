"""Where a Gauss-Newton iteration is."""

from typing import Any, TypeAlias

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from kernelpde.gauss_newton._step import State


class Iterate(eqx.Module):
    """A state, and what is known of it.

    **Attributes:**

    - `state`: u.
    - `residual_rms`, `residual_max`: of the true residual, per condition.
    """

    state: State
    residual_rms: Float[Array, " C"]
    residual_max: Float[Array, " C"]


Number: TypeAlias = Any


Truth: TypeAlias = Any


Count: TypeAlias = Any
"""Scalars: of numpy in a loop of Python, of JAX in one of its own."""


class Taken(eqx.Module):
    """The last step, as in `Record`; and what the next one depends on.

    **Attributes:**

    - `finite`, `descends`, `failure`: whether all numbers are, whether the merit fell, and what the
      linear solve failed with.
    - `misfit_at_zero`, `misfit`, `condition`: as in `Outcome`.
    """

    damping: Number
    length: Number
    accepted: Truth
    merit: Number
    change: Number
    nugget: Number
    finite: Truth
    descends: Truth
    failure: Count
    misfit_at_zero: Number
    misfit: Number
    condition: Number


class Control(eqx.Module):
    """What decides about the next step: numbers, and no arrays of rows.

    **Attributes:**

    - `changes`: relative changes of the last steps, the latest at the end.
    - `damping`, `trust`, `shortened`: of the next step: its damping, how many full steps are still
      taken on trust, and whether these are half ones.
    - `fixed`: whether merits are measured by the diagonal of the first step.
    - `initial_misfit`, `best_misfit`, `merit`: of u = 0, of the best iterate on trust, and of the
      one that is kept, NaN before there is any.
    - `condition`: that of the last undamped matrix.
    - `polished`: whether the last step was refined and kept.
    - `steps`: how many were taken.
    - `code`: the number of the result, or `GOING_ON`.
    """

    changes: Float[Array | np.ndarray, "5"]
    damping: Number
    trust: Count
    shortened: Truth
    fixed: Truth
    initial_misfit: Number
    best_misfit: Number
    merit: Number
    condition: Number
    polished: Truth
    steps: Count
    code: Count


class Iteration(eqx.Module):
    """Where an iteration is.

    **Attributes:**

    - `kept`: the present iterate; the next step linearizes at its state.
    - `best`: the one with the smallest misfit among those taken on trust.
    - `unpolished`: the jets before the last, refined step.
    - `first_diagonal`: of the Gram matrix of the first step.
    - `last`: the last step, and the residuals where it leads.
    - `control`: what decides about the next.
    """

    kept: Iterate
    best: Iterate
    unpolished: tuple[Float[Array, "_ _"], ...]
    first_diagonal: Float[Array, " M"]
    last: Taken
    last_rms: Float[Array, " C"]
    control: Control

    @property
    def code(self) -> Count:
        return self.control.code
