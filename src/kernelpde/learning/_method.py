"""How to learn, and what to do with what was learned."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import optax

from kernelpde.checking import instance, named, one_of, real_number, shown, truth, whole_number
from kernelpde.deprecation import renamed, warn_moved
from kernelpde.errors import InputError
from kernelpde.gauss_newton import (
    Solver,
    check_linear_solver,
    check_solver,
    linear_solver_named,
    with_mesh,
)
from kernelpde.learning._optimizers import AbstractOptimizer
from kernelpde.learning._outer import AbstractRegularizer
from kernelpde.linear_solvers import LinearSolver


@dataclass(frozen=True)
class FinalSolve:
    """The solve with the learned kernels.

    **Arguments:**

    - `points`: number for each condition; by default training and validation points together.
    - `seed`: of these points; that of `learn` if left out.
    - `linear_solver`: `Automatic()` by default, with data the same as for learning.
    - `max_steps`: largest number of its Gauss-Newton steps.
    """

    points: Mapping[str, int] | None = None
    seed: int | None = None
    linear_solver: LinearSolver | None = None
    max_steps: int = 50

    def __post_init__(self):
        whole_number("FinalSolve", "max_steps", self.max_steps, at_least=1)
        if self.points is not None and not isinstance(self.points, Mapping):
            raise InputError(
                f"FinalSolve: points must be a dictionary; got {shown(self.points)}. Write "
                "FinalSolve({'equation': 600})."
            )
        if self.seed is not None:
            whole_number("FinalSolve", "seed", self.seed, at_least=0)
        check_linear_solver("FinalSolve", "linear_solver", self.linear_solver)

    def check(self, names: list[str]) -> None:
        """Refuse points of conditions that a problem does not have."""
        if self.points is not None:
            count = partial(whole_number, at_least=1)
            named("FinalSolve", "points", self.points, names, count, "")


@dataclass(frozen=True)
class Bilevel:
    """Bilevel optimization with a linearized inner problem, section 2 of the paper.

    **Arguments:**

    - `optimizer`: `learning.LevenbergMarquardt()` by default, with more than 300 hyperparameters
      `learning.GaussNewtonCG()`; `paper_adam()` as published, any `Optax`, or `LBFGS`.
    - `regularizer`: of the hyperparameters, added to the outer loss.
    - `solver`: of the inner steps; `GaussNewton()` never shortens them.
    - `tolerance`: on the change of the logarithms of the hyperparameters in a step; 0 takes all
      `max_steps`.
    - `multistart`: first compare lengthscales from a thirtieth of the domain to all of it, by one
      factorization each, start from the best, and search once more at the end; for lengthscales
      that vary over the domain, first solve and learn with constant ones. If false, start from
      the given lengthscales and stay near their local minimum.
    - `hypergradient`: "exact" finishes with the gradient of the true objective, which accounts for
      the dependence of the linearization point on θ; each evaluation takes about eight
      factorizations.
    - `final`: the solve with the learned kernels.
    """

    optimizer: AbstractOptimizer | None = None
    regularizer: AbstractRegularizer | None = None
    solver: Solver | None = None
    tolerance: float = 1e-3
    multistart: bool = True
    hypergradient: Literal["linearized", "exact"] = "linearized"
    final: FinalSolve = field(default_factory=FinalSolve)

    def __post_init__(self):
        if isinstance(self.optimizer, optax.GradientTransformation):
            raise InputError("Bilevel: an optax optimizer is given as Optax(optax.adam(1e-2)).")
        if self.optimizer is not None:
            expected = "LevenbergMarquardt(), GaussNewtonCG(), LBFGS() or Optax(...)"
            instance("Bilevel", "optimizer", self.optimizer, AbstractOptimizer, expected)
        if self.regularizer is not None:
            expected = "L2(1e-3), L1(1e-3) or LogNormal(0.2, 1.0)"
            instance("Bilevel", "regularizer", self.regularizer, AbstractRegularizer, expected)
        check_solver("Bilevel", self.solver)
        real_number("Bilevel", "tolerance", self.tolerance, at_least=0)
        truth("Bilevel", "multistart", self.multistart)
        one_of("Bilevel", "hypergradient", self.hypergradient, ("linearized", "exact"))
        expected = "FinalSolve({'equation': 600}) or the like"
        instance("Bilevel", "final", self.final, FinalSolve, expected)


@dataclass(frozen=True)
class RunFile:
    """A checkpoint file of a run, with notes to store in it.

    **Arguments:**

    - `path`: the file.
    - `notes`: a dictionary that can be written as JSON.
    """

    path: str | Path
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.path, str | os.PathLike):
            raise InputError(
                f"RunFile: path must be the name of a file, such as 'run.kpde'; got "
                f"{shown(self.path)}."
            )
        if not isinstance(self.notes, Mapping):
            raise InputError(f"RunFile: notes must be a dictionary; got {shown(self.notes)}.")
        try:
            json.dumps(dict(self.notes))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"RunFile: notes must be what JSON can hold, numbers, text, lists and "
                f"dictionaries; {error}."
            ) from error


_FINAL = {"final": "points", "final_seed": "seed", "final_linear_solver": "linear_solver"}
_INSIDE = {each.name for each in fields(Bilevel)} - {"final"}


def earlier(owner: str, given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the first edition as those of today."""
    given = with_mesh(owner, linear_solver_named(owner, given))
    if isinstance(given.get("method"), Solver):
        given = renamed(owner, given, {"method": "solver"})
    given = renamed(owner, given, {"starts": "multistart", "final_solver": "final_linear_solver"})
    final = {_FINAL[name]: given.pop(name) for name in list(given) if name in _FINAL}
    inside = {name: given.pop(name) for name in list(given) if name in _INSIDE}
    for name in inside:
        warn_moved(f"{owner}({name}=...)", f"{owner}(method=learning.Bilevel({name}=...))")
    for name in final:
        new = f"{owner}(method=learning.Bilevel(final=learning.FinalSolve({name}=...)))"
        warn_moved(f"{owner}: an argument for the final solve", new)
    if final:
        inside["final"] = FinalSolve(**final)
    if inside:
        given["method"] = replace(given.get("method") or Bilevel(), **inside)
    if "notes" in given:
        warn_moved(f"{owner}(notes=...)", f"{owner}(checkpoint=learning.RunFile(..., notes))")
        path, notes = given.get("checkpoint"), given.pop("notes")
        if path is not None:
            given["checkpoint"] = RunFile(path, {} if notes is None else notes)
    return given
