"""Preparation of kernels for a domain: named coordinates and traced functions."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import equinox as eqx
import jax
import numpy as np

from kernelpde.errors import InputError
from kernelpde.kernels._features import FeatureKernel
from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._function import FunctionKernel
from kernelpde.kernels._gibbs import Gibbs
from kernelpde.kernels._kernel import AbstractKernel, Restriction
from kernelpde.kernels._nodes import NodalKernel
from kernelpde.kernels._warped import Warped
from kernelpde.tracing import TracedFunction

_USER_FUNCTIONS: dict[type, tuple[str, int]] = {
    FunctionKernel: ("function", 2),
    FeatureKernel: ("function", 1),
    Gibbs: ("lengthscale", 1),
    Warped: ("warp", 1),
}
"""Attribute that stores the user's function, and its number of arguments, by class of kernel."""


def bind_coordinates(kernel: AbstractKernel, names: Sequence[str]) -> AbstractKernel:
    """Replace restrictions to named coordinates by restrictions to indices.

    **Arguments:**

    - `kernel`: any kernel.
    - `names`: the names of the domain's coordinates, in order.
    """

    def bind(node):
        if type(node) in _USER_FUNCTIONS:
            return _trace_function(node, len(names))
        if isinstance(node, Frozen):
            return node.map_both(lambda component: bind_coordinates(component, names))
        if isinstance(node, NodalKernel):
            return replace(node, kernel=bind_coordinates(node.kernel, ["argument"]))
        if not isinstance(node, Restriction):
            return node
        for c in node.coordinates:
            if isinstance(c, str) and c not in names:
                raise InputError(
                    f"Unknown coordinate {c!r} in a kernel's restriction; "
                    f"the domain has {', '.join(map(repr, names))}."
                )
        indices = tuple(names.index(c) if isinstance(c, str) else c for c in node.coordinates)
        inner_names = [names[i] if i < len(names) else str(i) for i in indices]
        return Restriction(bind_coordinates(node.kernel, inner_names), indices)

    nodes = (Restriction, Frozen, NodalKernel, *_USER_FUNCTIONS)
    return jax.tree.map(bind, kernel, is_leaf=lambda node: isinstance(node, nodes))


def _trace_function(kernel: AbstractKernel, dimension: int) -> AbstractKernel:
    """Replace the user's function by its trace, so that equal computations compare as equal."""
    name, num_points = _USER_FUNCTIONS[type(kernel)]
    function = getattr(kernel, name)
    if isinstance(function, TracedFunction):
        function = function.function
    if not callable(function) or jax.tree.leaves(function) != [function]:
        return kernel
    points = [np.zeros(dimension)] * num_points
    # The first evaluation of a function that cannot be traced raises an error with the cause.
    with suppress(Exception):
        traced = TracedFunction(function, *points)
        return eqx.tree_at(lambda node: getattr(node, name), kernel, traced)
    return kernel
