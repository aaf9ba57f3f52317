"""What becomes of kernels when they meet a domain that names its coordinates."""

from collections.abc import Sequence

import jax

from kernelpde.errors import InputError
from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._kernel import AbstractKernel, Restriction


def bind_coordinates(kernel: AbstractKernel, names: Sequence[str]) -> AbstractKernel:
    """`kernel` with every restriction by name turned into one by index.

    **Arguments:**

    - `kernel`: any kernel.
    - `names`: the names of the domain's coordinates, in order.
    """

    def bind(node):
        if isinstance(node, Frozen):
            return node.mapped(lambda part: bind_coordinates(part, names))
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

    return jax.tree.map(bind, kernel, is_leaf=lambda node: isinstance(node, Restriction | Frozen))
