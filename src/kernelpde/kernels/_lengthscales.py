"""Lengthscales that vary from place to place."""

from collections.abc import Callable, Sequence
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.arrays import Numbers
from kernelpde.checking import numbers, random_key, real_number, whole_number
from kernelpde.errors import InputError
from kernelpde.kernels._parameters import log_of_positive
from kernelpde.precision import require_float64


class Network(eqx.Module):
    """ℓ(x) = s softplus(N(x)), N a network with tanh: sections 5.4 and 5.5 of the paper.

    **Arguments:**

    - `inputs`, `outputs`: coordinates, and lengthscales: 1 for all coordinates or one each.
    - `key`: of the random initial weights.
    - `width`, `depth`: neurons per hidden layer, and hidden layers.
    - `scale`: s.

    **Example:**

    ```python
    >>> learned_scale = kp.Gibbs(kp.Network(2, 2, key=jax.random.key(0)))
    ```
    """

    network: eqx.nn.MLP
    scale: float = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        key: PRNGKeyArray,
        width: int = 50,
        depth: int = 2,
        scale: float = 0.25,
    ):
        require_float64()
        for name, count in (("inputs", inputs), ("outputs", outputs), ("width", width)):
            whole_number("Network", name, count, at_least=1)
        whole_number("Network", "depth", depth, at_least=0)
        real_number("Network", "scale", scale, above=0)
        random_key("Network", key)
        self.network = eqx.nn.MLP(
            inputs, outputs, width, depth, activation=jnp.tanh, key=key, dtype=jnp.float64
        )
        self.scale = scale

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        if x.shape != (self.network.in_size,):
            raise InputError(
                f"Network: it has {self.network.in_size} inputs, but the points have "
                f"{x.shape[0]} coordinates."
            )
        return self.scale * jax.nn.softplus(self.network(x))

    def around(self, lengthscale: Numbers) -> "Network":
        """The same network with its last layer such that ℓ is nearly this constant everywhere."""
        target = jnp.exp(log_of_positive("Network", "lengthscale", lengthscale)) / self.scale
        weight = self.network.layers[-1].weight
        bias = jnp.broadcast_to(target + jnp.log(-jnp.expm1(-target)), weight.shape[:1])
        return eqx.tree_at(
            lambda n: (n.network.layers[-1].weight, n.network.layers[-1].bias),
            self,
            (0.1 * weight, bias),
        )


class Bumps(eqx.Module):
    """ℓᵢ(x) = ℓᵢ exp(Σⱼ cᵢⱼ Bⱼ(x)) with Gaussian bumps Bⱼ on a coarse grid: few hyperparameters.

    **Arguments:**

    - `lengthscale`: ℓᵢ, one number for all coordinates or one each.
    - `box`: lower and upper end in each coordinate.
    - `shape`: how many bumps along each coordinate.

    **Example:**

    ```python
    >>> short_somewhere = kp.Gibbs(kp.Bumps([0.3, 0.3], box=[(0, 1), (0, 1)], shape=(4, 4)))
    >>> hyper = kp.hyperparameters(short_somewhere)
    ```
    """

    log_lengthscale: Float[Array, " n"]
    coefficients: Float[Array, "n J"]
    box: tuple[tuple[float, float], ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, lengthscale: Numbers, box: Sequence[tuple[float, float]], shape: Sequence[int]
    ):
        intervals = numbers("Bumps", "box", box)
        if isinstance(shape, int | str):
            raise InputError(
                f"Bumps: shape must be a list, one number of bumps per coordinate; got {shape!r}."
            )
        counts = tuple(whole_number("Bumps", "shape", count) for count in shape)
        if intervals.shape[1:] != (2,) or not (intervals[:, 0] < intervals[:, 1]).all():
            raise InputError(
                "Bumps: box must be intervals (low, high) with low < high, one per coordinate; "
                f"got {box}."
            )
        if len(box) != len(counts) or min(counts) < 1:
            raise InputError(
                "Bumps: expected one interval and one positive number of bumps per coordinate; "
                f"got {len(box)} intervals and shape {tuple(shape)}."
            )
        self.log_lengthscale = jnp.atleast_1d(log_of_positive("Bumps", "lengthscale", lengthscale))
        self.coefficients = jnp.zeros((self.log_lengthscale.shape[0], prod(counts)))
        self.box = tuple((float(a), float(b)) for a, b in box)
        self.shape = counts

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        if x.shape != (len(self.box),):
            raise InputError(
                f"Bumps: it has {len(self.box)} coordinates, but the points have {x.shape[0]}."
            )
        together = jnp.ones(1)
        for i, ((low, high), count) in enumerate(zip(self.box, self.shape, strict=True)):
            spacing = (high - low) / max(count - 1, 1)
            centers = np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
            bump = jnp.exp(-0.5 * ((x[i] - centers) / spacing) ** 2)
            together = (together[:, None] * bump).reshape(-1)
        return jnp.exp(self.log_lengthscale + self.coefficients @ together)

    def around(self, lengthscale: Numbers) -> "Bumps":
        """ℓ constant."""
        each = np.broadcast_to(np.asarray(lengthscale, dtype=float), self.log_lengthscale.shape)
        return Bumps(each, self.box, self.shape)


class Sized(eqx.Module):
    """ℓᵢ(x) = ℓᵢ H(x): long where points are far apart, and short where they are close.

    **Arguments:**

    - `lengthscale`: ℓᵢ, one number for all coordinates or one each.
    - `sizes`: H, a positive function of a point without hyperparameters, such as
      `kernelpde.geometry.Sizes`.
    """

    log_lengthscale: Float[Array, " n"]
    sizes: Callable[[Array], Array]

    def __init__(self, lengthscale: Numbers, sizes: Callable[[Array], Array]):
        self.log_lengthscale = jnp.atleast_1d(log_of_positive("Sized", "lengthscale", lengthscale))
        self.sizes = sizes

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        return jnp.exp(self.log_lengthscale) * self.sizes(x)
