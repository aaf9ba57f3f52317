"""What becomes of kernels when they meet a domain that names its coordinates."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from kernelpde.errors import InputError
from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._function import Function
from kernelpde.kernels._gibbs import Gibbs
from kernelpde.kernels._given import Features
from kernelpde.kernels._kernel import AbstractKernel, Restriction
from kernelpde.kernels._nodes import OnNodes
from kernelpde.kernels._warped import Warped
from kernelpde.tracing import Written


def bind_coordinates(kernel: AbstractKernel, names: Sequence[str]) -> AbstractKernel:
    """`kernel` with every restriction by name turned into one by index.

    **Arguments:**

    - `kernel`: any kernel.
    - `names`: the names of the domain's coordinates, in order.
    """

    def bind(node):
        if isinstance(node, Function | Features | Gibbs | Warped):
            return _with_written(node, len(names))
        if isinstance(node, Frozen):
            return node.mapped(lambda part: bind_coordinates(part, names))
        if isinstance(node, OnNodes):
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

    whole = (Restriction, Frozen, Function, Features, Gibbs, Warped, OnNodes)
    return jax.tree.map(bind, kernel, is_leaf=lambda node: isinstance(node, whole))


def _with_written(kernel: Function | Features | Gibbs | Warped, dimension: int) -> AbstractKernel:
    """A kernel whose function is found by what it computes, as it does now."""
    points = [np.zeros(dimension)] * (2 if isinstance(kernel, Function) else 1)

    def part(node: Any) -> Any:
        if isinstance(kernel, Function | Features):
            return node.function
        return node.lengthscale if isinstance(kernel, Gibbs) else node.warp

    given = part(kernel)
    function = given.function if isinstance(given, Written) else given
    if not callable(function) or jax.tree.leaves(function) != [function]:
        return kernel
    # What cannot be traced is refused where it is used, with the reason.
    with suppress(Exception):
        return eqx.tree_at(part, kernel, Written(function, *points))
    return kernel
