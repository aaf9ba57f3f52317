"""A problem as a tree of arrays: hyperparameters, numbers in residuals, inputs."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import jax

from kernelpde.problem._problem import Problem


class _Structure:
    """What is no array of a problem, equal for problems with the same conditions and fields."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self._key = tuple(map(id, problem.conditions)), tuple(f.name for f in problem.fields)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and self._key == other._key


def _flattened(problem: Problem) -> tuple[tuple[Any, ...], _Structure]:
    kernels = tuple(field.kernel for field in problem.fields)
    bare = tuple(replace(residual, inputs=()) for residual in problem.residuals)
    inputs = problem._inputs.values
    return (kernels, problem.mixing, problem.exponents, bare, inputs), _Structure(problem)


def _unflattened(structure: _Structure, children: Sequence[Any]) -> Problem:
    other = copy(structure.problem)
    kernels, other.mixing, other.exponents, other.residuals, values = children
    fields = []
    for field, kernel in zip(other.fields, kernels, strict=True):
        # Without the checks of a field: a tree may be filled with anything.
        field = copy(field)
        object.__setattr__(field, "kernel", kernel)
        fields.append(field)
    other.fields = tuple(fields)
    other._inputs = other._inputs.with_values(values)
    other._attach_inputs()
    return other


jax.tree_util.register_pytree_node(Problem, _flattened, _unflattened)
