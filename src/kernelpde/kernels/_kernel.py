"""The kernel interface, and sums, products and restrictions of kernels."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import ClassVar, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

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

CoordinateSet: TypeAlias = tuple[int, ...] | float | None
"""The coordinates that a lengthscale scales with. A float is an extent that is no coordinate: the
range of a law's argument, or a full turn. `None` marks a parameter that is no lengthscale."""


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

    @property
    def is_stationary(self) -> bool:
        """True if κ depends on x - y only: ∂ₓ^α ∂ᵧ^β κ = (-1)^|β| ∂ₓ^(α+β) κ."""
        return False

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

    def partials_by_order(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> dict[OrderPair, Array | None]:
        """Return `partials` by pair of orders."""
        return dict(zip(orders, self.partials(x, y, orders), strict=True))

    def bind_coordinates(self, names: Sequence[str]) -> "AbstractKernel":
        """Return this kernel with user functions traced, and indices for names of coordinates."""
        return map_kernels(lambda kernel: kernel.bind_coordinates(names), self)

    def unfreeze(self) -> "AbstractKernel":
        """Return this kernel with all numbers as array leaves."""
        return map_kernels(lambda kernel: kernel.unfreeze(), self)

    def split_lengthscales(self, extents: Float[np.ndarray, " d"]) -> "AbstractKernel":
        """Return this kernel with one lengthscale per coordinate, equal relative to the extents."""
        return map_kernels(lambda kernel: kernel.split_lengthscales(extents), self)

    def parameters_in(self, coordinates: tuple[int, ...]) -> Iterator[tuple[Array, CoordinateSet]]:
        """Iterate over array leaves of a kernel of some coordinates, with those they scale with."""
        return iterate_parameters(self, coordinates)

    def periods_in(self, dimension: int) -> Periods:
        """Return the periods of this kernel as a function of that many coordinates."""
        return kernel_periods(self, dimension)

    def split_nonstationary(self) -> "NonstationarySplit":
        """Split κ into κ₀ + Σ σᵢ² κᵢ with nonstationary κᵢ. `None` is a zero κ₀, or σᵢ² = 1."""
        return self, ()

    def summands(self) -> "tuple[AbstractKernel, ...]":
        """Return kernels whose sum is κ, those that are stationary apart from others.

        Stationary kernels have few different derivatives, their sums with others have many.
        """
        return (self,)

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


NonstationarySplit: TypeAlias = tuple[
    AbstractKernel | None, tuple[tuple[Array | None, AbstractKernel], ...]
]


def _is_inner_kernel(tree: PyTree) -> Callable[[PyTree], bool]:
    return lambda node: isinstance(node, AbstractKernel) and node is not tree


def map_kernels(function: Callable[[AbstractKernel], AbstractKernel], tree: _T) -> _T:
    """Apply a function to the outermost kernels inside of a tree."""
    is_kernel = _is_inner_kernel(tree)
    return jax.tree.map(
        lambda node: function(node) if is_kernel(node) else node, tree, is_leaf=is_kernel
    )


def is_lengthscale(path: tuple[object, ...]) -> bool:
    """Return whether the leaf at a path is a lengthscale."""
    return bool(path) and getattr(path[-1], "name", "") == "log_lengthscale"


def iterate_parameters(
    tree: PyTree, coordinates: tuple[int, ...]
) -> Iterator[tuple[Array, CoordinateSet]]:
    """Iterate over array leaves, in the order of JAX, with the coordinates they scale with."""
    is_kernel = _is_inner_kernel(tree)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_kernel):
        if is_kernel(leaf):
            yield from leaf.parameters_in(coordinates)
        elif eqx.is_array(leaf):
            yield leaf, coordinates if is_lengthscale(path) else None


def kernel_periods(tree: PyTree, dimension: int) -> Periods:
    """Return the period of the kernels inside of a tree by coordinate, `None` if they have none."""
    is_kernel = _is_inner_kernel(tree)
    kernels = filter(is_kernel, jax.tree.leaves(tree, is_leaf=is_kernel))
    periods = [kernel.periods_in(dimension) for kernel in kernels]
    return tuple(next((p[i] for p in periods if p[i]), None) for i in range(dimension))


