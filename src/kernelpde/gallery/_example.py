"""What a gallery problem consists of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

from kernelpde.problem import Problem
from kernelpde.solve import Solution


@dataclass(frozen=True)
class Example:
    """A problem with a reference solution.

    **Attributes:**

    - `name`: as in `kernelpde run NAME`.
    - `summary`: one line.
    - `problem`: fields, kernels and conditions.
    - `points`: how many points each condition is meant to have.
    - `references`: for each field with a known solution, a function of points `(n, d)`.
    - `grid`: points at which errors are measured.
    - `training`: how many points learning takes; as many for validation.
    - `sampling`: how the command draws points unless told otherwise.
    """

    name: str
    summary: str
    problem: Problem
    points: Mapping[str, int]
    references: Mapping[str, Callable[[np.ndarray], np.ndarray]]
    grid: Float[np.ndarray, "n d"]
    training: Mapping[str, int]
    sampling: str = "uniform"

    def errors(self, solution: Solution) -> dict[str, dict[str, float]]:
        """Root mean square ("l2", as the paper has it) and maximum error of each field.

        For a complex field also those of its absolute value, which is what the paper compares.
        """
        found = {}
        for field, reference in self.references.items():
            values, truth = np.asarray(solution[field](self.grid)), reference(self.grid)
            found[field] = _sizes(np.abs(values - truth))
            if np.iscomplexobj(truth):
                found[f"abs({field})"] = _sizes(np.abs(values) - np.abs(truth))
        return found


def _sizes(error: np.ndarray) -> dict[str, float]:
    return {"l2": float(np.sqrt(np.mean(error**2))), "linf": float(np.max(np.abs(error)))}


def product_grid(*axes: Float[np.ndarray, "_"] | Array) -> Float[np.ndarray, "m d"]:
    """All combinations of coordinates, one point per row."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
