"""Holding parts of a kernel fixed."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.core
import numpy as np
from jaxtyping import Array

from kernelpde.checking import function, instance
from kernelpde.errors import InputError
from kernelpde.kernels._kernel import AbstractKernel, Coordinates, Periods
from kernelpde.kernels._multiindex import OrderPair


class _Held:
    """Arrays out of sight of JAX's trees: hashable by content, so that they can be static."""

    def __init__(self, tree: Any):
        leaves, self.structure = jax.tree.flatten(tree)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise InputError(
                "freeze: these numbers are part of a transformation of JAX (grad, jit, vmap) and "
                "cannot be frozen inside of it. `solve` learns nothing: leave freeze out."
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
        # Structures of JAX's trees cannot be pickled.
        return _Held, (self.tree(),)

    def tree(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)

    def __repr__(self) -> str:
        """Tells what is held from anything else, without its numbers."""
        return f"held {hashlib.sha256(repr(self._key).encode()).hexdigest()[:16]}"

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self._key == other._key


class Frozen(AbstractKernel):
    """A kernel some of whose hyperparameters are held: they are no longer array leaves."""

    learned: AbstractKernel
    held: _Held = eqx.field(static=True)

    @property
    def kernel(self) -> AbstractKernel:
        """The kernel with every number in its place."""
        return eqx.combine(self.learned, self.held.tree())

    def periodized(self, periods: Periods) -> "Frozen":
        return self.mapped(lambda part: part.periodized(periods))

    def mapped(self, change: Callable[[Any], Any]) -> "Frozen":
        """The same with a change of structure made to both parts."""
        return Frozen(change(self.learned), _Held(change(self.held.tree())))

    def partials(
        self, x: Coordinates, y: Coordinates, orders: Sequence[OrderPair]
    ) -> list[Array | None]:
        return self.kernel.partials(x, y, orders)


def freeze(kernel: AbstractKernel, where: Callable[[Any], Any] | None = None) -> Frozen:
    """Hold hyperparameters of a kernel at their present values.

    **Arguments:**

    - `kernel`: any kernel.
    - `where`: picks the parts to hold, as in `equinox.tree_at`, for example
      `lambda k: k.first.log_lengthscale`; everything if left out.

    **Returns:**

    The same function of two points, with only the remaining hyperparameters as array leaves.

    **Example:**

    ```python
    >>> held = kp.freeze(kp.Gaussian(0.3))
    ```
    """
    instance("freeze", "the kernel", kernel, AbstractKernel, "a kernel such as Gaussian(0.2)")
    if where is not None:
        function("freeze", "where", where, "a function such as lambda k: k.first.log_lengthscale")
    if where is None:
        spec = jax.tree.map(eqx.is_inexact_array, kernel)
    else:
        spec = jax.tree.map(lambda _: False, kernel)
        try:
            chosen = jax.tree.map(eqx.is_inexact_array, where(kernel))
        except AttributeError as error:
            raise InputError(f"freeze: {error}; the kernel is {kernel!r}.") from error
        spec = eqx.tree_at(where, spec, chosen)
    held, learned = eqx.partition(kernel, spec)
    return Frozen(learned, _Held(held))
