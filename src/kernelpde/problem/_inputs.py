"""Inputs: prescribed values that residuals use by name."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from kernelpde.arrays import concrete_array, is_tracer
from kernelpde.checking import check_mapping
from kernelpde.errors import InputError


def _is_numeric(leaf: object) -> bool:
    return isinstance(leaf, float | complex | np.ndarray | np.generic | jax.Array)


class Inputs(eqx.Module):
    """Pytrees of numbers by name.

    Functions, strings and integers inside of a tree belong to the residual and are static. An
    integer that is the entire tree is an input.

    **Attributes:**

    - `values`: all arrays, real and complex numbers.
    - `static_leaves`: all leaves, with placeholders for `values`.
    - `structure`: structure of the trees.
    """

    values: tuple[Array, ...]
    static_leaves: tuple[object, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @staticmethod
    def from_mapping(inputs: Mapping[str, PyTree]) -> "Inputs":
        """Make inputs from trees by name."""
        trees = {name: float(v) if type(v) is int else v for name, v in inputs.items()}
        leaves, structure = jax.tree.flatten(trees)
        values = tuple(concrete_array(leaf) for leaf in leaves if _is_numeric(leaf))
        for value in values:
            if value.dtype in (jnp.float32, jnp.complex64):
                raise InputError(
                    "inputs: expected double precision; got an array of single precision. Create "
                    "it after jax_enable_x64 is set, or convert it by .astype(float)."
                )
            if not is_tracer(value) and not np.isfinite(np.asarray(value)).all():
                raise InputError("inputs: expected finite numbers; got NaN or infinity.")
        static_leaves = tuple(_NUMBER if _is_numeric(leaf) else leaf for leaf in leaves)
        return Inputs(values, static_leaves, structure)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the trees."""
        return tuple(self.tree)

    @property
    def tree(self) -> dict[str, PyTree]:
        """Trees by name, with numbers as arrays."""
        values = iter(self.values)
        leaves = [next(values) if leaf is _NUMBER else leaf for leaf in self.static_leaves]
        return jax.tree.unflatten(self.structure, leaves)

    def with_values(self, values: tuple[Array, ...]) -> "Inputs":
        """Return the trees with other numbers."""
        return Inputs(values, self.static_leaves, self.structure)

    def replace(self, inputs: Any) -> "Inputs":
        """Replace some of the trees."""
        advice = "Inputs are declared with the problem: Problem(..., inputs={'source': 1.0})."
        check_mapping("Problem", "inputs", inputs, self.names, advice=advice)
        return Inputs.from_mapping({**self.tree, **inputs})

    def is_compatible(self, inputs: "Inputs") -> bool:
        """Return whether a residual traced with one can be evaluated with the other."""
        return (
            self.structure == inputs.structure
            and len(self.static_leaves) == len(inputs.static_leaves)
            and [(v.shape, v.dtype) for v in self.values]
            == [(v.shape, v.dtype) for v in inputs.values]
            and all(map(_equal, self.static_leaves, inputs.static_leaves))
        )


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray | jax.Array) or isinstance(right, np.ndarray | jax.Array):
        return left is right or (type(left) is type(right) and np.array_equal(left, right))
    return left is right or bool(left == right)


class _NumberPlaceholder:
    """Placeholder of a number among the static leaves."""


_NUMBER = _NumberPlaceholder()
