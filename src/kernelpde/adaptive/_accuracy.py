"""Target accuracies."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpde.checking import check_integer, check_real
from kernelpde.compiling import is_traced
from kernelpde.errors import InputError
from kernelpde.problem import Problem
from kernelpde.solution import Start, check_problem


@dataclass(frozen=True)
class Accuracy:
    """A target accuracy, with limits on time and size.

    **Arguments:**

    - `relative`: root mean square error of each field, relative to the root mean square of the
      field. For problems without noise.
    - `max_seconds`: time limit in seconds, checked after every step of learning and of solves. A
      level that exceeds it is abandoned. No limit by default.
    - `max_rows`: maximum number of rows of the linear systems; a few thousand take seconds. The
      first level is small and is always solved.
    - `posterior_std`: discretization error of each unknown, in posterior standard deviations. For
      problems with noisy data, where noise limits the accuracy.

    A field that is zero up to rounding has no relative accuracy: its target is never reached.

    **Example:**

    ```python
    >>> target = kp.Accuracy(relative=1e-3, max_rows=2000)
    >>> float(kp.solve(problem, accuracy=target).error_estimate["u"].rms) < 1e-3
    True
    ```
    """

    relative: float | None = None
    max_seconds: float | None = None
    max_rows: int = 5000
    posterior_std: float = 0.2

    def __post_init__(self):
        if self.relative is not None:
            check_real("Accuracy", "relative", self.relative, greater_than=0, at_most=1)
        check_real("Accuracy", "posterior_std", self.posterior_std, greater_than=0)
        if self.max_seconds is not None:
            check_real("Accuracy", "max_seconds", self.max_seconds, greater_than=0)
        check_integer("Accuracy", "max_rows", self.max_rows, at_least=1)

    @staticmethod
    def from_value(value: "float | Accuracy") -> "Accuracy":
        """Convert a relative accuracy; return an `Accuracy` unchanged."""
        return value if isinstance(value, Accuracy) else Accuracy(value)

    @property
    def target_error(self) -> float:
        """Target in the units of the estimated error."""
        return self.posterior_std if self.relative is None else self.relative

    def __str__(self) -> str:
        if self.relative is None:
            return f"{self.posterior_std:g} std"
        return f"{self.relative:.0e}"


def has_noise(problem: Problem) -> bool:
    """Return whether some conditions have noise."""
    return any(np.any(np.asarray(condition.noise_std) > 0) for condition in problem.conditions)


def check_arguments(
    problem: Any, target: Accuracy, points: Any, inputs: Any, start: Any
) -> tuple[Problem, Start | None]:
    """Return the problem with its inputs, and the start; reject unsupported combinations."""
    check_problem("solve", problem)
    if points is not None:
        raise InputError(
            "solve: expected points, or an accuracy for which they are chosen; got both. Remove "
            "one of them."
        )
    if isinstance(start, tuple):
        raise InputError(
            "solve: with an accuracy, start must be a solution or functions of a point; got arrays."
        )
    if is_traced(problem, inputs, start):
        raise InputError(
            "solve: accuracy=... cannot be used inside jax.jit, jax.vmap or jax.grad, because the "
            "number of points depends on computed values. Call solution = solve(problem, "
            "accuracy=...) outside, and solve(solution.problem, solution.point_sets, inputs=...) "
            "inside."
        )
    check_accuracy("solve", problem, target)
    return problem if inputs is None else problem.with_inputs(inputs), start


def check_accuracy(caller: str, problem: Problem, target: Accuracy) -> None:
    """Check that a relative target comes without noise, and one in standard deviations with it."""
    if has_noise(problem) and target.relative is not None:
        raise InputError(
            f"{caller}: a relative accuracy requires noise-free conditions, but this problem has "
            "noisy ones. Bound the discretization error relative to the posterior standard "
            "deviation instead: accuracy=Accuracy(posterior_std=0.2)."
        )
    if not has_noise(problem) and target.relative is None:
        raise InputError(
            f"{caller}: posterior_std requires noisy data, since without noise there are no "
            "posterior standard deviations. Use accuracy=1e-6, the relative error of each field."
        )
