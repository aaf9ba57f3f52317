"""The kernel of a law, a function represented by its values at nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.kernels._kernel import (
    AbstractKernel,
    Coordinates,
    CoordinateSet,
    Partials,
    Periods,
)
from kernelpde.kernels._multiindex import MultiIndex, OrderPair


class NodalKernel(AbstractKernel):
    """κ(zᵢ, zⱼ) between nodes of an argument that is no coordinate of the domain.

    The order -1 - i of a derivative denotes the value at zᵢ. It is independent of the point.

    **Attributes:**

    - `kernel`: κ, a kernel of one argument.
    - `nodes`: zᵢ.
    - `extent`: expected range of the argument, for initial lengthscales.
    """

    kernel: AbstractKernel
    nodes: tuple[float, ...] = eqx.field(static=True)
    extent: float = eqx.field(static=True)

    def make_periodic(self, periods: Periods) -> "NodalKernel":
        del periods
        return self

    def bind_coordinates(self, names: Sequence[str]) -> "NodalKernel":
        del names
        return replace(self, kernel=self.kernel.bind_coordinates(["argument"]))

    def split_lengthscales(self, extents: Float[np.ndarray, " d"]) -> "NodalKernel":
        del extents
        return self

    def parameters_in(self, coordinates: tuple[int, ...]) -> Iterator[tuple[Array, CoordinateSet]]:
        del coordinates
        for leaf, argument in self.kernel.parameters_in((0,)):
            yield leaf, self.extent if argument == (0,) else argument

    def periods_in(self, dimension: int) -> Periods:
        return (None,) * dimension

    @property
    def covariance(self) -> Float[Array, "m m"]:
        """Covariance matrix of the values at all nodes."""
        nodes = jnp.array(self.nodes)
        (values,) = self.kernel.partials((nodes[:, None],), (nodes[None, :],), [((0,), (0,))])
        shape = (len(nodes), len(nodes))
        return jnp.zeros(shape) if values is None else jnp.broadcast_to(values, shape)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        covariance = self.covariance

        def partial(alpha: MultiIndex, beta: MultiIndex) -> Array | None:
            if not any(alpha) and not any(beta):
                return jnp.broadcast_to(covariance.mean(), shape)
            if alpha[0] >= 0 or beta[0] >= 0:
                return None
            return jnp.broadcast_to(covariance[-1 - alpha[0], -1 - beta[0]], shape)

        return [partial(alpha, beta) for alpha, beta in orders]
