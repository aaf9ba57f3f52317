"""Files of the windows of an evolution."""

from collections.abc import Callable
from pathlib import Path

import jax

from kernelpde.arrays import agree
from kernelpde.errors import InputError
from kernelpde.io import Attributes
from kernelpde.problem import PointSet, Problem
from kernelpde.solution import Solution, load_solution, save_solution, solution_notes


class WindowFiles:
    """Files of the windows, each with the settings of its run, which are compared on reading."""

    def __init__(self, directory: Path | None, settings: Attributes):
        self.directory, self.settings = directory, settings

    def read(
        self, index: int, window: Problem, collocate: Callable[[], tuple[PointSet, ...]]
    ) -> Solution | None:
        """Read the solution of a window if its file exists; reject one of another run.

        A solution must have the points that `collocate` draws.
        """
        path = self._path(index)
        if path is None or not path.exists():
            return None
        stored = solution_notes(path).get("march", {})
        for name, expected in self.settings.items():
            if (value := stored.get(name)) != expected:
                _raise_mismatch(path, f"{name}: the file has {value}, expected {expected}")
        solution = load_solution(path, window)
        new = window.by_condition(collocate())
        for name, old in window.by_condition(solution.point_sets).items():
            # The data of the previous window are recomputed, by a program that may differ.
            if not jax.tree.all(jax.tree.map(agree, old, new[name])):
                _raise_mismatch(path, f"the points or data of {name!r} differ")
        return solution

    def write(self, index: int, solution: Solution) -> None:
        """Write the solution of a window."""
        path = self._path(index)
        if path is not None and jax.process_index() == 0:
            save_solution(path, solution, {"march": self.settings})

    def _path(self, index: int) -> Path | None:
        return None if self.directory is None else self.directory / f"window-{index:04d}.kpde"


def _raise_mismatch(path: Path, mismatch: str) -> None:
    raise InputError(
        f"{path}: belongs to another run; {mismatch}. Name another directory, or remove this one "
        "to start a new run."
    )
