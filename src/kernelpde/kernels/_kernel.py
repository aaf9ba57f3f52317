"""The kernel interface, and sums, products and restrictions of kernels."""

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from itertools import product
from typing import ClassVar, TypeAlias, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.checking import format_value
from kernelpde.errors import InputError
from kernelpde.kernels._multiindex import MultiIndex, OrderPair, binomial, sub_indices, subtract
from kernelpde.kernels._optional import add_optional, sum_optional
from kernelpde.kernels._parameters import hyperparameters, log_positive

_T = TypeVar("_T")

Coordinates: TypeAlias = tuple[Array, ...]
"""Points as one array per coordinate, all broadcastable.

XLA's CPU code does not vectorize over a trailing axis of length two or three. Separate arrays cost
25 to 40 times less. An axis of length one in `x` against a full axis in `y` gives all pairs.
"""

Partials: TypeAlias = list[Array | None]
"""One array per pair of orders, `None` if the derivative vanishes identically."""

Periods: TypeAlias = tuple[float | None, ...]
"""The period of each coordinate, `None` where it is not periodic."""


class AbstractKernel(eqx.Module):
    """A positive definite function κ(x, y) of two points, with its derivatives.

    Subclasses implement `partials`. The hyperparameters are the inexact array leaves.

    **Example:**

    ```python
    >>> isinstance(2.0 * kp.Gaussian(0.3) + kp.Constant(), kp.AbstractKernel)
    True
    ```
    """

    # Otherwise the product of a numpy array and a kernel is an array of kernels.
    __array_ufunc__: ClassVar[None] = None

    @abc.abstractmethod
    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        """Return ∂ₓ^α ∂ᵧ^β κ(x, y) for each (α, β) in `orders`.

        **Arguments:**

        - `x`, `y`: points, one array per coordinate, broadcastable against each other.
        - `orders`: pairs of multi-indices. Static.

        **Returns:**

        One array of the broadcast shape per pair, or `None` if the derivative vanishes
        identically.
        """

    def make_periodic(self, periods: Periods) -> "AbstractKernel":
        """Return this kernel made periodic in the coordinates that have a period.

        Implement this method to use a user-defined kernel on a periodic domain.

        **Arguments:**

        - `periods`: one per coordinate, `None` where it is not periodic.
        """
        if all(period is None for period in periods):
            return self
        raise InputError(
            f"{type(self).__name__}: this kernel cannot be made periodic, but the domain is. "
            "Restrict it to the other coordinates with .on(...). Alternatively, write it as a "
            "function of the sine and cosine of the periodic coordinate on a domain that is not "
            "periodic. A user-defined kernel may implement make_periodic(periods)."
        )

    def __call__(self, x: Numbers, y: Numbers) -> Float[Array, ""]:
        """Return κ(x, y) for two points."""
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
                f"{type(self).__name__} + {format_value(other)}: expected two kernels. Write a "
                "constant as Constant(1.0)."
            )
        return Sum(self, other)

    def __radd__(self, other: object) -> "Sum":
        raise InputError(
            f"{format_value(other)} + {type(self).__name__}: expected two kernels. Write a "
            "constant as Constant(1.0), and a sum of kernels as k1 + k2 + k3 without sum()."
        )

    def __mul__(self, other: "AbstractKernel | Numbers") -> "Product | Scale":
        if isinstance(other, AbstractKernel):
            return Product(self, other)
        return Scale(self, other)

    def __rmul__(self, other: Numbers) -> "Scale":
        return Scale(self, other)

    def on(self, *coordinates: int | str) -> "Restriction":
        """Restrict this kernel to some coordinates, by index or by name."""
        return Restriction(self, coordinates)

    def __repr__(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        arguments = [f"{k}={v:g}" for k, v in fields.items() if isinstance(v, int | float)]
        for name, value in hyperparameters(self).items():
            arguments.append(f"{name}={np.array2string(value, precision=6, threshold=6)}")
        return f"{type(self).__name__}({', '.join(arguments)})"


class Sum(AbstractKernel):
    """κ = κ₁ + κ₂."""

    first: AbstractKernel
    second: AbstractKernel

    def make_periodic(self, periods: Periods) -> "Sum":
        return Sum(self.first.make_periodic(periods), self.second.make_periodic(periods))

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        return list(
            map(add_optional, self.first.partials(x, y, orders), self.second.partials(x, y, orders))
        )


class Product(AbstractKernel):
    """κ = κ₁ κ₂, differentiated by the product rule in both arguments.

    Derivatives of a factor in coordinates that it does not depend on are `None`. For factors on
    separate coordinates a single term of the sum remains.
    """

    first: AbstractKernel
    second: AbstractKernel

    def make_periodic(self, periods: Periods) -> "Product":
        return Product(self.first.make_periodic(periods), self.second.make_periodic(periods))

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        def splits(alpha: MultiIndex, beta: MultiIndex) -> Iterator[tuple[OrderPair, OrderPair]]:
            for a, b in product(sub_indices(alpha), sub_indices(beta)):
                yield (a, b), (subtract(alpha, a), subtract(beta, b))

        first_orders = sorted({first for order in orders for first, _ in splits(*order)})
        first = dict(zip(first_orders, self.first.partials(x, y, first_orders), strict=True))
        second_orders = sorted(
            {s for order in orders for f, s in splits(*order) if first[f] is not None}
        )
        second = dict(zip(second_orders, self.second.partials(x, y, second_orders), strict=True))

        def terms(alpha: MultiIndex, beta: MultiIndex) -> Iterator[Array]:
            for (a, b), complement in splits(alpha, beta):
                left, right = first[a, b], second.get(complement)
                if left is not None and right is not None:
                    count = binomial(alpha, a) * binomial(beta, b)
                    yield left * right if count == 1 else count * (left * right)

        return [sum_optional(terms(alpha, beta)) for alpha, beta in orders]


class Scale(AbstractKernel):
    """σ² κ, with the variance σ² as a hyperparameter."""

    kernel: AbstractKernel
    log_variance: Float[Array, ""]

    def __init__(self, kernel: AbstractKernel, variance: Numbers):
        self.kernel = kernel
        self.log_variance = log_positive("Scale", "variance", variance, single=True)

    @property
    def variance(self) -> Float[Array, ""]:
        return jnp.exp(self.log_variance)

    def make_periodic(self, periods: Periods) -> "Scale":
        return eqx.tree_at(lambda k: k.kernel, self, self.kernel.make_periodic(periods))

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        variance = self.variance
        return [
            None if value is None else variance * value
            for value in self.kernel.partials(x, y, orders)
        ]


class Restriction(AbstractKernel):
    """κ as a function of some of the coordinates, constant in the others.

    `bind_coordinates` replaces names of coordinates by their indices in a domain.
    """

    kernel: AbstractKernel
    coordinates: tuple[int | str, ...] = eqx.field(static=True)

    def __check_init__(self):
        if any(isinstance(c, bool) or not isinstance(c, int | str) for c in self.coordinates):
            raise InputError(
                "Restriction: coordinates must be names or indices, one argument each, as in "
                f".on('x', 'y'); got {self.coordinates}."
            )
        if not self.coordinates or len(set(self.coordinates)) != len(self.coordinates):
            raise InputError(
                "Restriction: coordinates must be a non-empty list without repetition; "
                f"got {self.coordinates}."
            )

    def make_periodic(self, periods: Periods) -> "Restriction":
        inner = tuple(periods[i] for i in self.coordinates if isinstance(i, int))
        return Restriction(self.kernel.make_periodic(inner), self.coordinates)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        indices = tuple(c for c in self.coordinates if isinstance(c, int))
        if indices != self.coordinates:
            raise InputError(
                f"Restriction to {self.coordinates} by name needs a domain that names them. "
                "Use the kernel in a Problem, call bind_coordinates, or restrict by index."
            )
        if max(indices) >= len(x) or min(indices) < 0:
            raise InputError(
                f"Restriction to coordinates {indices}, but the points have {len(x)} coordinates."
            )

        def restrict(values: tuple[_T, ...]) -> tuple[_T, ...]:
            return tuple(values[i] for i in indices)

        # Other derivatives vanish.
        inner = {
            (alpha, beta): (restrict(alpha), restrict(beta))
            for alpha, beta in orders
            if sum(restrict(alpha)) == sum(alpha) and sum(restrict(beta)) == sum(beta)
        }
        partials = self.kernel.partials(restrict(x), restrict(y), list(inner.values()))
        values = dict(zip(inner, partials, strict=True))
        return [values.get(order) for order in orders]


class Constant(AbstractKernel):
    """κ(x, y) = σ²: the prior of an unknown constant.

    **Example:**

    ```python
    >>> offset = kp.Gaussian(0.3) + kp.Constant(4.0)  # a smooth function plus an unknown number
    ```
    """

    log_variance: Float[Array, ""]

    def __init__(self, variance: Numbers = 1.0):
        self.log_variance = log_positive("Constant", "variance", variance, single=True)

    @property
    def variance(self) -> Float[Array, ""]:
        return jnp.exp(self.log_variance)

    def make_periodic(self, periods: Periods) -> "Constant":
        del periods
        return self

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        value = jnp.broadcast_to(self.variance, shape)
        return [None if any(alpha) or any(beta) else value for alpha, beta in orders]
