"""What a kernel is, and how kernels combine."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import shown
from kernelpde.errors import InputError
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, below, binomial, minus
from kernelpde.kernels._parameters import hyperparameters, log_of_positive

Coordinates: TypeAlias = tuple[Array, ...]
"""Points with their coordinates unrolled: one array per coordinate, all broadcastable.

A trailing axis of length two or three stops XLA's CPU code from vectorizing; separate arrays cost
25 to 40 times less. An axis of length one in `x` against a full axis in `y` gives all pairs.
"""


Periods: TypeAlias = tuple[float | None, ...]
"""The period of each coordinate, `None` where it is not periodic."""


class AbstractKernel(eqx.Module):
    """A positive definite function κ(x, y) of two points, with its derivatives.

    Subclasses provide one method, `partials`. Its hyperparameters are the inexact array leaves.

    **Example:**

    ```python
    >>> isinstance(2.0 * kp.Gaussian(0.3) + kp.Constant(), kp.AbstractKernel)
    True
    ```
    """

    # An array times a kernel is refused as a whole, instead of becoming an array of kernels.
    __array_ufunc__: ClassVar[None] = None

    @abc.abstractmethod
    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        """∂ₓ^α ∂ᵧ^β κ(x, y) for each (α, β) in `orders`.

        **Arguments:**

        - `x`, `y`: points, one array per coordinate, broadcastable against each other.
        - `orders`: pairs of multi-indices; static.

        **Returns:**

        One array per pair, of the broadcast shape, or `None` where the derivative is zero
        everywhere, so that sums and products can leave it out.
        """

    def periodized(self, periods: Periods) -> "AbstractKernel":
        """This kernel made periodic in the coordinates that have a period.

        A user-defined kernel must implement this method to be used on a periodic domain.

        **Arguments:**

        - `periods`: one per coordinate, `None` where it is not periodic.
        """
        if all(period is None for period in periods):
            return self
        raise InputError(
            f"{type(self).__name__}: this kernel cannot be made periodic, but the domain is. "
            "Restrict it to the other coordinates with .on(...), or write it as a function of "
            "the sine and cosine of the periodic one on a domain that is not periodic; a kernel of "
            "your own may have a method periodized(periods)."
        )

    def __call__(self, x: Numbers, y: Numbers) -> Float[Array, ""]:
        """κ(x, y) for two points."""
        x, y = jnp.asarray(x), jnp.asarray(y)
        if x.ndim != 1 or x.shape != y.shape:
            raise InputError(
                f"{type(self).__name__}: expected two points of shape (d,); got shapes {x.shape} "
                f"and {y.shape}."
            )
        zero = (0,) * x.shape[0]
        (value,) = self.partials(tuple(x), tuple(y), [(zero, zero)])
        return jnp.zeros(()) if value is None else value

    def __add__(self, other: "AbstractKernel") -> "Sum":
        if not isinstance(other, AbstractKernel):
            raise InputError(
                f"{type(self).__name__} + {shown(other)}: expected two kernels. A constant is "
                "Constant(1.0)."
            )
        return Sum(self, other)

    def __radd__(self, other: object) -> "Sum":
        raise InputError(
            f"{shown(other)} + {type(self).__name__}: expected two kernels. A constant is "
            "Constant(1.0); several kernels are added as k1 + k2 + k3, not by sum()."
        )

    def __mul__(self, other: "AbstractKernel | Numbers") -> "Product | Scale":
        if isinstance(other, AbstractKernel):
            return Product(self, other)
        return Scale(self, other)

    def __rmul__(self, other: Numbers) -> "Scale":
        return Scale(self, other)

    def on(self, *coordinates: int | str) -> "Restriction":
        """This kernel as a function of some coordinates only, by index or by name."""
        return Restriction(self, coordinates)

    def __repr__(self) -> str:
        def show(value: np.ndarray) -> str:
            return np.array2string(value, precision=6, threshold=6)

        fixed = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        parts = [f"{k}={v:g}" for k, v in fixed.items() if isinstance(v, int | float)]
        parts += [f"{name}={show(value)}" for name, value in hyperparameters(self).items()]
        inside = ", ".join(parts)
        return f"{type(self).__name__}({inside})"


class Sum(AbstractKernel):
    """κ = κ₁ + κ₂."""

    first: AbstractKernel
    second: AbstractKernel

    def periodized(self, periods: Periods) -> "Sum":
        return Sum(self.first.periodized(periods), self.second.periodized(periods))

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        pairs = zip(
            self.first.partials(x, y, orders), self.second.partials(x, y, orders), strict=True
        )
        return [b if a is None else a if b is None else a + b for a, b in pairs]


class Product(AbstractKernel):
    """κ = κ₁ κ₂, differentiated by the rule of Leibniz in both arguments.

    A factor that does not depend on a coordinate reports its derivatives there as `None`; for
    factors on separate coordinates a single term of the sum remains.
    """

    first: AbstractKernel
    second: AbstractKernel

    def periodized(self, periods: Periods) -> "Product":
        return Product(self.first.periodized(periods), self.second.periodized(periods))

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        inner = sorted(
            {(a, b) for alpha, beta in orders for a in below(alpha) for b in below(beta)}
        )
        left = dict(zip(inner, self.first.partials(x, y, inner), strict=True))
        needed = sorted(
            {
                (minus(alpha, a), minus(beta, b))
                for alpha, beta in orders
                for a in below(alpha)
                for b in below(beta)
                if left[a, b] is not None
            }
        )
        right = dict(zip(needed, self.second.partials(x, y, needed), strict=True))

        def leibniz(alpha: MultiIndex, beta: MultiIndex) -> Array | None:
            total = None
            for a in below(alpha):
                for b in below(beta):
                    one, other = left[a, b], right.get((minus(alpha, a), minus(beta, b)))
                    if one is None or other is None:
                        continue
                    count = binomial(alpha, a) * binomial(beta, b)
                    term = one * other if count == 1 else count * (one * other)
                    total = term if total is None else total + term
            return total

        return [leibniz(alpha, beta) for alpha, beta in orders]


class Scale(AbstractKernel):
    """σ² κ, with the variance σ² as a hyperparameter."""

    kernel: AbstractKernel
    log_variance: Float[Array, ""]

    def __init__(self, kernel: AbstractKernel, variance: Numbers):
        self.kernel = kernel
        self.log_variance = log_of_positive("Scale", "variance", variance, single=True)

    @property
    def variance(self) -> Float[Array, ""]:
        return jnp.exp(self.log_variance)

    def periodized(self, periods: Periods) -> "Scale":
        return eqx.tree_at(lambda k: k.kernel, self, self.kernel.periodized(periods))

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        variance = self.variance
        return [
            None if value is None else variance * value
            for value in self.kernel.partials(x, y, orders)
        ]


class Restriction(AbstractKernel):
    """κ as a function of some of the coordinates; constant in the others.

    Coordinates given by name are looked up when the kernel meets a domain, in `bind_coordinates`.
    """

    kernel: AbstractKernel
    coordinates: tuple[int | str, ...] = eqx.field(static=True)

    def __check_init__(self):
        if any(isinstance(c, bool) or not isinstance(c, int | str) for c in self.coordinates):
            raise InputError(
                "Restriction: coordinates are names or indices, one argument each, as in "
                f".on('x', 'y'); got {self.coordinates}."
            )
        if not self.coordinates or len(set(self.coordinates)) != len(self.coordinates):
            raise InputError(
                "Restriction: coordinates must be a non-empty list without repetition; "
                f"got {self.coordinates}."
            )

    def periodized(self, periods: Periods) -> "Restriction":
        inner = tuple(periods[i] for i in self.coordinates if isinstance(i, int))
        return Restriction(self.kernel.periodized(inner), self.coordinates)

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        kept = tuple(c for c in self.coordinates if isinstance(c, int))
        if kept != self.coordinates:
            raise InputError(
                f"Restriction to {self.coordinates} by name needs a domain that names them. "
                "Use the kernel in a Problem, call bind_coordinates, or restrict by index."
            )
        if max(kept) >= len(x) or min(kept) < 0:
            raise InputError(
                f"Restriction to coordinates {kept}, but the points have {len(x)} coordinates."
            )
        others = [i for i in range(len(x)) if i not in kept]

        def survives(order: OrderPair) -> bool:
            return not any(order[side][i] for side in (0, 1) for i in others)

        inner = [
            (tuple(alpha[i] for i in kept), tuple(beta[i] for i in kept))
            for alpha, beta in orders
            if survives((alpha, beta))
        ]
        values = iter(
            self.kernel.partials(tuple(x[i] for i in kept), tuple(y[i] for i in kept), inner)
        )
        return [next(values) if survives(order) else None for order in orders]


class Constant(AbstractKernel):
    """κ(x, y) = σ²: the prior of an unknown constant.

    **Example:**

    ```python
    >>> offset = kp.Gaussian(0.3) + kp.Constant(4.0)  # a smooth function plus an unknown number
    ```
    """

    log_variance: Float[Array, ""]

    def __init__(self, variance: Numbers = 1.0):
        self.log_variance = log_of_positive("Constant", "variance", variance, single=True)

    @property
    def variance(self) -> Float[Array, ""]:
        return jnp.exp(self.log_variance)

    def periodized(self, periods: Periods) -> "Constant":
        del periods
        return self

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        value = jnp.broadcast_to(self.variance, shape)
        return [None if any(alpha) or any(beta) else value for alpha, beta in orders]
