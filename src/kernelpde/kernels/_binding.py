"""What becomes of kernels when they meet a domain: names of coordinates, and periods."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from kernelpde.errors import InputError
from kernelpde.kernels._composed import AbstractComposed
from kernelpde.kernels._frozen import Frozen
from kernelpde.kernels._function import Function
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Restriction
from kernelpde.kernels._multiindex import OrderPair
from kernelpde.kernels._periodic import Periodic
from kernelpde.kernels._polynomial import Polynomial
from kernelpde.kernels._radial import AbstractRadial


class Wound(AbstractKernel):
    """A radial kernel whose distance is measured along a chord in the periodic coordinates.

    The lengthscales mean what they mean without: for points close together nothing changes.

    **Arguments:**

    - `kernel`: any radial kernel.
    - `periods`: one per coordinate, `None` where it is not periodic.
    """

    kernel: AbstractRadial
    periods: tuple[float | None, ...] = eqx.field(static=True)

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        return self.kernel.wound_partials(x, y, orders, self.periods)


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


def wind(kernel: AbstractKernel, periods: Sequence[float | None]) -> AbstractKernel:
    """`kernel` made periodic in the coordinates that have a period.

    **Arguments:**

    - `kernel`: any kernel, its restrictions by index.
    - `periods`: one per coordinate, `None` where it is not periodic.
    """
    wanted = tuple(periods)
    if all(period is None for period in wanted):
        return kernel

    def one(node):
        if isinstance(node, Wound):
            if node.periods != wanted:
                raise InputError(f"A kernel of periods {node.periods} in a domain of {wanted}.")
            return node
        if isinstance(node, AbstractRadial):
            return Wound(node, wanted)
        if isinstance(node, Restriction):
            inner = [wanted[i] for i in node.coordinates if isinstance(i, int)]
            return Restriction(wind(node.kernel, inner), node.coordinates)
        if isinstance(node, Frozen):
            return node.mapped(lambda part: wind(part, wanted))
        if isinstance(node, Periodic):
            own = np.broadcast_to(np.asarray(node.period, dtype=float), len(wanted))
            if any(p is not None and p != q for p, q in zip(wanted, own, strict=True)):
                raise InputError(
                    f"Periodic: its period {node.period} is not that of the domain, {wanted}."
                )
            return node
        if isinstance(node, Function | Polynomial | AbstractComposed):
            raise InputError(
                f"{type(node).__name__}: this kernel cannot be made periodic, but the domain is. "
                "Restrict it to the other coordinates with .on(...), or write it as a function of "
                "the sine and cosine of the periodic one on a domain that is not periodic."
            )
        return node

    whole = (
        Wound,
        AbstractComposed,
        AbstractRadial,
        Restriction,
        Frozen,
        Periodic,
        Function,
        Polynomial,
    )
    return jax.tree.map(one, kernel, is_leaf=lambda node: isinstance(node, whole))
