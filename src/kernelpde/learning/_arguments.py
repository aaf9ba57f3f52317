"""What `learn` is given, checked before anything is computed."""

import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import optax

from kernelpde.checking import (
    instance,
    named,
    one_of,
    real_number,
    shown,
    truth,
    whole_number,
)
from kernelpde.errors import InputError
from kernelpde.gauss_newton import (
    Solution,
    check_common,
    check_linear_solver,
    check_problem,
    check_solver,
)
from kernelpde.learning._optimizers import AbstractOptimizer
from kernelpde.learning._outer import AbstractRegularizer
from kernelpde.learning.validation import AbstractValidation


def check_learn(
    problem: Any,
    validation: Any,
    start: Any,
    optimizer: Any,
    regularizer: Any,
    starts: Any,
    hypergradient: Any,
    solver: Any,
    linear_solver: Any,
    mesh: Any,
    tolerance: Any,
    max_steps: Any,
    final: Any,
    final_seed: Any,
    final_linear_solver: Any,
    throw: Any,
    callback: Any,
    checkpoint: Any,
    notes: Any,
) -> None:
    """Refuse arguments of the wrong make; `points`, `seed` and `sampling` are for `collocate`."""
    check_problem("learn", problem)
    names = [condition.name for condition in problem.conditions]
    if validation is not None:
        expected = "HeldOut(), Resampled(), KFold() or LeaveOneOutPredictive()"
        instance("learn", "validation", validation, AbstractValidation, expected)
        for what in ("points", "weights"):
            given = getattr(validation, what, None)
            if given is not None:
                named(type(validation).__name__, what, given, names)
    if isinstance(optimizer, optax.GradientTransformation):
        raise InputError("learn: an optax optimizer is given as Optax(optax.adam(1e-2)).")
    if optimizer is not None:
        expected = "LevenbergMarquardt(), GaussNewtonCG(), LBFGS() or Optax(...)"
        instance("learn", "optimizer", optimizer, AbstractOptimizer, expected)
    if regularizer is not None:
        expected = "L2(1e-3), L1(1e-3) or LogNormal(0.2, 1.0)"
        instance("learn", "regularizer", regularizer, AbstractRegularizer, expected)
    if start is not None:
        expected = "a Solution, or functions of a point as in {'u': lambda x: x[0]}"
        instance("learn", "start", start, (Solution, Mapping), expected)
    truth("learn", "starts", starts)
    one_of("learn", "hypergradient", hypergradient, ("linearized", "exact"))
    check_solver("learn", solver)
    check_linear_solver("learn", "linear_solver", linear_solver)
    check_linear_solver("learn", "final_linear_solver", final_linear_solver)
    check_common("learn", mesh, throw, callback)
    real_number("learn", "tolerance", tolerance, at_least=0)
    if max_steps is not None:
        whole_number("learn", "max_steps", max_steps, at_least=1)
    if final is not None:
        count = partial(whole_number, at_least=1)
        named("learn", "final", final, names, count, "Write final={'equation': 600}.")
    if final_seed is not None:
        whole_number("learn", "final_seed", final_seed, at_least=0)
    _check_file(checkpoint, notes)


def _check_file(checkpoint: Any, notes: Any) -> None:
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise InputError(
            f"learn: checkpoint must be the name of a file, such as 'run.kpde'; got "
            f"{shown(checkpoint)}."
        )
    if notes is None:
        return
    if not isinstance(notes, Mapping):
        raise InputError(f"learn: notes must be a dictionary; got {shown(notes)}.")
    try:
        json.dumps(dict(notes))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"learn: notes must be what JSON can hold, numbers, text, lists and dictionaries; "
            f"{error}."
        ) from error
