"""Frozen hyperparameters of kernels."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PyTree

from kernelpde.arrays import is_tracer
from kernelpde.checking import check_callable, check_instance
from kernelpde.errors import InputError
from kernelpde.io import digest
from kernelpde.kernels._kernel import (
    AbstractKernel,
    Coordinates,
    NonstationarySplit,
    Partials,
    Periods,
)
from kernelpde.kernels._multiindex import OrderPair
from kernelpde.tracing import ComparedByKey


class _StaticArrays(ComparedByKey):
    """Pytree of arrays with a hash by content, for use as a static field."""

    def __init__(self, tree: PyTree):
        leaves, self.structure = jax.tree.flatten(tree)
        if any(map(is_tracer, leaves)):
            raise InputError(
                "freeze: traced values of a transformation of JAX (grad, jit, vmap) cannot be "
                "frozen. Call freeze outside of it, or omit freeze: `solve` learns nothing."
            )
        self.leaves = list(map(np.asarray, leaves))
        contents = ((leaf.shape, str(leaf.dtype), leaf.tobytes()) for leaf in self.leaves)
        super().__init__((self.structure, *contents))

    def __reduce__(self):
        # Treedefs of JAX cannot be pickled.
        return _StaticArrays, (self.tree(),)

    def tree(self) -> PyTree:
        return jax.tree.unflatten(self.structure, self.leaves)

    def __repr__(self) -> str:
        """Return a text that differs for different numbers, without the numbers."""
        return f"frozen {digest(self.leaves)}"


class Frozen(AbstractKernel):
    """A kernel with frozen hyperparameters, which are static instead of array leaves."""

    trainable: AbstractKernel
    frozen: _StaticArrays = eqx.field(static=True)

    @property
    def kernel(self) -> AbstractKernel:
        """The kernel with all hyperparameters as array leaves."""
        return eqx.combine(self.trainable, self.frozen.tree())

    @property
    def is_stationary(self) -> bool:
        return self.kernel.is_stationary

    def _map(self, change: Callable[[AbstractKernel], AbstractKernel]) -> "Frozen":
        """Apply a change of structure to the trainable and the frozen component."""
        return Frozen(change(self.trainable), _StaticArrays(change(self.frozen.tree())))

    def make_periodic(self, periods: Periods) -> "Frozen":
        return self._map(lambda component: component.make_periodic(periods))

    def bind_coordinates(self, names: Sequence[str]) -> "Frozen":
        return self._map(lambda component: component.bind_coordinates(names))

    def unfreeze(self) -> AbstractKernel:
        return self.kernel

    def split_lengthscales(self, extents: Float[np.ndarray, " d"]) -> "Frozen":
        del extents
        return self

    def split_nonstationary(self) -> NonstationarySplit:
        remainder, summands = self.kernel.split_nonstationary()
        return (remainder, summands) if summands else (self, ())

    def summands(self) -> tuple[AbstractKernel, ...]:
        summands = self.kernel.summands()
        return summands if len(summands) > 1 else (self,)

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        return self.kernel.partials(x, y, orders)


def freeze(kernel: AbstractKernel, where: Callable[[PyTree], PyTree] | None = None) -> Frozen:
    """Freeze hyperparameters of a kernel at their current values.

    **Arguments:**

    - `kernel`: any kernel.
    - `where`: function that selects the parts to freeze, as in `equinox.tree_at`, for example
      `lambda k: k.first.log_lengthscale`. By default all parts.

    **Returns:**

    An equal kernel with only the remaining hyperparameters as array leaves.

    **Example:**

    ```python
    >>> frozen = kp.freeze(kp.Gaussian(0.3))
    ```
    """
    check_instance("freeze", "the kernel", kernel, AbstractKernel, "a kernel such as Gaussian(0.2)")
    if where is not None:
        check_callable(
            "freeze", "where", where, "a function such as lambda k: k.first.log_lengthscale"
        )
    if where is None:
        spec = jax.tree.map(eqx.is_inexact_array, kernel)
    else:
        spec = jax.tree.map(lambda _: False, kernel)
        try:
            selected = jax.tree.map(eqx.is_inexact_array, where(kernel))
        except AttributeError as error:
            raise InputError(f"freeze: {error}; the kernel is {kernel!r}.") from error
        spec = eqx.tree_at(where, spec, selected)
    frozen, trainable = eqx.partition(kernel, spec)
    return Frozen(trainable, _StaticArrays(frozen))
