"""What is asked for."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelpde.checking import real_number, whole_number
from kernelpde.compiling import traced
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError
from kernelpde.gauss_newton import Start, check_problem
from kernelpde.problem import Problem


@earlier_names(deviations="std")
@dataclass(frozen=True)
class Accuracy:
    """A target accuracy, with limits on time and size.

    **Arguments:**

    - `relative`: the root mean square error of each field, relative to the root mean square of the
      field. For problems without noise.
    - `at_most`: time limit in seconds: a further level that is expected to exceed it is not
      started. No limit by default.
    - `max_rows`: maximum number of rows of the linear systems; a few thousand take seconds. The
      first level is small and is always solved.
    - `std`: the discretization error of each unknown, in posterior standard deviations. For
      problems with noisy data, where noise limits the accuracy.

    A field that is zero up to rounding has no relative accuracy: the accuracy then counts as not
    reached.

    **Example:**

    ```python
    >>> asked = kp.Accuracy(relative=1e-3, max_rows=2000)
    >>> float(kp.solve(problem, accuracy=asked).error_estimate["u"].rms) < 1e-3
    True
    ```
    """

    relative: float | None = None
    at_most: float | None = None
    max_rows: int = 5000
    std: float = 0.2

    def __post_init__(self):
        if self.relative is not None:
            real_number("Accuracy", "relative", self.relative, above=0, at_most=1)
        real_number("Accuracy", "std", self.std, above=0)
        if self.at_most is not None:
            real_number("Accuracy", "at_most", self.at_most, above=0)
        whole_number("Accuracy", "max_rows", self.max_rows, at_least=1)

    @staticmethod
    def of(given: Any) -> "Accuracy":
        """From a number, or as it is."""
        return given if isinstance(given, Accuracy) else Accuracy(given)


def is_noisy(problem: Problem) -> bool:
    """Whether some conditions need not hold exactly."""
    levels = [np.asarray(condition.noise_level) for condition in problem.conditions]
    return any(np.any(level > 0) for level in levels)


def checked(
    problem: Any, asked: Accuracy, points: Any, inputs: Any, start: Any
) -> tuple[Problem, Start | None]:
    """A problem with its inputs, and a start; what cannot be solved to an accuracy is refused."""
    check_problem("solve", problem)
    if points is not None:
        raise InputError("solve: give points, or an accuracy for which they are chosen; got both.")
    if isinstance(start, tuple):
        raise InputError("solve: with an accuracy, start is a solution or functions of a point.")
    if traced(problem, inputs, start):
        raise InputError(
            "solve: how many points an accuracy needs is found level by level, and inside of "
            "jax.jit, jax.vmap or jax.grad nothing is known to decide by. Find them outside, "
            "solution = solve(problem, accuracy=...), and inside "
            "solve(solution.problem, solution.blocks, inputs=...)."
        )
    if is_noisy(problem) and asked.relative is not None:
        raise InputError(
            "solve: an accuracy is for conditions that hold exactly; with noise the posterior says "
            "how far off the solution may be. Ask for points that add little to that, "
            "accuracy=Accuracy(std=0.2)."
        )
    if not is_noisy(problem) and asked.relative is None:
        raise InputError(
            "solve: without noisy data there are no posterior standard deviations to compare to. "
            "Write accuracy=1e-6, the relative error of each field."
        )
    return problem if inputs is None else problem.with_inputs(inputs), start
