"""Known values that residuals name and the caller gives."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from kernelpde.arrays import known
from kernelpde.checking import did_you_mean, listed, shown
from kernelpde.errors import InputError


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, float | complex | np.ndarray | np.generic | jax.Array)


class Inputs(eqx.Module):
    """Trees of numbers by name.

    Functions, words and whole numbers of Python inside of a tree are no inputs but part of what is
    computed; a whole number by itself is an input like any other.

    **Attributes:**

    - `values`: all arrays, real and complex numbers in them.
    - `rest`: the trees without these, flat.
    - `structure`: how both go together.
    """

    values: tuple[Array, ...]
    rest: tuple[Any, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @staticmethod
    def of(given: Mapping[str, Any]) -> "Inputs":
        whole = {n: float(v) for n, v in given.items() if type(v) is int}
        leaves, structure = jax.tree.flatten({**given, **whole})
        values = tuple(known(leaf) for leaf in leaves if _is_number(leaf))
        for value in values:
            if value.dtype in (jnp.float32, jnp.complex64):
                raise InputError(
                    "inputs: expected double precision; got an array of single precision. Make it "
                    "after jax_enable_x64 is set, or convert it by .astype(float)."
                )
            seen = not isinstance(value, jax.core.Tracer)
            if seen and not np.isfinite(np.asarray(value)).all():
                raise InputError("inputs: there is a NaN or an infinite number among them.")
        rest = tuple(_NUMBER if _is_number(leaf) else leaf for leaf in leaves)
        return Inputs(values, rest, structure)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tree)

    @property
    def tree(self) -> dict[str, Any]:
        """What was given, with numbers as arrays."""
        values = iter(self.values)
        leaves = [next(values) if leaf is _NUMBER else leaf for leaf in self.rest]
        return jax.tree.unflatten(self.structure, leaves)

    def with_values(self, values: tuple[Any, ...]) -> "Inputs":
        """The same trees with other numbers."""
        return Inputs(values, self.rest, self.structure)

    def updated(self, given: Any) -> "Inputs":
        """Some of them replaced."""
        names = self.names
        if not isinstance(given, Mapping):
            example = f"{{{names[0]!r}: 1.0}}" if names else "{'source': 1.0}"
            raise InputError(
                f"inputs: expected a dictionary such as {example}; got {shown(given)}."
            )
        for name in given:
            if name not in names:
                raise InputError(
                    f"inputs names {name!r}, but the problem has {listed(names)}. Inputs are "
                    "declared with the problem: Problem(..., inputs={'source': 1.0})."
                    f"{did_you_mean(name, names)}"
                )
        return Inputs.of({**self.tree, **given})

    def fits(self, other: "Inputs") -> bool:
        """Whether what was traced with one serves the other."""
        mine = [(v.shape, v.dtype) for v in self.values]
        theirs = [(v.shape, v.dtype) for v in other.values]
        same = self.structure == other.structure and len(self.rest) == len(other.rest)
        return same and mine == theirs and all(map(_same, self.rest, other.rest))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray | jax.Array) or isinstance(other, np.ndarray | jax.Array):
        return one is other or (type(one) is type(other) and np.array_equal(one, other))
    return one is other or bool(one == other)


class _Number:
    """Stands for a number among the leaves that are none."""


_NUMBER = _Number()
