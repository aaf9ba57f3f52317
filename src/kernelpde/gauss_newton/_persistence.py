"""Solutions on disk."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from kernelpde.archive import read_archive, write_archive
from kernelpde.arrays import array
from kernelpde.checking import instance
from kernelpde.errors import InputError
from kernelpde.functionals import Balanced, Functionals, Term
from kernelpde.gauss_newton._arguments import check_problem, check_solution
from kernelpde.gauss_newton._history import History, Record
from kernelpde.gauss_newton._result import RESULTS, code_of
from kernelpde.gauss_newton._solution import Solution
from kernelpde.kernels import make_of
from kernelpde.linear_solvers import Local, Metric
from kernelpde.problem import (
    Problem,
    check_make,
    kernel_numbers,
    kernel_probe,
    kernel_trees,
    probe,
    with_kernel_numbers,
)

_KIND, _VERSION = "kernelpde solution", 1


def save_solution(
    path: str | Path, solution: Solution, notes: dict[str, Any] | None = None
) -> None:
    """Write a solution: its points, its weights, its kernels' numbers, its history.

    **Arguments:**

    - `path`: a file, replaced if it exists; an ordinary .npz.
    - `solution`: what to write.
    - `notes`: facts to be kept with it, whatever JSON can hold.

    **Example:**

    ```python
    >>> kp.save_solution("u.kpde", solution, {"run": 7})
    ```
    """
    check_solution("save_solution", solution)
    if notes is not None:
        instance("save_solution", "notes", notes, dict, "a dictionary of facts")
    arrays: dict[str, Any] = {
        f"kernels.{name}": leaf for name, leaf in kernel_numbers(solution.problem).items()
    }
    arrays |= {f"block.{n}": leaf for n, leaf in enumerate(jax.tree.leaves(solution.blocks))}
    local = solution.expansion if isinstance(solution.expansion, Local) else None
    batches = (local.functionals,) if isinstance(local, Local) else solution.expansion
    assert not isinstance(batches, Local)
    for n, batch in enumerate(batches):
        arrays |= {f"points.{n}": batch.points, f"coefficients.{n}": batch.coefficients}
    if local is not None:
        arrays |= {"local.values": local.values, "local.metric": local.metric.scale}
    arrays["probe.kernels"] = kernel_probe(solution.problem, solution.blocks)
    for n, (residual, block) in enumerate(
        zip(solution.problem.residuals, solution.blocks, strict=True)
    ):
        arrays[f"probe.{n}"] = probe(residual, block)
    sizes = solution.problem.exponents
    facts = {
        "make": make_of(kernel_trees(solution.problem)),
        "fields": [field.name for field in solution.problem.fields],
        "conditions": [condition.name for condition in solution.problem.conditions],
        "coordinates": list(solution.problem.space.coordinates),
        "counts": [len(block.points) for block in solution.blocks],
        "terms": [[[t.field, t.orders] for t in batch.terms] for batch in batches],
        "widths": [batch.width for batch in batches],
        "residuals": solution.residuals,
        "result": solution.result.name,
        "nugget": solution.nugget,
        "condition": solution.condition,
        "solver": solution.linear_solver,
        "between": solution.between,
        "exponents": None if sizes is None else sizes.tolist(),
        "local": None if local is None else {"reach": local.reach, "jitter": local.jitter},
        "history": [vars(record) for record in solution.history],
        "notes": notes or {},
    }
    write_archive(
        path, _KIND, _VERSION, facts, {name: np.asarray(array) for name, array in arrays.items()}
    )


def solution_notes(path: str | Path) -> dict[str, Any]:
    """What was noted with a solution."""
    notes = read_archive(path, _KIND, _VERSION)[0].get("notes")
    return notes if isinstance(notes, dict) else {}


def load_solution(path: str | Path, problem: Problem) -> Solution:
    """The solution in a file, to be evaluated, plotted and exported.

    **Arguments:**

    - `path`: written by `save_solution`.
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
    facts, arrays = read_archive(path, _KIND, _VERSION)
    try:
        return _loaded(facts, arrays, problem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path}: is no solution of this problem ({error}).") from error


