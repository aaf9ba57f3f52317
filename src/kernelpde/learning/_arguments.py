"""What `learn` is given, checked before anything is computed."""

from collections.abc import Mapping
from typing import Any

from kernelpde.checking import instance, named, whole_number
from kernelpde.gauss_newton import (
    Solution,
    check_common,
    check_drawn,
    check_linear_solver,
    check_problem,
)
from kernelpde.learning._method import Bilevel
from kernelpde.learning.validation import AbstractValidation


def check_learn(
    problem: Any,
    points: Any,
    validation: Any,
    method: Any,
    start: Any,
    linear_solver: Any,
    max_steps: Any,
    throw: Any,
    callback: Any,
) -> None:
    """Refuse arguments of the wrong make; counts are for `collocate`."""
    check_problem("learn", problem)
    check_drawn("learn", problem, points)
    names = [condition.name for condition in problem.conditions]
    if validation is not None:
        expected = "HeldOut(), Resampled(), KFold(), LeaveOneOutPredictive() or learning.Evidence()"
        instance("learn", "validation", validation, AbstractValidation, expected)
        for what in ("points", "weights"):
            given = getattr(validation, what, None)
            if given is not None:
                named(type(validation).__name__, what, given, names)
    if method is not None:
        instance("learn", "method", method, Bilevel, "learning.Bilevel(...)")
        method.final.check(names)
    if start is not None:
        expected = "a Solution, or functions of a point as in {'u': lambda x: x[0]}"
        instance("learn", "start", start, (Solution, Mapping), expected)
    check_linear_solver("learn", "linear_solver", linear_solver)
    check_common("learn", throw, callback)
    if max_steps is not None:
        whole_number("learn", "max_steps", max_steps, at_least=1)
