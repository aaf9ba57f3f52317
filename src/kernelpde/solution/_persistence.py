"""Save and load solutions."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array

from kernelpde.arrays import agree, to_array
from kernelpde.checking import check_instance
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Term
from kernelpde.io import Attributes, read_archive, write_archive
from kernelpde.kernels import structure_of
from kernelpde.linear_solvers import LocalExpansion, ScaledCoordinates
from kernelpde.problem import (
    PointSet,
    Problem,
    check_structure,
    kernel_arrays,
    kernel_fingerprint,
    residual_fingerprint,
    unscaled_prior,
    with_kernel_arrays,
    with_stored_corners,
)
from kernelpde.results import RESULTS
from kernelpde.solution._arguments import check_problem, check_solution
from kernelpde.solution._history import SolveHistory, SolveRecord
from kernelpde.solution._solution import Solution

_KIND, _VERSION = "kernelpde solution", 1


def save_solution(path: str | Path, solution: Solution, notes: Attributes | None = None) -> None:
    """Write a solution: its points, weights, hyperparameters and history.

    **Arguments:**

    - `path`: name of the file, an ordinary .npz; replaced if it exists.
    - `solution`: solution to write.
    - `notes`: JSON-serializable values to store with it.

    **Example:**

    ```python
    >>> kp.save_solution("u.kpde", solution, {"run": 7})
    ```
    """
    check_solution("save_solution", solution)
    if notes is not None:
        check_instance("save_solution", "notes", notes, dict, "a dictionary of facts")
    problem, local, batches = solution.problem, solution.local_expansion, solution.batches
    arrays: Attributes = {f"kernels.{name}": leaf for name, leaf in kernel_arrays(problem).items()}
    arrays |= {f"block.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(solution.point_sets))}
    for n, batch in enumerate(batches):
        arrays |= {f"points.{n}": batch.points, f"coefficients.{n}": batch.coefficients}
    if local is not None:
        arrays |= {"local.values": local.values, "local.metric": local.metric.scale}
    arrays["probe.kernels"] = kernel_fingerprint(problem, solution.point_sets)
    for n, condition in enumerate(problem.at_points(solution.point_sets).conditions):
        arrays[f"probe.{n}"] = residual_fingerprint(condition.residual, condition.point_set)
    exponents = problem.exponents
    attributes = {
        **_names(problem),
        "make": structure_of(unscaled_prior(problem)),
        "counts": [len(point_set.points) for point_set in solution.point_sets],
        "terms": [[[t.field, t.orders] for t in batch.terms] for batch in batches],
        "widths": [batch.num_nodes for batch in batches],
        "residuals": solution.residuals,
        "result": solution.result.name,
        "nugget": solution.nugget,
        "condition_number": solution.condition_number,
        "solver": solution.linear_solver_message,
        "test_residuals": solution.test_residuals,
        "exponents": None if exponents is None else exponents.tolist(),
        "local": None
        if local is None
        else {"support_radius": local.support_radius, "jitter": local.jitter},
        "history": [vars(record) for record in solution.history],
        "notes": notes or {},
    }
    leaves = {name: np.asarray(array) for name, array in arrays.items()}
    write_archive(path, _KIND, _VERSION, attributes, leaves)


def solution_notes(path: str | Path) -> Attributes:
    """Return the notes stored with a solution."""
    notes = read_archive(path, _KIND, _VERSION)[0].get("notes")
    return notes if isinstance(notes, dict) else {}


def load_solution(path: str | Path, problem: Problem) -> Solution:
    """Load a solution, which can be evaluated, plotted and exported.

    **Arguments:**

    - `path`: name of a file written by `save_solution`.
    - `problem`: the problem that was solved, with kernels of the same structure and any
      hyperparameters: formulas are not stored in the file. Other equations and other kernels are
      rejected.

    **Example:**

    ```python
    >>> kp.save_solution("u.kpde", solution)
    >>> kp.load_solution("u.kpde", problem).converged
    True
    ```
    """
    check_problem("load_solution", problem)
    attributes, arrays = read_archive(path, _KIND, _VERSION)
    try:
        return _build_solution(attributes, arrays, problem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path}: is no solution of this problem ({error}).") from error


def _names(problem: Problem) -> dict[str, list[str]]:
    """Return the names by which a file is matched with a problem."""
    return {
        "fields": [field.name for field in problem.fields],
        "conditions": [condition.name for condition in problem.conditions],
        "coordinates": list(problem.space.coordinates),
    }


def _read_expansion(
    attributes: Attributes, arrays: dict[str, np.ndarray], problem: Problem
) -> tuple[Functionals, ...] | LocalExpansion:
    dimension = len(problem.space.coordinates)

    def read(name: str, *shape: int) -> Array:
        if arrays[name].shape != shape:
            raise InputError(
                f"the array {name!r} has shape {arrays[name].shape}; expected {shape}."
            )
        return to_array(arrays[name])

    expansion = []
    pairs = zip(attributes["terms"], attributes["widths"], strict=True)
    for n, (stored_terms, num_nodes) in enumerate(pairs):
        terms = tuple(
            Term(int(field), tuple(tuple(map(int, order)) for order in orders))
            for field, orders in stored_terms
        )
        count = len(arrays[f"points.{n}"])
        points = read(f"points.{n}", count, dimension)
        coefficients = read(f"coefficients.{n}", count, len(terms))
        expansion.append(Functionals(points, coefficients, terms, int(num_nodes)))
    if attributes["local"] is None:
        return tuple(expansion)
    return LocalExpansion(
        expansion[0],
        read("local.values", len(expansion[0])),
        ScaledCoordinates(
            np.asarray(read("local.metric", dimension)),
            problem.space.periods or (None,) * dimension,
        ),
        float(attributes["local"]["support_radius"]),
        float(attributes["local"]["jitter"]),
    )


def _read_point_sets(
    attributes: Attributes, arrays: dict[str, np.ndarray], problem: Problem
) -> tuple[PointSet, ...]:
    counts = {
        name: 2 if count > 1 else 1
        for name, count in zip(attributes["conditions"], attributes["counts"], strict=True)
        if not problem.has_given_points(name)
    }
    # Point sets with few points provide the tree structure.
    template = problem.collocate(counts)
    leaves, structure = jax.tree.flatten(template)
    stored = [to_array(arrays[f"block.{n}"]) for n in range(len(leaves))]
    return jax.tree.unflatten(structure, stored)


def _with_exponents(problem: Problem, exponents: list[int] | None) -> Problem:
    """Return the problem with the stored scales of its fields."""
    if exponents is None:
        return problem
    array = to_array(np.asarray(exponents, dtype=np.int64))
    if array.shape != (len(problem.fields),):
        raise InputError(
            f"has scales of {array.shape} fields; expected {len(problem.fields)} fields."
        )
    return problem.with_prior(replace(problem.prior, exponents=array))


def _build_solution(
    attributes: Attributes, arrays: dict[str, np.ndarray], problem: Problem
) -> Solution:
    for kind, names in _names(problem).items():
        if attributes[kind] != names:
            raise InputError(f"holds the {kind} {attributes[kind]}; expected {names}.")
    hyperparameters = {
        name.removeprefix("kernels."): array
        for name, array in arrays.items()
        if name.startswith("kernels.")
    }
    expansion = _read_expansion(attributes, arrays, problem)
    point_sets = _read_point_sets(attributes, arrays, problem)
    problem = with_stored_corners(problem, attributes["make"])
    problem = with_kernel_arrays(problem, hyperparameters)
    problem = _with_exponents(problem, attributes["exponents"])
    check_structure(attributes["make"], problem)
    if not agree(arrays["probe.kernels"], kernel_fingerprint(problem, point_sets)):
        raise InputError("its kernels have another formula, or other frozen hyperparameters.")
    for n, condition in enumerate(problem.at_points(point_sets).conditions):
        fingerprint = residual_fingerprint(condition.residual, condition.point_set)
        if not agree(arrays[f"probe.{n}"], fingerprint):
            raise InputError(
                f"the equation of condition {problem.conditions[n].name!r} is another one. Load it "
                "with the problem that was solved."
            )
    return Solution(
        problem,
        point_sets,
        expansion,
        {name: dict(norms) for name, norms in attributes["residuals"].items()},
        RESULTS[attributes["result"]].code,
        float(attributes["nugget"]),
        float(attributes["condition_number"]),
        SolveHistory(SolveRecord(**record) for record in attributes["history"]),
        str(attributes["solver"]),
        dict(attributes["test_residuals"]),
    )
