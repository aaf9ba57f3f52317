"""The kernel of a function that is known by its values at nodes of its own."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Periods
from kernelpde.kernels._multiindex import OrderPair


class OnNodes(AbstractKernel):
    """κ(zᵢ, zⱼ) between nodes of an argument that is no coordinate of the domain.

    Where others have derivatives, it has nodes: "order" -1 - i stands for the value at zᵢ. What is
    asked for does not depend on the point.

    **Attributes:**

    - `kernel`: κ, of one argument.
    - `nodes`: zᵢ.
    - `extent`: how far the argument is expected to reach, for lengthscales to begin with.
    """

    kernel: AbstractKernel
    nodes: tuple[float, ...] = eqx.field(static=True)
    extent: float = eqx.field(static=True)

    def periodized(self, periods: Periods) -> "OnNodes":
        del periods
        return self

    @property
    def covariance(self) -> Float[Array, "m m"]:
        """κ between all nodes."""
        nodes = jnp.array(self.nodes)
        (found,) = self.kernel.partials((nodes[:, None],), (nodes[None, :],), [((0,), (0,))])
        size = (len(nodes), len(nodes))
        return jnp.zeros(size) if found is None else jnp.broadcast_to(found, size)

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        values = self.covariance

        def one(alpha: tuple[int, ...], beta: tuple[int, ...]) -> Array | None:
            if not any(alpha) and not any(beta):
                return jnp.broadcast_to(values.mean(), shape)
            if alpha[0] >= 0 or beta[0] >= 0:
                return None
            return jnp.broadcast_to(values[-1 - alpha[0], -1 - beta[0]], shape)

        return [one(alpha, beta) for alpha, beta in orders]
