"""Spatially varying lengthscales."""

from collections.abc import Callable, Sequence
from math import prod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.arrays import Numbers
from kernelpde.checking import check_integer, check_random_key, check_real, to_float_array
from kernelpde.errors import InputError
from kernelpde.kernels._parameters import log_positive
from kernelpde.precision import require_float64

_INITIAL_VARIATION = 0.1
"""Factor of the random last layer of a network that starts nearly constant. At 0 the derivatives in
all other layers vanish."""


class NetworkLengthscale(eqx.Module):
    """ℓ(x) = s softplus(N(x)) with a tanh network N, as in sections 5.4 and 5.5 of the paper.

    **Arguments:**

    - `inputs`: number of coordinates.
    - `outputs`: number of lengthscales, 1 or one per coordinate.
    - `key`: random key for the initial weights.
    - `width`, `depth`: neurons per hidden layer, and number of hidden layers.
    - `scale`: s.

    **Example:**

    ```python
    >>> learned_scale = kp.Gibbs(kp.NetworkLengthscale(2, 2, key=jax.random.key(0)))
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
            check_integer("NetworkLengthscale", name, count, at_least=1)
        check_integer("NetworkLengthscale", "depth", depth, at_least=0)
        check_real("NetworkLengthscale", "scale", scale, greater_than=0)
        check_random_key("NetworkLengthscale", key)
        self.network = eqx.nn.MLP(
            inputs, outputs, width, depth, activation=jnp.tanh, key=key, dtype=jnp.float64
        )
        self.scale = scale

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        if x.shape != (self.network.in_size,):
            raise InputError(
                f"NetworkLengthscale: it has {self.network.in_size} inputs, but the points have "
                f"{x.shape[0]} coordinates."
            )
        return self.scale * jax.nn.softplus(self.network(x))

    def with_constant(self, lengthscale: Numbers) -> "NetworkLengthscale":
        """Return this network with a last layer that makes ℓ nearly constant."""
        log_lengthscale = log_positive("NetworkLengthscale", "lengthscale", lengthscale)
        target = jnp.exp(log_lengthscale) / self.scale
        weight = self.network.layers[-1].weight
        bias = jnp.broadcast_to(target + jnp.log(-jnp.expm1(-target)), weight.shape[:1])
        return eqx.tree_at(
            lambda n: (n.network.layers[-1].weight, n.network.layers[-1].bias),
            self,
            (_INITIAL_VARIATION * weight, bias),
        )


class BumpLengthscale(eqx.Module):
    """ℓᵢ(x) = ℓᵢ exp(Σⱼ cᵢⱼ Bⱼ(x)) with Gaussian bumps Bⱼ on a coarse grid.

    **Arguments:**

    - `lengthscale`: ℓᵢ, one number for all coordinates or one each.
    - `box`: lower and upper bound of each coordinate.
    - `shape`: number of bumps along each coordinate.

    **Example:**

    ```python
    >>> lengthscale = kp.BumpLengthscale([0.3, 0.3], box=[(0, 1), (0, 1)], shape=(4, 4))
    >>> hyper = kp.hyperparameters(kp.Gibbs(lengthscale))
    ```
    """

    log_lengthscale: Float[Array, " n"]
    coefficients: Float[Array, "n J"]
    box: tuple[tuple[float, float], ...] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, lengthscale: Numbers, box: Sequence[tuple[float, float]], shape: Sequence[int]
    ):
        intervals = to_float_array("BumpLengthscale", "box", box)
        if isinstance(shape, int | str):
            raise InputError(
                f"BumpLengthscale: shape must be a list, one number of bumps per coordinate; "
                f"got {shape!r}."
            )
        counts = tuple(check_integer("BumpLengthscale", "shape", count) for count in shape)
        if intervals.shape[1:] != (2,) or not (intervals[:, 0] < intervals[:, 1]).all():
            raise InputError(
                "BumpLengthscale: box must be intervals (low, high) with low < high, one per "
                f"coordinate; got {box}."
            )
        if len(box) != len(counts) or min(counts) < 1:
            raise InputError(
                "BumpLengthscale: expected one interval and one positive number of bumps per "
                f"coordinate; got {len(box)} intervals and shape {tuple(shape)}."
            )
        self.log_lengthscale = jnp.atleast_1d(
            log_positive("BumpLengthscale", "lengthscale", lengthscale)
        )
        self.coefficients = jnp.zeros((self.log_lengthscale.shape[0], prod(counts)))
        self.box = tuple((float(a), float(b)) for a, b in box)
        self.shape = counts

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        if x.shape != (len(self.box),):
            raise InputError(
                f"BumpLengthscale: it has {len(self.box)} coordinates, but the points have "
                f"{x.shape[0]}."
            )
        exponent = jnp.ones(1)
        for i, ((low, high), count) in enumerate(zip(self.box, self.shape, strict=True)):
            spacing = (high - low) / max(count - 1, 1)
            centers = np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
            bump = jnp.exp(-0.5 * ((x[i] - centers) / spacing) ** 2)
            exponent = (exponent[:, None] * bump).reshape(-1)
        return jnp.exp(self.log_lengthscale + self.coefficients @ exponent)

    def with_constant(self, lengthscale: Numbers) -> "BumpLengthscale":
        """Return the constant field on the same grid of bumps."""
        lengthscales = np.broadcast_to(
            np.asarray(lengthscale, dtype=float), self.log_lengthscale.shape
        )
        return BumpLengthscale(lengthscales, self.box, self.shape)


class SizeFieldLengthscale(eqx.Module):
    """ℓᵢ(x) = ℓᵢ H(x), proportional to a size field H such as the spacing of points.

    **Arguments:**

    - `lengthscale`: ℓᵢ, one number for all coordinates or one each.
    - `sizes`: H, a positive function of a point without hyperparameters, such as
      `kernelpde.geometry.SizeField`.
    """

    log_lengthscale: Float[Array, " n"]
    sizes: Callable[[Array], Array]

    def __init__(self, lengthscale: Numbers, sizes: Callable[[Array], Array]):
        self.log_lengthscale = jnp.atleast_1d(
            log_positive("SizeFieldLengthscale", "lengthscale", lengthscale)
        )
        self.sizes = sizes

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " n"]:
        return jnp.exp(self.log_lengthscale) * self.sizes(x)