def _function(
    facts: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem
) -> tuple[Functionals, ...] | Local:
    """What a solution is made of."""
    dimension = len(problem.space.coordinates)
    expansion = []
    for n, (terms, width) in enumerate(zip(facts["terms"], facts["widths"], strict=True)):
        points, coefficients = arrays[f"points.{n}"], arrays[f"coefficients.{n}"]
        if points.shape[1:] != (dimension,) or coefficients.shape != (len(points), len(terms)):
            raise InputError(f"has arrays of shapes that do not fit: {points.shape}.")
        expansion.append(
            Functionals(
                array(points),
                array(coefficients),
                tuple(
                    Term(int(f), tuple(tuple(map(int, order)) for order in orders))
                    for f, orders in terms
                ),
                int(width),
            )
        )
    if facts.get("local") is None:
        return tuple(expansion)
    values, metric = arrays["local.values"], arrays["local.metric"]
    if values.shape != (len(expansion[0]),) or metric.shape != (dimension,):
        raise InputError(f"has arrays of shapes that do not fit: {values.shape}.")
    return Local(
        expansion[0],
        array(values),
        Metric(metric, problem.space.periods or (None,) * dimension),
        float(facts["local"]["reach"]),
        float(facts["local"]["jitter"]),
    )


def _loaded(facts: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem) -> Solution:
    expected = {
        "fields": [field.name for field in problem.fields],
        "conditions": [condition.name for condition in problem.conditions],
        "coordinates": list(problem.space.coordinates),
    }
    for what, names in expected.items():
        if facts[what] != names:
            raise InputError(f"holds the {what} {facts[what]}; expected {names}.")
    numbers = {
        name.removeprefix("kernels."): array
        for name, array in arrays.items()
        if name.startswith("kernels.")
    }
    function = _function(facts, arrays, problem)
    counts = {
        name: 2 if count > 1 else 1
        for name, count in zip(facts["conditions"], facts["counts"], strict=True)
        if not problem.has_own_points(name)
    }
    like = problem.collocate(counts)
    leaves, structure = jax.tree.flatten(like)
    blocks = jax.tree.unflatten(
        structure, [array(arrays[f"block.{n}"]) for n in range(len(leaves))]
    )
    known = with_kernel_numbers(problem, numbers)
    if facts.get("exponents") is not None:
        exponents = array(np.asarray(facts["exponents"], dtype=np.int64))
        if exponents.shape != (len(known.fields),):
            raise InputError(
                f"has sizes of {exponents.shape} fields; expected {len(known.fields)}."
            )
        trees = kernel_trees(known)
        assert isinstance(trees, tuple)
        known = known.with_kernels(Balanced(trees, exponents))
    check_make(facts.get("make"), known)
    if not _same(arrays["probe.kernels"], kernel_probe(known, blocks)):
        raise InputError("its kernels have another formula, or other numbers that are held.")
    for n, (condition, residual, block) in enumerate(
        zip(known.conditions, known.residuals, blocks, strict=True)
    ):
        if not _same(arrays[f"probe.{n}"], probe(residual, block)):
            raise InputError(
                f"the equation of condition {condition.name!r} is another one. Load it with the "
                "problem that was solved."
            )
    return Solution(
        known,
        blocks,
        function,
        {name: dict(sizes) for name, sizes in facts["residuals"].items()},
        code_of(RESULTS[facts["result"]]),
        float(facts["nugget"]),
        float(facts["condition"]),
        History(Record(**record) for record in facts["history"]),
        str(facts.get("solver", "")),
        dict(facts.get("between", {})),
    )


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-6, atol=0, equal_nan=True)
