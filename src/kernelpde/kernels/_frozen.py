"""Frozen hyperparameters of kernels."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import numpy as np

from kernelpde.checking import check_callable, check_instance
from kernelpde.errors import InputError
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Partials, Periods
from kernelpde.kernels._multiindex import OrderPair


class _StaticArrays:
    """Pytree of arrays with a hash by content, for use as a static field."""

    def __init__(self, tree: Any):
        leaves, self.structure = jax.tree.flatten(tree)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise InputError(
                "freeze: traced values of a transformation of JAX (grad, jit, vmap) cannot be "
                "frozen. Call freeze outside of it, or omit freeze: `solve` learns nothing."
            )
        self.leaves = [np.asarray(leaf) if eqx.is_array(leaf) else leaf for leaf in leaves]
        self._key = (
            self.structure,
            tuple(
                (leaf.shape, str(leaf.dtype), leaf.tobytes())
                if isinstance(leaf, np.ndarray)
                else leaf
                for leaf in self.leaves
            ),
        )

    def __reduce__(self):
        # Treedefs of JAX cannot be pickled.
        return _StaticArrays, (self.tree(),)

    def tree(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)

    def __repr__(self) -> str:
        """Return a text that differs for different content, without the numbers."""
        return f"frozen {hashlib.sha256(repr(self._key).encode()).hexdigest()[:16]}"

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StaticArrays) and self._key == other._key


class Frozen(AbstractKernel):
    """A kernel with frozen hyperparameters, which are static instead of array leaves."""

    trainable: AbstractKernel
    frozen: _StaticArrays = eqx.field(static=True)

    @property
    def kernel(self) -> AbstractKernel:
        """The kernel with all hyperparameters as array leaves."""
        return eqx.combine(self.trainable, self.frozen.tree())

    def make_periodic(self, periods: Periods) -> "Frozen":
        return self.map_both(lambda component: component.make_periodic(periods))

    def map_both(self, change: Callable[[Any], Any]) -> "Frozen":
        """Apply a change of structure to the trainable and the frozen component."""
        return Frozen(change(self.trainable), _StaticArrays(change(self.frozen.tree())))

    def partials(self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]) -> Partials:
        return self.kernel.partials(x, y, orders)


def freeze(kernel: AbstractKernel, where: Callable[[Any], Any] | None = None) -> Frozen:
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