class Sum(AbstractKernel):
    """κ = κ₁ + κ₂."""

    first: AbstractKernel
    second: AbstractKernel

    @property
    def is_stationary(self) -> bool:
        return self.first.is_stationary and self.second.is_stationary

    def make_periodic(self, periods: Periods) -> "Sum":
        return Sum(self.first.make_periodic(periods), self.second.make_periodic(periods))

    def split_nonstationary(self) -> NonstationarySplit:
        first, first_summands = self.first.split_nonstationary()
        second, second_summands = self.second.split_nonstationary()
        remainder = second if first is None else first if second is None else Sum(first, second)
        return remainder, first_summands + second_summands

    def summands(self) -> tuple[AbstractKernel, ...]:
        return (self,) if self.is_stationary else self.first.summands() + self.second.summands()

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        summands = (kernel.partials(x, y, orders) for kernel in (self.first, self.second))
        return list(map(add_optional, *summands))

    def __repr__(self) -> str:
        return f"{self.first!r} + {self.second!r}"


class Product(AbstractKernel):
    """κ = κ₁ κ₂, differentiated by the product rule in both arguments.

    Derivatives of a factor in coordinates that it does not depend on are `None`. For factors on
    separate coordinates a single term of the sum remains.
    """

    first: AbstractKernel
    second: AbstractKernel

    @property
    def is_stationary(self) -> bool:
        return self.first.is_stationary and self.second.is_stationary

    def make_periodic(self, periods: Periods) -> "Product":
        return Product(self.first.make_periodic(periods), self.second.make_periodic(periods))

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        def splits(alpha: MultiIndex, beta: MultiIndex) -> Iterator[tuple[OrderPair, OrderPair]]:
            for a, b in product(sub_indices(alpha), sub_indices(beta)):
                yield (a, b), (subtract(alpha, a), subtract(beta, b))

        first_orders = sorted({first for order in orders for first, _ in splits(*order)})
        first = self.first.partials_by_order(x, y, first_orders)
        second_orders = sorted(
            {s for order in orders for f, s in splits(*order) if first[f] is not None}
        )
        second = self.second.partials_by_order(x, y, second_orders)

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

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    def make_periodic(self, periods: Periods) -> "Scale":
        return eqx.tree_at(lambda k: k.kernel, self, self.kernel.make_periodic(periods))

    def split_nonstationary(self) -> NonstationarySplit:
        inner, summands = self.kernel.split_nonstationary()
        if not summands:
            return self, ()
        variance = self.variance
        scaled = tuple((variance if s is None else variance * s, k) for s, k in summands)
        return None if inner is None else eqx.tree_at(lambda k: k.kernel, self, inner), scaled

    def summands(self) -> tuple[AbstractKernel, ...]:
        return tuple(eqx.tree_at(lambda k: k.kernel, self, k) for k in self.kernel.summands())

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

    @property
    def indices(self) -> tuple[int, ...]:
        """Indices of the coordinates, without those that are names."""
        return tuple(c for c in self.coordinates if isinstance(c, int))

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    def bind_coordinates(self, names: Sequence[str]) -> "Restriction":
        for c in self.coordinates:
            if isinstance(c, str) and c not in names:
                raise InputError(
                    f"Unknown coordinate {c!r} in a kernel's restriction; "
                    f"the domain has {', '.join(map(repr, names))}."
                )
        indices = tuple(names.index(c) if isinstance(c, str) else c for c in self.coordinates)
        inner_names = [names[i] if i < len(names) else str(i) for i in indices]
        return Restriction(self.kernel.bind_coordinates(inner_names), indices)

    def split_lengthscales(self, extents: Float[np.ndarray, " d"]) -> "Restriction":
        inner = self.kernel.split_lengthscales(extents[list(self.indices)])
        return Restriction(inner, self.coordinates)

    def parameters_in(self, coordinates: tuple[int, ...]) -> Iterator[tuple[Array, CoordinateSet]]:
        return self.kernel.parameters_in(tuple(coordinates[i] for i in self.indices))

    def periods_in(self, dimension: int) -> Periods:
        inner = self.kernel.periods_in(len(self.indices))
        return tuple(
            inner[self.indices.index(i)] if i in self.indices else None for i in range(dimension)
        )

    def make_periodic(self, periods: Periods) -> "Restriction":
        inner = tuple(periods[i] for i in self.indices)
        return Restriction(self.kernel.make_periodic(inner), self.coordinates)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        indices = self.indices
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
        values = self.kernel.partials_by_order(restrict(x), restrict(y), list(inner.values()))
        return [values[inner[order]] if order in inner else None for order in orders]


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

    @property
    def is_stationary(self) -> bool:
        return True

    def make_periodic(self, periods: Periods) -> "Constant":
        del periods
        return self

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        shape = jnp.broadcast_shapes(*(c.shape for c in (*x, *y)))
        value = jnp.broadcast_to(self.variance, shape)
        return [None if any(alpha) or any(beta) else value for alpha, beta in orders]
