"""Paths of inputs, and problems whose position on a path is an unknown."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, PyTree

from kernelpde.checking import check_mapping, require
from kernelpde.compiling import is_traced
from kernelpde.errors import InputError
from kernelpde.problem import Condition, Parameter, Problem, declared_unknowns

ORIGIN, OFFSET = "path_origin", "path_offset"
"""Names of an input and of an unknown number, whose sum is the position on a path."""


@dataclass(frozen=True, eq=False)
class Path:
    """Straight path of inputs, with position s = 0 at its start and s = 1 at its end.

    **Attributes:**

    - `start`, `end`: inputs at both ends, by name.
    """

    start: dict[str, PyTree]
    end: dict[str, PyTree]

    @staticmethod
    def from_mapping(problem: Problem, path: Mapping[str, Sequence[PyTree]]) -> "Path":
        """Make a path from pairs (start, end) by the names of inputs."""
        advice = "Inputs are declared with the problem: Problem(..., inputs={'lam': 1.0})."
        check_mapping("continuation", "path", path, problem.inputs, advice=advice)
        require(bool(path), "continuation", "path", "a range such as {'lam': (0, 1)}", path)
        for name, pair in path.items():
            is_pair = isinstance(pair, tuple | list) and len(pair) == 2
            expected = "a pair (start, end)"
            require(is_pair, "continuation", f"path[{name!r}]", expected, pair, _PAIR_ADVICE)
        if is_traced(path):
            raise InputError(
                "continuation: expected concrete numbers in path; got traced ones. Call it outside "
                "of jax.jit, jax.vmap and jax.grad."
            )
        start, end = (
            {
                name: problem.with_inputs({name: pair[side]}).inputs[name]
                for name, pair in path.items()
            }
            for side in (0, 1)
        )
        for name in path:
            ends = (problem.inputs[name], start[name], end[name])
            is_alike = len({_structure(tree) for tree in ends}) == 1
            expected = "two values of the same structure and shapes as the declared input"
            require(is_alike, "continuation", f"path[{name!r}]", expected, path[name], _PAIR_ADVICE)
        pairs = zip(jax.tree.leaves(start), jax.tree.leaves(end), strict=True)
        is_longer_than_zero = any(np.any(a != b) for a, b in pairs if _is_number(a))
        require(is_longer_than_zero, "continuation", "path", "two different ends", dict(path))
        return Path(start, end)

    def inputs(self, position: float | Array) -> dict[str, PyTree]:
        """Return the inputs at a position."""

        def interpolate(start: PyTree, end: PyTree) -> PyTree:
            return start + position * (end - start) if _is_number(start) else start

        return jax.tree.map(interpolate, self.start, self.end)

    @functools.cached_property
    def name(self) -> str:
        """Name of the input if it is a single number, `"position"` otherwise."""
        return next(iter(self.start)) if self._is_scalar else "position"

    @property
    def _is_scalar(self) -> bool:
        return len(self.start) == 1 and np.shape(next(iter(self.start.values()))) == ()

    def value(self, position: float) -> float:
        """Return the input at a position if it is a single number, the position otherwise."""
        return float(self.inputs(position)[self.name]) if self._is_scalar else position

    def position(self, value: float) -> float:
        """Return the position at which the input has a value."""
        if not self._is_scalar:
            return value
        start, end = self.start[self.name], self.end[self.name]
        return float((value - start) / (end - start))

    def with_unknown_position(self, problem: Problem, condition: Condition) -> Problem:
        """Return a problem whose inputs on the path follow from `ORIGIN` + `OFFSET`.

        The last of its conditions is the given one.
        """
        conditions = [replace(c, residual=self._follow(c.residual)) for c in problem.conditions]
        unknowns = [*declared_unknowns(problem), Parameter(OFFSET, mean=0.0, std=1.0)]
        inputs = {name: v for name, v in problem.inputs.items() if name not in self.start}
        inputs[ORIGIN] = 0.0
        return Problem(*conditions, condition, fields=unknowns, inputs=inputs)

    def _follow(self, residual: Callable) -> Callable:
        """Return a residual as a function of the position instead of the inputs on the path."""
        parameters = inspect.signature(residual).parameters
        names = [name for name in parameters if name in self.start]
        if not names:
            return residual
        remaining = [p for p in parameters.values() if p.name not in names]
        added = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in (ORIGIN, OFFSET)]
        signature = inspect.Signature([*remaining, *added])

        @functools.wraps(residual)
        def follow(*args: Any, **kwargs: Any) -> Any:
            values = dict(signature.bind(*args, **kwargs).arguments)
            inputs = self.inputs(values.pop(ORIGIN) + values.pop(OFFSET))
            return residual(**values, **{name: inputs[name] for name in names})

        follow.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
        return follow


_PAIR_ADVICE = "Several inputs change together: path={'a': (0, 1), 'b': (2, 5)}."


def _is_number(leaf: object) -> bool:
    """Return whether a leaf of `Problem.inputs` is an input rather than part of the residual."""
    return isinstance(leaf, jax.Array)


def _structure(tree: PyTree) -> object:
    """Return the structure of an input with the shapes of its numbers, hashable."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(leaf.shape if _is_number(leaf) else leaf for leaf in leaves)
